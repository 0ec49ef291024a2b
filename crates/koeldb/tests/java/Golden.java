import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.zip.CRC32C;
import org.rocksdb.*;

/**
 * Makes the golden directories of blob files, entities, timestamps, several directories and flushes of several
 * families.
 *
 * <pre>
 * Golden DIRECTORY blob CODEC       values in blob files, some of which are half garbage
 * Golden DIRECTORY entities         entities below merges, in tables and in the log
 * Golden DIRECTORY entity-blobs     entities whose large columns are in blob files
 * Golden DIRECTORY timestamps       versions of keys, collected up to a time
 * Golden DIRECTORY paths            tables in DIRECTORY/fast and DIRECTORY/slow
 * Golden DIRECTORY atomic-flush     killed while the memtables of three families are flushed together, without a log
 * </pre>
 *
 * Batches with entities and timestamps come in serialized form, as the library has no calls for them.
 */
public final class Golden {
    private static final FlushOptions FLUSH = new FlushOptions().setWaitForFlush(true);

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        Path directory = Path.of(args[0]);
        switch (args[1]) {
            case "blob" -> blob(directory, args[2]);
            case "entities" -> entities(directory, "merge_operator=stringappend");
            case "entity-blobs" -> entities(directory, "merge_operator=stringappend", "enable_blob_files=true",
                    "min_blob_size=60", "blob_file_size=4096");
            case "timestamps" -> timestamps(directory);
            case "paths" -> paths(directory);
            case "atomic-flush" -> atomicFlush(directory);
            default -> throw new IllegalArgumentException(args[1]);
        }
    }

    /** A database that is closed at the end of `write`. */
    private interface Writing {
        void write(RocksDB db) throws Exception;
    }

    private static ColumnFamilyOptions family(String... settings) {
        Properties properties = new Properties();
        properties.setProperty("disable_auto_compactions", "true");
        for (String setting : settings) {
            int end = setting.indexOf('=');
            properties.setProperty(setting.substring(0, end), setting.substring(end + 1));
        }
        return ColumnFamilyOptions.getColumnFamilyOptionsFromProps(properties);
    }

    private static void open(Path directory, DBOptions options, ColumnFamilyOptions family, Writing writing)
            throws Exception {
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        List<ColumnFamilyDescriptor> families =
                List.of(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, family));
        try (RocksDB db = RocksDB.open(options.setCreateIfMissing(true), directory.toString(), families, handles)) {
            writing.write(db);
            handles.forEach(ColumnFamilyHandle::close);
            db.closeE();
        }
    }

    private static byte[] key(int index) {
        return String.format("key%04d", index).getBytes();
    }

    /** A value of 10 to 250 bytes. */
    private static byte[] value(int index, int round) {
        return ("value " + index + " of " + round + ", ").repeat(1 + index % 12).getBytes();
    }

    private static void blob(Path directory, String codec) throws Exception {
        ColumnFamilyOptions family = family("enable_blob_files=true", "min_blob_size=60", "blob_file_size=4096",
                "blob_compression_type=" + codec, "enable_blob_garbage_collection=true",
                "blob_garbage_collection_age_cutoff=0.5", "merge_operator=stringappend");
        open(directory, new DBOptions(), family, db -> {
            for (int round = 0; round < 3; round++) {
                for (int index = round; index < 150; index += 1 + 2 * round) {
                    db.put(key(index), value(index, round));
                }
                db.merge(key(149), "operand".getBytes());
                db.flush(FLUSH);
            }
            db.compactRange();
            for (int index = 0; index < 150; index += 4) {
                db.put(key(index), value(index + 3, 3));
            }
            for (int index = 2; index < 150; index += 10) {
                db.delete(key(index));
            }
            db.deleteRange(key(90), key(100));
            db.flush(FLUSH);
            db.put(key(7), value(7, 4));
            db.merge(key(11), "operand".getBytes());
        });
    }

    private static void varint(ByteArrayOutputStream out, int number) {
        while (number >= 0x80) {
            out.write(number & 0x7f | 0x80);
            number >>>= 7;
        }
        out.write(number);
    }

    private static void prefixed(ByteArrayOutputStream out, byte[] bytes) throws IOException {
        varint(out, bytes.length);
        out.write(bytes);
    }

    private static byte[] time(long time) {
        return ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(time).array();
    }

    /** Writes a batch of one operation. */
    private static void write(RocksDB db, int tag, byte[] key, byte[] value) throws Exception {
        ByteArrayOutputStream batch = new ByteArrayOutputStream();
        batch.write(new byte[8]);
        batch.write(new byte[] {1, 0, 0, 0, (byte) tag});
        prefixed(batch, key);
        if (value != null) {
            prefixed(batch, value);
        }
        try (WriteOptions options = new WriteOptions(); WriteBatch own = new WriteBatch(batch.toByteArray())) {
            db.write(options, own);
        }
    }

    private static byte[] entity(TreeMap<String, byte[]> columns) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        varint(out, 1);
        varint(out, columns.size());
        for (var column : columns.entrySet()) {
            prefixed(out, column.getKey().getBytes());
            varint(out, column.getValue().length);
        }
        for (byte[] value : columns.values()) {
            out.write(value);
        }
        return out.toByteArray();
    }

    private static void entities(Path directory, String... settings) throws Exception {
        open(directory, new DBOptions(), family(settings), db -> {
            for (int round = 0; round < 3; round++) {
                for (int index = round; index < 120; index += 1 + round) {
                    if (index % 5 == 4) {
                        db.put(key(index), value(index, round));
                        continue;
                    }
                    TreeMap<String, byte[]> columns = new TreeMap<>();
                    if (index % 3 != 0) {
                        columns.put("", value(index, round));
                    }
                    columns.put("large", value(index + 7, round));
                    columns.put("round", ("" + round).getBytes());
                    write(db, 0x16, key(index), entity(columns));
                }
                for (int index = 3; index < 120; index += 4) {
                    db.merge(key(index), ("operand " + round).getBytes());
                }
                for (int index = 5; index < 120; index += 40) {
                    db.delete(key(index));
                }
                if (round < 2) {
                    db.flush(FLUSH);
                }
                if (round == 0) {
                    db.compactRange();
                }
            }
        });
    }

    private static byte[] join(byte[] first, byte[] second) {
        return ByteBuffer.allocate(first.length + second.length).put(first).put(second).array();
    }

    private static void timestamps(Path directory) throws Exception {
        String comparator = "comparator=leveldb.BytewiseComparator.u64ts";
        Writing versions = db -> {
            for (int time = 1; time <= 10; time++) {
                for (int index = time % 3; index < 40; index += 3) {
                    byte[] dated = join(key(index), time(time));
                    if (index % 7 == 0 && time == 5) {
                        write(db, 0, dated, null);
                    } else {
                        write(db, 1, dated, value(index, time));
                    }
                }
                if (time % 4 == 0) {
                    db.flush(FLUSH);
                }
            }
        };
        open(directory, new DBOptions(), family(comparator), versions);
        // The library cannot raise the bound: an edit of the MANIFEST does.
        Path manifest = directory.resolve(Files.readString(directory.resolve("CURRENT")).trim());
        ByteArrayOutputStream edit = new ByteArrayOutputStream();
        varint(edit, FULL_HISTORY_TS_LOW);
        prefixed(edit, time(6));
        CRC32C checksum = new CRC32C();
        checksum.update(1);
        checksum.update(edit.toByteArray());
        int crc = (int) checksum.getValue();
        ByteBuffer head = ByteBuffer.allocate(7).order(ByteOrder.LITTLE_ENDIAN);
        head.putInt((crc >>> 15 | crc << 17) + 0xa282ead8).putShort((short) edit.size()).put((byte) 1);
        Files.write(manifest, join(head.array(), edit.toByteArray()), StandardOpenOption.APPEND);
        open(directory, new DBOptions(), family(comparator), db -> {
            db.compactRange();
            for (int index = 0; index < 40; index += 5) {
                write(db, 1, join(key(index), time(12)), value(index, 12));
            }
        });
    }

    /** The tag of the edit of a MANIFEST. */
    private static final int FULL_HISTORY_TS_LOW = 8198;

    private static void paths(Path directory) throws Exception {
        DBOptions options = new DBOptions().setDbPaths(List.of(new DbPath(directory.resolve("fast"), 20_000),
                new DbPath(directory.resolve("slow"), 1 << 30)));
        ColumnFamilyOptions family = family("target_file_size_base=16384", "max_bytes_for_level_base=16384",
                "enable_blob_files=true", "min_blob_size=200");
        open(directory, options, family, db -> {
            for (int round = 0; round < 3; round++) {
                for (int index = round; index < 400; index += 1 + round) {
                    db.put(key(index), value(index, round));
                }
                db.flush(FLUSH);
                if (round == 1) {
                    try (CompactRangeOptions how = new CompactRangeOptions().setTargetPathId(1)) {
                        db.compactRange(null, null, null, how);
                    }
                }
            }
        });
    }

    private static void atomicFlush(Path directory) throws Exception {
        AtomicInteger tables = new AtomicInteger();
        AbstractEventListener second = new AbstractEventListener(
                AbstractEventListener.EnabledEventCallback.ON_TABLE_FILE_CREATED) {
            @Override
            public void onTableFileCreated(TableFileCreationInfo info) {
                // The second table of the third flush.
                if (tables.incrementAndGet() == 8) {
                    kill();
                }
            }
        };
        DBOptions options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true)
                .setAtomicFlush(true).setListeners(List.of(second));
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        List<ColumnFamilyDescriptor> families = new ArrayList<>();
        for (String name : new String[] {"default", "alpha", "beta"}) {
            families.add(new ColumnFamilyDescriptor(name.getBytes(), family()));
        }
        RocksDB db = RocksDB.open(options, directory.toString(), families, handles);
        WriteOptions unlogged = new WriteOptions().setDisableWAL(true);
        for (int round = 0;; round++) {
            for (int index = 0; index < 100; index++) {
                try (WriteBatch batch = new WriteBatch()) {
                    for (ColumnFamilyHandle handle : handles) {
                        batch.put(handle, key(index), value(index, round));
                    }
                    db.write(unlogged, batch);
                }
            }
            db.flush(FLUSH, handles);
        }
    }

    /** Ends the process at once: an exit would wait for RocksDB's threads. */
    private static void kill() {
        try {
            new ProcessBuilder("kill", "-9", "" + ProcessHandle.current().pid()).start().waitFor();
        } catch (IOException | InterruptedException error) {
            throw new AssertionError(error);
        }
    }
}

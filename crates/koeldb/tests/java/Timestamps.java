import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import org.rocksdb.*;

/**
 * RocksDB with a comparator with user-defined timestamps, in the default column family.
 *
 * <pre>
 * Timestamps read  DIRECTORY COMPARATOR TIMESTAMP...   reads at each timestamp: entry TIMESTAMP KEY VALUE ..., or
 *                                                      refused TIMESTAMP
 * Timestamps write DIRECTORY COMPARATOR SCRIPT         each line of the script: a batch in hexadecimal, flush, compact
 * </pre>
 *
 * The library has no puts with timestamps: batches come in serialized form.
 */
public final class Timestamps {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        Properties properties = new Properties();
        properties.setProperty("comparator", args[2]);
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        try (ColumnFamilyOptions family = ColumnFamilyOptions.getColumnFamilyOptionsFromProps(properties);
                DBOptions options = new DBOptions().setCreateIfMissing(args[0].equals("write"))) {
            family.setMergeOperatorName("stringappend");
            family.setTableFormatConfig(new BlockBasedTableConfig().setFilterPolicy(new BloomFilter(10, false)));
            family.setTargetFileSizeBase(1 << 10);
            family.setDisableAutoCompactions(args[0].equals("read"));
            List<ColumnFamilyDescriptor> families =
                    List.of(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, family));
            try (RocksDB db = RocksDB.open(options, args[1], families, handles)) {
                if (args[0].equals("write")) {
                    write(db, Path.of(args[3]));
                } else {
                    db.verifyChecksum();
                    for (String time : Arrays.asList(args).subList(3, args.length)) {
                        read(db, time);
                    }
                }
                handles.forEach(ColumnFamilyHandle::close);
                db.closeE();
            }
        }
    }

    private static void write(RocksDB db, Path script) throws Exception {
        try (WriteOptions options = new WriteOptions()) {
            for (String line : Files.readAllLines(script)) {
                switch (line) {
                    case "flush" -> db.flush(new FlushOptions().setWaitForFlush(true));
                    case "compact" -> db.compactRange();
                    default -> {
                        try (WriteBatch batch = new WriteBatch(HEX.parseHex(line))) {
                            db.write(options, batch);
                        }
                    }
                }
            }
        }
    }

    private static void read(RocksDB db, String time) throws Exception {
        byte[] bytes = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(Long.parseUnsignedLong(time)).array();
        try (Slice timestamp = new Slice(bytes);
                ReadOptions options = new ReadOptions().setTimestamp(timestamp)) {
            List<byte[][]> entries = new ArrayList<>();
            try (RocksIterator iterator = db.newIterator(options)) {
                for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                    entries.add(new byte[][] {iterator.key(), iterator.value()});
                }
                iterator.status();
                int left = entries.size();
                for (iterator.seekToLast(); iterator.isValid(); iterator.prev()) {
                    left--;
                    if (left < 0 || !Arrays.equals(iterator.key(), entries.get(left)[0])) {
                        throw new AssertionError("the backward scan differs at " + HEX.formatHex(iterator.key()));
                    }
                }
                iterator.status();
                if (left != 0) {
                    throw new AssertionError("the backward scan ends early");
                }
            } catch (RocksDBException error) {
                System.out.println("refused\t" + time);
                return;
            }
            for (byte[][] entry : entries) {
                if (!Arrays.equals(db.get(options, entry[0]), entry[1])) {
                    throw new AssertionError("get differs from the scan at " + HEX.formatHex(entry[0]));
                }
                System.out.println("entry\t" + time + "\t" + new String(entry[0]) + "\t" + new String(entry[1]));
            }
        }
    }
}

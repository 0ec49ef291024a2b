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
 *                                                      refused TIMESTAMP if it is below the low mark
 * Timestamps read-transactions ...                     the same, of a database for transactions
 * Timestamps write DIRECTORY COMPARATOR SCRIPT         each line of the script: a batch in hexadecimal, flush, compact
 * Timestamps prepare DIRECTORY COMPARATOR NAME KEY VALUE   leaves a transaction prepared, and ends without a close
 * </pre>
 *
 * The library has no puts with timestamps: batches come in serialized form. A COMPARATOR that ends with "/undated" has
 * persist_user_defined_timestamps=false; one without timestamps reads once, whatever the TIMESTAMP.
 */
public final class Timestamps {
    private static final HexFormat HEX = HexFormat.of();

    private static boolean hasTimestamps;

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        Properties properties = new Properties();
        boolean isUndated = args[2].endsWith("/undated");
        hasTimestamps = args[2].contains(".u64ts");
        properties.setProperty("comparator", args[2].replace("/undated", ""));
        properties.setProperty("persist_user_defined_timestamps", isUndated ? "false" : "true");
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        try (ColumnFamilyOptions family = ColumnFamilyOptions.getColumnFamilyOptionsFromProps(properties);
                TransactionDBOptions locks = new TransactionDBOptions();
                DBOptions options = new DBOptions().setCreateIfMissing(!args[0].startsWith("read"))) {
            options.setAllowConcurrentMemtableWrite(!isUndated);
            family.setMergeOperatorName("stringappend");
            family.setTableFormatConfig(new BlockBasedTableConfig().setFilterPolicy(new BloomFilter(10, false)));
            family.setTargetFileSizeBase(1 << 10);
            family.setDisableAutoCompactions(args[0].startsWith("read"));
            boolean hasTransactions = args[0].equals("read-transactions") || args[0].equals("prepare");
            List<ColumnFamilyDescriptor> families =
                    List.of(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, family));
            try (RocksDB db = hasTransactions
                            ? TransactionDB.open(options, locks, args[1], families, handles)
                            : RocksDB.open(options, args[1], families, handles)) {
                if (args[0].equals("write")) {
                    write(db, Path.of(args[3]));
                } else if (args[0].equals("prepare")) {
                    prepare((TransactionDB) db, args);
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

    private static void prepare(TransactionDB db, String[] args) throws Exception {
        try (WriteOptions sync = new WriteOptions().setSync(true)) {
            Transaction transaction = db.beginTransaction(sync);
            transaction.setName(args[3]);
            transaction.put(args[4].getBytes(), args[5].getBytes());
            transaction.prepare();
            System.out.println("prepared");
            System.out.flush();
            Runtime.getRuntime().halt(0);
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
                ReadOptions options = new ReadOptions()) {
            if (hasTimestamps) {
                options.setTimestamp(timestamp);
            }
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
                if (!error.getMessage().contains("smaller than full_history_ts_low")) {
                    throw error;
                }
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

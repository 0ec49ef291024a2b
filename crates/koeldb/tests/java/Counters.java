import java.util.ArrayList;
import java.util.List;
import org.rocksdb.*;

/**
 * The statistics that RocksDB has after the reads of `statistics.rs`, as it prints them.
 *
 * <pre>
 * Counters DIRECTORY
 * </pre>
 */
public final class Counters {
    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        try (Statistics statistics = new Statistics();
                StringAppendOperator operator = new StringAppendOperator();
                Options options = new Options()
                        .setCreateIfMissing(true)
                        .setStatistics(statistics)
                        .setLevelCompactionDynamicLevelBytes(false)
                        .setDisableAutoCompactions(true)
                        .setMergeOperator(operator);
                RocksDB db = RocksDB.open(options, args[0])) {
            write(db);
            statistics.reset();
            read(db);
            System.out.println(statistics);
        }
    }

    private static byte[] key(int number) {
        return String.format("key%04d", number).getBytes();
    }

    private static void put(RocksDB db, int from, int to, int step) throws Exception {
        for (int i = from; i < to; i += step) {
            db.put(key(i), String.format("value %d", i).getBytes());
        }
    }

    /** Writes tables on levels 2, 1 and 0, and a memtable. */
    private static void write(RocksDB db) throws Exception {
        for (int level = 2; level > 0; level--) {
            put(db, 100 * level, 100 * level + 90, 1);
            db.flush(new FlushOptions());
            for (LiveFileMetaData file : db.getLiveFilesMetaData()) {
                if (file.level() == 0) {
                    db.compactFiles(new CompactionOptions(), List.of(file.fileName()), level, -1, null);
                }
            }
        }
        put(db, 0, 150, 3);
        for (int i = 0; i < 100; i += 10) {
            db.delete(key(i + 100));
            db.merge(key(i + 200), "operand".getBytes());
        }
        db.flush(new FlushOptions());
        put(db, 0, 50, 5);
        for (int i = 0; i < 100; i += 20) {
            db.merge(key(i + 200), "again".getBytes());
        }
    }

    private static void read(RocksDB db) throws Exception {
        List<byte[]> keys = new ArrayList<>();
        for (int i = 0; i < 310; i++) {
            db.get(key(i));
            if (i % 10 == 0) {
                keys.add(key(i));
            }
        }
        db.multiGetAsList(keys);
        try (RocksIterator iterator = db.newIterator()) {
            for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                iterator.key();
            }
            for (iterator.seekToLast(); iterator.isValid(); iterator.prev()) {
                iterator.key();
            }
            for (int i = 0; i < 310; i += 31) {
                iterator.seek(key(i));
                if (iterator.isValid()) {
                    iterator.next();
                }
            }
            iterator.seek(key(500));
        }
    }
}

import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.rocksdb.*;

/**
 * What RocksDB makes of a directory. Prints lines of tab-separated words; anything unexpected ends the program with
 * the exception.
 *
 * <pre>
 * Check COMMAND DIRECTORY [comparator:FAMILY=reverse ...] [merge=OPERATOR] [blobs=FAMILY] [wal_dir=DIRECTORY]
 *     [create=true] [small=true] [universal=true] [atomic_flush=true] [cf:OPTION=VALUE ...]
 *     [db_paths=DIRECTORY:BYTES,...] [cf_paths:FAMILY=DIRECTORY:BYTES,...]
 * Check COMMAND DIRECTORY table=FACTORY [prefix=EXTRACTOR]
 *
 * check   verifies all checksums, scans every family forwards and backwards, gets every key and as many absent ones:
 *           entry FAMILY KEY VALUE (in hexadecimal) ..., gets COUNT, useful COUNT, true_positive COUNT
 * write   puts, deletes and flushes in every family (see `write`), then compacts every other one
 * set     puts, and changes options of the default family as `set:NAME=VALUE` says
 * reuse   drops every family but the default one, makes it in bytewise order, drops it, and makes it as the settings say,
 *         with a table each time
 * track   records in the MANIFEST which logs are synced, puts a key with sync in every family, flushes the family that
 *         `flush` counts
 * prepare prepares a transaction, flushes every family past its log, and is killed; with settled=true it is rolled
 *         back in between
 * live    file FAMILY LEVEL DIRECTORY NAME BYTES SMALLEST_SEQNO LARGEST_SEQNO SMALLEST_KEY LARGEST_KEY ...
 * hold    opens, prints `held`, and closes when its input ends
 * count   says how many batches of `failover.rs` are there, after it has looked at them: opened COUNT
 * load    the same, and goes on with batches until it is killed: written COUNT ...
 *
 * With a table factory, `check` verifies no checksums, scans forwards only, and the absent keys are as long as the
 * others: that is all these tables can do.
 * </pre>
 */
public final class Check {
    private static final HexFormat HEX = HexFormat.of().withUpperCase();

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        Map<String, String> settings = new HashMap<>();
        for (String setting : Arrays.asList(args).subList(2, args.length)) {
            String[] parts = setting.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        try (Statistics statistics = new Statistics();
                DBOptions options = new DBOptions()
                        .setStatistics(statistics)
                        .setAllowMmapReads(settings.containsKey("table"))) {
            if (settings.containsKey("wal_dir")) {
                options.setWalDir(settings.get("wal_dir"));
            }
            options.setBestEffortsRecovery(settings.containsKey("best_efforts"));
            options.setCreateIfMissing(settings.containsKey("create"));
            options.setAtomicFlush(settings.containsKey("atomic_flush"));
            if (settings.containsKey("db_paths")) {
                options.setDbPaths(paths(settings.get("db_paths")));
            }
            List<byte[]> names = settings.containsKey("create") ? List.of(RocksDB.DEFAULT_COLUMN_FAMILY)
                    : RocksDB.listColumnFamilies(new Options(), args[1]);
            List<ColumnFamilyDescriptor> families = new ArrayList<>();
            for (byte[] name : names) {
                families.add(new ColumnFamilyDescriptor(name, familyOptions(new String(name), settings)));
            }
            List<ColumnFamilyHandle> handles = new ArrayList<>();
            if (args[0].equals("prepare")) {
                prepare(args[1], families, handles, settings);
            }
            if (args[0].equals("track")) {
                Properties properties = new Properties();
                properties.setProperty("track_and_verify_wals_in_manifest", "true");
                try (DBOptions tracking = DBOptions.getDBOptionsFromProps(properties);
                        RocksDB db = RocksDB.open(tracking, args[1], families, handles)) {
                    track(db, handles, Integer.parseInt(settings.get("flush")));
                    handles.forEach(ColumnFamilyHandle::close);
                    db.closeE();
                }
                return;
            }
            try (RocksDB db = RocksDB.open(options, args[1], families, handles)) {
                switch (args[0]) {
                    case "check" -> check(db, handles, statistics, settings);
                    case "write" -> write(db, handles, settings);
                    case "set" -> set(db, handles.get(0), settings);
                    case "reuse" -> reuse(db, handles, settings);
                    case "live" -> live(db);
                    case "hold" -> {
                        System.out.println("held");
                        System.in.readAllBytes();
                    }
                    case "count" -> System.out.println("opened " + count(db, handles));
                    case "load" -> load(db, handles);
                    default -> throw new IllegalArgumentException(args[0]);
                }
                handles.forEach(ColumnFamilyHandle::close);
                db.closeE();
            }
        }
    }

    private static ColumnFamilyOptions familyOptions(String name, Map<String, String> settings) {
        if (settings.containsKey("table")) {
            Properties properties = new Properties();
            properties.setProperty("table_factory", settings.get("table"));
            if (settings.containsKey("prefix")) {
                properties.setProperty("prefix_extractor", settings.get("prefix"));
            }
            return ColumnFamilyOptions.getColumnFamilyOptionsFromProps(properties);
        }
        Properties given = new Properties();
        settings.forEach((setting, value) -> {
            if (setting.startsWith("cf:")) {
                given.setProperty(setting.substring(3), value);
            }
        });
        ColumnFamilyOptions options = given.isEmpty() ? new ColumnFamilyOptions()
                : ColumnFamilyOptions.getColumnFamilyOptionsFromProps(given);
        if (settings.containsKey("small")) {
            options.setWriteBufferSize(64 << 10).setTargetFileSizeBase(64 << 10).setLevel0FileNumCompactionTrigger(3);
        }
        // Which filter is in a file is written there; without a policy RocksDB would not look.
        options.setTableFormatConfig(new BlockBasedTableConfig().setFilterPolicy(new BloomFilter(10, false)));
        if (name.equals(settings.get("blobs"))) {
            options.setEnableBlobFiles(true).setMinBlobSize(0);
        }
        if (settings.containsKey("cf_paths:" + name)) {
            options.setCfPaths(paths(settings.get("cf_paths:" + name)));
        }
        if (settings.containsKey("universal")) {
            options.setCompactionStyle(CompactionStyle.UNIVERSAL);
        }
        if ("reverse".equals(settings.get("comparator:" + name))) {
            options.setComparator(BuiltinComparator.REVERSE_BYTEWISE_COMPARATOR);
        }
        if (settings.containsKey("merge")) {
            options.setMergeOperatorName(settings.get("merge"));
        }
        return options;
    }

    /** Directories with their target sizes: `DIRECTORY:BYTES,...`. */
    private static List<DbPath> paths(String text) {
        List<DbPath> paths = new ArrayList<>();
        for (String path : text.split(",")) {
            int colon = path.lastIndexOf(':');
            paths.add(new DbPath(Path.of(path.substring(0, colon)), Long.parseLong(path.substring(colon + 1))));
        }
        return paths;
    }

    /** The tables, and what is recorded of them. */
    private static void live(RocksDB db) {
        for (LiveFileMetaData file : db.getLiveFilesMetaData()) {
            System.out.println("file\t" + new String(file.columnFamilyName()) + "\t" + file.level() + "\t" + file.path()
                    + "\t" + file.fileName().replace("/", "") + "\t" + file.size() + "\t" + file.smallestSeqno() + "\t"
                    + file.largestSeqno() + "\t" + HEX.formatHex(file.smallestKey()) + "\t"
                    + HEX.formatHex(file.largestKey()));
        }
    }

    /** The library's own call knows few names. */
    private static void set(RocksDB db, ColumnFamilyHandle handle, Map<String, String> settings) throws Exception {
        for (int i = 0; i < 100; i++) {
            db.put(handle, ("key" + i).getBytes(), ("value" + i).getBytes());
        }
        Method setOptions = RocksDB.class.getDeclaredMethod("setOptions", long.class, long.class, String[].class,
                String[].class);
        setOptions.setAccessible(true);
        for (Map.Entry<String, String> setting : settings.entrySet()) {
            if (setting.getKey().startsWith("set:")) {
                setOptions.invoke(db, db.getNativeHandle(), handle.getNativeHandle(),
                        new String[] {setting.getKey().substring(4)}, new String[] {setting.getValue()});
            }
        }
        System.out.println("set");
    }

    private static void check(RocksDB db, List<ColumnFamilyHandle> handles, Statistics statistics,
            Map<String, String> settings) throws Exception {
        boolean fixedLength = settings.containsKey("table");
        if (!fixedLength) {
            db.verifyChecksum();
        }
        long useful = 0;
        long truePositive = 0;
        long gets = 0;
        for (ColumnFamilyHandle handle : handles) {
            List<byte[][]> entries = scan(db, handle, !fixedLength);
            long usefulBefore = statistics.getTickerCount(TickerType.BLOOM_FILTER_USEFUL);
            long truePositiveBefore = statistics.getTickerCount(TickerType.BLOOM_FILTER_FULL_TRUE_POSITIVE);
            for (byte[][] entry : entries) {
                if (!Arrays.equals(db.get(handle, entry[0]), entry[1])) {
                    throw new AssertionError("get differs from the scan at " + HEX.formatHex(entry[0]));
                }
                byte[] absent = Arrays.copyOf(entry[0], entry[0].length + (fixedLength ? 0 : 1));
                if (fixedLength) {
                    absent[absent.length - 1] ^= (byte) 0x80;
                }
                if (db.get(handle, absent) != null) {
                    throw new AssertionError("a key nobody wrote: " + HEX.formatHex(absent));
                }
                System.out.println("entry\t" + new String(handle.getName()) + "\t" + HEX.formatHex(entry[0]) + "\t"
                        + HEX.formatHex(entry[1]));
            }
            gets += entries.size();
            useful += statistics.getTickerCount(TickerType.BLOOM_FILTER_USEFUL) - usefulBefore;
            truePositive += statistics.getTickerCount(TickerType.BLOOM_FILTER_FULL_TRUE_POSITIVE) - truePositiveBefore;
        }
        System.out.println("gets\t" + gets);
        System.out.println("useful\t" + useful);
        System.out.println("true_positive\t" + truePositive);
    }

    /** All entries, which must be the same from either end. */
    private static List<byte[][]> scan(RocksDB db, ColumnFamilyHandle handle, boolean bothEnds) throws Exception {
        List<byte[][]> entries = new ArrayList<>();
        try (RocksIterator iterator = db.newIterator(handle)) {
            for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                entries.add(new byte[][] {iterator.key(), iterator.value()});
            }
            iterator.status();
            if (!bothEnds) {
                return entries;
            }
            int left = entries.size();
            for (iterator.seekToLast(); iterator.isValid(); iterator.prev()) {
                left--;
                if (left < 0 || !Arrays.equals(iterator.key(), entries.get(left)[0])
                        || !Arrays.equals(iterator.value(), entries.get(left)[1])) {
                    throw new AssertionError("the backward scan differs at " + HEX.formatHex(iterator.key()));
                }
            }
            iterator.status();
            if (left != 0) {
                throw new AssertionError("the backward scan ends " + left + " entries early");
            }
        }
        return entries;
    }

    /** What `interop.rs` expects to find; the last puts stay in the log. */
    private static void write(RocksDB db, List<ColumnFamilyHandle> handles, Map<String, String> settings)
            throws Exception {
        int family = 0;
        for (ColumnFamilyHandle handle : handles) {
            for (int i = 0; i < 300; i++) {
                db.put(handle, String.format("java%05d", i).getBytes(), String.format("value %d", i).getBytes());
            }
            db.flush(new FlushOptions().setWaitForFlush(true), handle);
            // The same hundred keys in either order.
            if ("reverse".equals(settings.get("comparator:" + new String(handle.getName())))) {
                db.deleteRange(handle, "java00199".getBytes(), "java00099".getBytes());
            } else {
                db.deleteRange(handle, "java00100".getBytes(), "java00200".getBytes());
            }
            if (family++ % 2 == 1) {
                db.compactRange(handle);
            }
            for (int i = 250; i < 400; i++) {
                db.put(handle, String.format("java%05d", i).getBytes(), "again".getBytes());
            }
            db.delete(handle, "java00000".getBytes());
        }
    }

    private static void reuse(RocksDB db, List<ColumnFamilyHandle> handles, Map<String, String> settings)
            throws Exception {
        for (int i = 1; i < handles.size(); i++) {
            byte[] name = handles.get(i).getName();
            for (String round : new String[] {"first", "second"}) {
                db.dropColumnFamily(handles.get(i));
                handles.get(i).close();
                ColumnFamilyOptions options = round.equals("first")
                        ? new ColumnFamilyOptions()
                        : familyOptions(new String(name), settings);
                handles.set(i, db.createColumnFamily(new ColumnFamilyDescriptor(name, options)));
                db.put(handles.get(i), "java".getBytes(), round.getBytes());
                db.put(handles.get(i), "javb".getBytes(), round.getBytes());
                db.flush(new FlushOptions().setWaitForFlush(true), handles.get(i));
            }
        }
    }

    private static void track(RocksDB db, List<ColumnFamilyHandle> handles, int flushed) throws Exception {
        try (WriteOptions sync = new WriteOptions().setSync(true)) {
            for (ColumnFamilyHandle handle : handles) {
                db.put(handle, sync, "tracked".getBytes(), handle.getName());
            }
            db.flush(new FlushOptions().setWaitForFlush(true), handles.get(flushed));
        }
    }

    private static void prepare(String path, List<ColumnFamilyDescriptor> families, List<ColumnFamilyHandle> handles,
            Map<String, String> settings) throws Exception {
        DBOptions options = new DBOptions().setAllow2pc(true);
        TransactionDB db = TransactionDB.open(options, new TransactionDBOptions(), path, families, handles);
        WriteOptions sync = new WriteOptions().setSync(true);
        Transaction transaction = db.beginTransaction(sync);
        transaction.setName("koel");
        transaction.put(handles.get(0), "prepared".getBytes(), "value".getBytes());
        transaction.prepare();
        for (int round = 0; round < 3; round++) {
            for (ColumnFamilyHandle handle : handles) {
                db.put(handle, sync, ("key" + round).getBytes(), "value".getBytes());
                db.flush(new FlushOptions().setWaitForFlush(true), handle);
            }
            if (round == 1 && settings.containsKey("settled")) {
                transaction.rollback();
            }
        }
        System.out.println("prepared");
        Runtime.getRuntime().halt(0);
    }

    private static final int WINDOW = 50;

    private static byte[] batchKey(long number) {
        return String.format("batch%08d", number).getBytes();
    }

    private static byte[] batchValue(long number) {
        return ("value " + number + " " + "x".repeat((int) (number * 37 % 900))).getBytes();
    }

    /** The same prefix of batches in all families, or an exception. */
    private static long count(RocksDB db, List<ColumnFamilyHandle> handles) throws Exception {
        long count = -1;
        for (ColumnFamilyHandle handle : handles) {
            byte[] text = db.get(handle, "counter".getBytes());
            long found = text == null ? 0 : Long.parseLong(new String(text));
            if (count >= 0 && found != count) {
                throw new AssertionError("families have " + count + " and " + found + " batches");
            }
            count = found;
            for (long number = Math.max(1, count - WINDOW + 1); number <= count; number++) {
                if (!Arrays.equals(db.get(handle, batchKey(number)), batchValue(number))) {
                    throw new AssertionError("batch " + number + " of " + count + " is not whole");
                }
            }
            int expected = (int) Math.min(count, WINDOW) + (count > 0 ? 1 : 0);
            if (scan(db, handle, true).size() != expected) {
                throw new AssertionError("more than the last batches of " + count);
            }
        }
        return count;
    }

    private static void load(RocksDB db, List<ColumnFamilyHandle> handles) throws Exception {
        long number = count(db, handles);
        System.out.println("opened " + number);
        while (true) {
            number++;
            try (WriteBatch batch = new WriteBatch(); WriteOptions options = new WriteOptions()) {
                for (ColumnFamilyHandle handle : handles) {
                    batch.put(handle, "counter".getBytes(), Long.toString(number).getBytes());
                    batch.put(handle, batchKey(number), batchValue(number));
                    if (number > WINDOW) {
                        batch.delete(handle, batchKey(number - WINDOW));
                    }
                }
                db.write(options, batch);
            }
            System.out.println("written " + number);
            if (number % 97 == 0) {
                db.flush(new FlushOptions().setWaitForFlush(true), handles.get(0));
            }
        }
    }
}

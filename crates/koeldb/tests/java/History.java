import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.rocksdb.*;

/**
 * RocksDB as one of the engines of {@code history.rs}. Reads one command per line and answers each with one line,
 * {@code ok} or {@code err MESSAGE}. Fields are separated by tabs; keys, values and batches are in hexadecimal.
 *
 * <pre>
 * open MODE DIR DB_OPTIONS [NAME COMPARATOR FAMILY_OPTIONS]...   ok [NAME:ID]...
 *     MODE: strings, latest (the options of the newest OPTIONS file), or the write policy of a TransactionDB
 * secondary DIR OWN DB_OPTIONS [NAME COMPARATOR FAMILY_OPTIONS]...   opens a secondary of DIR
 * catch_up                            catches up with the primary
 * number                              ok LATEST_SEQUENCE_NUMBER
 * list DIR                            ok [NAME]...
 * close
 * create NAME COMPARATOR OPTIONS      ok ID
 * drop NAME
 * write FLAGS BATCH                   flags: s (sync), w (disable the WAL); a batch in the format of the WAL
 * flush WAIT NAME...
 * flush_wal SYNC
 * compact NAME FROM TO FLAGS LEVEL    '-': no bound; flags: f (force the bottommost level), x (exclusive)
 * compact_files NAME LEVEL PICK       compacts a part of the live files, which PICK chooses
 * ingest NAME FLAGS FILE [KIND KEY VALUE]...   flags: b (behind), m (move); kinds: p, m, d
 * checkpoint DIR
 * backup DIR FLUSH                    adds a backup to those in DIR
 * snapshot / release INDEX            snapshots are numbered as in a list
 * dump NAME SNAPSHOT DIRECTIONS TIME  entry lines `e KEY VALUE`, then ok; snapshot -1: none; directions 1: forward only;
 *                                     time: the timestamp, or '-' for keys without timestamps
 * verify                              verifies the checksums of all tables
 * set NAME OPTIONS / set_db OPTIONS
 * prepare TRANSACTION [NAME KEY VALUE]...
 * transact TRANSACTION prepare|commit [NAME KIND KEY VALUE]...     kinds: p, m, d
 * decide TRANSACTION COMMIT           commits or rolls back one prepared transaction
 * resolve COMMIT                      commits or rolls back all prepared transactions
 * sleep MILLISECONDS
 * halt                                ends the process without any clean-up
 * </pre>
 */
public final class History {
    private static final HexFormat HEX = HexFormat.of();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private RocksDB db;
    /** The directories of tables of the open database. */
    private int pathCount = 1;
    private TransactionDB transactions;
    private TxnDBWritePolicy policy;
    private final Map<String, ColumnFamilyHandle> families = new LinkedHashMap<>();
    private final Map<String, String> comparators = new LinkedHashMap<>();
    private final List<AutoCloseable> owned = new ArrayList<>();
    private final List<Snapshot> snapshots = new ArrayList<>();
    private final Map<String, ColumnFamilyOptions> familyOptions = new LinkedHashMap<>();

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        History history = new History();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String answer;
            try {
                answer = "ok" + history.execute(line.split("\t", -1));
            } catch (RocksDBException | RuntimeException | AssertionError error) {
                answer = "err\t" + String.valueOf(error).replace('\n', ' ').replace('\t', ' ');
            }
            OUT.println(answer);
            OUT.flush();
        }
    }

    private String execute(String[] fields) throws RocksDBException {
        switch (fields[0]) {
            case "open" -> {
                return open(fields);
            }
            case "secondary" -> {
                List<ColumnFamilyDescriptor> descriptors = new ArrayList<>();
                for (int at = 4; at < fields.length; at += 3) {
                    descriptors.add(new ColumnFamilyDescriptor(
                            fields[at].getBytes(StandardCharsets.UTF_8), parseFamily(fields[at + 1], fields[at + 2])));
                }
                List<ColumnFamilyHandle> handles = new ArrayList<>();
                DBOptions options = parseDb(fields[3]).setMaxOpenFiles(-1);
                setPaths(options, fields[1]);
                db = RocksDB.openAsSecondary(options, fields[1], fields[2], descriptors, handles);
                for (int index = 0; index < handles.size(); index++) {
                    families.put(
                            new String(descriptors.get(index).getName(), StandardCharsets.UTF_8), handles.get(index));
                }
            }
            case "catch_up" -> db.tryCatchUpWithPrimary();
            case "number" -> {
                return "\t" + db.getLatestSequenceNumber();
            }
            case "list" -> {
                StringBuilder names = new StringBuilder();
                try (Options options = new Options()) {
                    for (byte[] name : RocksDB.listColumnFamilies(options, fields[1])) {
                        names.append('\t').append(new String(name, StandardCharsets.UTF_8));
                    }
                }
                return names.toString();
            }
            case "close" -> close();
            case "create" -> {
                ColumnFamilyOptions options = parseFamily(fields[2], fields[3]);
                ColumnFamilyHandle handle = db.createColumnFamily(
                        new ColumnFamilyDescriptor(fields[1].getBytes(StandardCharsets.UTF_8), options));
                families.put(fields[1], handle);
                comparators.put(fields[1], fields[2]);
                familyOptions.put(fields[1], options);
                return "\t" + handle.getID();
            }
            case "drop" -> {
                ColumnFamilyHandle handle = families.remove(fields[1]);
                db.dropColumnFamily(handle);
                handle.close();
            }
            case "write" -> {
                try (WriteOptions options = new WriteOptions()
                                .setSync(fields[1].contains("s"))
                                .setDisableWAL(fields[1].contains("w"));
                        WriteBatch batch = new WriteBatch(HEX.parseHex(fields[2]))) {
                    db.write(options, batch);
                }
            }
            case "flush" -> {
                try (FlushOptions options = new FlushOptions()
                                .setWaitForFlush(fields[1].equals("1"))
                                .setAllowWriteStall(true)) {
                    List<ColumnFamilyHandle> handles = new ArrayList<>();
                    for (String name : Arrays.asList(fields).subList(2, fields.length)) {
                        handles.add(family(name));
                    }
                    db.flush(options, handles);
                }
            }
            case "flush_wal" -> db.flushWal(fields[1].equals("1"));
            case "compact" -> compact(fields);
            case "compact_files" -> compactFiles(fields);
            case "ingest" -> ingest(fields);
            case "snapshot" -> snapshots.add(db.getSnapshot());
            case "release" -> {
                Snapshot snapshot = snapshots.remove(Integer.parseInt(fields[1]));
                db.releaseSnapshot(snapshot);
                snapshot.close();
            }
            case "checkpoint" -> {
                try (Checkpoint checkpoint = Checkpoint.create(db)) {
                    checkpoint.createCheckpoint(fields[1]);
                }
            }
            case "backup" -> {
                try (BackupEngineOptions options = new BackupEngineOptions(fields[1]);
                        BackupEngine engine = BackupEngine.open(Env.getDefault(), options)) {
                    engine.createNewBackup(db, fields[2].equals("1"));
                }
            }
            case "dump" -> dump(fields[1], Integer.parseInt(fields[2]), fields[3].equals("2"), fields[4]);
            case "verify" -> db.verifyChecksum();
            case "set" -> db.setOptions(family(fields[1]), MutableColumnFamilyOptions.parse(fields[2], true).build());
            case "set_db" -> db.setDBOptions(MutableDBOptions.parse(fields[1], true).build());
            case "prepare" -> prepare(fields);
            case "transact" -> transact(fields);
            case "decide" -> {
                try (Transaction transaction = transactions.getTransactionByName(fields[1])) {
                    if (fields[2].equals("1")) {
                        transaction.commit();
                    } else {
                        transaction.rollback();
                    }
                }
            }
            case "resolve" -> {
                for (Transaction transaction : transactions.getAllPreparedTransactions()) {
                    if (fields[1].equals("1")) {
                        transaction.commit();
                    } else {
                        transaction.rollback();
                    }
                    transaction.close();
                }
            }
            case "sleep" -> {
                try {
                    Thread.sleep(Long.parseLong(fields[1]));
                } catch (InterruptedException error) {
                    throw new IllegalStateException(error);
                }
            }
            case "halt" -> Runtime.getRuntime().halt(0);
            default -> throw new IllegalArgumentException(fields[0]);
        }
        return "";
    }

    private ColumnFamilyHandle family(String name) {
        ColumnFamilyHandle handle = families.get(name);
        if (handle == null) {
            throw new IllegalArgumentException("no family " + name);
        }
        return handle;
    }

    /** {@code name=value;...} as properties; values may have braces. */
    private static Properties properties(String text) {
        Properties properties = new Properties();
        int depth = 0;
        int begin = 0;
        for (int at = 0; at < text.length(); at++) {
            switch (text.charAt(at)) {
                case '{' -> depth++;
                case '}' -> depth--;
                case ';' -> {
                    if (depth == 0) {
                        String[] parts = text.substring(begin, at).split("=", 2);
                        properties.setProperty(parts[0], parts[1]);
                        begin = at + 1;
                    }
                }
                default -> {
                }
            }
        }
        return properties;
    }

    private <T extends AutoCloseable> T own(T object) {
        owned.add(object);
        return object;
    }

    private void setComparator(ColumnFamilyOptions options, String comparator) {
        switch (comparator) {
            case "bytewise" -> {
            }
            case "reverse" -> options.setComparator(BuiltinComparator.REVERSE_BYTEWISE_COMPARATOR);
            case "uint64" -> options.setComparator(own(new Uint64Comparator(own(new ComparatorOptions()))));
            case "nocase" -> options.setComparator(own(new NoCaseComparator(own(new ComparatorOptions()))));
            default -> throw new IllegalArgumentException(comparator);
        }
    }

    private ColumnFamilyOptions parseFamily(String comparator, String text) {
        Properties properties = properties(text);
        if (comparator.endsWith(".u64ts")) {
            properties.setProperty("comparator", comparator);
            comparator = "bytewise";
        }
        ColumnFamilyOptions options = properties.isEmpty() ? new ColumnFamilyOptions()
                                                           : ColumnFamilyOptions.getColumnFamilyOptionsFromProps(properties);
        if (options == null) {
            throw new IllegalArgumentException("options of a family: " + text);
        }
        own(options);
        setComparator(options, comparator);
        return options;
    }

    private DBOptions parseDb(String text) {
        Properties properties = properties(text);
        DBOptions options = properties.isEmpty() ? new DBOptions() : DBOptions.getDBOptionsFromProps(properties);
        if (options == null) {
            throw new IllegalArgumentException("options of a database: " + text);
        }
        return own(options);
    }

    /** The {@code db_paths} of a directory: the lines of the file {@code DIRECTORY.paths}, if there is one. */
    private void setPaths(DBOptions options, String directory) {
        pathCount = 1;
        Path list = Path.of(directory + ".paths");
        if (!java.nio.file.Files.exists(list)) {
            return;
        }
        List<DbPath> paths = new ArrayList<>();
        try {
            for (String line : java.nio.file.Files.readAllLines(list)) {
                String[] parts = line.split("\t");
                paths.add(new DbPath(Path.of(parts[0]), Long.parseLong(parts[1])));
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        options.setDbPaths(paths);
        pathCount = paths.size();
    }

    private String open(String[] fields) throws RocksDBException {
        if (db != null) {
            throw new IllegalStateException("a database is open");
        }
        String dir = fields[2];
        DBOptions options;
        List<ColumnFamilyDescriptor> descriptors = new ArrayList<>();
        try {
            if (fields[1].equals("latest")) {
                options = own(new DBOptions());
                OptionsUtil.loadLatestOptions(own(new ConfigOptions()), dir, options, descriptors);
                descriptors.forEach(descriptor -> own(descriptor.getOptions()));
            } else {
                options = parseDb(fields[3]);
                for (int at = 4; at < fields.length; at += 3) {
                    comparators.put(fields[at], fields[at + 1]);
                    descriptors.add(new ColumnFamilyDescriptor(
                            fields[at].getBytes(StandardCharsets.UTF_8), parseFamily(fields[at + 1], fields[at + 2])));
                }
            }
            setPaths(options, dir);
            List<ColumnFamilyHandle> handles = new ArrayList<>();
            if (fields[1].startsWith("WRITE_")) {
                policy = TxnDBWritePolicy.valueOf(fields[1]);
                TransactionDBOptions locks = own(new TransactionDBOptions()).setWritePolicy(policy);
                transactions = TransactionDB.open(options, locks, dir, descriptors, handles);
                db = transactions;
            } else {
                db = RocksDB.open(options, dir, descriptors, handles);
            }
            StringBuilder ids = new StringBuilder();
            for (int index = 0; index < handles.size(); index++) {
                String name = new String(descriptors.get(index).getName(), StandardCharsets.UTF_8);
                families.put(name, handles.get(index));
                familyOptions.put(name, descriptors.get(index).getOptions());
                ids.append('\t').append(name).append(':').append(handles.get(index).getID());
            }
            return ids.toString();
        } catch (RocksDBException | RuntimeException error) {
            disown();
            throw error;
        }
    }

    private void disown() {
        for (int index = owned.size() - 1; index >= 0; index--) {
            try {
                owned.get(index).close();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }
        owned.clear();
    }

    private void close() throws RocksDBException {
        for (Snapshot snapshot : snapshots) {
            db.releaseSnapshot(snapshot);
            snapshot.close();
        }
        snapshots.clear();
        families.values().forEach(ColumnFamilyHandle::close);
        families.clear();
        comparators.clear();
        familyOptions.clear();
        if (transactions != null) {
            if (policy == TxnDBWritePolicy.WRITE_COMMITTED) {
                transactions.closeE();
            } else {
                // The other policies leave snapshots, with which closeE fails.
                transactions.close();
            }
            transactions = null;
        } else {
            db.closeE();
        }
        db = null;
        disown();
    }

    private static byte[] bound(String text) {
        return text.equals("-") ? null : HEX.parseHex(text);
    }

    private void compact(String[] fields) throws RocksDBException {
        int level = Integer.parseInt(fields[5]);
        try (CompactRangeOptions options = new CompactRangeOptions()
                        .setAllowWriteStall(true)
                        .setExclusiveManualCompaction(fields[4].contains("x"))) {
            if (fields[4].contains("f")) {
                options.setBottommostLevelCompaction(CompactRangeOptions.BottommostLevelCompaction.kForce);
            }
            if (level >= 0) {
                options.setChangeLevel(true).setTargetLevel(level);
            }
            db.compactRange(family(fields[1]), bound(fields[2]), bound(fields[3]), options);
        }
    }

    private void compactFiles(String[] fields) throws RocksDBException {
        ColumnFamilyHandle family = family(fields[1]);
        int wanted = Integer.parseInt(fields[3]);
        List<String> names = new ArrayList<>();
        for (LevelMetaData level : db.getColumnFamilyMetaData(family).levels()) {
            for (SstFileMetaData file : level.files()) {
                if ((wanted >> names.size() % 16 & 1) == 1 || level.level() == 0) {
                    names.add(file.fileName());
                }
            }
        }
        if (names.isEmpty()) {
            return;
        }
        try (CompactionOptions options = new CompactionOptions()) {
            int path = pathCount == 1 ? -1 : wanted % pathCount;
            db.compactFiles(options, family, names, Integer.parseInt(fields[2]), path, null);
        }
    }

    private void ingest(String[] fields) throws RocksDBException {
        File file = new File(fields[3]);
        try (Options options = new Options(parseDb(""), familyOptions.get(fields[1]));
                EnvOptions env = new EnvOptions();
                SstFileWriter writer = new SstFileWriter(env, options);
                IngestExternalFileOptions how = new IngestExternalFileOptions()
                        .setMoveFiles(fields[2].contains("m"))
                        .setIngestBehind(fields[2].contains("b"))) {
            writer.open(fields[3]);
            for (int at = 4; at < fields.length; at += 3) {
                byte[] key = HEX.parseHex(fields[at + 1]);
                byte[] value = HEX.parseHex(fields[at + 2]);
                switch (fields[at]) {
                    case "p" -> writer.put(key, value);
                    case "m" -> writer.merge(key, value);
                    case "d" -> writer.delete(key);
                    default -> throw new IllegalArgumentException(fields[at]);
                }
            }
            writer.finish();
            db.ingestExternalFile(family(fields[1]), List.of(fields[3]), how);
        } finally {
            if (file.exists() && !file.delete()) {
                throw new IllegalStateException("cannot remove " + file);
            }
        }
    }

    private void transact(String[] fields) throws RocksDBException {
        try (WriteOptions options = new WriteOptions()) {
            Transaction transaction = transactions.beginTransaction(options);
            transaction.setName(fields[1]);
            for (int at = 3; at < fields.length; at += 4) {
                byte[] key = HEX.parseHex(fields[at + 2]);
                byte[] value = HEX.parseHex(fields[at + 3]);
                switch (fields[at + 1]) {
                    case "p" -> transaction.put(family(fields[at]), key, value);
                    case "m" -> transaction.merge(family(fields[at]), key, value);
                    case "d" -> transaction.delete(family(fields[at]), key);
                    default -> throw new IllegalArgumentException(fields[at + 1]);
                }
            }
            if (fields[2].equals("prepare")) {
                transaction.prepare();
            } else {
                transaction.commit();
                transaction.close();
            }
        }
    }

    private void prepare(String[] fields) throws RocksDBException {
        try (WriteOptions options = new WriteOptions()) {
            Transaction transaction = transactions.beginTransaction(options);
            transaction.setName(fields[1]);
            for (int at = 2; at < fields.length; at += 3) {
                transaction.put(family(fields[at]), HEX.parseHex(fields[at + 1]), HEX.parseHex(fields[at + 2]));
            }
            transaction.prepare();
        }
    }

    /** The entries of a family. Gets, batches of gets and the scan from the other end must say the same. */
    private void dump(String name, int snapshot, boolean bothEnds, String time) throws RocksDBException {
        ColumnFamilyHandle family = family(name);
        boolean ignoresCase = "nocase".equals(comparators.get(name));
        List<byte[][]> entries = new ArrayList<>();
        StringBuilder text = new StringBuilder();
        boolean isDated = !time.equals("-");
        byte[] date = ByteBuffer.allocate(8)
                              .order(ByteOrder.LITTLE_ENDIAN)
                              .putLong(isDated ? Long.parseUnsignedLong(time) : 0)
                              .array();
        try (Slice timestamp = new Slice(date); ReadOptions options = new ReadOptions().setTotalOrderSeek(true)) {
            if (isDated) {
                options.setTimestamp(timestamp);
            }
            if (snapshot >= 0) {
                options.setSnapshot(snapshots.get(snapshot));
            }
            try (RocksIterator iterator = db.newIterator(family, options)) {
                for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                    entries.add(new byte[][] {iterator.key(), iterator.value()});
                }
                iterator.status();
                if (bothEnds) {
                    int left = entries.size();
                    for (iterator.seekToLast(); iterator.isValid(); iterator.prev()) {
                        left--;
                        if (left < 0 || !isSame(iterator.key(), entries.get(left)[0], ignoresCase)
                                || !Arrays.equals(iterator.value(), entries.get(left)[1])) {
                            throw new AssertionError(
                                    "the backward scan differs at " + HEX.formatHex(iterator.key()));
                        }
                    }
                    iterator.status();
                    if (left != 0) {
                        throw new AssertionError("the backward scan ends " + left + " entries early");
                    }
                }
            }
            List<byte[]> keys = new ArrayList<>();
            List<ColumnFamilyHandle> handles = new ArrayList<>();
            for (byte[][] entry : entries) {
                if (!Arrays.equals(db.get(family, options, entry[0]), entry[1])) {
                    throw new AssertionError("get differs from the scan at " + HEX.formatHex(entry[0]));
                }
                keys.add(entry[0]);
                handles.add(family);
                text.append("e\t").append(HEX.formatHex(entry[0])).append('\t').append(HEX.formatHex(entry[1]))
                        .append('\n');
            }
            List<byte[]> values = keys.isEmpty() ? List.of() : db.multiGetAsList(options, handles, keys);
            for (int index = 0; index < keys.size(); index++) {
                if (!Arrays.equals(values.get(index), entries.get(index)[1])) {
                    throw new AssertionError("multiGet differs from the scan at " + HEX.formatHex(keys.get(index)));
                }
            }
        }
        OUT.print(text);
    }

    /** Of equal keys, a scan from the other end may show other bytes. */
    private static boolean isSame(byte[] left, byte[] right, boolean ignoresCase) {
        return ignoresCase
                ? new String(left, StandardCharsets.ISO_8859_1)
                        .equalsIgnoreCase(new String(right, StandardCharsets.ISO_8859_1))
                : Arrays.equals(left, right);
    }

    /** Bytewise in lower case, so that keys of different bytes are equal. */
    private static final class NoCaseComparator extends AbstractComparator {
        NoCaseComparator(ComparatorOptions options) {
            super(options);
        }

        @Override
        public String name() {
            return "history.IgnoresCase";
        }

        @Override
        public int compare(ByteBuffer left, ByteBuffer right) {
            int common = Math.min(left.remaining(), right.remaining());
            for (int at = 0; at < common; at++) {
                int difference = Integer.compare(
                        lower(left.get(left.position() + at)), lower(right.get(right.position() + at)));
                if (difference != 0) {
                    return difference;
                }
            }
            return Integer.compare(left.remaining(), right.remaining());
        }

        private static int lower(byte letter) {
            return letter >= 'A' && letter <= 'Z' ? letter + 'a' - 'A' : letter & 0xff;
        }
    }

    /** Keys are numbers of eight bytes, little-endian. RocksDB has the same, under this name, in its tests. */
    private static final class Uint64Comparator extends AbstractComparator {
        Uint64Comparator(ComparatorOptions options) {
            super(options);
        }

        @Override
        public String name() {
            return "rocksdb.Uint64Comparator";
        }

        @Override
        public int compare(ByteBuffer left, ByteBuffer right) {
            return Long.compareUnsigned(number(left), number(right));
        }

        private static long number(ByteBuffer key) {
            return key.order(ByteOrder.LITTLE_ENDIAN).getLong(key.position());
        }
    }
}

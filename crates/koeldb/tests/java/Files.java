import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.rocksdb.*;

/**
 * What RocksDB makes of files that enter and leave a database. Anything unexpected ends the program with the exception.
 *
 * <pre>
 * Files fill DB FROM COUNT            puts keys into the default family, and flushes
 * Files backup DB BACKUPS [flush] [legacy] [private]   makes a backup
 * Files backups BACKUPS               prints the ids, sizes and numbers of files
 * Files verify BACKUPS                verifies all backups, with their files' sizes
 * Files restore BACKUPS DB            restores the latest
 * Files purge BACKUPS COUNT           keeps COUNT backups
 * Files collect BACKUPS               collects garbage, and prints damaged backups
 * Files ingest DB FILE...             ingests tables into the default family
 * Files table DB FROM COUNT FILE      writes a table with an SstFileWriter
 * Files checkpoint DB TARGET          makes a checkpoint
 * Files ttl DB put KEY VALUE          puts into a TTL database
 * Files ttl DB get KEY...             prints the values of keys
 * Files ttl DB expire                 compacts with a time to live of a second
 * </pre>
 */
public final class Files {
    private static final byte[] VALUE = "of RocksDB".getBytes();

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        List<String> rest = Arrays.asList(args).subList(2, args.length);
        switch (args[0]) {
            case "fill" -> fill(args[1], Integer.parseInt(rest.get(0)), Integer.parseInt(rest.get(1)));
            case "backup" -> backup(args[1], rest);
            case "ingest" -> {
                try (Options options = new Options(); RocksDB db = RocksDB.open(options, args[1]);
                        IngestExternalFileOptions how = new IngestExternalFileOptions()) {
                    db.ingestExternalFile(rest, how);
                }
            }
            case "table" -> table(Integer.parseInt(args[2]), Integer.parseInt(args[3]), args[4]);
            case "checkpoint" -> {
                try (Options options = new Options(); RocksDB db = RocksDB.open(options, args[1]);
                        Checkpoint checkpoint = Checkpoint.create(db)) {
                    checkpoint.createCheckpoint(args[2]);
                }
            }
            case "ttl" -> ttl(args[1], rest);
            default -> engine(args[0], args[1], rest);
        }
    }

    private static String key(int index) {
        return String.format("key%05d", index);
    }

    private static void fill(String path, int from, int count) throws RocksDBException {
        try (Options options = new Options().setCreateIfMissing(true); RocksDB db = RocksDB.open(options, path);
                FlushOptions flush = new FlushOptions()) {
            for (int index = from; index < from + count; index++) {
                db.put(key(index).getBytes(), VALUE);
            }
            db.flush(flush);
        }
    }

    private static void ttl(String path, List<String> rest) throws RocksDBException {
        int ttl = rest.get(0).equals("expire") ? 1 : 3600;
        try (Options options = new Options().setCreateIfMissing(true); TtlDB db = TtlDB.open(options, path, ttl, false);
                FlushOptions flush = new FlushOptions()) {
            switch (rest.get(0)) {
                case "put" -> {
                    db.put(rest.get(1).getBytes(), rest.get(2).getBytes());
                    db.flush(flush);
                }
                case "get" -> {
                    for (String key : rest.subList(1, rest.size())) {
                        System.out.println(new String(db.get(key.getBytes())));
                    }
                }
                default -> {
                    try (CompactRangeOptions how = new CompactRangeOptions().setBottommostLevelCompaction(
                                 CompactRangeOptions.BottommostLevelCompaction.kForce)) {
                        db.compactRange(null, null, null, how);
                    }
                }
            }
        }
    }

    private static void table(int from, int count, String path) throws RocksDBException {
        try (Options options = new Options(); EnvOptions env = new EnvOptions();
                SstFileWriter writer = new SstFileWriter(env, options)) {
            writer.open(path);
            for (int index = from; index < from + count; index++) {
                writer.put(key(index).getBytes(), VALUE);
            }
            writer.finish();
        }
    }

    private static void backup(String path, List<String> rest) throws RocksDBException {
        try (BackupEngineOptions options = new BackupEngineOptions(rest.get(0))) {
            if (rest.contains("legacy")) {
                options.setShareFilesWithChecksum(false);
            }
            if (rest.contains("private")) {
                options.setShareTableFiles(false);
            }
            List<ColumnFamilyDescriptor> families = new ArrayList<>();
            for (byte[] name : RocksDB.listColumnFamilies(new Options(), path)) {
                families.add(new ColumnFamilyDescriptor(name));
            }
            try (BackupEngine engine = BackupEngine.open(Env.getDefault(), options);
                    RocksDB db = RocksDB.open(new DBOptions(), path, families, new ArrayList<>())) {
                engine.createNewBackupWithMetadata(db, "of RocksDB", rest.contains("flush"));
            }
        }
    }

    private static void engine(String command, String path, List<String> rest) throws RocksDBException {
        try (BackupEngineOptions options = new BackupEngineOptions(path);
                BackupEngine engine = BackupEngine.open(Env.getDefault(), options)) {
            switch (command) {
                case "backups" -> {
                    for (BackupInfo info : engine.getBackupInfo()) {
                        System.out.println(info.backupId() + " " + info.size() + " " + info.numberFiles() + " "
                                + info.appMetadata());
                    }
                }
                case "verify" -> {
                    if (engine.getCorruptedBackups().length > 0) {
                        throw new IllegalStateException("a damaged backup");
                    }
                }
                case "restore" -> {
                    try (RestoreOptions how = new RestoreOptions(false)) {
                        engine.restoreDbFromLatestBackup(rest.get(0), rest.get(0), how);
                    }
                }
                case "purge" -> engine.purgeOldBackups(Integer.parseInt(rest.get(0)));
                case "collect" -> {
                    engine.garbageCollect();
                    for (int id : engine.getCorruptedBackups()) {
                        System.out.println("damaged " + id);
                    }
                }
                default -> throw new IllegalArgumentException(command);
            }
        }
    }
}

import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
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
 * Files export DB DIRECTORY FROM...    makes a family for each FROM with tables on two levels and an ingested one, exports
 *                                     it to DIRECTORY/FROM, and prints its entries and tables
 * Files import DB SOURCE FAMILY OURS SCRATCH [move]   exports FAMILY of SOURCE for the description, puts the tables in OURS
 *                                     into its place, imports them into DB, and prints the entries
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
            case "export" -> export(args[1], rest.get(0), rest.subList(1, rest.size()));
            case "import" -> importTables(args[1], rest);
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

    private static void print(RocksDB db, ColumnFamilyHandle handle) throws RocksDBException {
        HexFormat hex = HexFormat.of().withUpperCase();
        try (RocksIterator iterator = db.newIterator(handle)) {
            for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                System.out.println("entry\t" + new String(handle.getName()) + "\t" + hex.formatHex(iterator.key()) + "\t"
                        + hex.formatHex(iterator.value()));
            }
            iterator.status();
        }
    }

    private static void export(String path, String directory, List<String> firsts) throws Exception {
        try (Options options = new Options().setCreateIfMissing(true); RocksDB db = RocksDB.open(options, path);
                FlushOptions flush = new FlushOptions(); Checkpoint checkpoint = Checkpoint.create(db)) {
            for (String first : firsts) {
                int from = Integer.parseInt(first);
                try (ColumnFamilyHandle handle = db.createColumnFamily(new ColumnFamilyDescriptor(first.getBytes()))) {
                    for (int index = from; index < from + 200; index++) {
                        db.put(handle, key(index).getBytes(), ("first " + index).getBytes());
                    }
                    db.compactRange(handle);
                    for (int index = from + 50; index < from + 100; index++) {
                        db.put(handle, key(index).getBytes(), VALUE);
                    }
                    db.deleteRange(handle, key(from + 80).getBytes(), key(from + 120).getBytes());
                    db.flush(flush, handle);
                    // It shares keys with both, so that its entries have the number of the ingestion.
                    String table = directory + "-" + first + ".sst";
                    table(from + 90, 20, table);
                    try (IngestExternalFileOptions how = new IngestExternalFileOptions()) {
                        db.ingestExternalFile(handle, List.of(table), how);
                    }
                    db.delete(handle, key(from).getBytes());
                    checkpoint.exportColumnFamily(handle, directory + "/" + first).close();
                    print(db, handle);
                    for (LiveFileMetaData file : db.getLiveFilesMetaData()) {
                        if (Arrays.equals(file.columnFamilyName(), handle.getName())) {
                            System.out.println("file\t" + first + "\t" + file.level() + "\t" + file.fileName() + "\t"
                                    + file.size() + "\t" + file.smallestSeqno() + "\t" + file.largestSeqno());
                        }
                    }
                }
            }
        }
    }

    private static void importTables(String path, List<String> rest) throws Exception {
        String source = rest.get(0);
        List<ColumnFamilyDescriptor> families = new ArrayList<>();
        for (byte[] name : RocksDB.listColumnFamilies(new Options(), source)) {
            families.add(new ColumnFamilyDescriptor(name));
        }
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        Path exported = Path.of(rest.get(3));
        try (RocksDB db = RocksDB.open(new DBOptions(), source, families, handles);
                Checkpoint checkpoint = Checkpoint.create(db); Options options = new Options().setCreateIfMissing(true);
                RocksDB target = RocksDB.open(options, path);
                ImportColumnFamilyOptions how = new ImportColumnFamilyOptions().setMoveFiles(rest.contains("move"))) {
            for (ColumnFamilyHandle handle : handles) {
                if (!new String(handle.getName()).equals(rest.get(1))) {
                    continue;
                }
                try (ExportImportFilesMetaData described = checkpoint.exportColumnFamily(handle, exported.toString())) {
                    try (var tables = java.nio.file.Files.list(exported)) {
                        for (Path table : tables.toList()) {
                            java.nio.file.Files.copy(Path.of(rest.get(2)).resolve(table.getFileName()), table,
                                    StandardCopyOption.REPLACE_EXISTING);
                        }
                    }
                    ColumnFamilyHandle imported = target.createColumnFamilyWithImport(
                            new ColumnFamilyDescriptor("imported".getBytes()), how, described);
                    target.verifyChecksum();
                    print(target, imported);
                    imported.close();
                }
            }
            handles.forEach(ColumnFamilyHandle::close);
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

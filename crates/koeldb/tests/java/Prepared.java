import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.rocksdb.*;

/**
 * Prepared transactions of RocksDB.
 *
 * <pre>
 * Prepared leave DIRECTORY close|kill    leaves `one` and `two` prepared, `three` committed and `four` rolled back
 * Prepared group DIRECTORY    leaves `t16` to `t23` prepared, `t00` to `t11` committed and the others rolled back, by
 *     threads whose records share log writes; `t00` to `t07` were committed with a write to `time`; ends without a close
 * Prepared write-prepared DIRECTORY    leaves `one` prepared under the write policy of this name
 * Prepared decide DIRECTORY NAME=commit|rollback ...
 *     prints `prepared NAME` for each transaction found, decides those that are named, and prints
 *     `entry FAMILY KEY VALUE` for each entry
 * </pre>
 */
public final class Prepared {
    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        List<ColumnFamilyDescriptor> families = List.of(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY),
                new ColumnFamilyDescriptor("other".getBytes()));
        TransactionDBOptions locks = new TransactionDBOptions();
        if (args[0].equals("write-prepared")) {
            locks.setWritePolicy(TxnDBWritePolicy.WRITE_PREPARED);
        }
        try (locks;
                DBOptions options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true);
                TransactionDB db = TransactionDB.open(options, locks, args[1], families, handles)) {
            switch (args[0]) {
                case "leave" -> leave(db, handles, args[2]);
                case "group" -> group(db, handles);
                case "write-prepared" -> {
                    prepare(db, handles, "one");
                    Runtime.getRuntime().halt(0);
                }
                default -> decide(db, handles, args);
            }
            handles.forEach(ColumnFamilyHandle::close);
            db.closeE();
        }
    }

    private static Transaction prepare(TransactionDB db, List<ColumnFamilyHandle> handles, String name)
            throws Exception {
        try (WriteOptions sync = new WriteOptions().setSync(true)) {
            Transaction transaction = db.beginTransaction(sync);
            transaction.setName(name);
            for (ColumnFamilyHandle handle : handles) {
                transaction.put(handle, name.getBytes(), "value".getBytes());
            }
            transaction.prepare();
            return transaction;
        }
    }

    private static void leave(TransactionDB db, List<ColumnFamilyHandle> handles, String how) throws Exception {
        try (WriteOptions plain = new WriteOptions(); FlushOptions flush = new FlushOptions().setWaitForFlush(true)) {
            db.put(handles.get(0), plain, "plain".getBytes(), "0".getBytes());
            Transaction one = prepare(db, handles, "one");
            Transaction three = prepare(db, handles, "three");
            db.flush(flush, handles.get(0));
            Transaction two = prepare(db, handles, "two");
            Transaction four = prepare(db, handles, "four");
            db.put(handles.get(1), plain, "plain".getBytes(), "1".getBytes());
            three.commit();
            db.flush(flush, handles.get(1));
            four.rollback();
            db.put(handles.get(0), plain, "plain".getBytes(), "2".getBytes());
            System.out.println("left");
            if (how.equals("kill")) {
                Runtime.getRuntime().halt(0);
            }
            one.close();
            two.close();
            three.close();
            four.close();
        }
    }

    /** Runs a step of every transaction in a thread of its own. */
    private static void together(List<Callable<Void>> steps) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(steps.size());
        for (Future<Void> step : threads.invokeAll(steps)) {
            step.get();
        }
        threads.shutdown();
    }

    private static void group(TransactionDB db, List<ColumnFamilyHandle> handles) throws Exception {
        Transaction[] all = new Transaction[24];
        List<Callable<Void>> prepare = new ArrayList<>();
        List<Callable<Void>> decide = new ArrayList<>();
        for (int at = 0; at < all.length; at++) {
            int number = at;
            prepare.add(() -> {
                all[number] = prepare(db, handles, String.format("t%02d", number));
                return null;
            });
        }
        for (int at = 0; at < 16; at++) {
            int number = at;
            decide.add(() -> {
                if (number < 8) {
                    all[number].getCommitTimeWriteBatch().put(handles.get(1), "time".getBytes(), "0".getBytes());
                }
                if (number < 12) {
                    all[number].commit();
                } else {
                    all[number].rollback();
                }
                return null;
            });
        }
        together(prepare);
        try (FlushOptions flush = new FlushOptions().setWaitForFlush(true)) {
            together(decide.subList(0, 4));
            db.flush(flush, handles.get(0));
            together(decide.subList(4, 16));
            db.flush(flush, handles.get(1));
        }
        Runtime.getRuntime().halt(0);
    }

    private static void decide(TransactionDB db, List<ColumnFamilyHandle> handles, String[] args) throws Exception {
        Map<String, String> decisions = new HashMap<>();
        for (int at = 2; at < args.length; at++) {
            String[] parts = args[at].split("=", 2);
            decisions.put(parts[0], parts[1]);
        }
        for (Transaction transaction : db.getAllPreparedTransactions()) {
            System.out.println("prepared\t" + transaction.getName());
            switch (decisions.getOrDefault(transaction.getName(), "")) {
                case "commit" -> transaction.commit();
                case "rollback" -> transaction.rollback();
                default -> { }
            }
        }
        for (ColumnFamilyHandle handle : handles) {
            try (RocksIterator entries = db.newIterator(handle)) {
                for (entries.seekToFirst(); entries.isValid(); entries.next()) {
                    System.out.println("entry\t" + new String(handle.getName()) + "\t" + new String(entries.key()) + "\t"
                            + new String(entries.value()));
                }
                entries.status();
            }
        }
    }
}

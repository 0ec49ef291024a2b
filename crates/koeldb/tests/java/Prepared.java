import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
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
 * Prepared empty DIRECTORY    writes 400 batches of two puts, by threads that share log writes with commits of empty
 *     transactions; prints `number LATEST_SEQUENCE_NUMBER`; ends without a close
 * Prepared write-prepared DIRECTORY    leaves `one` prepared under the write policy of this name
 * Prepared history DIRECTORY POLICY SEED close|kill|undecided [two-queues]
 *     runs a random history of transactions under a write policy of one sequence number a batch, or WRITE_COMMITTED;
 *     prints `entry FAMILY KEY VALUE` for each entry it leaves; `undecided` leaves `last` prepared and ends without a close
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
        boolean hasTwoQueues = false;
        if (args[0].equals("history")) {
            locks.setWritePolicy(TxnDBWritePolicy.valueOf(args[2]));
            hasTwoQueues = args.length > 5 && args[5].equals("two-queues");
        }
        if (args[0].equals("history") || args[0].equals("decide")) {
            families.forEach(family -> family.getOptions().setMergeOperatorName("stringappend"));
        }
        try (locks;
                DBOptions options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true)
                        .setTwoWriteQueues(hasTwoQueues)
                        .setDbWriteBufferSize(args[0].equals("empty") ? 0 : 1 << 20).setStatsDumpPeriodSec(0);
                TransactionDB db = TransactionDB.open(options, locks, args[1], families, handles)) {
            switch (args[0]) {
                case "leave" -> leave(db, handles, args[2]);
                case "group" -> group(db, handles);
                case "empty" -> empty(db, handles.get(1));
                case "history" -> {
                    history(db, handles, new Random(Long.parseLong(args[3])), args[4].equals("undecided"));
                    printEntries(db, handles);
                    System.out.flush();
                    if (!args[4].equals("close")) {
                        Runtime.getRuntime().halt(0);
                    }
                }
                case "write-prepared" -> {
                    prepare(db, handles, "one");
                    Runtime.getRuntime().halt(0);
                }
                default -> decide(db, handles, args);
            }
            handles.forEach(ColumnFamilyHandle::close);
            if (!args[0].equals("history")) {
                // The write policy write-unprepared leaves a snapshot, with which this fails.
                db.closeE();
            }
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

    private static void empty(TransactionDB db, ColumnFamilyHandle family) throws Exception {
        List<Callable<Void>> steps = new ArrayList<>();
        for (int at = 0; at < 8; at++) {
            int number = at;
            steps.add(() -> {
                try (WriteOptions sync = new WriteOptions().setSync(true)) {
                    for (int round = 0; round < 50; round++) {
                        byte[] value = Integer.toString(round).getBytes();
                        try (WriteBatch batch = new WriteBatch()) {
                            batch.put(String.format("%d-%02d", number, round).getBytes(), value);
                            batch.put(family, String.format("%d-%02d", number, round).getBytes(), value);
                            db.write(sync, batch);
                        }
                    }
                }
                return null;
            });
            steps.add(() -> {
                try (WriteOptions sync = new WriteOptions().setSync(true)) {
                    for (int round = 0; round < 50; round++) {
                        try (Transaction transaction = db.beginTransaction(sync)) {
                            transaction.commit();
                        }
                    }
                }
                return null;
            });
        }
        together(steps);
        System.out.println("number\t" + db.getLatestSequenceNumber());
        System.out.flush();
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
        printEntries(db, handles);
    }

    /** Changes a random key through a transaction. */
    private static void change(Transaction transaction, ColumnFamilyHandle family, Random random) throws Exception {
        byte[] key = String.format("k%02d", random.nextInt(20)).getBytes();
        byte[] value = Integer.toString(random.nextInt(10000)).getBytes();
        switch (random.nextInt(4)) {
            case 0 -> transaction.delete(family, key);
            case 1 -> transaction.merge(family, key, value);
            default -> transaction.put(family, key, value);
        }
    }

    /** Runs transactions that overlap, with flushes of single families between their steps. */
    private static void history(TransactionDB db, List<ColumnFamilyHandle> handles, Random random, boolean leavesOne)
            throws Exception {
        try (WriteOptions plain = new WriteOptions(); FlushOptions flush = new FlushOptions().setWaitForFlush(true);
                TransactionOptions quick = new TransactionOptions().setLockTimeout(0)) {
            List<Transaction> begun = new ArrayList<>();
            List<Transaction> prepared = new ArrayList<>();
            int steps = 20 + random.nextInt(80);
            for (int step = 0; step < steps; step++) {
                ColumnFamilyHandle family = handles.get(random.nextInt(handles.size()));
                switch (random.nextInt(12)) {
                    case 0 -> db.flush(flush, family);
                    case 1, 2, 3 -> {
                        try (WriteBatch batch = new WriteBatch()) {
                            for (int count = random.nextInt(6); count >= 0; count--) {
                                byte[] key = String.format("p%02d", random.nextInt(20)).getBytes();
                                batch.put(handles.get(random.nextInt(handles.size())), key,
                                        Integer.toString(step).getBytes());
                            }
                            db.write(plain, batch);
                        }
                    }
                    case 4, 5, 6 -> {
                        if (!prepared.isEmpty()) {
                            Transaction transaction = prepared.remove(random.nextInt(prepared.size()));
                            if (random.nextInt(3) == 0) {
                                transaction.rollback();
                            } else {
                                transaction.commit();
                            }
                        }
                    }
                    default -> {
                        Transaction transaction = db.beginTransaction(plain, quick);
                        begun.add(transaction);
                        try {
                            for (int count = random.nextInt(6); count >= 0; count--) {
                                change(transaction, handles.get(random.nextInt(handles.size())), random);
                            }
                            if (random.nextBoolean()) {
                                transaction.commit();
                            } else {
                                transaction.setName("t" + step);
                                transaction.prepare();
                                prepared.add(transaction);
                            }
                        } catch (RocksDBException locked) {
                            transaction.rollback();
                        }
                    }
                }
            }
            for (Transaction transaction : prepared) {
                if (random.nextBoolean()) {
                    transaction.commit();
                } else {
                    transaction.rollback();
                }
            }
            begun.forEach(Transaction::close);
            if (leavesOne) {
                prepare(db, handles, "last");
            }
        }
    }

    private static void printEntries(TransactionDB db, List<ColumnFamilyHandle> handles) throws Exception {
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

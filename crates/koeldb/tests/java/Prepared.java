import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.rocksdb.*;

/**
 * Prepared transactions of RocksDB.
 *
 * <pre>
 * Prepared leave DIRECTORY close|kill    leaves `one` and `two` prepared, `three` committed and `four` rolled back
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
        try (DBOptions options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true);
                TransactionDBOptions locks = new TransactionDBOptions();
                TransactionDB db = TransactionDB.open(options, locks, args[1], families, handles)) {
            if (args[0].equals("leave")) {
                leave(db, handles, args[2]);
            } else {
                decide(db, handles, args);
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

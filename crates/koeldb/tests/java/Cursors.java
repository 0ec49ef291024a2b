import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import org.rocksdb.*;

/**
 * Iterators over the pending writes of a transaction or an indexed batch and a database, while further writes are added.
 *
 * <pre>
 * Cursors DIRECTORY transaction|overwriting|appending    executes the commands of its input, a line each:
 *     store KEY VALUE        puts into the database
 *     put KEY VALUE, merge KEY VALUE, delete KEY    adds to the pending writes
 *     cursor LOWER UPPER     creates an iterator with bounds; `-` is none
 *     INDEX first|last|next|prev, INDEX seek|back KEY
 *                            moves an iterator, and prints `KEY VALUE`, or `none`
 * </pre>
 */
public final class Cursors {
    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        try (Options options = new Options().setCreateIfMissing(true).setMergeOperator(new StringAppendOperator(','));
                TransactionDBOptions locks = new TransactionDBOptions();
                TransactionDB db = TransactionDB.open(options, locks, args[0]);
                WriteOptions write = new WriteOptions();
                Transaction transaction = db.beginTransaction(write);
                WriteBatchWithIndex batch = new WriteBatchWithIndex(args[1].equals("overwriting"))) {
            boolean isTransaction = args[1].equals("transaction");
            List<RocksIterator> cursors = new ArrayList<>();
            List<Object> kept = new ArrayList<>();
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
            StringBuilder output = new StringBuilder();
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                byte[] key = words.length > 1 ? words[1].getBytes() : null;
                byte[] value = words.length > 2 ? words[2].getBytes() : null;
                switch (words[0]) {
                    case "store" -> db.put(key, value);
                    case "put" -> {
                        if (isTransaction) {
                            transaction.put(key, value);
                        } else {
                            batch.put(key, value);
                        }
                    }
                    case "merge" -> {
                        if (isTransaction) {
                            transaction.merge(key, value);
                        } else {
                            batch.merge(key, value);
                        }
                    }
                    case "delete" -> {
                        if (isTransaction) {
                            transaction.delete(key);
                        } else {
                            batch.delete(key);
                        }
                    }
                    case "cursor" -> {
                        ReadOptions read = new ReadOptions();
                        kept.add(read);
                        if (!words[1].equals("-")) {
                            Slice lower = new Slice(key);
                            kept.add(lower);
                            read.setIterateLowerBound(lower);
                        }
                        if (!words[2].equals("-")) {
                            Slice upper = new Slice(value);
                            kept.add(upper);
                            read.setIterateUpperBound(upper);
                        }
                        cursors.add(isTransaction
                                ? transaction.getIterator(read)
                                : batch.newIteratorWithBase(db.getDefaultColumnFamily(),
                                        db.newIterator(read), read));
                    }
                    default -> {
                        RocksIterator cursor = cursors.get(Integer.parseInt(words[0]));
                        switch (words[1]) {
                            case "first" -> cursor.seekToFirst();
                            case "last" -> cursor.seekToLast();
                            case "next" -> cursor.next();
                            case "prev" -> cursor.prev();
                            case "seek" -> cursor.seek(value);
                            case "back" -> cursor.seekForPrev(value);
                            default -> throw new IllegalArgumentException(line);
                        }
                        cursor.status();
                        output.append(cursor.isValid()
                                ? new String(cursor.key()) + " " + new String(cursor.value())
                                : "none").append('\n');
                    }
                }
            }
            System.out.print(output);
            cursors.forEach(RocksIterator::close);
        }
    }
}

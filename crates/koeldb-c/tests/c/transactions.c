/* Transactions: commits, conflicts, savepoints, names, iterators; optimistic ones; indexed batches. */
#include "check.h"

static int puts_seen, deletes_seen;

static void on_put(void* state, const char* k, size_t kl, const char* v, size_t vl) {
  (void)state; (void)k; (void)kl; (void)v; (void)vl;
  puts_seen++;
}

static void on_delete(void* state, const char* k, size_t kl) {
  (void)state; (void)k; (void)kl;
  deletes_seen++;
}

/* Checks a value from the C heap, and frees it; a null text stands for no value. */
static void is(char* value, const size_t* length, const char* expected) {
  if (expected == NULL) {
    CHECK(value == NULL);
  } else {
    CHECK(value != NULL && *length == strlen(expected) && memcmp(value, expected, *length) == 0);
  }
  rocksdb_free(value);
}

/* Orders keys by their first byte. */
static int first_byte(void* state, const char* a, size_t a_length, const char* b,
                      size_t b_length) {
  (void)state;
  int first = a_length > 0 ? (unsigned char)a[0] : -1;
  return first - (b_length > 0 ? (unsigned char)b[0] : -1);
}

static const char* order_name(void* state) {
  (void)state;
  return "first byte";
}

static void nothing(void* state) { (void)state; }

int main(void) {
  char* error = NULL;
  size_t n = 0;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  rocksdb_transactiondb_options_t* locking = rocksdb_transactiondb_options_create();
  CHECK(rocksdb_transactiondb_options_get_num_stripes(locking) == 16);
  rocksdb_transactiondb_options_set_default_lock_timeout(locking, 1);
  rocksdb_transactiondb_t* db = rocksdb_transactiondb_open(options, locking, "locks", &error);
  OK(error);
  rocksdb_transaction_options_t* how = rocksdb_transaction_options_create();
  CHECK(rocksdb_transaction_options_get_deadlock_detect(how) == 0);
  rocksdb_transaction_options_set_lock_timeout(how, 1);
  rocksdb_transaction_options_set_set_snapshot(how, 1);

  rocksdb_transactiondb_put(db, writing, "a", 1, "one", 3, &error);
  OK(error);
  rocksdb_transaction_t* txn = rocksdb_transaction_begin(db, writing, how, NULL);
  rocksdb_transaction_put(txn, "b", 1, "two", 3, &error);
  OK(error);
  is(rocksdb_transaction_get(txn, reading, "b", 1, &n, &error), &n, "two");
  is(rocksdb_transactiondb_get(db, reading, "b", 1, &n, &error), &n, NULL);
  rocksdb_transactiondb_put(db, writing, "b", 1, "other", 5, &error);
  CHECK(error != NULL);
  rocksdb_free(error);
  error = NULL;

  const rocksdb_snapshot_t* snapshot = rocksdb_transaction_get_snapshot(txn);
  CHECK(snapshot != NULL);
  rocksdb_transactiondb_put(db, writing, "a", 1, "new", 3, &error);
  OK(error);
  rocksdb_readoptions_set_snapshot(reading, snapshot);
  is(rocksdb_transaction_get(txn, reading, "a", 1, &n, &error), &n, "one");
  rocksdb_readoptions_set_snapshot(reading, NULL);
  rocksdb_free((void*)snapshot);
  is(rocksdb_transaction_get(txn, reading, "a", 1, &n, &error), &n, "new");

  rocksdb_transaction_set_savepoint(txn);
  rocksdb_transaction_delete(txn, "b", 1, &error);
  OK(error);
  rocksdb_iterator_t* iterator = rocksdb_transaction_create_iterator(txn, reading);
  rocksdb_iter_seek_to_last(iterator);
  CHECK(rocksdb_iter_valid(iterator) && *rocksdb_iter_key(iterator, &n) == 'a');
  rocksdb_iter_destroy(iterator);
  rocksdb_transaction_rollback_to_savepoint(txn, &error);
  OK(error);
  const char* keys[] = {"a", "b", "c"};
  const size_t lengths[] = {1, 1, 1};
  char* values[3];
  char* errors[3];
  size_t sizes[3];
  rocksdb_transaction_multi_get(txn, reading, 3, keys, lengths, values, sizes, errors);
  is(values[0], &sizes[0], "new");
  is(values[1], &sizes[1], "two");
  CHECK(values[2] == NULL && errors[0] == NULL && errors[2] == NULL);
  rocksdb_transaction_commit(txn, &error);
  OK(error);
  is(rocksdb_transactiondb_get(db, reading, "b", 1, &n, &error), &n, "two");
  rocksdb_transaction_put(txn, "x", 1, "y", 1, &error);
  FAILED(error, "Invalid argument: Transaction was committed");

  CHECK(rocksdb_transaction_begin(db, writing, how, txn) == txn);
  is(rocksdb_transaction_get_for_update(txn, reading, "b", 1, &n, 1, &error), &n, "two");
  rocksdb_transaction_put(txn, "p", 1, "q", 1, &error);
  OK(error);
  rocksdb_transaction_set_name(txn, "first", 5, &error);
  OK(error);
  is(rocksdb_transaction_get_name(txn, &n), &n, "first");
  rocksdb_transaction_prepare(txn, &error);
  OK(error);
  rocksdb_transaction_destroy(txn);
  rocksdb_transaction_t** prepared = rocksdb_transactiondb_get_prepared_transactions(db, &n);
  CHECK(n == 1);
  rocksdb_transaction_commit(prepared[0], &error);
  OK(error);
  rocksdb_transaction_destroy(prepared[0]);
  rocksdb_free(prepared);
  is(rocksdb_transactiondb_get(db, reading, "p", 1, &n, &error), &n, "q");

  /* A prepared transaction reads and writes on, also the keys that it locked before. */
  CHECK(rocksdb_transactiondb_get_prepared_transactions(db, &n) == NULL && n == 0);
  txn = rocksdb_transaction_begin(db, writing, how, NULL);
  is(rocksdb_transaction_get_for_update(txn, reading, "p", 1, &n, 1, &error), &n, "q");
  rocksdb_transaction_set_name(txn, "later", 5, &error);
  OK(error);
  rocksdb_transaction_prepare(txn, &error);
  OK(error);
  rocksdb_transaction_prepare(txn, &error);
  FAILED(error, "Invalid argument: Transaction has already been prepared.");
  rocksdb_transaction_put(txn, "p", 1, "r", 1, &error);
  OK(error);
  is(rocksdb_transaction_get(txn, reading, "p", 1, &n, &error), &n, "r");
  is(rocksdb_transactiondb_get(db, reading, "p", 1, &n, &error), &n, "q");
  rocksdb_transaction_commit(txn, &error);
  OK(error);
  is(rocksdb_transactiondb_get(db, reading, "p", 1, &n, &error), &n, "r");
  rocksdb_transaction_destroy(txn);
  txn = rocksdb_transaction_begin(db, writing, how, NULL);
  rocksdb_transaction_put(txn, "p", 1, "s", 1, &error);
  OK(error);
  rocksdb_transaction_set_name(txn, "undone", 6, &error);
  OK(error);
  rocksdb_transaction_prepare(txn, &error);
  OK(error);
  rocksdb_transaction_put(txn, "o", 1, "s", 1, &error);
  OK(error);
  rocksdb_transaction_rollback(txn, &error);
  OK(error);
  rocksdb_transactiondb_put(db, writing, "o", 1, "t", 1, &error);
  OK(error);
  is(rocksdb_transactiondb_get(db, reading, "p", 1, &n, &error), &n, "r");
  rocksdb_transaction_destroy(txn);
  rocksdb_t* base = rocksdb_transactiondb_get_base_db(db);
  is(rocksdb_get(base, reading, "p", 1, &n, &error), &n, "r");
  rocksdb_transactiondb_close_base_db(base);
  rocksdb_transactiondb_close(db);

  rocksdb_optimistictransactiondb_t* free_db =
      rocksdb_optimistictransactiondb_open(options, "free", &error);
  OK(error);
  rocksdb_optimistictransaction_options_t* none = rocksdb_optimistictransaction_options_create();
  txn = rocksdb_optimistictransaction_begin(free_db, writing, none, NULL);
  rocksdb_transaction_put(txn, "k", 1, "v", 1, &error);
  OK(error);
  base = rocksdb_optimistictransactiondb_get_base_db(free_db);
  rocksdb_put(base, writing, "k", 1, "w", 1, &error);
  OK(error);
  rocksdb_transaction_commit(txn, &error);
  CHECK(error != NULL && strstr(error, "busy") != NULL);
  rocksdb_free(error);
  error = NULL;
  /* It is as before, until it is rolled back. */
  rocksdb_transaction_commit(txn, &error);
  CHECK(error != NULL && strstr(error, "busy") != NULL);
  rocksdb_free(error);
  error = NULL;
  rocksdb_transaction_rollback(txn, &error);
  OK(error);
  rocksdb_transaction_put(txn, "k", 1, "u", 1, &error);
  OK(error);
  rocksdb_transaction_commit(txn, &error);
  OK(error);
  is(rocksdb_get(base, reading, "k", 1, &n, &error), &n, "u");
  rocksdb_transaction_destroy(txn);

  rocksdb_writebatch_wi_t* batch = rocksdb_writebatch_wi_create(0, 1);
  rocksdb_writebatch_wi_put(batch, "k", 1, "x", 1);
  rocksdb_writebatch_wi_delete(batch, "z", 1);
  CHECK(rocksdb_writebatch_wi_count(batch) == 2);
  is(rocksdb_writebatch_wi_get_from_batch(batch, options, "k", 1, &n, &error), &n, "x");
  is(rocksdb_writebatch_wi_get_from_batch_and_db(batch, base, reading, "k", 1, &n, &error), &n, "x");
  rocksdb_writebatch_wi_iterate(batch, NULL, on_put, on_delete);
  CHECK(puts_seen == 1 && deletes_seen == 1);
  rocksdb_writebatch_wi_set_save_point(batch);
  rocksdb_writebatch_wi_putv(batch, 3, keys, lengths, 2, keys, lengths);
  is(rocksdb_writebatch_wi_get_from_batch(batch, options, "abc", 3, &n, &error), &n, "ab");
  rocksdb_writebatch_wi_rollback_to_save_point(batch, &error);
  OK(error);
  is(rocksdb_writebatch_wi_get_from_batch(batch, options, "abc", 3, &n, &error), &n, NULL);
  rocksdb_write_writebatch_wi(base, writing, batch, &error);
  OK(error);
  is(rocksdb_get(base, reading, "k", 1, &n, &error), &n, "x");
  rocksdb_writebatch_wi_destroy(batch);
  /* The order of a batch of its own. */
  rocksdb_comparator_t* order = rocksdb_comparator_create(NULL, nothing, first_byte, order_name);
  batch = rocksdb_writebatch_wi_create_with_params(order, 0, 1, 0, 0);
  rocksdb_writebatch_wi_put(batch, "ka", 2, "x", 1);
  is(rocksdb_writebatch_wi_get_from_batch(batch, options, "kb", 2, &n, &error), &n, "x");
  is(rocksdb_writebatch_wi_get_from_batch(batch, options, "l", 1, &n, &error), &n, NULL);
  rocksdb_writebatch_wi_merge(batch, "kc", 2, "y", 1);
  CHECK(rocksdb_writebatch_wi_get_from_batch(batch, options, "ka", 2, &n, &error) == NULL);
  FAILED(error, "Merge in progress");
  rocksdb_writebatch_wi_destroy(batch);
  rocksdb_comparator_destroy(order);
  rocksdb_optimistictransactiondb_close_base_db(base);
  rocksdb_optimistictransactiondb_close(free_db);

  rocksdb_optimistictransaction_options_destroy(none);
  rocksdb_transaction_options_destroy(how);
  rocksdb_transactiondb_options_destroy(locking);
  rocksdb_readoptions_destroy(reading);
  rocksdb_writeoptions_destroy(writing);
  rocksdb_options_destroy(options);
  return 0;
}

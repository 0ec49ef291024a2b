/* Calls as bindings of other languages make them: in unusual orders, and of objects that others have. */
#include "plugins.h"

#include <pthread.h>

static char* error = NULL;

static rocksdb_options_t* new_options(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  return options;
}

/* Values that are refused can be read back; the open fails. */
static void refused_options(void) {
  rocksdb_options_t* options = new_options();
  rocksdb_options_set_inplace_update_support(options, 1);
  CHECK(rocksdb_options_get_inplace_update_support(options));
  CHECK(rocksdb_open(options, "refused", &error) == NULL);
  FAILED(error, "inplace_update_support");
  rocksdb_options_destroy(options);
}

static void* flush(void* db) {
  char* failure = NULL;
  rocksdb_flushoptions_t* flushing = rocksdb_flushoptions_create();
  rocksdb_flush(db, flushing, &failure);
  OK(failure);
  rocksdb_flushoptions_destroy(flushing);
  return NULL;
}

/* Background work is paused and goes on, as often as it was paused. */
static void pauses(rocksdb_t* db) {
  rocksdb_continue_background_work(db, &error);
  FAILED(error, "Invalid argument: Background work already unpaused");
  rocksdb_pause_background_work(db, &error);
  OK(error);
  rocksdb_pause_background_work(db, &error);
  OK(error);
  put(db, "paused", "yes", 3);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, flush, db) == 0);
  uint64_t waiting = 0;
  AWAIT(rocksdb_property_int(db, "rocksdb.num-immutable-mem-table", &waiting) == 0 && waiting == 1);
  rocksdb_wait_for_compact_options_t* wait = rocksdb_wait_for_compact_options_create();
  rocksdb_wait_for_compact_options_set_abort_on_pause(wait, 1);
  rocksdb_wait_for_compact(db, wait, &error);
  FAILED(error, "aborted");
  rocksdb_continue_background_work(db, &error);
  OK(error);
  rocksdb_property_int(db, "rocksdb.num-immutable-mem-table", &waiting);
  CHECK(waiting == 1);
  rocksdb_continue_background_work(db, &error);
  OK(error);
  CHECK(pthread_join(thread, NULL) == 0);
  rocksdb_property_int(db, "rocksdb.num-immutable-mem-table", &waiting);
  CHECK(waiting == 0 && has(db, "paused", "yes"));
  rocksdb_wait_for_compact(db, wait, &error);
  OK(error);
  rocksdb_wait_for_compact_options_destroy(wait);
}

/* An enabling of manual compactions that comes first reverts the next disabling. */
static void manual_compactions(rocksdb_t* db) {
  uint64_t tables = 0;
  rocksdb_enable_manual_compaction(db);
  rocksdb_disable_manual_compaction(db);
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  rocksdb_property_int(db, "rocksdb.num-files-at-level0", &tables);
  CHECK(tables == 0);
}

/* The value of a key that does not exist counts as found. */
static void absent_keys(rocksdb_t* db) {
  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  char* value = NULL;
  size_t length = 1;
  unsigned char found = 0;
  CHECK(!rocksdb_key_may_exist(db, reading, "absent", 6, &value, &length, NULL, 0, &found));
  CHECK(found && value != NULL && length == 0);
  rocksdb_free(value);
  rocksdb_readoptions_destroy(reading);
}

static unsigned char any_table(void* state, const rocksdb_table_properties_t* table) {
  (void)state;
  return rocksdb_table_properties_num_entries(table) > 0;
}

static void call_options(rocksdb_t* db) {
  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  CHECK(!rocksdb_readoptions_has_table_filter(reading));
  rocksdb_readoptions_set_table_filter(reading, NULL, NULL, any_table);
  CHECK(rocksdb_readoptions_has_table_filter(reading));
  rocksdb_readoptions_clear_table_filter(reading);
  CHECK(!rocksdb_readoptions_has_table_filter(reading));
  /* Timestamps have 8 bytes: reads with others fail, with and without timestamps in the keys. */
  size_t length = 0;
  rocksdb_readoptions_set_timestamp(reading, "abc", 3);
  CHECK(rocksdb_get(db, reading, "paused", 6, &length, &error) == NULL);
  FAILED(error, "Invalid argument");
  rocksdb_readoptions_set_timestamp(reading, NULL, 0);
  char* value = rocksdb_get(db, reading, "paused", 6, &length, &error);
  OK(error);
  CHECK(length == 3);
  rocksdb_free(value);
  rocksdb_readoptions_destroy(reading);
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  CHECK(rocksdb_writeoptions_get_io_activity(writing) == 0xff);
  rocksdb_writeoptions_set_io_activity(writing, 0);
  CHECK(rocksdb_writeoptions_get_io_activity(writing) == 0);
  rocksdb_writeoptions_destroy(writing);
}

static void batches(rocksdb_t* db) {
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create_with_params(100, 200, 10, 0);
  rocksdb_writebatch_put(batch, "batch", 5, "1", 1);
  rocksdb_write(db, writing, batch, &error);
  OK(error);
  CHECK(has(db, "batch", "1"));
  char large[300] = "";
  rocksdb_writebatch_put(batch, "large", 5, large, sizeof large);
  rocksdb_write(db, writing, batch, &error);
  FAILED(error, "too large");
  rocksdb_writebatch_destroy(batch);

  rocksdb_writebatch_wi_t* indexed = rocksdb_writebatch_wi_create_with_params(NULL, 10, 1, 0, 0);
  rocksdb_writebatch_wi_put(indexed, "indexed", 7, "2", 1);
  CHECK(rocksdb_writebatch_wi_count(indexed) == 1);
  rocksdb_write_writebatch_wi(db, writing, indexed, &error);
  OK(error);
  CHECK(has(db, "indexed", "2"));
  rocksdb_writebatch_wi_destroy(indexed);
  rocksdb_writeoptions_destroy(writing);
}

static size_t eight(void* state, uint32_t family) {
  (void)state;
  (void)family;
  return 8;
}

static size_t nine(void* state, uint32_t family) {
  (void)state;
  (void)family;
  return 9;
}

static size_t none(void* state, uint32_t family) {
  (void)state;
  (void)family;
  return 0;
}

static void timestamps_of_batches(void) {
  rocksdb_writebatch_wi_t* indexed = rocksdb_writebatch_wi_create(0, 1);
  rocksdb_writebatch_wi_update_timestamps(indexed, "12345678", 8, NULL, eight, &error);
  OK(error);
  rocksdb_writebatch_wi_put(indexed, "a", 1, "1", 1);
  rocksdb_writebatch_wi_update_timestamps(indexed, "12345678", 8, NULL, none, &error);
  OK(error);
  rocksdb_writebatch_wi_update_timestamps(indexed, "12345678", 8, NULL, nine, &error);
  FAILED(error, "have 9 bytes, not 8");
  rocksdb_writebatch_wi_destroy(indexed);
}

/* Backups may be in the directory of their database. */
static void backups(rocksdb_t* db, const char* path) {
  rocksdb_options_t* options = new_options();
  rocksdb_backup_engine_t* engine = rocksdb_backup_engine_open(options, path, &error);
  OK(error);
  rocksdb_backup_engine_create_new_backup(engine, db, &error);
  OK(error);
  rocksdb_restore_options_t* restoring = rocksdb_restore_options_create();
  rocksdb_backup_engine_restore_db_from_latest_backup(engine, "restored", "restored", restoring,
                                                      &error);
  OK(error);
  rocksdb_restore_options_destroy(restoring);
  rocksdb_backup_engine_close(engine);
  rocksdb_t* restored = rocksdb_open(options, "restored", &error);
  OK(error);
  CHECK(has(restored, "batch", "1"));
  rocksdb_close(restored);
  rocksdb_options_destroy(options);
}

static void caches(void) {
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(8 << 20);
  rocksdb_options_t* options = new_options();
  rocksdb_block_based_table_options_t* tables = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_block_cache(tables, cache);
  rocksdb_options_set_block_based_table_factory(options, tables);
  rocksdb_write_buffer_manager_t* buffers =
      rocksdb_write_buffer_manager_create_with_cache(1 << 20, cache, false);
  rocksdb_options_set_write_buffer_manager(options, buffers);
  CHECK(rocksdb_cache_get_occupancy_count(cache) == 0);
  CHECK(rocksdb_write_buffer_manager_dummy_entries_in_cache_usage(buffers) == 0);
  rocksdb_t* db = rocksdb_open(options, "caches", &error);
  OK(error);
  put(db, "a", "1", 1);
  flush(db);
  CHECK(has(db, "a", "1"));
  CHECK(rocksdb_cache_get_occupancy_count(cache) > 0);
  CHECK(rocksdb_cache_get_table_address_count(cache) >= rocksdb_cache_get_occupancy_count(cache));
  CHECK(rocksdb_write_buffer_manager_dummy_entries_in_cache_usage(buffers) % (256 << 10) == 0);
  CHECK(rocksdb_write_buffer_manager_dummy_entries_in_cache_usage(buffers) >=
        rocksdb_write_buffer_manager_memory_usage(buffers));
  rocksdb_close(db);
  rocksdb_write_buffer_manager_destroy(buffers);
  rocksdb_block_based_options_destroy(tables);
  rocksdb_options_destroy(options);
  rocksdb_cache_destroy(cache);
}

/* The operations of a transaction as a batch, and those that follow an empty prepare. */
static void transactions(void) {
  rocksdb_options_t* options = new_options();
  rocksdb_transactiondb_options_t* database = rocksdb_transactiondb_options_create();
  rocksdb_transactiondb_t* db = rocksdb_transactiondb_open(options, database, "pairs", &error);
  OK(error);
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  rocksdb_transaction_options_t* how = rocksdb_transaction_options_create();
  rocksdb_transaction_t* open = rocksdb_transaction_begin(db, writing, how, NULL);
  rocksdb_transaction_put(open, "a", 1, "1", 1, &error);
  OK(error);
  rocksdb_writebatch_wi_t* batch = rocksdb_transaction_get_writebatch_wi(open);
  CHECK(rocksdb_writebatch_wi_count(batch) == 1);
  rocksdb_writebatch_wi_put(batch, "b", 1, "2", 1);
  size_t length = 0;
  char* value = rocksdb_transaction_get(open, reading, "b", 1, &length, &error);
  OK(error);
  CHECK(value != NULL && length == 1 && value[0] == '2');
  rocksdb_free(value);
  rocksdb_transaction_commit(open, &error);
  OK(error);
  CHECK(rocksdb_writebatch_wi_count(batch) == 0);
  rocksdb_writebatch_wi_destroy(batch);
  rocksdb_transaction_destroy(open);

  rocksdb_transaction_t* prepared = rocksdb_transaction_begin(db, writing, how, NULL);
  rocksdb_transaction_set_name(prepared, "name", 4, &error);
  OK(error);
  rocksdb_transaction_prepare(prepared, &error);
  OK(error);
  rocksdb_transaction_prepare(prepared, &error);
  FAILED(error, "already been prepared");
  rocksdb_transaction_delete(prepared, "a", 1, &error);
  OK(error);
  rocksdb_transaction_put(prepared, "c", 1, "3", 1, &error);
  OK(error);
  /* Its keys are locked. */
  rocksdb_transactiondb_put(db, writing, "a", 1, "4", 1, &error);
  FAILED(error, "Timeout");
  rocksdb_transaction_commit(prepared, &error);
  OK(error);
  rocksdb_transaction_destroy(prepared);
  rocksdb_transactiondb_close(db);

  /* The log has them. */
  db = rocksdb_transactiondb_open(options, database, "pairs", &error);
  OK(error);
  CHECK(rocksdb_transactiondb_get(db, reading, "a", 1, &length, &error) == NULL);
  OK(error);
  value = rocksdb_transactiondb_get(db, reading, "c", 1, &length, &error);
  OK(error);
  CHECK(value != NULL && length == 1 && value[0] == '3');
  rocksdb_free(value);

  /* A rollback drops them. */
  prepared = rocksdb_transaction_begin(db, writing, how, NULL);
  rocksdb_transaction_set_name(prepared, "name", 4, &error);
  OK(error);
  rocksdb_transaction_prepare(prepared, &error);
  OK(error);
  rocksdb_transaction_put(prepared, "d", 1, "5", 1, &error);
  OK(error);
  rocksdb_transaction_rollback(prepared, &error);
  OK(error);
  rocksdb_transaction_destroy(prepared);
  rocksdb_transactiondb_put(db, writing, "d", 1, "6", 1, &error);
  OK(error);
  rocksdb_transactiondb_close(db);
  rocksdb_transaction_options_destroy(how);
  rocksdb_transactiondb_options_destroy(database);
  rocksdb_readoptions_destroy(reading);
  rocksdb_writeoptions_destroy(writing);
  rocksdb_options_destroy(options);
}

int main(void) {
  refused_options();
  rocksdb_options_t* options = new_options();
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  OK(error);
  rocksdb_options_destroy(options);
  pauses(db);
  manual_compactions(db);
  absent_keys(db);
  call_options(db);
  batches(db);
  timestamps_of_batches();
  backups(db, "db");
  rocksdb_close(db);
  caches();
  transactions();
  return 0;
}

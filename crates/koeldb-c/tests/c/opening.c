/* Ways to open a database: secondary, read-only beside a log, families with times to live. */
#include "check.h"

static size_t no_timestamps(void* state, uint32_t family) {
  CHECK(family == 0);
  ++*(int*)state;
  return 0;
}

int main(void) {
  char* error = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  OK(error);
  rocksdb_put(db, writing, "k", 1, "v", 1, &error);
  OK(error);

  rocksdb_t* second = rocksdb_open_as_secondary(options, "db", "second", &error);
  OK(error);
  size_t length = 0;
  char* value = rocksdb_get(second, reading, "k", 1, &length, &error);
  CHECK(length == 1 && value[0] == 'v');
  rocksdb_free(value);
  rocksdb_put(db, writing, "l", 1, "w", 1, &error);
  rocksdb_try_catch_up_with_primary(second, &error);
  OK(error);
  value = rocksdb_get(second, reading, "l", 1, &length, &error);
  CHECK(length == 1 && value[0] == 'w');
  rocksdb_free(value);
  rocksdb_close(second);
  const char* names[] = {"default"};
  const rocksdb_options_t* kinds[] = {options};
  rocksdb_column_family_handle_t* family = NULL;
  second = rocksdb_open_as_secondary_column_families(options, "db", "second", 1, names, kinds, &family, &error);
  OK(error);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_close(second);

  CHECK(rocksdb_open_for_read_only(options, "db", 1, &error) == NULL);
  FAILED(error, "error_if_wal_file_exists");
  second = rocksdb_open_for_read_only_column_families(options, "db", 1, names, kinds, &family, 0, &error);
  OK(error);
  value = rocksdb_get_cf(second, reading, family, "k", 1, &length, &error);
  CHECK(length == 1 && value[0] == 'v');
  rocksdb_free(value);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_close(second);
  const char* others[] = {"default", "other"};
  const rocksdb_options_t* two[] = {options, options};
  rocksdb_column_family_handle_t* handles[2];
  CHECK(rocksdb_open_for_read_only_column_families(options, "db", 2, others, two, handles, 0, &error) == NULL);
  FAILED(error, "Column family not found");

  char* values[1];
  size_t lengths[1];
  char* times[1];
  size_t time_lengths[1];
  char* errors[1];
  const char* keys[] = {"k"};
  const size_t key_lengths[] = {1};
  rocksdb_multi_get_with_ts(db, reading, 1, keys, key_lengths, values, lengths, times, time_lengths, errors);
  CHECK(errors[0] == NULL && lengths[0] == 1 && time_lengths[0] == 0);
  rocksdb_free(values[0]);
  rocksdb_free(times[0]);
  value = rocksdb_get_with_ts(db, reading, "absent", 6, lengths, times, time_lengths, &error);
  CHECK(value == NULL && error == NULL && lengths[0] == 0);
  rocksdb_put_with_ts(db, writing, "k", 1, "short", 5, "v", 1, &error);
  FAILED(error, "Invalid argument");
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "k", 1, "v", 1);
  int asked = 0;
  rocksdb_writebatch_update_timestamps(batch, "12345678", 8, &asked, no_timestamps, &error);
  OK(error);
  CHECK(asked == 1);
  rocksdb_writebatch_destroy(batch);
  rocksdb_close(db);

  const int ttls[] = {10};
  db = rocksdb_open_column_families_with_ttl(options, "ttl", 1, names, kinds, &family, ttls, &error);
  OK(error);
  rocksdb_put_cf(db, writing, family, "k", 1, "v", 1, &error);
  OK(error);
  rocksdb_iterator_t* iterator = rocksdb_create_iterator_cf(db, reading, family);
  rocksdb_iter_seek_to_last(iterator);
  CHECK(rocksdb_iter_value_slice(iterator).size == 1);
  rocksdb_iter_destroy(iterator);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_pause_background_work(db, &error);
  OK(error);
  rocksdb_continue_background_work(db, &error);
  OK(error);
  rocksdb_continue_background_work(db, &error);
  FAILED(error, "Background work already unpaused");
  rocksdb_end_trace(db, &error);
  FAILED(error, "Not implemented");
  rocksdb_close(db);
  rocksdb_readoptions_destroy(reading);
  rocksdb_writeoptions_destroy(writing);
  rocksdb_options_destroy(options);
  return 0;
}

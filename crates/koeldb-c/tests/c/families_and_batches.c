/* Column families, batches, multi-gets, pinned values, buffers, snapshots. */
#include "check.h"

static void put_counts(void* state, const char* key, size_t key_length, const char* value, size_t length) {
  (void)key;
  (void)value;
  CHECK(key_length > 0);
  CHECK(length > 0);
  ++*(int*)state;
}

static void delete_counts(void* state, const char* key, size_t key_length) {
  CHECK(memcmp(key, "gone", key_length) == 0);
  *(int*)state += 10;
}

static void data_counts(void* state, const char* data, size_t length) {
  CHECK(length == 4 && memcmp(data, "note", 4) == 0);
  *(int*)state += 100;
}

static void put_cf_counts(void* state, uint32_t family, const char* key, size_t key_length, const char* value,
                          size_t length) {
  (void)key;
  (void)key_length;
  (void)value;
  (void)length;
  *(int*)state += family == 0 ? 1 : 1000;
}

static void delete_cf_counts(void* state, uint32_t family, const char* key, size_t key_length) {
  (void)family;
  delete_counts(state, key, key_length);
}

int main(void) {
  char* error = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  OK(error);
  rocksdb_column_family_handle_t* birds = rocksdb_create_column_family(db, options, "birds", &error);
  OK(error);
  const char* names[] = {"trees", "rocks"};
  size_t count = 0;
  rocksdb_column_family_handle_t** more =
      rocksdb_create_column_families(db, options, 2, names, &count, &error);
  OK(error);
  CHECK(count == 2);
  rocksdb_drop_column_family(db, more[1], &error);
  OK(error);
  CHECK(rocksdb_column_family_handle_get_id(birds) == 1);
  size_t length = 0;
  char* name = rocksdb_column_family_handle_get_name(more[0], &length);
  CHECK(length == 5 && memcmp(name, "trees", 5) == 0);
  rocksdb_free(name);
  rocksdb_column_family_handle_destroy(more[0]);
  rocksdb_column_family_handle_destroy(more[1]);
  rocksdb_create_column_families_destroy(more);
  CHECK(rocksdb_create_column_family(db, options, "birds", &error) == NULL);
  FAILED(error, "Invalid argument");
  rocksdb_column_family_handle_destroy(birds);
  rocksdb_close(db);

  char** list = rocksdb_list_column_families(options, "db", &count, &error);
  OK(error);
  CHECK(count == 3 && strcmp(list[0], "default") == 0);
  rocksdb_list_column_families_destroy(list, count);
  CHECK(rocksdb_list_column_families(options, "absent", &count, &error) == NULL);
  CHECK(count == 0 && error != NULL);
  rocksdb_free(error);
  error = NULL;

  const char* all[] = {"birds", "default", "trees"};
  const rocksdb_options_t* kinds[] = {options, options, options};
  rocksdb_column_family_handle_t* families[3];
  CHECK(rocksdb_open_column_families(options, "db", 1, all, kinds, families, &error) == NULL);
  FAILED(error, "Default column family not specified");
  db = rocksdb_open_column_families(options, "db", 3, all, kinds, families, &error);
  OK(error);
  birds = families[0];

  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "a", 1, "1", 1);
  rocksdb_writebatch_put_log_data(batch, "note", 4);
  rocksdb_writebatch_delete(batch, "gone", 4);
  int seen = 0;
  rocksdb_writebatch_iterate_ld(batch, &seen, put_counts, delete_counts, data_counts);
  CHECK(seen == 111);
  seen = 0;
  rocksdb_writebatch_iterate(batch, &seen, put_counts, delete_counts);
  CHECK(seen == 11);
  const char* parts[] = {"k", "oe", "l"};
  const size_t part_lengths[] = {1, 2, 1};
  rocksdb_writebatch_putv_cf(batch, birds, 3, parts, part_lengths, 2, parts, part_lengths);
  seen = 0;
  rocksdb_writebatch_iterate_cf(batch, &seen, put_cf_counts, delete_cf_counts, put_cf_counts);
  CHECK(seen == 1011);
  rocksdb_writebatch_set_save_point(batch);
  rocksdb_writebatch_put_cf(batch, birds, "not", 3, "there", 5);
  rocksdb_writebatch_rollback_to_save_point(batch, &error);
  OK(error);
  rocksdb_writebatch_rollback_to_save_point(batch, &error);
  FAILED(error, "NotFound");
  rocksdb_writebatch_verify_checksum(batch, &error);
  OK(error);
  CHECK(rocksdb_writebatch_count(batch) == 3);
  const char* data = rocksdb_writebatch_data(batch, &length);
  rocksdb_writebatch_t* copy = rocksdb_writebatch_create_from(data, length);
  rocksdb_write(db, writing, copy, &error);
  OK(error);
  rocksdb_writebatch_destroy(copy);
  copy = rocksdb_writebatch_create_from("nonsense", 8);
  rocksdb_write(db, writing, copy, &error);
  FAILED(error, "Invalid argument: batch is null");
  rocksdb_writebatch_clear(batch);
  rocksdb_writebatch_put_cf(batch, birds, "moa", 3, "m", 1);
  rocksdb_writebatch_put_cf(batch, birds, "mob", 3, "m", 1);
  rocksdb_writebatch_delete_range_cf(batch, birds, "mob", 3, "moc", 3);
  rocksdb_write(db, writing, batch, &error);
  OK(error);
  rocksdb_writebatch_destroy(batch);
  batch = rocksdb_writebatch_create_with_params(0, 0, 8, 0);
  rocksdb_writebatch_put(batch, "b", 1, "2", 1);
  rocksdb_write(db, writing, batch, &error);
  OK(error);
  rocksdb_writebatch_destroy(batch);

  const rocksdb_column_family_handle_t* of_keys[] = {birds, families[1], birds, families[2]};
  const char* keys[] = {"koel", "a", "mob", "koel"};
  const size_t key_lengths[] = {4, 1, 3, 4};
  char* values[4];
  size_t lengths[4];
  char* errors[4];
  rocksdb_multi_get_cf(db, reading, of_keys, 4, keys, key_lengths, values, lengths, errors);
  for (int i = 0; i < 4; ++i) CHECK(errors[i] == NULL);
  CHECK(lengths[0] == 3 && memcmp(values[0], "koe", 3) == 0);
  CHECK(lengths[1] == 1 && values[1][0] == '1');
  CHECK(values[2] == NULL && values[3] == NULL && lengths[3] == 0);
  rocksdb_free(values[0]);
  rocksdb_free(values[1]);
  rocksdb_multi_get(db, reading, 2, keys, key_lengths, values, lengths, errors);
  CHECK(values[0] == NULL && values[1][0] == '1' && errors[0] == NULL && errors[1] == NULL);
  rocksdb_free(values[1]);
  rocksdb_multi_get(db, NULL, 2, keys, key_lengths, values, lengths, errors);
  CHECK(values[1] == NULL && strstr(errors[1], "options is null") != NULL);
  rocksdb_free(errors[0]);
  rocksdb_free(errors[1]);

  rocksdb_pinnableslice_t* pinned[2];
  rocksdb_batched_multi_get_cf(db, reading, birds, 2, keys, key_lengths, pinned, errors, false);
  CHECK(errors[0] == NULL && errors[1] == NULL && pinned[1] == NULL);
  data = rocksdb_pinnableslice_value(pinned[0], &length);
  CHECK(length == 3 && memcmp(data, "koe", 3) == 0);
  rocksdb_pinnableslice_destroy(pinned[0]);
  CHECK(rocksdb_pinnableslice_value(NULL, &length) == NULL && length == 0);
  rocksdb_slice_t slices[2] = {{"moa", 3}, {"none", 4}};
  rocksdb_pinnable_multi_get_t* answers =
      rocksdb_batched_multi_get_pinned_cf(db, reading, birds, 2, slices, 0);
  const char* text;
  size_t text_length;
  CHECK(rocksdb_pinnable_multi_get_count(answers) == 2);
  CHECK(rocksdb_pinnable_multi_get_result(answers, 0, &data, &length, &text, &text_length) ==
        rocksdb_pinnable_multi_get_found);
  CHECK(length == 1 && data[0] == 'm' && text == NULL);
  CHECK(rocksdb_pinnable_multi_get_result(answers, 1, &data, &length, &text, &text_length) ==
        rocksdb_pinnable_multi_get_not_found);
  CHECK(rocksdb_pinnable_multi_get_result(answers, 2, &data, &length, &text, &text_length) ==
        rocksdb_pinnable_multi_get_out_of_bounds);
  rocksdb_pinnable_multi_get_destroy(answers);

  char buffer[2];
  unsigned char found = 9;
  CHECK(rocksdb_get_into_buffer_cf(db, reading, birds, "koel", 4, buffer, 2, &length, &found, &error) == 0);
  CHECK(found == 1 && length == 3);
  CHECK(rocksdb_get_into_buffer(db, reading, "a", 1, buffer, 2, &length, &found, &error) == 1);
  CHECK(found == 1 && length == 1 && buffer[0] == '1');
  CHECK(rocksdb_get_into_buffer(db, reading, "x", 1, buffer, 2, &length, &found, &error) == 0);
  CHECK(found == 0 && length == 0);
  OK(error);
  char* value = NULL;
  CHECK(rocksdb_key_may_exist(db, reading, "a", 1, &value, &length, NULL, 0, &found) == 1);
  CHECK(found == 1 && length == 1 && value[0] == '1');
  rocksdb_free(value);
  CHECK(rocksdb_key_may_exist(db, reading, "zz", 2, &value, &length, NULL, 0, NULL) == 0);

  const rocksdb_snapshot_t* snapshot = rocksdb_create_snapshot(db);
  CHECK(rocksdb_snapshot_get_sequence_number(snapshot) == rocksdb_get_latest_sequence_number(db));
  rocksdb_release_snapshot(db, snapshot);
  rocksdb_column_family_handle_t* first = rocksdb_get_default_column_family_handle(db);
  rocksdb_delete_range_cf(db, writing, first, "a", 1, "b", 1, &error);
  OK(error);
  CHECK(rocksdb_get_pinned_cf(db, reading, first, "a", 1, &error) == NULL);
  OK(error);
  rocksdb_pinnable_handle_t* owner = rocksdb_get_pinned_v2(db, reading, "b", 1, &error);
  data = rocksdb_pinnable_handle_get_value(owner, &length);
  CHECK(length == 1 && data[0] == '2');
  rocksdb_pinnable_handle_destroy(owner);
  rocksdb_column_family_handle_destroy(first);
  rocksdb_singledelete(db, writing, "b", 1, &error);
  OK(error);
  rocksdb_delete_cf(db, writing, birds, "moa", 3, &error);
  OK(error);
  value = rocksdb_get_cf(db, reading, birds, "moa", 3, &length, &error);
  CHECK(value == NULL && error == NULL);

  rocksdb_close(db);
  /* Handles outlive the database. */
  rocksdb_put_cf(NULL, writing, birds, "k", 1, "v", 1, &error);
  FAILED(error, "db is null");
  for (int i = 0; i < 3; ++i) rocksdb_column_family_handle_destroy(families[i]);

  db = rocksdb_open_for_read_only(options, "db", 0, &error);
  OK(error);
  rocksdb_put(db, writing, "k", 1, "v", 1, &error);
  FAILED(error, "Not implemented");
  rocksdb_close(db);
  rocksdb_destroy_db(options, "db", &error);
  OK(error);
  rocksdb_readoptions_destroy(reading);
  rocksdb_writeoptions_destroy(writing);
  rocksdb_options_destroy(options);
  return 0;
}

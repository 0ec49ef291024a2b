/* Listeners of flushes, compactions and memtables; filters of the log are refused. */
#include "plugins.h"

static int flushes = 0, begun = 0, compactions = 0, parts = 0, sealed = 0;

static int is(const char* text, size_t length, const char* expected) {
  return length == strlen(expected) && memcmp(text, expected, length) == 0 && text[length] == 0;
}

static void on_flush_begin(void* state, rocksdb_t* db, const rocksdb_flushjobinfo_t* info) {
  (void)db;
  size_t length = 0;
  CHECK(state == &flushes);
  const char* name = rocksdb_flushjobinfo_cf_name(info, &length);
  CHECK(is(name, length, "default"));
  CHECK(rocksdb_flushjobinfo_thread_id(info) != 0);
}

static void on_flush(void* state, rocksdb_t* db, const rocksdb_flushjobinfo_t* info) {
  (void)state;
  (void)db;
  size_t length = 0;
  const char* path = rocksdb_flushjobinfo_file_path(info, &length);
  CHECK(path[0] == '/' || strchr(path, '/') != NULL);
  FILE* table = fopen(path, "r");
  CHECK(table != NULL);
  fclose(table);
  CHECK(rocksdb_flushjobinfo_file_number(info) > 0);
  CHECK(rocksdb_flushjobinfo_job_id(info) > 0);
  CHECK(rocksdb_flushjobinfo_cf_id(info) == 0);
  CHECK(rocksdb_flushjobinfo_smallest_seqno(info) <= rocksdb_flushjobinfo_largest_seqno(info));
  CHECK(rocksdb_flushjobinfo_flush_reason(info) == 6);
  const rocksdb_table_properties_t* properties = rocksdb_flushjobinfo_table_properties(info);
  CHECK(properties != NULL);
  CHECK(rocksdb_table_properties_num_entries(properties) > 0);
  CHECK(rocksdb_table_properties_num_deletions(properties) == 0);
  CHECK(rocksdb_table_properties_has_key_largest_seqno(properties));
  CHECK(rocksdb_table_properties_key_smallest_seqno(properties) ==
        rocksdb_flushjobinfo_smallest_seqno(info));
  const char* name = rocksdb_table_properties_column_family_name(properties, &length);
  CHECK(is(name, length, "default"));
  name = rocksdb_table_properties_comparator_name(properties, &length);
  CHECK(is(name, length, "leveldb.BytewiseComparator"));
  rocksdb_table_properties_db_id(properties, &length);
  CHECK(length > 0);
  rocksdb_table_properties_db_session_id(properties, &length);
  CHECK(length > 0);
  __sync_fetch_and_add(&flushes, 1);
}

static void on_compaction_begin(void* state, rocksdb_t* db,
                                const rocksdb_compactionjobinfo_t* info) {
  (void)state;
  (void)db;
  CHECK(rocksdb_compactionjobinfo_input_files_count(info) > 0);
  CHECK(rocksdb_compactionjobinfo_output_files_count(info) == 0);
  CHECK(rocksdb_compactionjobinfo_compaction_reason(info) > 0);
  __sync_fetch_and_add(&begun, 1);
}

static void on_compaction(void* state, rocksdb_t* db, const rocksdb_compactionjobinfo_t* info) {
  (void)state;
  (void)db;
  char* error = NULL;
  size_t length = 0;
  rocksdb_compactionjobinfo_status(info, &error);
  if (error != NULL) {
    /* The database is being closed. */
    FAILED(error, "aborted");
    return;
  }
  const char* name = rocksdb_compactionjobinfo_cf_name(info, &length);
  CHECK(is(name, length, "default"));
  size_t inputs = rocksdb_compactionjobinfo_input_files_count(info);
  size_t outputs = rocksdb_compactionjobinfo_output_files_count(info);
  CHECK(inputs > 0 && inputs == rocksdb_compactionjobinfo_input_file_infos_count(info));
  CHECK(outputs == rocksdb_compactionjobinfo_output_file_infos_count(info));
  const rocksdb_compaction_job_stats_t* stats = rocksdb_compactionjobinfo_stats(info);
  CHECK(rocksdb_compaction_job_stats_num_input_files(stats) == inputs);
  CHECK(rocksdb_compaction_job_stats_num_output_files(stats) == outputs);
  CHECK(!rocksdb_compaction_job_stats_is_manual_compaction(stats));
  const rocksdb_compaction_file_info_t* file = rocksdb_compactionjobinfo_input_file_info_at(info, 0);
  CHECK(rocksdb_compaction_file_info_file_number(file) > 0);
  CHECK(rocksdb_compaction_file_info_level(file) ==
        rocksdb_compactionjobinfo_base_input_level(info));
  CHECK(rocksdb_compactionjobinfo_input_file_info_at(info, inputs) == NULL);
  CHECK(strstr(rocksdb_compactionjobinfo_input_file_at(info, 0, &length), ".sst") != NULL);
  CHECK(rocksdb_compactionjobinfo_input_file_at(info, inputs, &length) == NULL);
  if (rocksdb_compactionjobinfo_table_properties_count(info) > 0) {
    const char* path = rocksdb_compactionjobinfo_output_file_at(info, 0, &length);
    const rocksdb_table_properties_t* properties =
        rocksdb_compactionjobinfo_table_properties_for_file(info, path, length);
    CHECK(properties != NULL);
    size_t last = rocksdb_compactionjobinfo_table_properties_count(info) - outputs;
    CHECK(properties == rocksdb_compactionjobinfo_table_properties_value_at(info, last));
    CHECK(rocksdb_table_properties_num_entries(properties) > 0);
    CHECK(rocksdb_compactionjobinfo_output_records(info) > 0);
    CHECK(rocksdb_compactionjobinfo_output_records(info) ==
          rocksdb_compaction_job_stats_num_output_records(stats));
    FILE* table = fopen(path, "r");
    CHECK(table != NULL);
    fclose(table);
    __sync_fetch_and_add(&compactions, 1);
  }
}

static void on_part(void* state, const rocksdb_subcompactionjobinfo_t* info) {
  (void)state;
  CHECK(rocksdb_subcompactionjobinfo_job_id(info) > 0);
  CHECK(rocksdb_subcompactionjobinfo_subcompaction_job_id(info) >= 0);
  __sync_fetch_and_add(&parts, 1);
}

static void on_sealed(void* state, const rocksdb_memtableinfo_t* info) {
  (void)state;
  CHECK(rocksdb_memtableinfo_num_entries(info) > 0);
  CHECK(rocksdb_memtableinfo_num_deletes(info) == 0);
  __sync_fetch_and_add(&sealed, 1);
}

static void on_stall(void* state, const rocksdb_writestallinfo_t* info) {
  (void)state;
  CHECK(rocksdb_writestallinfo_cur(info) != NULL);
  CHECK(rocksdb_writestallinfo_prev(info) != NULL);
}

static const char* name(void* state) {
  (void)state;
  return "filter";
}

int main(void) {
  char* error = NULL;
  rocksdb_options_t* options = small_options();
  rocksdb_options_add_eventlistener(
      options, rocksdb_eventlistener_create(&flushes, destroy, on_flush_begin, on_flush,
                                            on_compaction_begin, on_compaction, on_part, on_part,
                                            NULL, NULL, on_stall, on_sealed));
  rocksdb_options_add_eventlistener(
      options, rocksdb_eventlistener_create(NULL, destroy, NULL, NULL, NULL, NULL, NULL, NULL,
                                            NULL, NULL, NULL, NULL));
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  OK(error);
  rocksdb_options_destroy(options);
  fill(db);
  AWAIT(flushes > 2 && compactions > 0 && parts > 0 && sealed > 2);
  CHECK(begun > 0);
  rocksdb_close(db);
  AWAIT(destroyed == 2);

  rocksdb_compactionjobinfo_t* info = rocksdb_compactionjobinfo_create();
  CHECK(rocksdb_compactionjobinfo_input_files_count(info) == 0);
  rocksdb_compactionjobinfo_destroy(info);

  options = small_options();
  rocksdb_walfilter_t* filter = rocksdb_walfilter_create(NULL, destroy, NULL, NULL, name);
  rocksdb_options_set_wal_filter(options, NULL);
  rocksdb_options_clear_wal_filter(options);
  db = rocksdb_open(options, "filtered", &error);
  OK(error);
  rocksdb_close(db);
  rocksdb_options_set_wal_filter(options, filter);
  CHECK(rocksdb_open(options, "filtered", &error) == NULL);
  FAILED(error, "Not implemented: filters of the write-ahead log");
  rocksdb_walfilter_destroy(filter);
  CHECK(destroyed == 3);
  rocksdb_options_destroy(options);
  return 0;
}

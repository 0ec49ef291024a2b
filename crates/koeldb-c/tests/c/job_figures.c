/* The figures that listeners read of memtables, flushes, compactions and ingestions. The numbers are
 * those of RocksDB for the same steps. */
#include "check.h"

static int has_blobs = 0, sealed = 0, flushed = 0, compacted = 0, parts = 0, ingested = 0;

#define TABLE(name, value) CHECK(rocksdb_table_properties_##name(table) == (value))
#define STATS(name, value) CHECK(rocksdb_compaction_job_stats_##name(stats) == (value))

static int is(const char* text, size_t length, const char* expected) {
  return length == strlen(expected) && memcmp(text, expected, length) == 0 && text[length] == 0;
}

#define TEXT(name, expected)                                                \
  do {                                                                      \
    size_t length = 0;                                                      \
    const char* text = rocksdb_table_properties_##name(table, &length);     \
    CHECK(is(text, length, expected));                                      \
  } while (0)

/* The value of a user-collected property; null without it. */
static const char* user_property(const rocksdb_table_properties_t* table, const char* name,
                                 size_t* length) {
  size_t count = rocksdb_table_properties_user_collected_properties_count(table);
  for (size_t at = 0; at < count; at++) {
    size_t key_length = 0;
    const char* key =
        rocksdb_table_properties_user_collected_properties_key_at(table, at, &key_length);
    if (is(key, key_length, name)) {
      return rocksdb_table_properties_user_collected_properties_value_at(table, at, length);
    }
  }
  return NULL;
}

static void on_sealed(void* state, const rocksdb_memtableinfo_t* info) {
  (void)state;
  size_t length = 1;
  int first = sealed++ == 0;
  CHECK(rocksdb_memtableinfo_first_seqno(info) == (first ? 1u : 1001u));
  CHECK(rocksdb_memtableinfo_earliest_seqno(info) == (first ? 0u : 1000u));
  CHECK(rocksdb_memtableinfo_num_entries(info) == (first ? 1000u : 428u));
  CHECK(rocksdb_memtableinfo_num_deletes(info) == (first ? 0u : 127u));
  rocksdb_memtableinfo_newest_udt(info, &length);
  CHECK(length == 0);
}

static void check_blob(const rocksdb_blob_file_addition_info_t* info, uint64_t count,
                       uint64_t bytes) {
  size_t length = 0;
  const char* path = rocksdb_blob_file_addition_info_blob_file_path(info, &length);
  CHECK(strstr(path, ".blob") != NULL && strlen(path) == length);
  CHECK(rocksdb_blob_file_addition_info_blob_file_number(info) > 0);
  CHECK(rocksdb_blob_file_addition_info_total_blob_count(info) == count);
  CHECK(rocksdb_blob_file_addition_info_total_blob_bytes(info) == bytes);
}

static void on_flush(void* state, rocksdb_t* db, const rocksdb_flushjobinfo_t* info) {
  (void)state;
  (void)db;
  int first = flushed++ == 0;
  const rocksdb_table_properties_t* table = rocksdb_flushjobinfo_table_properties(info);
  CHECK(table != NULL);
  TABLE(orig_file_number, rocksdb_flushjobinfo_file_number(info));
  TABLE(num_entries, first ? 1000u : 427u);
  TABLE(num_filter_entries, first ? 1000u : 426u);
  TABLE(num_deletions, first ? 0u : 127u);
  TABLE(num_range_deletions, first ? 0u : 1u);
  TABLE(num_merge_operands, 0u);
  TABLE(raw_key_size, first ? 17000u : 7259u);
  TABLE(key_smallest_seqno, rocksdb_flushjobinfo_smallest_seqno(info));
  TABLE(key_largest_seqno, rocksdb_flushjobinfo_largest_seqno(info));
  CHECK(rocksdb_table_properties_has_key_smallest_seqno(table));
  TABLE(index_key_is_user_key, 1u);
  TABLE(index_value_is_delta_encoded, 1u);
  TABLE(udi_is_primary_index, 0u);
  TABLE(index_partitions, 0u);
  TABLE(top_level_index_size, 0u);
  TABLE(format_version, 7u);
  TABLE(fixed_key_len, 0u);
  TABLE(column_family_id, 0u);
  TABLE(user_defined_timestamps_persisted, 1u);
  TABLE(data_block_restart_interval, 16u);
  TABLE(index_block_restart_interval, 1u);
  TABLE(separate_key_value_in_data_block, 0u);
  TABLE(num_data_blocks_compression_rejected, 0u);
  TABLE(num_data_blocks_compression_bypassed, rocksdb_table_properties_num_data_blocks(table));
  TABLE(num_uniform_blocks, 0u);
  TABLE(external_sst_file_global_seqno_offset, 0u);
  TABLE(tail_start_offset, rocksdb_table_properties_data_size(table));
  TABLE(slow_compression_estimated_data_size, 0u);
  TABLE(fast_compression_estimated_data_size, 0u);
  CHECK(rocksdb_table_properties_creation_time(table) > 0);
  CHECK(rocksdb_table_properties_oldest_key_time(table) > 0);
  CHECK(rocksdb_table_properties_newest_key_time(table) > 0);
  CHECK(rocksdb_table_properties_file_creation_time(table) > 0);
  TEXT(filter_policy_name, "bloomfilter");
  TEXT(merge_operator_name, "nullptr");
  TEXT(prefix_extractor_name, "nullptr");
  TEXT(property_collectors_names, "[]");
  TEXT(compression_name, ";;");
  TEXT(seqno_to_time_mapping, "");
  size_t length = 0;
  const char* options = rocksdb_table_properties_compression_options(table, &length);
  CHECK(strstr(options, "max_compressed_bytes_per_kb=896") != NULL);
  rocksdb_table_properties_db_host_id(table, &length);
  CHECK(length > 0);
  const char* value = user_property(table, "rocksdb.block.based.table.index.type", &length);
  CHECK(value != NULL && length == 4 && memcmp(value, "\0\0\0\0", 4) == 0);
  CHECK(rocksdb_table_properties_readable_properties_count(table) == 0);
  size_t count = rocksdb_table_properties_user_collected_properties_count(table);
  CHECK(rocksdb_table_properties_user_collected_properties_key_at(table, count, &length) == NULL);
  size_t blobs = rocksdb_flushjobinfo_blob_file_addition_infos_count(info);
  CHECK(rocksdb_flushjobinfo_blob_compression_type(info) == rocksdb_no_compression);
  if (has_blobs) {
    CHECK(blobs == 1);
    check_blob(rocksdb_flushjobinfo_blob_file_addition_info_at(info, 0), first ? 1000 : 300,
               first ? 241000 : 72300);
    CHECK(rocksdb_flushjobinfo_oldest_blob_file_number(info) > 0);
  } else {
    CHECK(blobs == 0 && rocksdb_flushjobinfo_oldest_blob_file_number(info) == 0);
    TABLE(raw_value_size, first ? 200000u : 60009u);
    TABLE(data_size, first ? 214834u : 66094u);
    TABLE(uncompressed_data_size, first ? 214569u : 66009u);
    TABLE(index_size, first ? 1058u : 342u);
    TABLE(filter_size, first ? 1285u : 581u);
    TABLE(num_data_blocks, first ? 53u : 17u);
  }
  CHECK(rocksdb_flushjobinfo_blob_file_addition_info_at(info, blobs) == NULL);
}

/* Checks figures that a compaction and its only subcompaction have in common. */
static void check_stats(const rocksdb_compaction_job_stats_t* stats) {
  size_t length = 0;
  STATS(has_accurate_num_input_records, 1);
  STATS(num_input_records, 1426u);
  STATS(num_output_records, 869u);
  STATS(num_output_files, 1u);
  STATS(is_full_compaction, 1);
  STATS(is_manual_compaction, 1);
  STATS(is_remote_compaction, 0);
  STATS(total_input_raw_key_bytes, 24242u);
  STATS(num_input_deletion_records, 126u);
  STATS(num_single_del_fallthru, 5u);
  STATS(num_single_del_mismatch, 0u);
  STATS(num_filtered_input_files, 0u);
  STATS(num_filtered_input_files_at_output_level, 0u);
  STATS(total_skipped_input_bytes, 0u);
  STATS(num_corrupt_keys, 0u);
  STATS(file_write_nanos, 0u);
  STATS(num_blobs_read, has_blobs ? 869u : 0u);
  STATS(total_blob_bytes_read, has_blobs ? 209429u : 0u);
  STATS(num_output_files_blob, has_blobs ? 1u : 0u);
  STATS(total_output_bytes_blob, has_blobs ? 209429u : 0u);
  CHECK(rocksdb_compaction_job_stats_total_output_bytes(stats) > 0);
  CHECK(rocksdb_compaction_job_stats_elapsed_micros(stats) > 0);
  const char* key = rocksdb_compaction_job_stats_smallest_output_key_prefix(stats, &length);
  CHECK(is(key, length, "key00000"));
  key = rocksdb_compaction_job_stats_largest_output_key_prefix(stats, &length);
  CHECK(is(key, length, "key00099"));
}

static void on_compaction_begin(void* state, rocksdb_t* db,
                                const rocksdb_compactionjobinfo_t* info) {
  (void)state;
  (void)db;
  CHECK(rocksdb_compactionjobinfo_num_l0_files(info) == 2);
  CHECK(rocksdb_compactionjobinfo_table_properties_count(info) == 2);
  CHECK(rocksdb_compactionjobinfo_input_records(info) == 0);
}

static void on_compaction(void* state, rocksdb_t* db, const rocksdb_compactionjobinfo_t* info) {
  (void)state;
  (void)db;
  size_t length = 0;
  CHECK(rocksdb_compactionjobinfo_num_l0_files(info) == 0);
  CHECK(rocksdb_compactionjobinfo_compression(info) == rocksdb_no_compression);
  CHECK(rocksdb_compactionjobinfo_blob_compression_type(info) == rocksdb_no_compression);
  CHECK(rocksdb_compactionjobinfo_num_corrupt_keys(info) == 0);
  CHECK(rocksdb_compactionjobinfo_input_records(info) == 1426);
  CHECK(rocksdb_compactionjobinfo_output_records(info) == 869);
  CHECK(rocksdb_compactionjobinfo_table_properties_count(info) == 3);
  for (size_t at = 0; at < 2; at++) {
    const char* path = rocksdb_compactionjobinfo_input_file_at(info, at, &length);
    CHECK(path != NULL && strchr(path, '/') != NULL);
    const rocksdb_table_properties_t* table =
        rocksdb_compactionjobinfo_table_properties_for_file(info, path, length);
    CHECK(table != NULL);
    CHECK(rocksdb_table_properties_num_entries(table) > 400);
  }
  const rocksdb_compaction_job_stats_t* stats = rocksdb_compactionjobinfo_stats(info);
  check_stats(stats);
  STATS(num_input_files, 2u);
  STATS(num_input_files_at_output_level, 0u);
  STATS(num_input_files_trivially_moved, 0u);
  STATS(num_records_replaced, 431u);
  STATS(num_expired_deletion_records, 127u);
  size_t garbage = rocksdb_compactionjobinfo_blob_file_garbage_infos_count(info);
  size_t blobs = rocksdb_compactionjobinfo_blob_file_addition_infos_count(info);
  const rocksdb_compaction_file_info_t* output =
      rocksdb_compactionjobinfo_output_file_info_at(info, 0);
  uint64_t oldest = rocksdb_compaction_file_info_oldest_blob_file_number(output);
  if (has_blobs) {
    CHECK(blobs == 1 && garbage == 2);
    const rocksdb_blob_file_addition_info_t* blob =
        rocksdb_compactionjobinfo_blob_file_addition_info_at(info, 0);
    check_blob(blob, 869, 209429);
    CHECK(oldest == rocksdb_blob_file_addition_info_blob_file_number(blob));
    uint64_t count = 0, bytes = 0;
    for (size_t at = 0; at < garbage; at++) {
      const rocksdb_blob_file_garbage_info_t* of =
          rocksdb_compactionjobinfo_blob_file_garbage_info_at(info, at);
      count += rocksdb_blob_file_garbage_info_garbage_blob_count(of);
      bytes += rocksdb_blob_file_garbage_info_garbage_blob_bytes(of);
      CHECK(rocksdb_blob_file_garbage_info_blob_file_number(of) > 0);
      CHECK(strstr(rocksdb_blob_file_garbage_info_blob_file_path(of, &length), ".blob") != NULL);
    }
    CHECK(count == 1300 && bytes == 313300);
  } else {
    CHECK(blobs == 0 && garbage == 0 && oldest == 0);
    STATS(total_input_raw_value_bytes, 260000u);
  }
  CHECK(rocksdb_compactionjobinfo_blob_file_addition_info_at(info, blobs) == NULL);
  CHECK(rocksdb_compactionjobinfo_blob_file_garbage_info_at(info, garbage) == NULL);
  compacted++;
}

static void on_part(void* state, const rocksdb_subcompactionjobinfo_t* info) {
  (void)state;
  char* error = NULL;
  rocksdb_subcompactionjobinfo_status(info, &error);
  OK(error);
  CHECK(rocksdb_subcompactionjobinfo_compression(info) == rocksdb_no_compression);
  CHECK(rocksdb_subcompactionjobinfo_blob_compression_type(info) == rocksdb_no_compression);
  check_stats(rocksdb_subcompactionjobinfo_stats(info));
  parts++;
}

static void on_ingested(void* state, rocksdb_t* db, const rocksdb_externalfileingestioninfo_t* info) {
  (void)state;
  (void)db;
  size_t length = 0;
  const rocksdb_table_properties_t* table =
      rocksdb_externalfileingestioninfo_table_properties(info);
  CHECK(table != NULL);
  TABLE(num_entries, 1u);
  CHECK(rocksdb_table_properties_external_sst_file_global_seqno_offset(table) > 0);
  const char* value = user_property(table, "rocksdb.external_sst_file.version", &length);
  CHECK(value != NULL && length == 4 && value[0] == 2);
  CHECK(rocksdb_table_properties_readable_properties_count(table) == 1);
  value = rocksdb_table_properties_readable_properties_key_at(table, 0, &length);
  CHECK(is(value, length, "rocksdb.external_sst_file.version"));
  value = rocksdb_table_properties_readable_properties_value_at(table, 0, &length);
  CHECK(is(value, length, "2"));
  ingested++;
}

static void nothing(void* state) { (void)state; }

static rocksdb_t* db;
static rocksdb_writeoptions_t* writing;
static char* error = NULL;

static const char* key(int number) {
  static char text[20];
  snprintf(text, sizeof text, "key%06d", number);
  return text;
}

static void put(int number, int round) {
  char value[200];
  memset(value, 'a' + (number * 7 + round) % 26, sizeof value);
  rocksdb_put(db, writing, key(number), 9, value, sizeof value, &error);
  OK(error);
}

static void delete_once(int number) {
  rocksdb_singledelete(db, writing, key(number), 9, &error);
  OK(error);
}

static void run(const char* path) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_disable_auto_compactions(options, 1);
  rocksdb_options_set_compression(options, rocksdb_no_compression);
  rocksdb_block_based_table_options_t* tables = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_filter_policy(tables, rocksdb_filterpolicy_create_bloom_full(10));
  rocksdb_options_set_block_based_table_factory(options, tables);
  if (has_blobs) {
    rocksdb_options_set_enable_blob_files(options, 1);
    rocksdb_options_set_min_blob_size(options, 100);
    rocksdb_options_set_enable_blob_gc(options, 1);
    rocksdb_options_set_blob_gc_age_cutoff(options, 1.0);
  }
  rocksdb_options_add_eventlistener(
      options,
      rocksdb_eventlistener_create(NULL, nothing, NULL, on_flush, on_compaction_begin,
                                   on_compaction, NULL, on_part, on_ingested, NULL, NULL,
                                   on_sealed));
  db = rocksdb_open(options, path, &error);
  OK(error);
  writing = rocksdb_writeoptions_create();
  rocksdb_flushoptions_t* flushing = rocksdb_flushoptions_create();
  for (int number = 0; number < 1000; number++) put(number, 0);
  rocksdb_flush(db, flushing, &error);
  OK(error);
  for (int number = 0; number < 300; number++) put(number, 1);
  for (int number = 300; number < 400; number++) {
    rocksdb_delete(db, writing, key(number), 9, &error);
    OK(error);
  }
  for (int number = 2000; number < 2010; number++) {
    rocksdb_delete(db, writing, key(number), 9, &error);
    OK(error);
  }
  for (int number = 400; number < 410; number++) delete_once(number);
  for (int number = 3000; number < 3005; number++) delete_once(number);
  delete_once(411);
  delete_once(411);
  rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
  rocksdb_delete_range_cf(db, writing, family, "key000500", 9, "key000520", 9, &error);
  OK(error);
  rocksdb_column_family_handle_destroy(family);

  /* The first log with batches begins behind the first flush. */
  rocksdb_wal_files_t* logs = rocksdb_get_sorted_wal_files(db, &error);
  OK(error);
  size_t count = rocksdb_wal_files_count(logs);
  CHECK(count > 0);
  CHECK(rocksdb_wal_file_start_sequence(rocksdb_wal_files_get_wal_file(logs, count - 1)) == 1001);
  rocksdb_wal_files_destroy(logs);

  rocksdb_flush(db, flushing, &error);
  OK(error);
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  if (!has_blobs) {
    rocksdb_envoptions_t* environment = rocksdb_envoptions_create();
    rocksdb_sstfilewriter_t* writer = rocksdb_sstfilewriter_create(environment, options);
    const char* file = "external.sst";
    rocksdb_sstfilewriter_open(writer, file, &error);
    OK(error);
    rocksdb_sstfilewriter_put(writer, "key000001", 9, "v", 1, &error);
    OK(error);
    rocksdb_sstfilewriter_finish(writer, &error);
    OK(error);
    rocksdb_sstfilewriter_destroy(writer);
    rocksdb_envoptions_destroy(environment);
    rocksdb_ingestexternalfileoptions_t* how = rocksdb_ingestexternalfileoptions_create();
    rocksdb_ingest_external_file(db, &file, 1, how, &error);
    OK(error);
    rocksdb_ingestexternalfileoptions_destroy(how);
  }
  rocksdb_close(db);
  rocksdb_flushoptions_destroy(flushing);
  rocksdb_writeoptions_destroy(writing);
  rocksdb_block_based_options_destroy(tables);
  rocksdb_options_destroy(options);
}

int main(void) {
  run("plain");
  CHECK(sealed == 2 && flushed == 2 && compacted == 1 && parts == 1 && ingested == 1);
  has_blobs = 1;
  sealed = flushed = compacted = parts = 0;
  run("blobs");
  CHECK(sealed == 2 && flushed == 2 && compacted == 1 && parts == 1);
  return 0;
}

/* External table files, ingestion, export and import, lists of files, refused traces. */
#include "check.h"

static const char* const FILES[] = {"000777.sst"};

static void check_value(rocksdb_t* db, const char* key, const char* value) {
  char* error = NULL;
  size_t length = 0;
  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  char* found = rocksdb_get(db, reading, key, strlen(key), &length, &error);
  OK(error);
  CHECK(value == NULL ? found == NULL
                      : length == strlen(value) && memcmp(found, value, length) == 0);
  rocksdb_free(found);
  rocksdb_readoptions_destroy(reading);
}

static void write_table(rocksdb_sstfilewriter_t* writer, const char* value) {
  char* error = NULL;
  rocksdb_sstfilewriter_open(writer, FILES[0], &error);
  OK(error);
  rocksdb_sstfilewriter_put(writer, "a", 1, value, strlen(value), &error);
  OK(error);
  rocksdb_sstfilewriter_add(writer, "b", 1, value, strlen(value), &error);
  OK(error);
  rocksdb_sstfilewriter_finish(writer, &error);
  OK(error);
}

static void writers(rocksdb_t* db, const rocksdb_options_t* options) {
  char* error = NULL;
  rocksdb_envoptions_t* files = rocksdb_envoptions_create();
  CHECK(rocksdb_envoptions_get_use_mmap_writes(files) == 1);
  rocksdb_sstfilewriter_t* writer = rocksdb_sstfilewriter_create(files, options);
  rocksdb_sstfilewriter_put(writer, "a", 1, "", 0, &error);
  FAILED(error, "Invalid argument: the file is not opened");
  rocksdb_sstfilewriter_open(writer, FILES[0], &error);
  OK(error);
  rocksdb_sstfilewriter_finish(writer, &error);
  FAILED(error, "Invalid argument");

  rocksdb_ingestexternalfileoptions_t* ingesting = rocksdb_ingestexternalfileoptions_create();
  CHECK(rocksdb_ingestexternalfileoptions_get_allow_global_seqno(ingesting) == 1);
  write_table(writer, "first");
  uint64_t size = 0;
  rocksdb_sstfilewriter_file_size(writer, &size);
  CHECK(size > 0);
  rocksdb_ingest_external_file(db, FILES, 1, ingesting, &error);
  OK(error);
  check_value(db, "b", "first");
  /* The writer replaces the file. */
  write_table(writer, "second");
  rocksdb_ingestexternalfileoptions_set_allow_db_generated_files(ingesting, 1);
  rocksdb_ingest_external_file(db, FILES, 1, ingesting, &error);
  FAILED(error, "Not implemented: allow_db_generated_files");
  rocksdb_ingestexternalfileoptions_set_allow_db_generated_files(ingesting, 0);
  rocksdb_ingest_external_file(db, FILES, 1, ingesting, &error);
  OK(error);
  check_value(db, "a", "second");

  rocksdb_sstfilewriter_open(writer, FILES[0], &error);
  OK(error);
  rocksdb_sstfilewriter_delete(writer, "a", 1, &error);
  OK(error);
  rocksdb_sstfilewriter_put(writer, "a", 1, "", 0, &error);
  CHECK(error != NULL);
  free(error);
  error = NULL;
  rocksdb_sstfilewriter_put_with_ts(writer, "c", 1, "12345678", 8, "", 0, &error);
  CHECK(error != NULL);
  free(error);
  error = NULL;
  rocksdb_sstfilewriter_delete_range(writer, "b", 1, "c", 1, &error);
  OK(error);
  rocksdb_sstfilewriter_finish(writer, &error);
  OK(error);
  rocksdb_ingestexternalfileoptions_set_move_files(ingesting, 1);
  rocksdb_ingest_external_file(db, FILES, 1, ingesting, &error);
  OK(error);
  check_value(db, "a", NULL);
  check_value(db, "b", NULL);
  write_table(writer, "third");
  rocksdb_ingestexternalfileoptions_destroy(ingesting);
  rocksdb_sstfilewriter_destroy(writer);
  rocksdb_envoptions_destroy(files);
}

/* Imports a table with a description made here, and exports the column family. */
static void imports(rocksdb_t* db, rocksdb_options_t* options) {
  char* error = NULL;
  rocksdb_livefile_t* table = rocksdb_livefile_create();
  rocksdb_livefile_set_name(table, "/000777.sst");
  rocksdb_livefile_set_directory(table, ".");
  rocksdb_livefile_set_level(table, 1);
  rocksdb_livefile_set_smallest_key(table, "a", 1);
  rocksdb_livefile_set_largest_key(table, "b", 1);
  rocksdb_livefiles_t* tables = rocksdb_livefiles_create();
  rocksdb_livefiles_add(tables, table);
  rocksdb_export_import_files_metadata_t* metadata = rocksdb_export_import_files_metadata_create();
  rocksdb_export_import_files_metadata_set_db_comparator_name(metadata,
                                                              "leveldb.BytewiseComparator");
  rocksdb_export_import_files_metadata_set_files(metadata, tables);
  rocksdb_import_column_family_options_t* importing = rocksdb_import_column_family_options_create();
  CHECK(rocksdb_import_column_family_options_get_move_files(importing) == 0);
  rocksdb_column_family_handle_t* family = rocksdb_create_column_family_with_import(
      db, options, "imported", importing, metadata, &error);
  OK(error);
  rocksdb_export_import_files_metadata_destroy(metadata);

  rocksdb_checkpoint_t* checkpoint = rocksdb_checkpoint_object_create(db, &error);
  OK(error);
  metadata = rocksdb_checkpoint_export_column_family(checkpoint, family, "export", &error);
  OK(error);
  rocksdb_checkpoint_object_destroy(checkpoint);
  char* name = rocksdb_export_import_files_metadata_get_db_comparator_name(metadata);
  CHECK(strcmp(name, "leveldb.BytewiseComparator") == 0);
  rocksdb_free(name);
  tables = rocksdb_export_import_files_metadata_get_files(metadata);
  size_t length = 0;
  CHECK(rocksdb_livefiles_count(tables) == 1);
  /* An export tells neither. */
  CHECK(rocksdb_livefiles_entries(tables, 0) == 0);
  CHECK(strcmp(rocksdb_livefiles_column_family_name(tables, 0), "") == 0);
  CHECK(*rocksdb_livefiles_largestkey(tables, 0, &length) == 'b' && length == 1);
  rocksdb_export_import_files_metadata_set_files(metadata, tables);
  rocksdb_column_family_handle_t* again = rocksdb_create_column_family_with_import(
      db, options, "again", importing, metadata, &error);
  OK(error);
  rocksdb_export_import_files_metadata_destroy(metadata);
  rocksdb_import_column_family_options_destroy(importing);

  rocksdb_column_family_metadata_t* of_family = rocksdb_get_column_family_metadata_cf(db, again);
  name = rocksdb_column_family_metadata_get_name(of_family);
  CHECK(strcmp(name, "again") == 0);
  rocksdb_free(name);
  CHECK(rocksdb_column_family_metadata_get_file_count(of_family) == 1);
  CHECK(rocksdb_column_family_metadata_get_level_count(of_family) == 7);
  CHECK(rocksdb_column_family_metadata_get_level_metadata(of_family, 7) == NULL);
  rocksdb_level_metadata_t* level = rocksdb_column_family_metadata_get_level_metadata(of_family, 1);
  CHECK(rocksdb_level_metadata_get_level(level) == 1);
  CHECK(rocksdb_level_metadata_get_file_count(level) == 1);
  rocksdb_sst_file_metadata_t* file = rocksdb_level_metadata_get_sst_file_metadata(level, 0);
  CHECK(rocksdb_level_metadata_get_sst_file_metadata(level, 1) == NULL);
  CHECK(rocksdb_column_family_metadata_get_size(of_family) ==
        rocksdb_sst_file_metadata_get_size(file));
  rocksdb_column_family_metadata_destroy(of_family);
  rocksdb_level_metadata_destroy(level);
  name = rocksdb_sst_file_metadata_get_relative_filename(file);
  CHECK(name[0] != '/' && strstr(name, ".sst") != NULL);
  rocksdb_free(name);
  name = rocksdb_sst_file_metadata_get_smallestkey(file, &length);
  CHECK(length == 1 && *name == 'a');
  rocksdb_free(name);
  rocksdb_sst_file_metadata_destroy(file);

  rocksdb_column_family_metadata_options_t* filter = rocksdb_column_family_metadata_options_create();
  CHECK(rocksdb_column_family_metadata_options_get_level(filter) == -1);
  CHECK(rocksdb_column_family_metadata_options_get_start_key(filter, &length) == NULL);
  rocksdb_column_family_metadata_options_set_start_key(filter, "b", 1);
  of_family = rocksdb_get_column_family_metadata_cf_with_options(db, again, filter);
  CHECK(rocksdb_column_family_metadata_get_level_count(of_family) == 1);
  rocksdb_column_family_metadata_destroy(of_family);
  rocksdb_column_family_metadata_options_set_start_key(filter, "c", 1);
  of_family = rocksdb_get_column_family_metadata_cf_with_options(db, again, filter);
  CHECK(rocksdb_column_family_metadata_get_file_count(of_family) == 0);
  rocksdb_column_family_metadata_destroy(of_family);
  rocksdb_column_family_metadata_options_destroy(filter);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_column_family_handle_destroy(again);
}

static void lists(rocksdb_t* db) {
  char* error = NULL;
  size_t length = 0;
  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  CHECK(rocksdb_livefiles_count(files) >= 3);
  CHECK(rocksdb_livefiles_name(files, 0)[0] == '/');
  CHECK(strstr(rocksdb_livefiles_directory(files, 0), "db") != NULL);
  CHECK(rocksdb_livefiles_level(files, 0) >= 0 && rocksdb_livefiles_size(files, 0) > 0);
  for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
    const char* first = rocksdb_livefiles_smallestkey(files, i, &length);
    CHECK(length == 1 && (*first == 'a' || *first == 'z'));
    CHECK(rocksdb_livefiles_entries(files, i) > 0);
    CHECK(rocksdb_livefiles_smallest_seqno(files, i) <= rocksdb_livefiles_largest_seqno(files, i));
  }
  rocksdb_livefiles_destroy(files);

  rocksdb_livefiles_storage_info_options_t* listing =
      rocksdb_livefiles_storage_info_options_create();
  rocksdb_livefiles_storage_info_options_set_include_checksum_info(listing, 1);
  rocksdb_livefiles_storage_info_options_set_wal_size_for_flush(listing, UINT64_MAX);
  rocksdb_livefiles_storage_info_t* info =
      rocksdb_get_livefiles_storage_info(db, listing, &error);
  OK(error);
  rocksdb_livefiles_storage_info_options_destroy(listing);
  int kinds[16] = {0};
  for (size_t i = 0; i < rocksdb_livefiles_storage_info_count(info); i++) {
    int kind = rocksdb_livefiles_storage_info_file_type(info, i);
    kinds[kind]++;
    const char* name = rocksdb_livefiles_storage_info_relative_filename(info, i);
    CHECK(name[0] != '\0' && rocksdb_livefiles_storage_info_directory(info, i)[0] != '\0');
    CHECK(kind == 4 || rocksdb_livefiles_storage_info_file_number(info, i) > 0);
    CHECK(rocksdb_livefiles_storage_info_temperature(info, i) == 0);
    CHECK(strcmp(rocksdb_livefiles_storage_info_file_checksum_func_name(info, i), "Unknown") == 0);
    CHECK(rocksdb_livefiles_storage_info_file_checksum(info, i)[0] == '\0');
    const char* contents = rocksdb_livefiles_storage_info_replacement_contents(info, i, &length);
    CHECK(kind != 4 || (length > 0 && memcmp(contents, "MANIFEST-", 9) == 0));
    CHECK(length == 0 || length == rocksdb_livefiles_storage_info_size(info, i));
    CHECK(kind != 2 || !rocksdb_livefiles_storage_info_trim_to_size(info, i));
  }
  CHECK(kinds[2] >= 3 && kinds[3] == 1 && kinds[4] == 1);
  rocksdb_livefiles_storage_info_destroy(info);
}

static void traces(rocksdb_t* db) {
  char* error = NULL;
  rocksdb_trace_options_t* tracing = rocksdb_trace_options_create();
  rocksdb_trace_options_set_sampling_frequency(tracing, 3);
  CHECK(rocksdb_trace_options_get_sampling_frequency(tracing) == 3);
  rocksdb_start_trace(db, NULL, NULL, tracing, "trace", &error);
  FAILED(error, "Not implemented: rocksdb_start_trace");
  rocksdb_trace_options_destroy(tracing);
}

int main(void) {
  char* error = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_disable_auto_compactions(options, 1);
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  OK(error);
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_put(db, writing, "z", 1, "z", 1, &error);
  OK(error);
  rocksdb_writeoptions_destroy(writing);
  writers(db, options);
  imports(db, options);
  lists(db);
  traces(db);
  rocksdb_options_destroy(options);
  rocksdb_close(db);
  return 0;
}

/* A compaction of named tables, and its cancellation. */
#include <dirent.h>

#include "check.h"

static char found[64];

/* Finds a table of the database. */
static void find_table(void) {
  DIR* directory = opendir("db");
  CHECK(directory != NULL);
  found[0] = 0;
  for (struct dirent* entry; (entry = readdir(directory)) != NULL;) {
    if (strstr(entry->d_name, ".sst") != NULL && strlen(entry->d_name) < sizeof found) strcpy(found, entry->d_name);
  }
  closedir(directory);
  CHECK(found[0] != 0);
}

int main(void) {
  char* error = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_flushoptions_t* flushing = rocksdb_flushoptions_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  OK(error);
  rocksdb_put(db, writing, "k", 1, "v", 1, &error);
  rocksdb_flush(db, flushing, &error);
  OK(error);
  find_table();

  rocksdb_compaction_options_t* compacting = rocksdb_compaction_options_create();
  unsigned char* canceled = rocksdb_compaction_options_canceled_create();
  rocksdb_compaction_options_set_compression(compacting, 0);
  rocksdb_compaction_options_set_output_file_size_limit(compacting, 1 << 20);
  rocksdb_compaction_options_set_canceled(compacting, canceled);
  rocksdb_compaction_options_canceled_set(canceled, 1);
  const char* inputs[] = {found};
  char** outputs = NULL;
  size_t count = 7;
  rocksdb_compact_files(db, compacting, inputs, 1, 1, -1, &outputs, &count, NULL, &error);
  FAILED(error, "");
  CHECK(outputs == NULL && count == 7);
  /* The flags of both kinds of compactions are of one type, as in RocksDB. */
  rocksdb_open_and_compact_canceled_set(canceled, 0);
  rocksdb_compactionjobinfo_t* info = rocksdb_compactionjobinfo_create();
  rocksdb_compact_files(db, compacting, inputs, 1, 1, -1, &outputs, &count, info, &error);
  OK(error);
  rocksdb_compactionjobinfo_status(info, &error);
  OK(error);
  CHECK(rocksdb_compactionjobinfo_output_level(info) == 1);
  CHECK(rocksdb_compactionjobinfo_input_files_count(info) == 1);
  CHECK(rocksdb_compactionjobinfo_output_files_count(info) == 1);
  CHECK(rocksdb_compaction_job_stats_is_manual_compaction(rocksdb_compactionjobinfo_stats(info)));
  rocksdb_compactionjobinfo_destroy(info);
  CHECK(count == 1 && strstr(outputs[0], ".sst") != NULL);
  rocksdb_compact_files_output_file_names_destroy(outputs, count);
  rocksdb_compaction_options_set_compression(compacting, 99);
  rocksdb_compact_files_cf(db, NULL, compacting, inputs, 1, 1, -1, NULL, NULL, NULL, &error);
  FAILED(error, "99 is no compression type");
  rocksdb_compaction_options_canceled_destroy(canceled);
  rocksdb_compaction_options_destroy(compacting);
  char* text = rocksdb_property_value(db, "rocksdb.num-files-at-level1");
  CHECK(strcmp(text, "1") == 0);
  rocksdb_free(text);
  rocksdb_close(db);
  rocksdb_flushoptions_destroy(flushing);
  rocksdb_writeoptions_destroy(writing);
  rocksdb_options_destroy(options);
  return 0;
}

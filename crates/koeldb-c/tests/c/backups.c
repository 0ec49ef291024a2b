/* Checkpoints, backups with their options, kept files. */
#include "check.h"

#include <dirent.h>
#include <unistd.h>

static rocksdb_t* open_db(const char* path) {
  char* error = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, path, &error);
  OK(error);
  rocksdb_options_destroy(options);
  return db;
}

static void put(rocksdb_t* db, const char* key, const char* value) {
  char* error = NULL;
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_put(db, writing, key, strlen(key), value, strlen(value), &error);
  OK(error);
  rocksdb_writeoptions_destroy(writing);
}

/* Whether the database at a path has a value; null stands for none. */
static int has(const char* path, const char* key, const char* value) {
  char* error = NULL;
  size_t length = 0;
  rocksdb_t* db = open_db(path);
  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  char* found = rocksdb_get(db, reading, key, strlen(key), &length, &error);
  OK(error);
  int same = value == NULL
                 ? found == NULL
                 : found != NULL && length == strlen(value) && memcmp(found, value, length) == 0;
  rocksdb_free(found);
  rocksdb_readoptions_destroy(reading);
  rocksdb_close(db);
  return same;
}

static void count(void* state) { ++*(int*)state; }

static unsigned char exclude(void* state, const char* name, size_t length) {
  CHECK(length > 0 && name != NULL);
  ++*(int*)state;
  return 0;
}

static void checkpoints(rocksdb_t* db) {
  char* error = NULL;
  rocksdb_checkpoint_t* checkpoint = rocksdb_checkpoint_object_create(db, &error);
  OK(error);
  rocksdb_checkpoint_create(checkpoint, "flushed", 0, &error);
  OK(error);
  rocksdb_checkpoint_create(checkpoint, "logged", UINT64_MAX, &error);
  OK(error);
  rocksdb_checkpoint_create(checkpoint, "logged", 0, &error);
  FAILED(error, "Invalid argument");
  rocksdb_checkpoint_object_destroy(checkpoint);
}

static void simple_backups(rocksdb_t* db) {
  char* error = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_backup_engine_t* engine = rocksdb_backup_engine_open(options, "copies", &error);
  OK(error);
  rocksdb_options_destroy(options);
  rocksdb_restore_options_t* restoring = rocksdb_restore_options_create();
  rocksdb_backup_engine_restore_db_from_latest_backup(engine, "none", "none", restoring, &error);
  FAILED(error, "NotFound: there is no backup");

  rocksdb_backup_engine_create_new_backup(engine, db, &error);
  OK(error);
  put(db, "second", "2");
  rocksdb_backup_engine_create_new_backup_flush(engine, db, 1, &error);
  OK(error);
  const rocksdb_backup_engine_info_t* info = rocksdb_backup_engine_get_backup_info(engine);
  CHECK(rocksdb_backup_engine_info_count(info) == 2);
  CHECK(rocksdb_backup_engine_info_backup_id(info, 1) == 2);
  CHECK(rocksdb_backup_engine_info_timestamp(info, 0) > 0);
  CHECK(rocksdb_backup_engine_info_size(info, 0) > 0);
  CHECK(rocksdb_backup_engine_info_number_files(info, 0) > 0);
  rocksdb_backup_engine_info_destroy(info);
  rocksdb_backup_engine_verify_backup(engine, 2, &error);
  OK(error);

  rocksdb_restore_options_set_keep_log_files(restoring, 0);
  CHECK(rocksdb_restore_options_get_mode(restoring) == 0xffff);
  rocksdb_backup_engine_restore_db_from_backup(engine, "first", "first", restoring, 1, &error);
  OK(error);
  CHECK(has("first", "key", "value") && has("first", "second", NULL));
  rocksdb_restore_options_set_mode(restoring, 3);
  rocksdb_backup_engine_restore_db_from_backup(engine, "bad", "bad", restoring, 1, &error);
  CHECK(error != NULL);
  free(error);
  error = NULL;
  rocksdb_restore_options_set_mode(restoring, 2);
  rocksdb_backup_engine_restore_db_from_latest_backup(engine, "first", "first", restoring, &error);
  OK(error);
  CHECK(has("first", "second", "2"));

  rocksdb_backup_engine_purge_old_backups(engine, 1, &error);
  OK(error);
  rocksdb_backup_engine_verify_backup(engine, 1, &error);
  FAILED(error, "NotFound");
  rocksdb_backup_engine_stop_backup(engine);
  rocksdb_backup_engine_create_new_backup(engine, db, &error);
  FAILED(error, "Result incomplete");
  rocksdb_restore_options_destroy(restoring);
  rocksdb_backup_engine_close(engine);
}

static void backups_with_options(rocksdb_t* db) {
  char* error = NULL;
  rocksdb_backup_engine_options_t* options = rocksdb_backup_engine_options_create("elsewhere");
  rocksdb_backup_engine_options_set_backup_dir(options, "copies");
  size_t length = 0;
  const char* directory = rocksdb_backup_engine_options_get_backup_dir(options, &length);
  CHECK(length == 6 && memcmp(directory, "copies", 6) == 0);
  rocksdb_backup_engine_options_set_destroy_old_data(options, 1);
  rocksdb_backup_engine_options_set_callback_trigger_interval_size(options, 1);
  rocksdb_backup_engine_options_set_backup_rate_limit(options, 1 << 30);
  rocksdb_backup_engine_options_set_backup_rate_limiter(options, NULL);
  rocksdb_backup_engine_options_set_env(options, NULL);
  int naming = rocksdb_backup_engine_options_get_share_files_with_checksum_naming(options);
  rocksdb_backup_engine_options_set_share_files_with_checksum_naming(options, 77);
  CHECK(rocksdb_backup_engine_open_opts(options, NULL, &error) == NULL);
  FAILED(error, "Not implemented: share_files_with_checksum_naming 0x4d");
  rocksdb_backup_engine_options_set_share_files_with_checksum_naming(options, naming);
  rocksdb_backup_engine_t* engine = rocksdb_backup_engine_open_opts(options, NULL, &error);
  OK(error);

  int calls = 0;
  int asked = 0;
  uint32_t id = 0;
  rocksdb_create_backup_options_t* creating = rocksdb_create_backup_options_create();
  rocksdb_create_backup_options_set_flush_before_backup(creating, 1);
  CHECK(rocksdb_create_backup_options_get_flush_before_backup(creating) == 1);
  CHECK(rocksdb_create_backup_options_get_background_thread_cpu_priority(creating) == 2);
  rocksdb_create_backup_options_set_progress_callback(creating, &calls, count);
  rocksdb_create_backup_options_set_exclude_files_callback(creating, &asked, exclude);
  rocksdb_backup_engine_create_new_backup_with_options(engine, db, creating, &id, &error);
  FAILED(error, "Invalid argument");
  rocksdb_create_backup_options_set_exclude_files_callback(creating, NULL, NULL);
  rocksdb_backup_engine_create_new_backup_with_options(engine, db, creating, &id, &error);
  OK(error);
  CHECK(id == 1 && calls > 0 && asked == 0);
  rocksdb_backup_engine_create_new_backup_with_metadata(engine, db, NULL, "note", 4, NULL, &error);
  OK(error);
  const rocksdb_backup_engine_info_t* info = rocksdb_backup_engine_get_backup_info(engine);
  const char* note = rocksdb_backup_engine_info_app_metadata(info, 1, &length);
  CHECK(length == 4 && memcmp(note, "note", 4) == 0);
  rocksdb_backup_engine_info_destroy(info);
  rocksdb_backup_engine_close(engine);

  rocksdb_backup_engine_options_set_destroy_old_data(options, 0);
  rocksdb_backup_engine_options_set_schema_version(options, 2);
  engine = rocksdb_backup_engine_open_opts(options, NULL, &error);
  OK(error);
  rocksdb_backup_engine_options_destroy(options);
  put(db, "third", "3");
  rocksdb_create_backup_options_set_exclude_files_callback(creating, &asked, exclude);
  rocksdb_backup_engine_create_new_backup_with_options(engine, db, creating, &id, &error);
  OK(error);
  CHECK(id == 3 && asked > 0);
  rocksdb_create_backup_options_destroy(creating);
  rocksdb_backup_engine_close(engine);
}

/* The number of logs in the directory of the database. */
static int log_count(void) {
  int logs = 0;
  DIR* directory = opendir("db");
  CHECK(directory != NULL);
  for (struct dirent* entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
    logs += strstr(entry->d_name, ".log") != NULL;
  }
  closedir(directory);
  return logs;
}

/* A flush makes the log obsolete, which stays until the last call is undone. */
static void kept_files(rocksdb_t* db) {
  char* error = NULL;
  rocksdb_enable_file_deletions(db, &error);
  OK(error);
  put(db, "fourth", "4");
  rocksdb_disable_file_deletions(db, &error);
  OK(error);
  rocksdb_disable_file_deletions(db, &error);
  OK(error);
  rocksdb_checkpoint_t* checkpoint = rocksdb_checkpoint_object_create(db, &error);
  OK(error);
  rocksdb_checkpoint_create(checkpoint, "kept", 0, &error);
  OK(error);
  rocksdb_checkpoint_object_destroy(checkpoint);
  int kept = log_count();
  rocksdb_enable_file_deletions(db, &error);
  OK(error);
  CHECK(kept >= 2 && log_count() == kept);
  rocksdb_enable_file_deletions(db, &error);
  OK(error);
  for (int seconds = 0; log_count() == kept; seconds++) {
    CHECK(seconds < 10);
    sleep(1);
  }
}

int main(void) {
  rocksdb_t* db = open_db("db");
  put(db, "key", "value");
  checkpoints(db);
  simple_backups(db);
  backups_with_options(db);
  kept_files(db);
  rocksdb_close(db);
  CHECK(has("flushed", "key", "value") && has("logged", "key", "value"));
  return 0;
}

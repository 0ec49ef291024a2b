/* Loggers of functions, and of the standard error stream. */
#include "plugins.h"

static int lines = 0;

static void log_line(void* state, unsigned level, char* message, size_t length) {
  CHECK(state == &lines);
  CHECK(level <= 5);
  CHECK(strlen(message) == length);
  __sync_fetch_and_add(&lines, 1);
}

int main(void) {
  char* error = NULL;
  rocksdb_options_t* options = small_options();
  CHECK(rocksdb_options_get_info_log(options) == NULL);
  rocksdb_logger_t* logger = rocksdb_logger_create_callback_logger(0, log_line, &lines);
  rocksdb_options_set_info_log(options, logger);
  rocksdb_options_set_info_log(options, NULL);
  rocksdb_logger_destroy(logger);
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  OK(error);
  rocksdb_close(db);
  CHECK(lines > 0);
  CHECK(fopen("db/LOG", "r") == NULL);

  rocksdb_options_t* others = small_options();
  logger = rocksdb_options_get_info_log(options);
  rocksdb_options_set_info_log(others, logger);
  rocksdb_logger_destroy(logger);
  lines = 0;
  db = rocksdb_open(others, "other", &error);
  OK(error);
  rocksdb_close(db);
  CHECK(lines > 0);

  logger = rocksdb_logger_create_stderr_logger(3, "prefix");
  rocksdb_options_set_info_log(others, logger);
  rocksdb_logger_destroy(logger);
  logger = rocksdb_logger_create_stderr_logger(3, NULL);
  rocksdb_logger_destroy(logger);
  rocksdb_options_destroy(options);
  rocksdb_options_destroy(others);
  return 0;
}

/* Opening, writing, reading; errors of null, of missing databases and of refused options. */
#include "check.h"

int main(void) {
  char* error = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  CHECK(db == NULL);
  FAILED(error, "/db: does not exist (create_if_missing is false)");

  rocksdb_options_set_create_if_missing(options, 1);
  CHECK(rocksdb_options_get_create_if_missing(options) == 1);
  rocksdb_options_set_compression(options, rocksdb_zstd_compression);
  CHECK(rocksdb_options_get_compression(options) == rocksdb_zstd_compression);
  rocksdb_options_set_write_buffer_size(options, 1 << 20);
  CHECK(rocksdb_options_get_write_buffer_size(options) == 1 << 20);
  db = rocksdb_open(options, "db", &error);
  OK(error);

  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_put(db, writing, "key", 3, "value", 5, &error);
  OK(error);
  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  size_t length = 1;
  char* value = rocksdb_get(db, reading, "key", 3, &length, &error);
  OK(error);
  CHECK(length == 5 && memcmp(value, "value", 5) == 0);
  rocksdb_free(value);
  value = rocksdb_get(db, reading, "absent", 6, &length, &error);
  OK(error);
  CHECK(value == NULL && length == 0);

  CHECK(rocksdb_get(db, NULL, "key", 3, &length, &error) == NULL);
  FAILED(error, "Invalid argument: options is null");
  CHECK(rocksdb_get(db, reading, NULL, 3, &length, &error) == NULL);
  FAILED(error, "Invalid argument: key is null, and 3 bytes long");

  rocksdb_writeoptions_destroy(writing);
  rocksdb_readoptions_destroy(reading);
  rocksdb_options_destroy(options);
  rocksdb_close(db);
  return 0;
}

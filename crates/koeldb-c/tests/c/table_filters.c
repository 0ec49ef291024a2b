/* Reads that pass over tables by their properties. */
#include "plugins.h"

static unsigned char admits(void* state, const rocksdb_table_properties_t* properties) {
  CHECK(rocksdb_table_properties_num_entries(properties) > 0);
  return *(unsigned char*)state;
}

static size_t count(rocksdb_t* db, rocksdb_readoptions_t* reading) {
  size_t found = 0;
  rocksdb_iterator_t* iterator = rocksdb_create_iterator(db, reading);
  for (rocksdb_iter_seek_to_first(iterator); rocksdb_iter_valid(iterator);
       rocksdb_iter_next(iterator)) {
    found++;
  }
  rocksdb_iter_destroy(iterator);
  return found;
}

int main(void) {
  char* error = NULL;
  unsigned char all = 1, none = 0;
  rocksdb_options_t* options = small_options();
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  OK(error);
  fill(db);
  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  CHECK(count(db, reading) == 1000);
  rocksdb_readoptions_set_table_filter(reading, &all, destroy, admits);
  CHECK(count(db, reading) == 1000);
  rocksdb_readoptions_set_table_filter(reading, &none, destroy, admits);
  CHECK(NOW(destroyed) == 1);
  CHECK(count(db, reading) < 900);
  rocksdb_readoptions_clear_table_filter(reading);
  CHECK(NOW(destroyed) == 2);
  CHECK(count(db, reading) == 1000);
  rocksdb_readoptions_destroy(reading);
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  return 0;
}

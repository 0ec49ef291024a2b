/* Writes two birds in one batch, reads one, and lists all. */
#include <stdio.h>
#include <stdlib.h>

#include <rocksdb/c.h>

static void check(char* error) {
  if (error != NULL) {
    fprintf(stderr, "%s\n", error);
    exit(1);
  }
}

int main(int count, char** arguments) {
  const char* directory = count > 1 ? arguments[1] : "birds.db";
  char* error = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, directory, &error);
  check(error);

  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "koel", 4, "Eudynamys", 9);
  rocksdb_writebatch_put(batch, "ani", 3, "Crotophaga", 10);
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_writeoptions_set_sync(writing, 1);
  rocksdb_write(db, writing, batch, &error);
  check(error);

  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  size_t length;
  char* value = rocksdb_get(db, reading, "koel", 4, &length, &error);
  check(error);
  printf("koel: %.*s\n", (int)length, value);
  rocksdb_free(value);

  rocksdb_iterator_t* birds = rocksdb_create_iterator(db, reading);
  for (rocksdb_iter_seek_to_first(birds); rocksdb_iter_valid(birds); rocksdb_iter_next(birds)) {
    size_t key_length, value_length;
    const char* key = rocksdb_iter_key(birds, &key_length);
    const char* name = rocksdb_iter_value(birds, &value_length);
    printf("%.*s = %.*s\n", (int)key_length, key, (int)value_length, name);
  }
  rocksdb_iter_get_error(birds, &error);
  check(error);

  rocksdb_iter_destroy(birds);
  rocksdb_readoptions_destroy(reading);
  rocksdb_writeoptions_destroy(writing);
  rocksdb_writebatch_destroy(batch);
  rocksdb_options_destroy(options);
  rocksdb_close(db);
  return 0;
}

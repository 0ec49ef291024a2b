/* Prefix extractors of functions, of a fixed length, and of whole keys. */
#include "plugins.h"

static int transformed = 0;

static const char* name(void* state) {
  (void)state;
  return "until the colon";
}

static char* transform(void* state, const char* key, size_t length, size_t* prefix_length) {
  (void)state;
  transformed = 1;
  *prefix_length = (size_t)((const char*)memchr(key, ':', length) - key);
  return (char*)key;
}

static unsigned char in_domain(void* state, const char* key, size_t length) {
  (void)state;
  return memchr(key, ':', length) != NULL;
}

static void try_extractor(rocksdb_slicetransform_t* extractor, const char* path) {
  char* error = NULL;
  rocksdb_options_t* options = small_options();
  rocksdb_options_set_memtable_prefix_bloom_size_ratio(options, 0.1);
  rocksdb_options_set_prefix_extractor(options, extractor);
  rocksdb_t* db = rocksdb_open(options, path, &error);
  OK(error);
  rocksdb_options_destroy(options);
  put(db, "a:1", "one", 3);
  put(db, "no colon", "two", 3);
  CHECK(has(db, "a:1", "one"));
  CHECK(has(db, "a:2", NULL));
  fill(db);
  CHECK(has(db, "a:1", "one"));
  CHECK(has(db, "no colon", "two"));
  rocksdb_close(db);
}

int main(void) {
  try_extractor(rocksdb_slicetransform_create(NULL, destroy, transform, in_domain, name), "own");
  CHECK(transformed);
  AWAIT(destroyed == 1);
  try_extractor(rocksdb_slicetransform_create_fixed_prefix(3), "fixed");
  try_extractor(rocksdb_slicetransform_create_noop(), "noop");
  try_extractor(NULL, "none");
  rocksdb_slicetransform_destroy(
      rocksdb_slicetransform_create(NULL, destroy, transform, in_domain, name));
  CHECK(destroyed == 2);
  return 0;
}

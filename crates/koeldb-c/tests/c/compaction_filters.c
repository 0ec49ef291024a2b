/* Compaction filters and their factories: values that are kept, changed and removed. */
#include "plugins.h"

static int created = 0;
static int filtered = 0;

static const char* name(void* state) {
  (void)state;
  return "filter";
}

static unsigned char filter(void* state, int level, const char* key, size_t key_length,
                            const char* value, size_t value_length, char** new_value,
                            size_t* new_length, unsigned char* is_changed) {
  (void)state;
  (void)value;
  (void)value_length;
  CHECK(level >= 0);
  filtered = 1;
  if (key_length == 4 && memcmp(key, "gone", 4) == 0) return 1;
  if (key_length == 3 && memcmp(key, "new", 3) == 0) {
    *new_value = "changed";
    *new_length = 7;
    *is_changed = 1;
  }
  return 0;
}

static rocksdb_compactionfilter_t* create(void* state, rocksdb_compactionfiltercontext_t* context) {
  (void)state;
  CHECK(!rocksdb_compactionfiltercontext_is_manual_compaction(context));
  rocksdb_compactionfiltercontext_is_full_compaction(context);
  __sync_fetch_and_add(&created, 1);
  return rocksdb_compactionfilter_create(NULL, destroy, filter, name);
}

static void try_filter(rocksdb_options_t* options, const char* path) {
  char* error = NULL;
  filtered = 0;
  rocksdb_t* db = rocksdb_open(options, path, &error);
  OK(error);
  put(db, "gone", "old", 3);
  put(db, "new", "old", 3);
  put(db, "stays", "old", 3);
  fill(db);
  AWAIT(has(db, "gone", NULL));
  AWAIT(has(db, "new", "changed"));
  CHECK(has(db, "stays", "old"));
  CHECK(filtered);
  rocksdb_close(db);
}

int main(void) {
  rocksdb_options_t* options = small_options();
  rocksdb_compactionfilter_t* one = rocksdb_compactionfilter_create(NULL, destroy, filter, name);
  rocksdb_compactionfilter_set_ignore_snapshots(one, 1);
  rocksdb_options_set_compaction_filter(options, one);
  try_filter(options, "filter");

  /* A filter takes precedence over a factory. */
  rocksdb_options_set_compaction_filter_factory(
      options, rocksdb_compactionfilterfactory_create(NULL, destroy, create, name));
  try_filter(options, "both");
  CHECK(created == 0);
  rocksdb_options_set_compaction_filter(options, NULL);
  CHECK(destroyed == 0);
  rocksdb_compactionfilter_destroy(one);
  AWAIT(destroyed == 1);

  try_filter(options, "factory");
  CHECK(created > 0);
  rocksdb_options_destroy(options);
  AWAIT(destroyed == created + 2);
  return 0;
}

/* Comparators of functions: the order of keys, names, states. */
#include "plugins.h"

static int is_called = 0;

static int by_case(void* state, const char* a, size_t a_length, const char* b, size_t b_length) {
  CHECK(state == &is_called);
  __atomic_store_n(&is_called, 1, __ATOMIC_RELAXED);
  for (size_t at = 0; at < a_length && at < b_length; at++) {
    int difference = (a[at] | 32) - (b[at] | 32);
    if (difference != 0) return difference;
  }
  return a_length < b_length ? -1 : a_length > b_length;
}

static const char* name(void* state) {
  (void)state;
  return "ignores case";
}

static int bytewise(void* state, const char* a, size_t a_length, const char* b, size_t b_length) {
  (void)state;
  int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
  return order != 0 ? order : (a_length > b_length) - (a_length < b_length);
}

static const char* bytewise_name(void* state) {
  (void)state;
  return "own bytewise";
}

/* Filters and memtables that hash prefixes serve every comparator, as in RocksDB. */
static void filters(void) {
  char* error = NULL;
  rocksdb_options_t* options = small_options();
  rocksdb_comparator_t* comparator =
      rocksdb_comparator_create(NULL, destroy, bytewise, bytewise_name);
  rocksdb_options_set_comparator(options, comparator);
  rocksdb_block_based_table_options_t* tables = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_filter_policy(tables, rocksdb_filterpolicy_create_bloom(10));
  rocksdb_options_set_block_based_table_factory(options, tables);
  rocksdb_options_set_prefix_extractor(options, rocksdb_slicetransform_create_fixed_prefix(3));
  rocksdb_options_set_hash_skip_list_rep(options, 1000, 4, 4);
  rocksdb_options_set_allow_concurrent_memtable_write(options, 0);
  rocksdb_t* db = rocksdb_open(options, "filters", &error);
  OK(error);
  fill(db);
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  rocksdb_perfcontext_t* perf = rocksdb_perfcontext_create();
  rocksdb_set_perf_level(rocksdb_enable_count);
  rocksdb_perfcontext_reset(perf);
  char key[20];
  for (int at = 0; at < 1000; at++) {
    snprintf(key, sizeof(key), "key%06dx", at);
    CHECK(has(db, key, NULL));
  }
  CHECK(rocksdb_perfcontext_metric(perf, rocksdb_bloom_sst_miss_count) > 900);
  rocksdb_perfcontext_destroy(perf);
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  rocksdb_block_based_options_destroy(tables);
  rocksdb_comparator_destroy(comparator);
  AWAIT(destroyed == 1);
  destroyed = 0;
}

int main(void) {
  filters();
  char* error = NULL;
  rocksdb_options_t* options = small_options();
  rocksdb_comparator_t* comparator = rocksdb_comparator_create(&is_called, destroy, by_case, name);
  rocksdb_options_set_comparator(options, comparator);
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  OK(error);
  put(db, "Key", "one", 3);
  put(db, "kEY", "two", 3);
  CHECK(is_called);
  CHECK(has(db, "KEY", "two"));
  fill(db);
  CHECK(has(db, "key", "two"));

  rocksdb_options_t* others = rocksdb_options_create();
  rocksdb_close(db);
  CHECK(rocksdb_open(others, "db", &error) == NULL);
  FAILED(error, "ignores case");
  rocksdb_options_destroy(others);

  /* The options share the comparator. */
  rocksdb_comparator_destroy(comparator);
  CHECK(destroyed == 0);
  db = rocksdb_open(options, "db", &error);
  OK(error);
  CHECK(has(db, "keY", "two"));
  rocksdb_options_destroy(options);
  CHECK(has(db, "keY", "two"));
  rocksdb_close(db);
  AWAIT(destroyed == 1);

  /* Timestamps of other sizes than 8 are refused. */
  options = small_options();
  comparator = rocksdb_comparator_with_ts_create(&is_called, destroy, by_case, by_case, NULL,
                                                 name, 4);
  rocksdb_options_set_comparator(options, comparator);
  CHECK(rocksdb_open(options, "timestamps", &error) == NULL);
  CHECK(error != NULL);
  rocksdb_free(error);
  rocksdb_options_destroy(options);
  rocksdb_comparator_destroy(comparator);
  CHECK(destroyed == 2);
  return 0;
}

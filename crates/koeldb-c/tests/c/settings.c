/* Options and the objects that they share. */
#include "check.h"

static void reading(void) {
  rocksdb_readoptions_t* options = rocksdb_readoptions_create();
  rocksdb_readoptions_set_fill_cache(options, 0);
  CHECK(rocksdb_readoptions_get_fill_cache(options) == 0);
  rocksdb_readoptions_set_read_tier(options, 3);
  CHECK(rocksdb_readoptions_get_read_tier(options) == 3);
  rocksdb_readoptions_set_deadline(options, 7);
  CHECK(rocksdb_readoptions_get_deadline(options) == 7);
  rocksdb_readoptions_set_request_id(options, "id", 2);
  size_t length = 0;
  CHECK(memcmp(rocksdb_readoptions_get_request_id(options, &length), "id", 2) == 0);
  CHECK(length == 2);
  rocksdb_readoptions_set_iterate_upper_bound(options, NULL, 0);
  rocksdb_readoptions_set_snapshot(options, NULL);
  rocksdb_readoptions_destroy(options);
}

static void caches(void) {
  rocksdb_cache_t* cache = rocksdb_cache_create_lru_with_strict_capacity_limit(1 << 20);
  CHECK(rocksdb_cache_get_capacity(cache) == 1 << 20);
  rocksdb_cache_set_capacity(cache, 2 << 20);
  CHECK(rocksdb_cache_get_capacity(cache) == 2 << 20);
  rocksdb_cache_destroy(cache);
  rocksdb_lru_cache_options_t* options = rocksdb_lru_cache_options_create();
  rocksdb_lru_cache_options_set_capacity(options, 3 << 20);
  rocksdb_lru_cache_options_set_num_shard_bits(options, 1);
  cache = rocksdb_cache_create_lru_opts(options);
  CHECK(rocksdb_cache_get_capacity(cache) == 3 << 20);
  CHECK(rocksdb_cache_get_usage(cache) == 0);
  rocksdb_cache_destroy(cache);
  rocksdb_lru_cache_options_destroy(options);
}

static void sets(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_checksum_handoff_file_types_add(options, 3);
  CHECK(rocksdb_options_checksum_handoff_file_types_contains(options, 3));
  CHECK(rocksdb_options_checksum_handoff_file_types_count(options) == 1);
  rocksdb_options_destroy(options);
}

/* A database opened again with the options of its file, and with two directories of tables. */
static void loaded(void) {
  char* error = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_write_buffer_size(options, 5 << 20);
  rocksdb_options_set_max_bytes_for_level_multiplier_additional(options, (int[]){1, 2}, 2);
  const rocksdb_dbpath_t* paths[] = {rocksdb_dbpath_create("one", 1 << 20),
                                     rocksdb_dbpath_create("two", 1 << 30)};
  rocksdb_options_set_db_paths(options, paths, 2);
  rocksdb_options_add_compact_on_deletion_collector_factory(options, 10, 5);
  rocksdb_t* db = rocksdb_open(options, "loaded", &error);
  OK(error);
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  rocksdb_dbpath_destroy((rocksdb_dbpath_t*)paths[0]);
  rocksdb_dbpath_destroy((rocksdb_dbpath_t*)paths[1]);

  rocksdb_options_t **families, *database;
  char** names;
  size_t count = 0;
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_cache_t* cache = rocksdb_cache_create_hyper_clock(1 << 20, 0);
  rocksdb_load_latest_options("loaded", env, 0, cache, &database, &count, &names, &families,
                              &error);
  OK(error);
  CHECK(count == 1 && strcmp(names[0], "default") == 0);
  CHECK(rocksdb_options_get_write_buffer_size(families[0]) == 5 << 20);
  CHECK(rocksdb_options_get_create_if_missing(database) == 1);
  rocksdb_load_latest_options_destroy(database, names, families, count);
  rocksdb_cache_destroy(cache);

  rocksdb_env_set_high_priority_background_threads(env, 3);
  CHECK(rocksdb_env_get_high_priority_background_threads(env) == 3);
  rocksdb_env_destroy(env);
}

/* A value that the engine refuses fails the open. */
static void refused(void) {
  char* error = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_compression_per_level(options, (int[]){99}, 1);
  CHECK(rocksdb_open(options, "refused", &error) == NULL);
  FAILED(error, "99 is no compression");
  rocksdb_options_destroy(options);
}

int main(void) {
  char* error = NULL;
  reading();
  caches();
  sets();
  loaded();
  refused();
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(8 << 20);
  rocksdb_block_based_table_options_t* tables = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_block_cache(tables, cache);
  rocksdb_block_based_options_set_filter_policy(tables, rocksdb_filterpolicy_create_bloom(10));
  rocksdb_block_based_options_set_checksum(tables, 1);
  CHECK(rocksdb_block_based_options_get_checksum(tables) == 1);
  rocksdb_block_based_options_set_top_level_index_pinning_tier(tables, 3);
  rocksdb_env_t* env = rocksdb_create_mem_env();
  rocksdb_ratelimiter_t* limiter = rocksdb_ratelimiter_create(1 << 30, 100000, 10);
  rocksdb_write_buffer_manager_t* buffers =
      rocksdb_write_buffer_manager_create_with_cache(64 << 20, cache, 0);
  CHECK(rocksdb_write_buffer_manager_enabled(buffers));
  CHECK(rocksdb_write_buffer_manager_cost_to_cache(buffers));

  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_block_based_table_factory(options, tables);
  rocksdb_options_set_env(options, env);
  rocksdb_options_set_ratelimiter(options, limiter);
  rocksdb_options_set_write_buffer_manager(options, buffers);
  rocksdb_options_enable_statistics(options);
  rocksdb_options_set_statistics_level(options, rocksdb_statistics_level_all);
  CHECK(rocksdb_options_get_statistics_level(options) == rocksdb_statistics_level_all);
  rocksdb_options_set_compression_options(options, -14, 3, 0, 0);
  rocksdb_options_set_compression_options_parallel_threads(options, 2);
  CHECK(rocksdb_options_get_compression_options_parallel_threads(options) == 2);
  int levels[] = {rocksdb_no_compression, rocksdb_lz4_compression};
  rocksdb_options_set_compression_per_level(options, levels, 2);
  rocksdb_block_based_options_destroy(tables);
  rocksdb_env_destroy(env);
  rocksdb_ratelimiter_destroy(limiter);

  rocksdb_options_t* copy = rocksdb_options_create_copy(options);
  rocksdb_options_destroy(options);
  rocksdb_t* db = rocksdb_open(copy, "/db", &error);
  OK(error);
  rocksdb_set_perf_level(rocksdb_enable_count);
  rocksdb_perfcontext_t* metrics = rocksdb_perfcontext_create();
  rocksdb_perfcontext_reset(metrics);
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_writeoptions_disable_WAL(writing, 1);
  CHECK(rocksdb_writeoptions_get_disable_WAL(writing));
  rocksdb_put(db, writing, "key", 3, "value", 5, &error);
  OK(error);
  rocksdb_readoptions_t* plain = rocksdb_readoptions_create();
  size_t length = 0;
  rocksdb_free(rocksdb_get(db, plain, "key", 3, &length, &error));
  OK(error);
  CHECK(rocksdb_perfcontext_metric(metrics, rocksdb_get_read_bytes) == 5);
  char* report = rocksdb_perfcontext_report(metrics, 1);
  CHECK(strstr(report, "get_read_bytes = 5") != NULL);
  rocksdb_free(report);
  rocksdb_readoptions_set_deadline(plain, UINT64_MAX / 4);
  rocksdb_free(rocksdb_get(db, plain, "key", 3, &length, &error));
  OK(error);
  char* text = rocksdb_options_statistics_get_string(copy);
  CHECK(strstr(text, "rocksdb.bytes.written") != NULL);
  rocksdb_free(text);
  rocksdb_statistics_histogram_data_t* data = rocksdb_statistics_histogram_data_create();
  rocksdb_options_statistics_get_histogram_data(copy, 1, data);
  CHECK(rocksdb_statistics_histogram_data_get_count(data) == 1);
  rocksdb_statistics_histogram_data_destroy(data);

  rocksdb_memory_consumers_t* consumers = rocksdb_memory_consumers_create();
  rocksdb_memory_consumers_add_db(consumers, db);
  rocksdb_memory_consumers_add_cache(consumers, cache);
  rocksdb_memory_usage_t* usage = rocksdb_approximate_memory_usage_create(consumers, &error);
  OK(error);
  CHECK(rocksdb_approximate_memory_usage_get_mem_table_total(usage) > 0);
  rocksdb_approximate_memory_usage_destroy(usage);
  rocksdb_memory_consumers_destroy(consumers);

  rocksdb_options_t *database, **families;
  char** names;
  size_t count = 0;
  env = rocksdb_create_default_env();
  rocksdb_load_latest_options("none", env, 0, cache, &database, &count, &names, &families, &error);
  CHECK(error != NULL && count == 0 && database == NULL);
  rocksdb_free(error);
  error = NULL;
  rocksdb_env_destroy(env);

  rocksdb_options_t* parsed = rocksdb_options_create();
  rocksdb_get_options_from_string(copy, "write_buffer_size=1048576", parsed, &error);
  OK(error);
  CHECK(rocksdb_options_get_write_buffer_size(parsed) == 1 << 20);
  rocksdb_options_set_bottommost_compression(parsed, rocksdb_zstd_compression);
  CHECK(rocksdb_options_get_bottommost_compression(parsed) == rocksdb_zstd_compression);
  rocksdb_options_destroy(parsed);

  rocksdb_perfcontext_destroy(metrics);
  rocksdb_readoptions_destroy(plain);
  rocksdb_writeoptions_destroy(writing);
  rocksdb_options_destroy(copy);
  rocksdb_write_buffer_manager_destroy(buffers);
  rocksdb_cache_destroy(cache);
  rocksdb_close(db);
  return 0;
}

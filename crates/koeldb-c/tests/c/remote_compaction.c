/* A compaction service whose worker is this program; answers without a result. */
#include "plugins.h"

static int scheduled = 0, installed = 0, local = 0;
static char* input = NULL;
static size_t input_length = 0;

static rocksdb_compactionservice_scheduleresponse_t* schedule(
    void* state, const rocksdb_compactionservice_jobinfo_t* info, const char* message,
    size_t length) {
  char* error = NULL;
  size_t name_length = 0;
  CHECK(state == &scheduled);
  const char* name = rocksdb_compactionservice_jobinfo_t_get_db_name(info, &name_length);
  CHECK(name_length >= 2 && memcmp(name + name_length - 2, "db", 2) == 0);
  name = rocksdb_compactionservice_jobinfo_t_get_cf_name(info, &name_length);
  CHECK(name_length == 7 && strcmp(name, "default") == 0);
  CHECK(rocksdb_compactionservice_jobinfo_t_get_job_id(info) > 0);
  CHECK(!rocksdb_compactionservice_jobinfo_t_is_manual_compaction(info));
  if (input != NULL) {
    return rocksdb_compactionservice_scheduleresponse_create_with_status(
        rocksdb_compactionservice_jobstatus_use_local, &error);
  }
  input = malloc(length);
  memcpy(input, message, length);
  input_length = length;
  scheduled = 1;
  return rocksdb_compactionservice_scheduleresponse_create(
      "job", rocksdb_compactionservice_jobstatus_success, &error);
}

static int wait_for(void* state, const char* job, char** result, size_t* result_length) {
  (void)state;
  char* error = NULL;
  CHECK(strcmp(job, "job") == 0);
  unsigned char* canceled = rocksdb_open_and_compact_canceled_create();
  rocksdb_open_and_compact_options_t* options = rocksdb_open_and_compact_options_create();
  rocksdb_open_and_compact_options_set_canceled(options, canceled);
  rocksdb_compaction_service_options_override_t* overrides =
      rocksdb_compaction_service_options_override_create();

  rocksdb_open_and_compact_canceled_set(canceled, 1);
  CHECK(rocksdb_open_and_compact_with_options(options, "db", "worker", input, input_length,
                                              result_length, overrides, &error) == NULL);
  FAILED(error, "Result incomplete");

  rocksdb_open_and_compact_canceled_set(canceled, 0);
  rocksdb_open_and_compact_canceled_destroy(canceled);
  *result = rocksdb_open_and_compact_with_options(options, "db", "worker", input, input_length,
                                                  result_length, overrides, &error);
  OK(error);
  CHECK(*result != NULL && *result_length > 0);
  rocksdb_open_and_compact_options_destroy(options);
  rocksdb_compaction_service_options_override_destroy(overrides);
  return rocksdb_compactionservice_jobstatus_success;
}

static void on_installation(void* state, const char* job, int status) {
  (void)state;
  CHECK(strcmp(job, "job") == 0);
  CHECK(status == rocksdb_compactionservice_jobstatus_success);
  installed = 1;
}

static rocksdb_compactionservice_scheduleresponse_t* refuse(
    void* state, const rocksdb_compactionservice_jobinfo_t* info, const char* message,
    size_t length) {
  (void)state;
  (void)info;
  (void)message;
  (void)length;
  local = 1;
  return NULL;
}

static void responses(void) {
  char* error = NULL;
  size_t length = 0;
  rocksdb_compactionservice_scheduleresponse_t* response =
      rocksdb_compactionservice_scheduleresponse_create("id", 2, &error);
  OK(error);
  CHECK(rocksdb_compactionservice_scheduleresponse_getstatus(response) == 2);
  CHECK(strcmp(rocksdb_compactionservice_scheduleresponse_get_scheduled_job_id(response, &length),
               "id") == 0);
  CHECK(length == 2);
  rocksdb_compactionservice_scheduleresponse_t_destroy(response);
  CHECK(rocksdb_compactionservice_scheduleresponse_getstatus(NULL) == 1);
  CHECK(rocksdb_compactionservice_scheduleresponse_create_with_status(4, &error) == NULL);
  FAILED(error, "Invalid argument");
}

/* All setters of a worker's objects, null where it stands for no change. */
static void overrides(void) {
  rocksdb_options_t* options = small_options();
  rocksdb_compaction_service_options_override_t* target =
      rocksdb_compaction_service_options_override_create_from_options(options);
  CHECK(rocksdb_compaction_service_options_override_create_from_options(NULL) == NULL);
  rocksdb_compaction_service_options_override_set_comparator(target, NULL);
  rocksdb_compaction_service_options_override_set_merge_operator(target, NULL);
  rocksdb_compaction_service_options_override_set_compaction_filter(target, NULL);
  rocksdb_compaction_service_options_override_set_compaction_filter_factory(target, NULL);
  rocksdb_compaction_service_options_override_set_prefix_extractor(
      target, rocksdb_slicetransform_create_fixed_prefix(4));
  rocksdb_compaction_service_options_override_add_event_listener(
      target, rocksdb_eventlistener_create(NULL, destroy, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                           NULL, NULL, NULL));
  rocksdb_compaction_service_options_override_set_statistics(target, options);
  rocksdb_compaction_service_options_override_set_info_log(target, NULL);
  rocksdb_compaction_service_options_override_set_option(target, "max_background_jobs", "4");
  rocksdb_file_checksum_gen_factory_t* checksums =
      rocksdb_file_checksum_gen_crc32c_factory_create();
  rocksdb_compaction_service_options_override_set_file_checksum_gen_factory(target, checksums);
  rocksdb_options_set_file_checksum_gen_factory(options, checksums);
  rocksdb_file_checksum_gen_factory_destroy(checksums);
  rocksdb_sst_partitioner_factory_t* partitioner =
      rocksdb_sst_partitioner_fixed_prefix_factory_create(4);
  rocksdb_compaction_service_options_override_set_sst_partitioner_factory(target, partitioner);
  rocksdb_options_set_sst_partitioner_factory(options, partitioner);
  rocksdb_sst_partitioner_factory_destroy(partitioner);
  rocksdb_compaction_service_options_override_add_table_properties_collector_factory(target, NULL);
  rocksdb_options_add_table_properties_collector_factory(options, NULL);
  rocksdb_compaction_service_options_override_destroy(target);
  CHECK(destroyed == 1);
  rocksdb_options_destroy(options);
}

int main(void) {
  char* error = NULL;
  responses();
  overrides();

  rocksdb_options_t* options = small_options();
  rocksdb_options_set_compaction_service(options, NULL);
  rocksdb_options_set_compaction_service(
      options, rocksdb_compactionservice_create(&scheduled, destroy, schedule, "service", wait_for,
                                                NULL, on_installation));
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  OK(error);
  put(db, "first", "value", 5);
  fill(db);
  AWAIT(scheduled && installed);
  CHECK(has(db, "first", "value"));
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  AWAIT(destroyed == 2);
  rocksdb_free(input);

  options = small_options();
  rocksdb_options_set_compaction_service(
      options, rocksdb_compactionservice_create(NULL, NULL, refuse, NULL, NULL, NULL, NULL));
  db = rocksdb_open(options, "local", &error);
  OK(error);
  put(db, "first", "value", 5);
  fill(db);
  AWAIT(local);
  CHECK(has(db, "first", "value"));
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  return 0;
}

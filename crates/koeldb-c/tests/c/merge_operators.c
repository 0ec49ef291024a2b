/* Merge operators of functions: results, failures, and values that are given back. */
#include "plugins.h"

#include <stdint.h>

static int given_back = 0;

static const char* name(void* state) {
  (void)state;
  return "joins";
}

/* Whether Go's runtime takes a pointer for one, also that to no bytes. */
static int is_address(const void* pointer) { return (uintptr_t)pointer >= 4096; }

/* Joins the value and the operands, to null if they are empty; fails for the key "bad". */
static char* join(const char* first, size_t first_length, const char* const* operands,
                  const size_t* lengths, int count, size_t* length) {
  *length = first_length;
  for (int at = 0; at < count; at++) *length += lengths[at];
  for (int at = 0; at < count; at++) CHECK(is_address(operands[at]));
  if (*length == 0) return NULL;
  char* joined = malloc(*length + 1);
  char* end = joined;
  if (first_length > 0) memcpy(end, first, first_length);
  end += first_length;
  for (int at = 0; at < count; at++) {
    memcpy(end, operands[at], lengths[at]);
    end += lengths[at];
  }
  return joined;
}

static char* full(void* state, const char* key, size_t key_length, const char* existing,
                  size_t existing_length, const char* const* operands, const size_t* lengths,
                  int count, unsigned char* success, size_t* length) {
  (void)state;
  *success = key_length != 3 || memcmp(key, "bad", 3) != 0;
  return *success ? join(existing, existing_length, operands, lengths, count, length) : NULL;
}

static char* partial(void* state, const char* key, size_t key_length, const char* const* operands,
                     const size_t* lengths, int count, unsigned char* success, size_t* length) {
  (void)state;
  (void)key;
  (void)key_length;
  *success = 1;
  return join(NULL, 0, operands, lengths, count, length);
}

static void give_back(void* state, const char* value, size_t length) {
  (void)state;
  (void)length;
  given_back = 1;
  free((void*)value);
}

static void merge(rocksdb_t* db, const char* key, const char* operand, size_t length) {
  char* error = NULL;
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_merge(db, writing, key, strlen(key), operand, length, &error);
  OK(error);
  rocksdb_writeoptions_destroy(writing);
}

int main(void) {
  char* error = NULL;
  rocksdb_options_t* options = small_options();
  rocksdb_options_set_merge_operator(
      options, rocksdb_mergeoperator_create(NULL, destroy, full, partial, give_back, name));
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  OK(error);
  put(db, "key", "a", 1);
  merge(db, "key", "b", 1);
  merge(db, "key", "c", 1);
  CHECK(has(db, "key", "abc"));
  CHECK(given_back);
  merge(db, "new", "x", 1);
  CHECK(has(db, "new", "x"));
  fill(db);
  merge(db, "key", "d", 1);
  CHECK(has(db, "key", "abcd"));
  merge(db, "bad", "x", 1);
  size_t length = 0;
  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  CHECK(rocksdb_get(db, reading, "bad", 3, &length, &error) == NULL);
  FAILED(error, "Corruption");
  /* A null pointer is an empty value. */
  for (int flushed = 0; flushed < 2; flushed++) {
    merge(db, "none", "", 0);
    CHECK(has(db, "none", ""));
    rocksdb_iterator_t* entries = rocksdb_create_iterator(db, reading);
    rocksdb_iter_seek(entries, "none", 4);
    CHECK(rocksdb_iter_valid(entries));
    CHECK(is_address(rocksdb_iter_value(entries, &length)) && length == 0);
    rocksdb_iter_destroy(entries);
    fill(db);
  }
  rocksdb_close(db);

  /* Values of operators without a function for it are freed. Another operator replaces the first. */
  rocksdb_options_set_merge_operator(
      options, rocksdb_mergeoperator_create(NULL, destroy, full, partial, NULL, name));
  AWAIT(NOW(destroyed) == 1);
  given_back = 0;
  db = rocksdb_open(options, "db", &error);
  OK(error);
  merge(db, "key", "e", 1);
  CHECK(has(db, "key", "abcde"));
  CHECK(!given_back);
  rocksdb_close(db);
  rocksdb_options_set_merge_operator(options, NULL);
  AWAIT(NOW(destroyed) == 2);

  rocksdb_options_set_uint64add_merge_operator(options);
  db = rocksdb_open(options, "numbers", &error);
  OK(error);
  merge(db, "sum", "\1\0\0\0\0\0\0\0", 8);
  merge(db, "sum", "\2\0\0\0\0\0\0\0", 8);
  char* sum = rocksdb_get(db, reading, "sum", 3, &length, &error);
  OK(error);
  CHECK(length == 8 && memcmp(sum, "\3\0\0\0\0\0\0\0", 8) == 0);
  rocksdb_free(sum);
  rocksdb_close(db);
  rocksdb_readoptions_destroy(reading);
  rocksdb_options_destroy(options);
  return 0;
}

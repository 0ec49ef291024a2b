/* What the programs about plug-ins share: databases that flush and compact by themselves. */
#define _POSIX_C_SOURCE 200809L
#pragma once

#include <time.h>

#include "check.h"

/* Waits for a condition that other threads make true. */
#define AWAIT(condition)                                                \
  do {                                                                  \
    for (int turn = 0; !(condition) && turn < 3000; turn++) {           \
      struct timespec pause = {0, 10000000};                            \
      nanosleep(&pause, NULL);                                          \
    }                                                                   \
    CHECK(condition);                                                   \
  } while (0)

/* Options of a database that flushes after some 60 values, and compacts two tables. */
static inline rocksdb_options_t* small_options(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_write_buffer_size(options, 64 << 10);
  rocksdb_options_set_level0_file_num_compaction_trigger(options, 2);
  return options;
}

static inline void put(rocksdb_t* db, const char* key, const char* value, size_t length) {
  char* error = NULL;
  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_put(db, writing, key, strlen(key), value, length, &error);
  OK(error);
  rocksdb_writeoptions_destroy(writing);
}

/* Whether the key has this value; a null value stands for none. */
static inline int has(rocksdb_t* db, const char* key, const char* value) {
  char* error = NULL;
  size_t length = 0;
  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  char* found = rocksdb_get(db, reading, key, strlen(key), &length, &error);
  OK(error);
  rocksdb_readoptions_destroy(reading);
  int is_same = value == NULL ? found == NULL
                              : found != NULL && length == strlen(value) &&
                                    memcmp(found, value, length) == 0;
  rocksdb_free(found);
  return is_same;
}

/* Writes values for many flushes and compactions. */
static inline void fill(rocksdb_t* db) {
  char key[20], value[1000];
  memset(value, 'v', sizeof(value));
  for (int at = 0; at < 1000; at++) {
    snprintf(key, sizeof(key), "key%06d", (at * 7919) % 1000);
    put(db, key, value, sizeof(value));
  }
}

/* Counts the calls of destructors. */
static int destroyed = 0;

static inline void destroy(void* state) {
  (void)state;
  __sync_fetch_and_add(&destroyed, 1);
}

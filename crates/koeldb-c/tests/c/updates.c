/* The updates in the log: the first one, gaps, and sequence numbers that are not written yet. */
#include "plugins.h"

/* Returns the first sequence number of the iterator's batch. */
static uint64_t number(rocksdb_wal_iterator_t* updates) {
  uint64_t first = 0;
  rocksdb_writebatch_t* batch = rocksdb_wal_iter_get_batch(updates, &first);
  CHECK(rocksdb_writebatch_count(batch) > 0);
  rocksdb_writebatch_destroy(batch);
  return first;
}

static void status(rocksdb_wal_iterator_t* updates, const char* expected) {
  char* error = NULL;
  rocksdb_wal_iter_status(updates, &error);
  if (expected == NULL) {
    OK(error);
  } else {
    FAILED(error, expected);
  }
}

int main(void) {
  char* error = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, "db", &error);
  OK(error);
  rocksdb_flushoptions_t* flushing = rocksdb_flushoptions_create();
  for (int at = 0; at < 5; at++) {
    put(db, "key", "value", 5);
    rocksdb_flush(db, flushing, &error);
    OK(error);
  }
  put(db, "key", "last", 4);
  uint64_t latest = rocksdb_get_latest_sequence_number(db);
  CHECK(latest == 6);

  /* The logs of the first batches are gone: it begins with what is left. */
  rocksdb_wal_iterator_t* updates = rocksdb_get_updates_since(db, 0, NULL, &error);
  OK(error);
  CHECK(rocksdb_wal_iter_valid(updates));
  uint64_t at = number(updates);
  CHECK(at > 1);
  while (at < latest) {
    rocksdb_wal_iter_next(updates);
    CHECK(rocksdb_wal_iter_valid(updates));
    at = number(updates);
  }
  /* An iterator at the end of the log finds later batches. */
  rocksdb_wal_iter_next(updates);
  CHECK(!rocksdb_wal_iter_valid(updates));
  status(updates, NULL);
  put(db, "key", "more", 4);
  rocksdb_wal_iter_next(updates);
  CHECK(rocksdb_wal_iter_valid(updates) && number(updates) == latest + 1);

  /* A gap ends it, and a new one begins behind the gap. */
  rocksdb_writeoptions_t* unlogged = rocksdb_writeoptions_create();
  rocksdb_writeoptions_disable_WAL(unlogged, 1);
  rocksdb_put(db, unlogged, "key", 3, "unlogged", 8, &error);
  OK(error);
  put(db, "key", "logged", 6);
  for (int turn = 0; turn < 2; turn++) {
    rocksdb_wal_iter_next(updates);
    CHECK(!rocksdb_wal_iter_valid(updates));
    status(updates, "NotFound: Gap in sequence numbers");
  }
  rocksdb_wal_iter_destroy(updates);
  updates = rocksdb_get_updates_since(db, latest + 2, NULL, &error);
  OK(error);
  CHECK(rocksdb_wal_iter_valid(updates) && number(updates) == latest + 3);
  rocksdb_wal_iter_destroy(updates);

  CHECK(rocksdb_get_updates_since(db, latest + 4, NULL, &error) == NULL);
  FAILED(error, "NotFound: Requested sequence not yet written in the db");

  rocksdb_writeoptions_destroy(unlogged);
  rocksdb_flushoptions_destroy(flushing);
  rocksdb_options_destroy(options);
  rocksdb_close(db);
  return 0;
}

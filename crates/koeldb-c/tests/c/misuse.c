/* Calls that break the rules: each fails or ends the process, with a line that names the function. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static rocksdb_options_t* options;
static rocksdb_writeoptions_t* writing;
static rocksdb_readoptions_t* reading;
static rocksdb_t* db;

/* Runs a function in another process, which must end by abort() and print the text. */
static void dies(void (*run)(void), const char* expected) {
  int lines[2], status;
  CHECK(pipe(lines) == 0);
  pid_t child = fork();
  if (child == 0) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    dup2(lines[1], 2);
    run();
    _exit(0);
  }
  close(lines[1]);
  char text[8192];
  size_t length = 0;
  ssize_t count;
  while ((count = read(lines[0], text + length, sizeof(text) - 1 - length)) > 0) {
    length += (size_t)count;
  }
  text[length] = 0;
  close(lines[0]);
  CHECK(waitpid(child, &status, 0) == child);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || strstr(text, expected) == NULL) {
    fprintf(stderr, "expected %s, status %x, got %s\n", expected, status, text);
    exit(1);
  }
}

static void null_database(void) { rocksdb_create_iterator(NULL, reading); }

static void null_options(void) { rocksdb_options_set_create_if_missing(NULL, 1); }

/* Functions with errptr fail; the others end the process. Null is permitted where it is destroyed. */
static void nulls(void) {
  char* error = NULL;
  size_t length = 7;
  CHECK(rocksdb_open(NULL, "other", &error) == NULL);
  FAILED(error, "Invalid argument: options is null");
  CHECK(rocksdb_open(options, NULL, &error) == NULL);
  FAILED(error, "Invalid argument: name is null");
  CHECK(rocksdb_get(NULL, reading, "a", 1, &length, &error) == NULL);
  FAILED(error, "Invalid argument: db is null");
  rocksdb_put(db, writing, NULL, 3, "v", 1, &error);
  FAILED(error, "Invalid argument: key is null, and 3 bytes long");
  rocksdb_write(db, writing, NULL, &error);
  FAILED(error, "Invalid argument: batch is null");
  /* A null pointer with the length 0 stands for an empty key. */
  rocksdb_put(db, writing, NULL, 0, NULL, 0, &error);
  OK(error);
  char* found = rocksdb_get(db, reading, NULL, 0, NULL, &error);
  OK(error);
  CHECK(found != NULL);
  rocksdb_free(found);
  rocksdb_free(NULL);
  rocksdb_iter_destroy(NULL);
  rocksdb_writebatch_destroy(NULL);
  rocksdb_readoptions_destroy(NULL);
  dies(null_database, "koeldb: rocksdb_create_iterator: Invalid argument: db is null");
  dies(null_options, "koeldb: rocksdb_options_set_create_if_missing: ");
}

/* A failure replaces an earlier error text, and a success keeps it. */
static void errors(void) {
  char* error = NULL;
  rocksdb_put(db, writing, NULL, 3, "v", 1, &error);
  CHECK(error != NULL);
  char* first = error;
  rocksdb_put(db, writing, "k", 1, "v", 1, &error);
  CHECK(error == first);
  CHECK(rocksdb_open(NULL, "other", &error) == NULL);
  FAILED(error, "options is null");
}

#ifdef CHECKED_HANDLES
static void wrong_object(void) { rocksdb_iter_next((rocksdb_iterator_t*)(void*)writing); }

static void destroyed_twice(void) {
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_destroy(batch);
  rocksdb_writebatch_destroy(batch);
}

static void used_after_destroy(void) {
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_destroy(batch);
  rocksdb_writebatch_clear(batch);
}

static void closed_twice(void) {
  char* error = NULL;
  rocksdb_options_t* other = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(other, 1);
  rocksdb_t* twice = rocksdb_open(other, "twice", &error);
  OK(error);
  rocksdb_close(twice);
  rocksdb_close(twice);
}

static void given_away(void) {
  rocksdb_mergeoperator_t* given = rocksdb_mergeoperator_create(NULL, NULL, NULL, NULL, NULL, NULL);
  rocksdb_options_t* other = rocksdb_options_create();
  rocksdb_options_set_merge_operator(other, given);
  rocksdb_mergeoperator_destroy(given);
}
#endif

/* A wrong object causes a panic, which becomes an error or ends the process. */
static void handles(void) {
#ifdef CHECKED_HANDLES
  char* error = NULL;
  CHECK(rocksdb_get((rocksdb_t*)(void*)options, reading, "a", 1, NULL, &error) == NULL);
  FAILED(error, "Corruption: internal error in rocksdb_get: ");
  rocksdb_put(db, (rocksdb_writeoptions_t*)(void*)reading, "a", 1, "v", 1, &error);
  FAILED(error, "Corruption: internal error in rocksdb_put: ");
  dies(wrong_object, "koeldb: rocksdb_iter_next: Corruption: internal error in rocksdb_iter_next: ");
  dies(destroyed_twice, "koeldb: rocksdb_writebatch_destroy: ");
  dies(destroyed_twice, "an object that was destroyed");
  dies(used_after_destroy, "an object that was destroyed");
  dies(closed_twice, "koeldb: rocksdb_close: ");
  dies(given_away, "koeldb: rocksdb_mergeoperator_destroy: ");
#endif
}

/* Values that callbacks must not return. */
enum merged { NOTHING, FAILURE, TOO_LONG };

static char* merged(void* state, const char* key, size_t key_length, const char* existing,
                    size_t existing_length, const char* const* operands, const size_t* lengths,
                    int count, unsigned char* success, size_t* length) {
  (void)key, (void)key_length, (void)existing, (void)existing_length;
  (void)operands, (void)lengths, (void)count;
  enum merged how = *(enum merged*)state;
  *success = how != FAILURE;
  *length = how == TOO_LONG ? (size_t)-1 : 4;
  return how == NOTHING ? NULL : memcpy(malloc(4), "bad!", 4);
}

static char* partly_merged(void* state, const char* key, size_t key_length,
                           const char* const* operands, const size_t* lengths, int count,
                           unsigned char* success, size_t* length) {
  (void)state, (void)key, (void)key_length, (void)operands, (void)lengths, (void)count;
  *success = 0;
  *length = 0;
  return NULL;
}

static void no_destructor(void* state) { (void)state; }

static const char* name_of(void* state) {
  (void)state;
  return "misused";
}

static const char* no_name(void* state) {
  (void)state;
  return NULL;
}

static void callbacks(void) {
  for (enum merged how = NOTHING; how <= TOO_LONG; how++) {
    char* error = NULL;
    rocksdb_options_t* merging = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(merging, 1);
    rocksdb_options_set_merge_operator(
        merging, rocksdb_mergeoperator_create(&how, no_destructor, merged, partly_merged, NULL,
                                              how == NOTHING ? no_name : name_of));
    rocksdb_t* merges = rocksdb_open(merging, "merges", &error);
    OK(error);
    rocksdb_merge(merges, writing, "key", 3, "operand", 7, &error);
    OK(error);
    CHECK(rocksdb_get(merges, reading, "key", 3, NULL, &error) == NULL);
    FAILED(error, "Merge operator failed");
    rocksdb_close(merges);
    rocksdb_destroy_db(merging, "merges", &error);
    OK(error);
    rocksdb_options_destroy(merging);
  }
}

/* Objects that outlive their database are destroyed in any order. */
static void orders(void) {
  char* error = NULL;
  rocksdb_t* closed = rocksdb_open(options, "closed", &error);
  OK(error);
  rocksdb_put(closed, writing, "k", 1, "v", 1, &error);
  OK(error);
  rocksdb_column_family_handle_t* family =
      rocksdb_create_column_family(closed, options, "family", &error);
  OK(error);
  rocksdb_iterator_t* iterator = rocksdb_create_iterator(closed, reading);
  rocksdb_pinnableslice_t* pinned = rocksdb_get_pinned(closed, reading, "k", 1, &error);
  OK(error);
  rocksdb_close(closed);
  size_t length;
  CHECK(memcmp(rocksdb_pinnableslice_value(pinned, &length), "v", 1) == 0 && length == 1);
  rocksdb_iter_seek_to_first(iterator);
  rocksdb_iter_get_error(iterator, &error);
  rocksdb_free(error);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_pinnableslice_destroy(pinned);
  rocksdb_iter_destroy(iterator);
}

#define THREADS 8
#define KEYS 400

static void* works(void* argument) {
  int thread = *(int*)argument;
  char key[32], *error = NULL;
  rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
  for (int at = 0; at < KEYS; at++) {
    int length = snprintf(key, sizeof(key), "thread%d-%06d", thread, at);
    rocksdb_put_cf(db, writing, family, key, (size_t)length, key, (size_t)length, &error);
    OK(error);
    size_t found;
    char* value = rocksdb_get(db, reading, key, (size_t)length, &found, &error);
    OK(error);
    CHECK(found == (size_t)length && memcmp(value, key, found) == 0);
    rocksdb_free(value);
    if (at % 100 == 99) {
      const rocksdb_snapshot_t* snapshot = rocksdb_create_snapshot(db);
      rocksdb_readoptions_t* then = rocksdb_readoptions_create();
      rocksdb_readoptions_set_snapshot(then, snapshot);
      rocksdb_iterator_t* iterator = rocksdb_create_iterator(db, then);
      int count = 0;
      char prefix[32];
      int prefix_length = snprintf(prefix, sizeof(prefix), "thread%d-", thread);
      for (rocksdb_iter_seek(iterator, prefix, (size_t)prefix_length); rocksdb_iter_valid(iterator);
           rocksdb_iter_next(iterator)) {
        const char* here = rocksdb_iter_key(iterator, &found);
        if (memcmp(here, prefix, (size_t)prefix_length) != 0) break;
        count++;
      }
      CHECK(count == at + 1);
      rocksdb_iter_destroy(iterator);
      rocksdb_readoptions_destroy(then);
      rocksdb_release_snapshot(db, snapshot);
    }
    if (at % 200 == 150) {
      rocksdb_flushoptions_t* flushing = rocksdb_flushoptions_create();
      rocksdb_flush(db, flushing, &error);
      OK(error);
      rocksdb_flushoptions_destroy(flushing);
    }
  }
  rocksdb_column_family_handle_destroy(family);
  return NULL;
}

static void threads(void) {
  pthread_t all[THREADS];
  int numbers[THREADS];
  for (int at = 0; at < THREADS; at++) {
    numbers[at] = at;
    CHECK(pthread_create(&all[at], NULL, works, &numbers[at]) == 0);
  }
  for (int at = 0; at < THREADS; at++) {
    CHECK(pthread_join(all[at], NULL) == 0);
  }
}

/* A forked child cannot write, and destroys its copies; the parent goes on. */
static void child(void) {
  char* error = NULL;
  rocksdb_iterator_t* iterator = rocksdb_create_iterator(db, reading);
  fflush(NULL);
  pid_t forked = fork();
  if (forked == 0) {
    rocksdb_put(db, writing, "child", 5, "v", 1, &error);
    CHECK(error != NULL);
    rocksdb_free(error);
    rocksdb_iter_destroy(iterator);
    rocksdb_close(db);
    rocksdb_options_destroy(options);
    rocksdb_writeoptions_destroy(writing);
    rocksdb_readoptions_destroy(reading);
    _exit(0);
  }
  int status;
  CHECK(waitpid(forked, &status, 0) == forked);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  rocksdb_iter_destroy(iterator);
  rocksdb_put(db, writing, "parent", 6, "v", 1, &error);
  OK(error);
  /* The child has not given up the lock of the directory. */
  CHECK(rocksdb_open(options, "db", &error) == NULL);
  FAILED(error, "lock hold by current process");
  CHECK(rocksdb_get(db, reading, "child", 5, NULL, &error) == NULL);
  OK(error);
}

int main(void) {
  char* error = NULL;
  options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  writing = rocksdb_writeoptions_create();
  reading = rocksdb_readoptions_create();
  db = rocksdb_open(options, "db", &error);
  OK(error);
  nulls();
  errors();
  handles();
  callbacks();
  orders();
  threads();
  child();
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  rocksdb_writeoptions_destroy(writing);
  rocksdb_readoptions_destroy(reading);
  return 0;
}

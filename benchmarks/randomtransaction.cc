// The benchmark randomtransaction of db_bench through RocksDB's C interface (docs/benchmarks.md):
//   randomtransaction DIRECTORY t|o|b THREADS COUNT KEYS SETS
// t: pessimistic transactions, o: optimistic ones, b: batches. COUNT is that of each thread.
// T, O: the benchmark `counter` of KoelDB: increments of one key, each repeated until it commits.
#include <rocksdb/c.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {
char mode;
uint64_t count, keys;
int sets;
rocksdb_transactiondb_t* pessimistic;
rocksdb_optimistictransactiondb_t* optimistic;
rocksdb_t* plain;
rocksdb_readoptions_t* read_options;
rocksdb_writeoptions_t* write_options;
std::atomic<uint64_t> aborts{0};

std::string number_of(char* value, size_t length) {
  std::string text = value ? std::string(value, length) : "0";
  free(value);
  return text;
}

// Adds one number to a random key of each set.
void run_one(std::mt19937_64& random, std::vector<int>& order, rocksdb_transaction_t* txn,
             rocksdb_writebatch_t* batch, char** err) {
  std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<uint32_t>(random())));
  uint64_t add = random() % 100 + 1;
  for (int set : order) {
    char key[32];
    size_t bytes = snprintf(key, sizeof key, "%04d%llu", set, (unsigned long long)(random() % keys));
    size_t length = 0;
    char* value;
    if (mode == 'b') {
      value = rocksdb_get(plain, read_options, key, bytes, &length, err);
    } else if (random() % 2 == 0) {
      value = rocksdb_transaction_get_for_update(txn, read_options, key, bytes, &length, 1, err);
    } else {
      value = rocksdb_transaction_get(txn, read_options, key, bytes, &length, err);
    }
    if (*err) return;
    std::string sum = std::to_string(std::stoull(number_of(value, length)) + add);
    if (mode == 'b') {
      rocksdb_writebatch_put(batch, key, bytes, sum.data(), sum.size());
      continue;
    }
    rocksdb_transaction_delete(txn, key, bytes, err);
    if (!*err) rocksdb_transaction_put(txn, key, bytes, sum.data(), sum.size(), err);
    if (*err) return;
  }
}

void finish(std::mt19937_64& random, rocksdb_transaction_t* txn, const std::string& name, char** err) {
  bool rolls_back = random() % 20 == 0;
  if (mode == 't' && random() % 10 != 0) {
    rocksdb_transaction_set_name(txn, name.data(), name.size(), err);
    if (!*err) rocksdb_transaction_prepare(txn, err);
  }
  if (!*err) {
    (rolls_back ? rocksdb_transaction_rollback : rocksdb_transaction_commit)(txn, err);
  }
}

bool increment(rocksdb_transaction_t* txn) {
  char* err = nullptr;
  size_t length = 0;
  char* value = rocksdb_transaction_get_for_update(txn, read_options, "counter", 7, &length, 1, &err);
  if (!err) {
    std::string sum = std::to_string(std::stoull(number_of(value, length)) + 1);
    rocksdb_transaction_put(txn, "counter", 7, sum.data(), sum.size(), &err);
  }
  if (!err) rocksdb_transaction_commit(txn, &err);
  bool is_done = !err;
  free(err);
  return is_done;
}

void count_up() {
  auto* locking = rocksdb_transaction_options_create();
  auto* validating = rocksdb_optimistictransaction_options_create();
  for (uint64_t n = 0; n < count;) {
    auto* txn = mode == 'T' ? rocksdb_transaction_begin(pessimistic, write_options, locking, nullptr)
                            : rocksdb_optimistictransaction_begin(optimistic, write_options, validating, nullptr);
    bool is_done = increment(txn);
    rocksdb_transaction_destroy(txn);
    n += is_done;
    aborts += !is_done;
  }
}

void work(int thread) {
  if (mode == 'T' || mode == 'O') return count_up();
  std::mt19937_64 random(thread);
  std::vector<int> order(sets);
  std::iota(order.begin(), order.end(), 1);
  auto* locking = rocksdb_transaction_options_create();
  rocksdb_transaction_options_set_lock_timeout(locking, 100);
  rocksdb_transaction_options_set_set_snapshot(locking, 1);
  auto* validating = rocksdb_optimistictransaction_options_create();
  rocksdb_optimistictransaction_options_set_set_snapshot(validating, 1);
  for (uint64_t n = 0; n < count; n++) {
    char* err = nullptr;
    if (mode == 'b') {
      auto* batch = rocksdb_writebatch_create();
      run_one(random, order, nullptr, batch, &err);
      if (!err) rocksdb_write(plain, write_options, batch, &err);
      rocksdb_writebatch_destroy(batch);
    } else {
      auto* txn = mode == 't' ? rocksdb_transaction_begin(pessimistic, write_options, locking, nullptr)
                              : rocksdb_optimistictransaction_begin(optimistic, write_options, validating, nullptr);
      run_one(random, order, txn, nullptr, &err);
      if (!err) finish(random, txn, "txn" + std::to_string(thread) + "-" + std::to_string(n), &err);
      if (err) {
        char* ignored = nullptr;
        rocksdb_transaction_rollback(txn, &ignored);
        free(ignored);
      }
      rocksdb_transaction_destroy(txn);
    }
    aborts += err != nullptr;
    free(err);
  }
}
}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  mode = argv[2][0];
  int threads = atoi(argv[3]);
  count = strtoull(argv[4], nullptr, 10);
  keys = strtoull(argv[5], nullptr, 10);
  sets = atoi(argv[6]);
  char* err = nullptr;
  auto* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_compression(options, rocksdb_no_compression);
  read_options = rocksdb_readoptions_create();
  write_options = rocksdb_writeoptions_create();
  if (mode == 't' || mode == 'T') {
    pessimistic = rocksdb_transactiondb_open(options, rocksdb_transactiondb_options_create(), argv[1], &err);
  } else if (mode == 'o' || mode == 'O') {
    optimistic = rocksdb_optimistictransactiondb_open(options, argv[1], &err);
  } else {
    plain = rocksdb_open(options, argv[1], &err);
  }
  if (err) {
    fprintf(stderr, "%s\n", err);
    return 1;
  }
  auto begun = std::chrono::steady_clock::now();
  std::vector<std::thread> running;
  for (int thread = 1; thread <= threads; thread++) running.emplace_back(work, thread);
  for (auto& thread : running) thread.join();
  std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begun;
  printf("%.0f ops/sec, aborts:%llu\n", threads * count / elapsed.count(), (unsigned long long)aborts);
  if (pessimistic) rocksdb_transactiondb_close(pessimistic);
  if (optimistic) rocksdb_optimistictransactiondb_close(optimistic);
  if (plain) rocksdb_close(plain);
  return 0;
}

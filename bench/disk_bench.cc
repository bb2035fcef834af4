// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What does the disk tier cost compared with the device itself? Alternates with bare writes and
// reads of the same pattern, and with RocksDB and LMDB where they are installed.
//
//   disk_bench FOLDER [MEGABYTES]     prints JSON: GB/s by engine, operation and size
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "afterimage/disk_tier.h"
#include "afterimage/tier.h"
#include "foundation/platform/random.h"
#include "measure.h"
#include "storage/disk/segment_log.h"
#if defined(AFTERIMAGE_BENCH_ROCKSDB)
#include <rocksdb/db.h>
#endif
#if defined(AFTERIMAGE_BENCH_LMDB)
#include <lmdb.h>
#endif

using namespace afterimage;
using bench::must;
using bench::seconds;

namespace {

void say(const char* engine, const char* operation, std::size_t size, double gb_per_s) {
  static bool first = true;
  std::printf("%s{\"engine\":\"%s\",\"operation\":\"%s\",\"bytes\":%zu,\"gb_per_s\":%.4f}",
              first ? "[" : ",\n ", engine, operation, size, gb_per_s);
  std::fflush(stdout);
  first = false;
}

TierKey key(std::uint64_t n) {
  TierKey made;
  Rng rng(n);
  for (std::byte& byte : made.bytes) byte = static_cast<std::byte>(rng.next());
  return made;
}

struct Question {
  std::string folder;
  std::size_t size;
  std::size_t count;
  std::vector<std::byte> value;
  std::vector<std::uint64_t> order;  // of reads

  Question(std::string where, std::size_t bytes, std::size_t total)
      : folder(std::move(where)), size(bytes), count(total / bytes), value(bytes) {
    Rng rng(bytes);
    for (std::byte& byte : value) byte = static_cast<std::byte>(rng.next());
    for (std::uint64_t n = 0; n < count; ++n) order.push_back(n);
    std::shuffle(order.begin(), order.end(), rng);
  }
  void report(const char* engine, const char* operation, double time) const {
    say(engine, operation, size, static_cast<double>(size * count) / time / 1e9);
  }
  /// Values differ, so that no engine or device can deduplicate them.
  std::span<const std::byte> value_of(std::uint64_t n) {
    std::memcpy(value.data(), &n, sizeof n);
    return value;
  }
  void forget_cached(const std::string& path) const {
    for (const auto& file : std::filesystem::recursive_directory_iterator(path)) {
      if (!file.is_regular_file()) continue;
      const int fd = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
      static_cast<void>(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
      ::close(fd);
    }
  }
};

/// The bare device: one preallocated file, eight writes in flight, then a sync; reads into one warm
/// buffer, one at a time. `copies`: each value is copied into the written buffer, as a caller that
/// continues before the device is done must do; otherwise eight buffers are written repeatedly.
class Raw {
 public:
  explicit Raw(Question& q, bool copies = false)
      : q_(q),
        copies_(copies),
        path_(q.folder + (copies ? "/copied" : "/raw")),
        folder_(must(open_block_folder(path_))) {
    for (int i = 0; i < 8; ++i) {
      buffers_.push_back(must(AlignedBytes::create(q.size, memory_)));
      std::memcpy(buffers_.back()->bytes().data(), q.value.data(), q.size);
    }
    file_ = must(folder_->create("file", q.size * q.count));
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;
  ~Raw() { std::filesystem::remove_all(path_); }

  void write(std::size_t begin, std::size_t end) {
    std::deque<std::unique_ptr<Transfer>> flying;
    for (std::size_t n = begin; n < end; ++n) {
      if (flying.size() == buffers_.size()) {
        must(flying.front()->wait(kPatience));
        flying.pop_front();
      }
      const auto& buffer = buffers_[n % buffers_.size()];
      if (copies_) std::memcpy(buffer->bytes().data(), q_.value_of(n).data(), q_.size);
      flying.push_back(file_->write(n * q_.size, buffer, q_.size));
    }
    for (auto& each : flying) must(each->wait(kPatience));
    must(file_->sync()->wait(kPatience));
  }
  void read(std::uint64_t n) {
    must(file_->read(n * q_.size, buffers_[0], q_.size)->wait(kPatience));
  }

 private:
  static constexpr Duration kPatience = std::chrono::seconds(60);
  Question& q_;
  bool copies_;
  std::string path_;
  MemoryBudget memory_{1_GiB};
  std::unique_ptr<BlockFolder> folder_;
  std::vector<std::shared_ptr<AlignedBytes>> buffers_;
  std::shared_ptr<BlockFile> file_;
};

class Ours {
 public:
  explicit Ours(Question& q) : q_(q), path_(q.folder + "/ours") {
    // Each part is made durable once, like the bare pattern, so the log does not sync before.
    const DiskTierOptions options{.log = {.capacity = Bytes(8 * q.size * q.count + (1U << 30U)),
                                          .segment_bytes = 256_MiB,
                                          .commit_bytes = 256_MiB,
                                          .read_timeout = std::chrono::seconds(60),
                                          .append_timeout = std::chrono::seconds(60)}};
    tier_ = must(DiskTier::open(path_, options, memory_, clock_));
  }
  Ours(const Ours&) = delete;
  Ours& operator=(const Ours&) = delete;
  ~Ours() {
    tier_.reset();
    std::filesystem::remove_all(path_);
  }

  void write(std::size_t begin, std::size_t end) {
    for (std::size_t n = begin; n < end; ++n) must(tier_->put(key(n), {}, q_.value_of(n)));
    must(tier_->flush());
  }
  void read(std::uint64_t n) {
    if (!must(tier_->get(key(n), memory_))) std::exit(2);
  }

 private:
  Question& q_;
  std::string path_;
  MemoryBudget memory_{1_GiB};
  SystemClock clock_;
  std::unique_ptr<DiskTier> tier_;
};

/// Alternates between engines, so that drift affects all of them: writes in nine parts, each made
/// durable; reads one by one. One row per part; the n-th parts of two engines belong together.
void beside_the_device(Question& q) {
  constexpr std::size_t kParts = 9;
  Raw raw(q);
  Raw copied(q, /*copies=*/true);
  Ours ours(q);
  const auto say_rate = [&](const char* engine, const char* operation, std::size_t n, double time) {
    say(engine, operation, q.size, static_cast<double>(q.size * n) / time / 1e9);
  };
  for (std::size_t part = 0; part < kParts; ++part) {
    const std::size_t begin = part * q.count / kParts;
    const std::size_t end = (part + 1) * q.count / kParts;
    for (std::size_t turn = 0; turn < 3; ++turn) {
      const std::size_t who = (part + turn) % 3;
      const double time = seconds(
          [&] { who == 0 ? ours.write(begin, end) : (who == 1 ? raw : copied).write(begin, end); });
      static constexpr const char* kNames[] = {"afterimage", "raw", "copied"};
      say_rate(kNames[who], "write", end - begin, time);
    }
  }
  for (std::size_t part = 0; part < kParts; ++part) {
    const std::size_t begin = part * q.count / kParts;
    const std::size_t end = (part + 1) * q.count / kParts;
    double time[2] = {0, 0};  // ours, then the device's
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint64_t n = q.order[i];
      for (const bool is_raw : {i % 2 == 0, i % 2 != 0}) {
        time[is_raw] += seconds([&] { is_raw ? raw.read(n) : ours.read(n); });
      }
    }
    say_rate("raw", "read", end - begin, time[1]);
    say_rate("afterimage", "read", end - begin, time[0]);
  }
}

#if defined(AFTERIMAGE_BENCH_ROCKSDB)
void rocksdb_blobs(Question& q) {
  const std::string path = q.folder + "/rocksdb";
  rocksdb::Options options;
  options.create_if_missing = true;
  options.enable_blob_files = true;
  options.min_blob_size = 4096;
  options.use_direct_reads = true;
  const auto slice = [](const auto& bytes) {
    return rocksdb::Slice(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  rocksdb::DB* opened = nullptr;
  if (!rocksdb::DB::Open(options, path, &opened).ok()) return;
  const std::unique_ptr<rocksdb::DB> db(opened);
  q.report("rocksdb", "write", seconds([&] {
             rocksdb::WriteOptions unlogged;
             unlogged.disableWAL = true;  // its faster mode: durable through the flush at the end
             for (std::size_t n = 0; n < q.count; ++n) {
               if (!db->Put(unlogged, slice(key(n).bytes), slice(q.value_of(n))).ok()) std::exit(2);
             }
             if (!db->Flush({}).ok()) std::exit(2);
           }));
  q.report("rocksdb", "read", seconds([&] {
             for (const std::uint64_t n : q.order) {
               rocksdb::PinnableSlice found;
               if (!db->Get({}, db->DefaultColumnFamily(), slice(key(n).bytes), &found).ok()) {
                 std::exit(2);
               }
             }
           }));
  if (!db->Close().ok()) std::exit(2);
  std::filesystem::remove_all(path);
}
#endif

#if defined(AFTERIMAGE_BENCH_LMDB)
void lmdb(Question& q) {
  const std::string path = q.folder + "/lmdb";
  std::filesystem::create_directory(path);
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi db = 0;
  mdb_env_create(&env);
  mdb_env_set_mapsize(env, 4 * q.size * q.count + (64U << 20U));
  if (mdb_env_open(env, path.c_str(), MDB_NOSYNC, 0600) != 0) return;
  const auto value_of = [](auto bytes) {
    return MDB_val{bytes.size(), const_cast<std::byte*>(bytes.data())};
  };
  q.report("lmdb", "write", seconds([&] {
             for (std::size_t n = 0; n < q.count; ++n) {
               mdb_txn_begin(env, nullptr, 0, &txn);
               mdb_dbi_open(txn, nullptr, 0, &db);
               const TierKey name = key(n);
               MDB_val k = value_of(std::span(name.bytes));
               MDB_val v = value_of(q.value_of(n));
               if (mdb_put(txn, db, &k, &v, 0) != 0 || mdb_txn_commit(txn) != 0) std::exit(2);
             }
             mdb_env_sync(env, 1);
           }));
  mdb_env_close(env);
  q.forget_cached(path);
  mdb_env_create(&env);
  mdb_env_set_mapsize(env, 4 * q.size * q.count + (64U << 20U));
  if (mdb_env_open(env, path.c_str(), MDB_RDONLY, 0600) != 0) return;
  std::vector<std::byte> copy(q.size);
  q.report("lmdb", "read", seconds([&] {
             mdb_txn_begin(env, nullptr, MDB_RDONLY, &txn);
             mdb_dbi_open(txn, nullptr, 0, &db);
             for (const std::uint64_t n : q.order) {
               const TierKey name = key(n);
               MDB_val k = value_of(std::span(name.bytes));
               MDB_val v;
               if (mdb_get(txn, db, &k, &v) != 0) std::exit(2);
               std::memcpy(copy.data(), v.mv_data, v.mv_size);
             }
             mdb_txn_abort(txn);
           }));
  mdb_env_close(env);
  std::filesystem::remove_all(path);
}
#endif

void host(std::size_t size) {
  constexpr std::size_t kTotal = 512U << 20U;
  const std::size_t count = kTotal / size;
  std::vector<std::byte> from(size, std::byte{1});
  std::vector<std::byte> to(size);
  const auto rate = [&](double time) { return static_cast<double>(size * count) / time / 1e9; };
  say("memcpy", "host", size, rate(seconds([&] {
        for (std::size_t n = 0; n < count; ++n) {
          std::memcpy(to.data(), from.data(), size);
          asm volatile("" : : "r"(to.data()) : "memory");
        }
      })));
  MemoryBudget memory(64_MiB);
  MemoryBudget room(64_MiB);
  HostTier tier(memory);
  say("afterimage", "host put", size, rate(seconds([&] {
        for (std::size_t n = 0; n < count; ++n) must(tier.put(key(n % 8), {}, from));
      })));
  say("afterimage", "host get", size, rate(seconds([&] {
        for (std::size_t n = 0; n < count; ++n) must(tier.get(key(n % 8), room));
      })));
}

/// Seconds to open a cleanly closed folder of 100,000 entries; the unit is not GB/s.
void restart(const std::string& folder) {
  const std::string path = folder + "/restart";
  MemoryBudget memory(1_GiB);
  const SystemClock clock;
  const DiskTierOptions options{.log = {.capacity = 2_GiB,
                                        .segment_bytes = 64_MiB,
                                        .append_timeout = std::chrono::seconds(60)}};
  const std::vector<std::byte> value(3'000);
  {
    auto tier = must(DiskTier::open(path, options, memory, clock));
    for (std::uint64_t n = 0; n < 100'000; ++n) must(tier->put(key(n), {}, value));
    must(tier->flush());
  }
  std::uint64_t entries = 0;
  const double time = seconds([&] {
    auto tier = must(DiskTier::open(path, options, memory, clock));
    entries = tier->log().recovery().entries.value();
  });
  say("afterimage", "restart, seconds per 100,000 entries", entries, time);
  std::filesystem::remove_all(path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FOLDER [MEGABYTES]\n", argv[0]);
    return 2;
  }
  const std::string folder = argv[1];
  const std::size_t total = (argc > 2 ? std::stoull(argv[2]) : 512) << 20U;
  for (const std::size_t size : {256U << 10U, 1U << 20U, 4U << 20U}) {
    Question question(folder, size, total);
    beside_the_device(question);
#if defined(AFTERIMAGE_BENCH_ROCKSDB)
    rocksdb_blobs(question);
#endif
#if defined(AFTERIMAGE_BENCH_LMDB)
    lmdb(question);
#endif
    host(size);
  }
  restart(folder);
  std::printf("]\n");
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "storage/disk/segment_log.h"
#include "storage/disk/testing/small_log.h"
#include "testing/fake_block_folder.h"
#include "testing/tier_oracle.h"

namespace afterimage::testing {

/// Random operations on a segment log over a FakeDisk that may fail at any of them, judged by a
/// TierOracle.
class LogStory {
 public:
  static constexpr std::size_t kKeys = 10;
  static constexpr std::array<std::size_t, 7> kSizes = {0,     100,    3'904, 3'905,
                                                        9'000, 20'000, 30'000};

  LogStory(Rng rng, Bytes capacity) : rng_(rng), capacity_(capacity) {}

  /// False: the disk failed.
  bool open() {
    auto opened =
        SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), small_log(capacity_), memory_);
    if (!opened) {
      // It may have evicted to keep its capacity before it failed, without being able to report it.
      if (capacity_ < 1_MiB) oracle.all_left();
      return false;
    }
    log = *std::move(opened);
    seen_ = {};
    notice();
    return true;
  }
  void run(int steps) {
    for (int i = 0; i < steps && !disk.crashed(); ++i) step();
  }
  void step() {
    const std::size_t n = rng_.below(kKeys);
    switch (rng_.below(8)) {
      case 0:
        return erase(n);
      case 1:
        return flush();
      case 2:
        return look(n);
      default:
        return put(n);
    }
  }
  void put(std::size_t n) {
    const std::uint32_t version = oracle.begin_put(n);
    const auto done = log->append(oracle.key(n), oracle.meta(n, version), oracle.value(n, version));
    notice();
    if (done && *done) oracle.put_done(n, version);
  }
  void erase(std::size_t n) {
    oracle.begin_erase(n);
    const auto done = log->erase(oracle.key(n));
    notice();
    if (done) oracle.erase_done(n);
  }
  void flush() {
    const auto done = log->commit();
    notice();
    if (done) oracle.flushed();
  }
  void look(std::size_t n) {
    const bool waits = log->is_pending(oracle.key(n));
    const auto found = log->read(oracle.key(n), room_);
    notice();
    if (found) note(n, oracle.judge(n, *found, false));
    // What waits may never be written, and then the version before is found again.
    if (waits) keys_[n].seen = 0;
  }
  /// Closes the log in order. A log that closes while its disk fails drops the segments that it
  /// cannot make durable, and can no longer report it.
  void close() {
    const bool safe = log->commit().has_value();
    notice();
    if (safe) {
      oracle.flushed();
    } else {
      oracle.all_left();
    }
    log.reset();
    oracle.process_ended();
  }
  /// Kills the process and cuts the power.
  void crash() {
    if (!disk.crashed()) disk.fail(DiskFault::kCrash, 1);
    log.reset();
    disk.reboot(rng_);
    oracle.process_ended();
  }
  /// Without faults: every hit is right, and everything durable is found unless something was
  /// dropped. False: the log does not open.
  bool reopen(bool nothing_lost) {
    if (!open()) {
      broken.emplace_back("the log does not open again");
      return false;
    }
    log->check_invariants();
    for (std::size_t n = 0; n < kKeys; ++n) {
      const auto found = log->read(oracle.key(n), room_);
      note(n, oracle.settle(n, found.value_or(std::nullopt), nothing_lost));
    }
    return true;
  }
  [[nodiscard]] bool fine() const { return broken.empty(); }

  FakeDisk disk;
  std::vector<std::string> broken;  // broken guarantees, in words
  std::uint64_t wrong = 0;          // wrong results among them
  std::uint64_t lost = 0;           // lost entries among them

 private:
  MemoryBudget memory_{4_MiB};  // outlives the log
  MemoryBudget room_{4_MiB};

 public:
  std::unique_ptr<SegmentLog> log;

 private:
  void note(std::size_t n, Finding finding) {
    if (finding == Finding::kFine) return;
    ++(finding == Finding::kLost ? lost : wrong);
    broken.push_back("key " + std::to_string(n) + ": " + std::string(to_string(finding)));
  }
  /// Entries that were being written when a write failed are gone: the version before may be found.
  void notice() {
    const SegmentLogStats stats = log->stats();
    const bool left = stats.lost != seen_.lost || stats.evicted != seen_.evicted ||
                      stats.damaged != seen_.damaged || log->recovery().dropped_segments > 0;
    if (stats.lost != seen_.lost) oracle.lost_on_the_way();
    if (left) {
      oracle.some_left([&](const TierKey& key) { return log->contains(key); },
                       [&](const TierKey& key) { return log->is_pending(key); });
    }
    seen_ = stats;
  }

  Rng rng_;
  Bytes capacity_;
  std::array<KeyState, kKeys> keys_;
  SegmentLogStats seen_;

 public:
  TierOracle oracle{keys_, kSizes, 1};
};

}  // namespace afterimage::testing

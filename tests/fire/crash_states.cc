// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What a disk may hold after a power failure: torn writes, reordered writes and lost writes.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "fire/fire.h"
#include "foundation/platform/fault_points.h"
#include "storage/disk/segment_format.h"
#include "testing/log_story.h"

namespace afterimage::fire {

using testing::DiskFault;
using testing::FakeBlockFolder;
using testing::FakeDisk;
using testing::KeyState;
using testing::LogStory;
using testing::TierOracle;

namespace {

/// One unsealed segment of 512 KiB, and where its records end.
class OpenSegment {
 public:
  static constexpr std::size_t kKeys = 24;
  static constexpr std::array<std::size_t, 5> kSizes = {1, 4'095, 9'000, 20'000, 40'000};
  static constexpr std::uint64_t kBytes = (512_KiB).value();

  explicit OpenSegment(std::uint64_t seed) : oracle_(keys_, kSizes, seed) {
    auto log = open().value();
    std::uint64_t end = kDiskBlock;
    for (std::size_t i = 0; i < 2 * kKeys; ++i) {
      const std::size_t n = i % kKeys;
      const std::uint64_t size = oracle_.size_of(n, keys_[n].given + 1);
      if (end + size + 3 * kDiskBlock > kBytes) break;
      const std::uint32_t version = oracle_.begin_put(n);
      const EntryMeta meta = oracle_.meta(n, version);
      static_cast<void>(log->append(oracle_.key(n), meta, oracle_.value(n, version)));
      end += record_blocks(meta, size) * kDiskBlock;
      records_.push_back({.n = n, .version = version, .end = end});
    }
    // A crash: written records stay, replaced ones too, and there is no footer.
    const std::uint64_t batch = testing::small_log(4_MiB).batch_bytes.value();
    std::erase_if(records_, [&](const Record& record) { return record.end > end - end % batch; });
    disk_.fail(DiskFault::kCrash, 1);
    log.reset();
    disk_.restart();
    for (const auto& [name, file] : disk_.files()) golden_[name] = file->content;
    segment_ = "segment-0000000000000001.afi";
  }

  Result<std::unique_ptr<SegmentLog>> open() {
    SegmentLogOptions options = testing::small_log(4_MiB);
    options.segment_bytes = 512_KiB;
    return SegmentLog::open(std::make_unique<FakeBlockFolder>(disk_), options, memory_);
  }
  /// Opens a log on the segment after cutting it at `cut`, and reads every key.
  void look_after_cut(std::uint64_t cut, int mode, Rng& rng, Tally& tally,
                      const std::string& where) {
    for (const auto& [name, content] : golden_) {
      auto& file = disk_.files()[name];
      if (file == nullptr) file = std::make_shared<FakeDisk::File>();
      file->content = content;
    }
    std::erase_if(disk_.files(), [&](const auto& each) { return !golden_.contains(each.first); });
    auto& content = disk_.files().at(segment_)->content;
    const auto rest = std::span(content).subspan(cut);
    if (mode == 0) content.resize(cut);
    if (mode == 1) std::ranges::fill(rest, std::byte{0});
    if (mode == 2) {
      const auto noise = testing::tier_bytes(rng.next(), rest.size());
      std::ranges::copy(noise, rest.begin());
    }
    const auto log = open();
    if (!log) return tally.miss("the log does not open: " + to_string(log.error()) + "; " + where);
    if ((*log)->recovery().torn_entries > 0 || (*log)->recovery().foreign_files > 0 ||
        (*log)->recovery().dropped_segments > 0 || (*log)->recovery().entries.value() < kKeys) {
      ++tally.detected;
    }
    for (std::size_t n = 0; n < kKeys; ++n) tally.note(judge(**log, n, cut), where);
    (*log)->check_invariants();
    disk_.fail(DiskFault::kCrash, 1);
  }
  void restart() { disk_.restart(); }

 private:
  struct Record {
    std::size_t n;
    std::uint32_t version;
    std::uint64_t end;
  };
  /// A key must be found in the newest version that lies whole before the cut, or in a later one
  /// that is still whole because only zeros or padding were cut off.
  Finding judge(SegmentLog& log, std::size_t n, std::uint64_t cut) {
    std::uint32_t newest = 0;
    for (const Record& record : records_) {
      if (record.n == n && record.end <= cut && cut >= kDiskBlock) newest = record.version;
    }
    const auto found = log.read(oracle_.key(n), room_);
    if (!found || !*found) return newest == 0 ? Finding::kFine : Finding::kLost;
    keys_[n].gone = newest == 0 ? 0 : newest - 1;
    keys_[n].seen = 0;
    return oracle_.judge(n, *found, true);
  }

  std::array<KeyState, kKeys> keys_;
  TierOracle oracle_;
  std::vector<Record> records_;
  FakeDisk disk_;
  MemoryBudget memory_{16_MiB};
  MemoryBudget room_{4_MiB};
  std::map<std::string, std::vector<std::byte>> golden_;
  std::string segment_;
};

}  // namespace

namespace {

/// A process dies after a replacement is durable and before the replaced record is scrubbed; the
/// next process needs space and evicts the segment with the replacement.
class UnscrubbedStory {
 public:
  /// Whether the older version is found again.
  bool comes_back() {
    const std::uint64_t older = 1;
    const std::uint64_t newer = 2;
    {
      const auto log = open();
      put(*log, 0, older, 20'000);
      put(*log, 1, 0, 30'000);
      static_cast<void>(log->commit());
      put(*log, 0, newer, 30'000);
      put(*log, 2, 0, 20'000);
      FaultSite::find("commit.before.burial")->arm(FaultSite::Action::kFail, 1);
      static_cast<void>(log->commit());
      end();
    }
    disk_.restart();
    {
      const auto log = open();
      set_up_ = finds(*log, 0, newer, 30'000) && finds(*log, 1, 0, 30'000);
      put(*log, 3, 0, 30'000);
      set_up_ = set_up_ && log->stats().evicted > 0;
      end();
    }
    disk_.restart();
    const auto log = open();
    return finds(*log, 0, older, 20'000);
  }
  /// Whether the scenario was reached.
  [[nodiscard]] bool set_up() const { return set_up_; }

 private:
  std::unique_ptr<SegmentLog> open() {
    SegmentLogOptions options = testing::small_log(140_KiB);
    options.commit_bytes = 4_MiB;  // only on request
    return SegmentLog::open(std::make_unique<FakeBlockFolder>(disk_), options, memory_).value();
  }
  /// kill -9: the next operation is not even half done.
  void end() {
    disk_.fail(DiskFault::kCrash, 1);
    static_cast<void>(disk_.next());
  }
  static void put(SegmentLog& log, std::uint64_t n, std::uint64_t version, std::size_t size) {
    static_cast<void>(
        log.append(testing::tier_key(n), {}, testing::tier_bytes(10 * n + version, size)));
  }
  bool finds(SegmentLog& log, std::uint64_t n, std::uint64_t version, std::size_t size) {
    const auto found = log.read(testing::tier_key(n), memory_);
    return found && *found &&
           std::ranges::equal((*found)->bytes, testing::tier_bytes(10 * n + version, size));
  }

  FakeDisk disk_;
  MemoryBudget memory_{4_MiB};
  bool set_up_ = false;
};

/// A record that cannot be overwritten is erased with its whole segment, then the power fails: the
/// file may reappear, unless its removal was durable before the erasure was acknowledged.
class RemovedStory {
 public:
  /// Whether an erased entry is found again. The n-th operation of the erasure fails; `seed`
  /// decides what the power failure undoes.
  bool comes_back(std::uint64_t n, std::uint64_t seed) {
    FakeDisk disk;
    auto log = open(disk);
    for (const std::uint64_t key : {0U, 1U}) {
      static_cast<void>(log->append(testing::tier_key(key), {}, testing::tier_bytes(key, 20'000)));
    }
    static_cast<void>(log->commit());
    disk.fail(DiskFault::kError, n);
    const bool erased = log->erase(testing::tier_key(0)).has_value();
    removed_ = removed_ || (erased && !log->contains(testing::tier_key(1)));
    disk.fail(DiskFault::kCrash, 1);
    static_cast<void>(disk.next());
    log.reset();
    Rng rng(seed);
    disk.reboot(rng);
    log = open(disk);
    const auto found = log->read(testing::tier_key(0), memory_);
    return erased && found && *found;
  }
  /// Whether an acknowledged erasure removed the segment.
  [[nodiscard]] bool set_up() const { return removed_; }

 private:
  std::unique_ptr<SegmentLog> open(FakeDisk& disk) {
    return SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), testing::small_log(1_MiB),
                            memory_)
        .value();
  }

  MemoryBudget memory_{4_MiB};
  bool removed_ = false;
};

}  // namespace

Tally run_torn(const FireRun& run) {
  Tally tally;
  OpenSegment segment(run.seed);
  Rng rng(run.seed);
  constexpr std::uint64_t kSector = 512;
  const std::uint64_t step = run.of(1, 16);
  for (std::uint64_t sector = 0; sector <= OpenSegment::kBytes / kSector; sector += step) {
    for (const int off : {-1, 0, 1}) {
      if (sector == 0 && off < 0) continue;
      const std::uint64_t cut = sector * kSector + static_cast<std::uint64_t>(off);
      if (cut > OpenSegment::kBytes) continue;
      for (const int mode : {0, 1, 2}) {
        const Duration began = run.clock.now();
        segment.look_after_cut(cut, mode, rng, tally,
                               "cut at byte " + std::to_string(cut) + ", mode " +
                                   std::to_string(mode) + ", --only torn --seed " +
                                   std::to_string(run.seed));
        tally.recoveries.push_back(run.clock.now() - began);
        segment.restart();
        ++tally.injected;
      }
    }
    run.tell(sector, OpenSegment::kBytes / kSector);
  }
  return tally;
}

Tally run_lost(const FireRun& run) {
  Tally tally;
  const std::uint64_t states = run.of(8'192, 400);
  constexpr int kSteps = 40;
  for (std::uint64_t state = 0; state < states; ++state) {
    Rng rng(run.seed * 1'000'003 + state);
    const bool evicts = state % 4 == 3;
    LogStory story(rng, evicts ? 200_KiB : 4_MiB);
    story.disk.fail(DiskFault::kCrash, 1 + rng.below(150));
    if (story.open()) story.run(kSteps);
    story.crash();
    // Crash again during recovery, or soon after.
    if (rng.chance(0.5)) {
      story.disk.fail(DiskFault::kCrash, 1 + rng.below(17));
      if (story.open()) story.run(5);
      story.crash();
    }
    const Duration began = run.clock.now();
    story.reopen(true);
    tally.recoveries.push_back(run.clock.now() - began);
    ++tally.injected;
    ++tally.detected;
    tally.answers += LogStory::kKeys;
    tally.wrong += story.wrong;
    tally.lost += story.lost;
    if (!story.fine()) {
      tally.miss(story.broken.front() + ": state " + std::to_string(state) +
                 " of --only lost --seed " + std::to_string(run.seed));
    }
    run.tell(state + 1, states);
  }
  UnscrubbedStory unscrubbed;
  ++tally.injected;
  ++tally.detected;
  ++tally.answers;
  const bool came_back = unscrubbed.comes_back();
  tally.wrong += came_back ? 1 : 0;
  tally.expect(!came_back, "a replaced version comes back when its successor is evicted");
  tally.expect(unscrubbed.set_up(), "the scenario of an unscrubbed record was not reached");
  RemovedStory removed;
  for (std::uint64_t n = 1; n <= 6; ++n) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      ++tally.injected;
      ++tally.detected;
      ++tally.answers;
      const bool back = removed.comes_back(n, seed);
      tally.wrong += back ? 1 : 0;
      tally.expect(!back, fmt::format("an erased entry comes back with its file: operation {} of "
                                      "the erasure fails, power failure {}",
                                      n, seed));
    }
  }
  tally.expect(removed.set_up(), "the scenario of a removal that is not durable was not reached");
  return tally;
}

}  // namespace afterimage::fire

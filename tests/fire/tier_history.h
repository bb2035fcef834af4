// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "afterimage/memory_budget.h"
#include "afterimage/tier.h"
#include "fire/fire.h"
#include "foundation/platform/mutex.h"

namespace afterimage::fire {

using Tick = std::uint64_t;
inline constexpr Tick kNever = ~Tick{0};

/// The history of one key. A read may return any version that was not certainly replaced before
/// the read began, that is, by a version that was put after it and was visible. A version that was
/// read once is visible. A miss is always legal.
class ValueHistory {
 public:
  struct Write {
    std::uint32_t version = 0;
    Tick began = 0;
  };

  Write begin_write(std::atomic<Tick>& clock) {
    const MutexLock lock(mutex_);
    const Write write{.version = ++newest_, .began = ++clock};
    Known& place = known_[write.version % known_.size()];
    if (place.under_way) {
      slow_.push_back(place);  // many other threads overtook its thread
    } else if (place.returned != kNever) {
      forgotten_ = std::max(forgotten_, place.returned);
    }
    place = {.version = write.version, .began = write.began, .under_way = true};
    return write;
  }
  /// An accepted put; `visible`: reads that begin from now on see it.
  void put_returned(const Write& write, bool visible, std::atomic<Tick>& clock) {
    const MutexLock lock(mutex_);
    Known& place = known_of(write.version);
    place.returned = ++clock;
    place.under_way = false;
    taken_ = std::max(taken_, write.began);
    if (visible) floor_ = std::max(floor_, write.began);
  }
  /// An erase, or a rejected put.
  void nothing_put(const Write& write, bool erased) {
    const MutexLock lock(mutex_);
    known_of(write.version).under_way = false;
    if (erased) floor_ = std::max(floor_, write.began);
  }
  /// Of all accepted puts so far, the one that began last.
  Tick taken() const {
    const MutexLock lock(mutex_);
    return taken_;
  }
  void became_visible(Tick began) {
    const MutexLock lock(mutex_);
    floor_ = std::max(floor_, began);
  }
  Tick begin_read() const {
    const MutexLock lock(mutex_);
    return floor_;
  }
  /// `floor`: its value when the read began.
  bool may_serve(std::uint32_t version, Tick floor) {
    const MutexLock lock(mutex_);
    if (version == 0 || version > newest_) return false;
    const Known& place = known_of(version);
    if (place.version != version) return forgotten_ >= floor;  // too old to be tracked
    floor_ = std::max(floor_, place.began);
    return place.returned == kNever || place.returned >= floor;
  }

 private:
  struct Known {
    std::uint32_t version = 0;
    Tick began = 0;
    Tick returned = kNever;
    bool under_way = false;
  };
  /// Another version's place, if this one is no longer tracked.
  Known& known_of(std::uint32_t version) AFI_REQUIRES(mutex_) {
    const auto slow = std::ranges::find(slow_, version, &Known::version);
    return slow != slow_.end() ? *slow : known_[version % known_.size()];
  }
  mutable Mutex mutex_;
  std::uint32_t newest_ AFI_GUARDED_BY(mutex_) = 0;
  Tick floor_ AFI_GUARDED_BY(mutex_) = 0;
  Tick taken_ AFI_GUARDED_BY(mutex_) = 0;
  Tick forgotten_ AFI_GUARDED_BY(mutex_) = 0;
  std::array<Known, 128> known_ AFI_GUARDED_BY(mutex_);
  std::vector<Known> slow_ AFI_GUARDED_BY(mutex_);
};

struct HistoryLabel {
  std::uint64_t key;
  std::uint64_t version;
};

inline std::vector<std::byte> labelled(std::uint64_t n, std::uint32_t version) {
  const std::size_t size = sizeof(HistoryLabel) + (n * 31 + version * 7) % 600;
  std::vector<std::byte> bytes = testing::tier_bytes(n * 1'000'003 + version, size);
  const HistoryLabel label{.key = n, .version = version};
  std::memcpy(bytes.data(), &label, sizeof label);
  return bytes;
}

/// Random puts, gets, erasures and flushes from many threads on one tier; checks that some order of
/// the operations explains every result. `tests/fire/history_test.cc` proves that it notices
/// violations.
class HistoryRun {
 public:
  static constexpr std::uint64_t kKeys = 500;

  HistoryRun(Tier& tier, bool visible_at_once, const FireRun& run, Tally& tally)
      : tier_(tier), visible_at_once_(visible_at_once), run_(run), tally_(tally) {}

  void operate(unsigned threads, std::uint64_t operations) {
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t) {
      all.emplace_back([this, t, operations] { work(t, operations); });
    }
    for (std::thread& thread : all) thread.join();
    tally_.injected += threads * operations;
    tally_.detected += threads * operations;
    tally_.answers += read_;
    tally_.wrong += wrong_ + older_;
    tally_.expect(wrong_ == 0, std::to_string(wrong_) + " reads returned wrong bytes");
    tally_.expect(older_ == 0, std::to_string(older_) + " reads that no order explains");
    tally_.expect(room_.used() == 0_B, "a copy's memory was not released");
    tally_.expect(tier_.stats().damaged == 0, "an intact entry was counted as damaged");
    tally_.expect(read_ > 0, "no read ever hit");
  }

 private:
  void work(unsigned thread, std::uint64_t operations) {
    Rng rng = Rng(run_.seed).split(thread);
    for (std::uint64_t i = 0; i < operations; ++i) {
      const std::uint64_t n = rng.chance(0.5) ? rng.below(16) : rng.below(kKeys);
      const std::uint64_t choice = rng.below(1'000);
      if (choice < 600) {
        get(n);
      } else if (choice < 930) {
        put(n);
      } else if (choice < (visible_at_once_ ? 1'000 : 935)) {
        erase(n);
      } else if (choice > 997) {
        flush();
      }
    }
  }
  void get(std::uint64_t n) {
    const Tick floor = histories_[n].begin_read();
    const auto found = tier_.get(testing::tier_key(n), room_);
    if (!found || !*found) return;
    ++read_;
    const auto bytes = (*found)->bytes;
    HistoryLabel label{};
    if (bytes.size() >= sizeof label) std::memcpy(&label, bytes.data(), sizeof label);
    const auto version = static_cast<std::uint32_t>(label.version);
    if (label.key != n || !std::ranges::equal(bytes, labelled(n, version)) ||
        (*found)->meta.cost != Duration(version)) {
      ++wrong_;
    } else if (!histories_[n].may_serve(version, floor)) {
      ++older_;
    }
  }
  void put(std::uint64_t n) {
    const auto write = histories_[n].begin_write(clock_);
    const auto done = tier_.put(testing::tier_key(n), {.cost = Duration(write.version)},
                                labelled(n, write.version));
    if (done) {
      histories_[n].put_returned(write, visible_at_once_, clock_);
    } else {
      histories_[n].nothing_put(write, false);
    }
  }
  void erase(std::uint64_t n) {
    const auto write = histories_[n].begin_write(clock_);
    const bool erased = tier_.erase(testing::tier_key(n)).has_value();
    histories_[n].nothing_put(write, erased);
  }
  void flush() {
    std::vector<Tick> taken;
    for (const ValueHistory& history : histories_) taken.push_back(history.taken());
    if (!tier_.flush()) return;
    for (std::size_t n = 0; n < kKeys; ++n) histories_[n].became_visible(taken[n]);
  }

  Tier& tier_;
  bool visible_at_once_;
  const FireRun& run_;
  Tally& tally_;
  MemoryBudget room_{64_MiB};
  std::atomic<Tick> clock_{0};
  std::array<ValueHistory, kKeys> histories_;
  std::atomic<std::uint64_t> read_{0};
  std::atomic<std::uint64_t> wrong_{0};
  std::atomic<std::uint64_t> older_{0};
};

}  // namespace afterimage::fire

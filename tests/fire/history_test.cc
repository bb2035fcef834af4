// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Tests of the checker: it reports a tier that lies, and is silent about one that does not.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "afterimage/tier.h"
#include "fire/tier_history.h"

namespace afterimage::fire {
namespace {

enum class TierLie : std::uint8_t {
  kNone,
  kStaleRead,     // sometimes a read returns a replaced version
  kLostWrite,     // sometimes a put is acknowledged and not done
  kResurrection,  // sometimes an erased entry is back
  kWrongBytes,    // sometimes a byte is wrong
  kAnothers,      // sometimes a read returns another key's entry
};

/// A host tier that remembers what it evicted, replaced and erased.
class LyingTier final : public Tier {
 public:
  explicit LyingTier(TierLie lie) : lie_(lie) {}

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    const MutexLock lock(mutex_);
    if (lie_ == TierLie::kLostWrite && now()) return {};
    remember(key);
    return kept_.put(key, meta, bytes);
  }
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override {
    const MutexLock lock(mutex_);
    auto found = kept_.get(key, room);
    const bool there = found.has_value() && found->has_value();
    const auto old = old_.find(key);
    if (lie_ == TierLie::kStaleRead && there && old != old_.end() && now()) return old->second;
    if (lie_ == TierLie::kResurrection && !there && old != old_.end() && now()) return old->second;
    if (lie_ == TierLie::kAnothers && !old_.empty() && now()) return old_.begin()->second;
    if (lie_ == TierLie::kWrongBytes && there && now()) {
      auto copy = AlignedBytes::create((*found)->bytes.size(), memory_).value();
      std::ranges::copy((*found)->bytes, copy->bytes().begin());
      copy->bytes().back() ^= std::byte{1};
      return TierEntry{.meta = (*found)->meta, .bytes = copy->bytes(), .memory = copy};
    }
    return found;
  }
  Result<void> erase(const TierKey& key) override {
    const MutexLock lock(mutex_);
    remember(key);
    return kept_.erase(key);
  }
  Result<void> flush() override { return {}; }
  [[nodiscard]] bool may_contain(const TierKey& key) const override {
    return kept_.may_contain(key);
  }
  [[nodiscard]] TierStats stats() const override { return kept_.stats(); }

 private:
  bool now() AFI_REQUIRES(mutex_) { return ++turns_ % 50 == 0; }
  void remember(const TierKey& key) AFI_REQUIRES(mutex_) {
    auto found = kept_.get(key, memory_);
    if (found.has_value() && found->has_value()) old_[key] = **std::move(found);
  }

  const TierLie lie_;
  Mutex mutex_;
  std::uint64_t turns_ AFI_GUARDED_BY(mutex_) = 0;
  MemoryBudget memory_{64_MiB};
  HostTier kept_{memory_};
  std::map<TierKey, TierEntry> old_ AFI_GUARDED_BY(mutex_);
};

TEST(TierHistory, ReportsATierThatLies) {
  const struct {
    const char* name;
    TierLie lie;
    const char* says;  // empty: nothing
  } kCases[] = {
      {"the truth", TierLie::kNone, ""},
      {"a stale read", TierLie::kStaleRead, "no order explains"},
      {"a lost acknowledged write", TierLie::kLostWrite, "no order explains"},
      {"a resurrected erasure", TierLie::kResurrection, "no order explains"},
      {"wrong bytes", TierLie::kWrongBytes, "wrong bytes"},
      {"another's entry", TierLie::kAnothers, "wrong bytes"},
  };
  for (const auto& c : kCases) {
    for (const unsigned threads : {1U, 4U}) {
      const SystemClock clock;
      const FireRun run{.clock = clock};
      LyingTier tier(c.lie);
      Tally tally;
      const auto history = std::make_unique<HistoryRun>(tier, true, run, tally);
      history->operate(threads, 8'000 / threads);
      const std::string said = tally.missed.empty() ? "" : tally.missed.front();
      EXPECT_EQ(said.empty(), std::string(c.says).empty()) << c.name << ": " << said;
      EXPECT_TRUE(said.contains(c.says)) << c.name << ": " << said;
      EXPECT_EQ(tally.wrong > 0, c.lie != TierLie::kNone) << c.name;
    }
  }
}

/// When entries become visible only with a flush, reads may return the older version before it, but
/// not after.
TEST(TierHistory, ReadsMayReturnTheOlderVersionUntilTheFlush) {
  std::atomic<Tick> clock{0};
  ValueHistory history;
  const auto first = history.begin_write(clock);
  history.put_returned(first, false, clock);
  const Tick flushed = history.taken();
  const auto second = history.begin_write(clock);
  history.put_returned(second, false, clock);
  EXPECT_TRUE(history.may_serve(first.version, history.begin_read()));
  history.became_visible(flushed);
  EXPECT_TRUE(history.may_serve(first.version, history.begin_read()))
      << "the second put is still running";
  history.became_visible(history.taken());
  EXPECT_FALSE(history.may_serve(first.version, history.begin_read()));
  EXPECT_TRUE(history.may_serve(second.version, history.begin_read()));
}

TEST(TierHistory, AVersionOnceReadIsVisible) {
  std::atomic<Tick> clock{0};
  ValueHistory history;
  const auto first = history.begin_write(clock);
  history.put_returned(first, false, clock);
  const auto second = history.begin_write(clock);
  EXPECT_TRUE(history.may_serve(second.version, history.begin_read()))
      << "its put is still running";
  EXPECT_FALSE(history.may_serve(first.version, history.begin_read()));
  EXPECT_FALSE(history.may_serve(second.version + 1, history.begin_read()))
      << "that version was never put";
}

}  // namespace
}  // namespace afterimage::fire

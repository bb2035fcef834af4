// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Clocks that jump forward or back by up to years, for everything with an expiry; and answers that
// belong to another key or were erased.
#include <fmt/format.h>

#include "afterimage/tier.h"
#include "caches/answers/testing/archive_machine.h"
#include "fire/fire.h"
#include "foundation/platform/testing/memory_files.h"

namespace afterimage::fire {
namespace {

using namespace std::chrono_literals;
using testing::kErasures;
using testing::scope;

/// Returns another key's entry, as a tier with a corrupt index would.
class MixedUpTier final : public Tier {
 public:
  explicit MixedUpTier(MemoryBudget& budget) : kept_(budget) {}
  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    if (!first_) first_ = key;
    last_ = key;
    return kept_.put(key, meta, bytes);
  }
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override {
    const bool honest = !mixed_up_ || (only_unknown_ && kept_.may_contain(key));
    return kept_.get(honest ? key : *mixed_up_, room);
  }
  Result<void> erase(const TierKey& key) override { return kept_.erase(key); }
  Result<void> flush() override { return kept_.flush(); }
  [[nodiscard]] bool may_contain(const TierKey& key) const override {
    return mixed_up_.has_value() || kept_.may_contain(key);
  }
  [[nodiscard]] TierStats stats() const override { return kept_.stats(); }

  /// The key that was put first.
  [[nodiscard]] TierKey first() const { return first_.value_or(TierKey{}); }
  /// The key that was put last.
  [[nodiscard]] TierKey last() const { return last_.value_or(TierKey{}); }
  /// `only_unknown`: redirect only look-ups of keys without an entry.
  void mix_up(std::optional<TierKey> gives, bool only_unknown = false) {
    mixed_up_ = gives;
    only_unknown_ = only_unknown;
  }

 private:
  HostTier kept_;
  std::optional<TierKey> first_;
  std::optional<TierKey> last_;
  std::optional<TierKey> mixed_up_;
  bool only_unknown_ = false;
};

/// Half a century after the clock's epoch, so that jumping ten years back does not underflow.
struct Answers : testing::ArchiveMachine<MixedUpTier, testing::MemoryFiles> {
  Answers() : ArchiveMachine(WallTime(24h * 365 * 50)) {}
  void give(const ScopeId& where, const std::string& words, const AnswerFacts& facts) const {
    static_cast<void>(put(where, words, "to " + words, facts));
  }
};

class Clocks {
 public:
  Clocks(const FireRun& run, Tally& tally) : run_(run), tally_(tally) {}

  void jump(std::uint64_t round) {
    Rng rng(run_.seed * 1'000'003 + round);
    static constexpr std::array<Duration, 6> kJumps = {1h,           -1h, 24h * 3'650,
                                                       -24h * 3'650, 1ns, -1ns};
    const Duration jump = kJumps[rng.below(kJumps.size())];
    // One of the ttls expires exactly when the clock jumps.
    static constexpr std::array<Duration, 3> kTimes = {1min, 1h, 2h};
    const Duration ttl = kTimes[rng.below(kTimes.size())];
    Answers answers;
    answers.give(scope(1), "a timed question", {.ttl = ttl});
    answers.give(scope(1), "a question for ever", {});
    // The wall clock jumps while no process runs.
    const WallTime kept = answers.wall.now();
    answers.wall.set(kept + jump);
    answers.start();
    const bool from_later = jump < 0ns;
    const bool timed = !answers.restored(scope(1), "a timed question").empty();
    const bool lasting = !answers.restored(scope(1), "a question for ever").empty();
    count(timed == (!from_later && jump < ttl), "an expired answer, or one from the future");
    count(lasting == !from_later, "an answer from the future");
    // In memory only the monotonic clock counts, however far the wall clock jumps.
    Answers memory;
    memory.give(scope(1), "a timed question", {.ttl = ttl});
    memory.wall.set(kept + jump);
    count(!memory.cached(scope(1), "a timed question").empty(),
          "the wall clock affects answers in memory");
    const Duration on = rng.chance(0.5) ? ttl - 1ns : ttl;
    memory.clock.advance(on);
    count(memory.cached(scope(1), "a timed question").empty() == (on >= ttl),
          "an expired answer in memory");
    memory.clock.advance(24h * 36'500);
    count(memory.cached(scope(1), "a timed question").empty(), "after a hundred years");
  }

  /// Answers of another scope, to another question, of another canonical form.
  void mixed_up() {
    Answers answers;
    answers.give(scope(1), "what is on the left", {});
    answers.start();
    answers.tier.mix_up(answers.tier.first());
    count(answers.restored(scope(2), "what is on the left").empty(),
          "an answer from another scope");
    count(answers.restored(scope(1), "what is on the right").empty(),
          "an answer to another question");
    answers.tier.mix_up({});
    // The entry put last is the alias under which a canonical form finds its question's answer.
    answers.tier.mix_up(answers.tier.last(), true);
    count(answers.restored(scope(1), "and how large is all of it").empty(),
          "an answer to a question of another canonical form");
  }
  /// Erased answers stay erased, even for a process with an older invalidation log.
  void erased() {
    Answers answers;
    answers.give(scope(1), "tell me a secret", {.tags = {"secret"}});
    const auto old_list = answers.files.read(kErasures, 1_MiB).value();
    count(answers.archive->erase(AnswerFilter{.tag = "secret"}).has_value(), "an erasure fails");
    answers.start();
    count(answers.restored(scope(1), "tell me a secret").empty(), "an erased answer came back");
    answers.give(scope(1), "tell me another", {.tags = {"secret"}});
    static_cast<void>(answers.files.replace(kErasures, old_list));
    answers.start();
    count(answers.restored(scope(1), "tell me another").empty(),
          "an answer written after more erasures than the log holds");
  }

 private:
  void count(bool good, const std::string& what) {
    ++tally_.injected;
    ++tally_.answers;
    tally_.detected += good ? 1 : 0;
    if (good) return;
    ++tally_.wrong;
    tally_.miss(what + ", --only clocks --seed " + std::to_string(run_.seed));
  }

  const FireRun& run_;
  Tally& tally_;
};

}  // namespace

Tally run_clocks(const FireRun& run) {
  Tally tally;
  Clocks clocks(run, tally);
  const std::uint64_t rounds = run.of(20'000, 300);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    clocks.jump(round);
    run.tell(round + 1, rounds);
  }
  clocks.mixed_up();
  clocks.erased();
  return tally;
}

}  // namespace afterimage::fire

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/memory/budget.h"
#include "afterimage/platform/clock.h"
#include "afterimage/platform/mutex.h"
#include "afterimage/residency/eviction_policy.h"
#include "afterimage/residency/shared_budget.h"
#include "afterimage/result.h"
#include "afterimage/semantic/answer_record.h"
#include "afterimage/semantic/canonical_text.h"
#include "afterimage/semantic/scope.h"
#include "afterimage/units.h"

namespace afterimage {

/// One question as it is looked up: its words, and its scope. Its forms are made when a rung first
/// asks for them, and kept.
///
/// Threads  One at a time, also form().
class Question {
 public:
  Question(const ScopeId& scope, std::string text) : scope_(scope), text_(std::move(text)) {}

  [[nodiscard]] const ScopeId& scope() const { return scope_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  /// The loosest rung that may be served: as the rules say, and no further than the scope allows.
  [[nodiscard]] TextRung ceiling(TextRung serve) const { return std::min(serve, scope_.loosest); }
  /// nullopt: the rung does not apply. Valid as long as the question stays where it is.
  [[nodiscard]] std::optional<std::string_view> form(TextRung rung);

 private:
  struct Form {
    bool made = false;
    std::optional<std::string> text;
  };
  ScopeId scope_;
  std::string text_;
  std::array<Form, kTextRungs.size()> forms_;  // the exact one stays unmade: it is text_
};

/// How far a request may go.
struct LookupRules {
  /// The loosest rung that may be served from; where the scope allows less, the others are watched.
  TextRung serve = TextRung::kNear;
  /// Rungs beyond `serve`, up to this one, are looked up and counted, and never served.
  TextRung watch = TextRung::kExact;
  /// Answers that are older are not served.
  std::optional<Duration> max_age = std::nullopt;
};

/// What became of a look-up at one rung.
enum class Verdict : unsigned char {
  kServed,
  kJoined,      // another was asking the same, and its answer served both: see AnswerOnce
  kMissed,      // no such question
  kNotAllowed,  // matched; the rung is beyond LookupRules::serve
  kTooOld,      // matched; older than LookupRules::max_age
  kExpired,     // matched; its time was over, and it is gone
  kDamaged,     // matched; its bytes were not what they had been, and it is gone
  kUnsure,      // alike; not known to be right often enough: see LikenessRung
  kExplored,    // alike and sure enough; the model was asked all the same, to stay sure
};
/// "served", "missed", "not_allowed", …
std::string_view to_string(Verdict verdict);

/// What was looked at on one rung, and why it was used or not.
struct LadderStep {
  TextRung rung = TextRung::kExact;
  Verdict verdict = Verdict::kMissed;
  std::string candidate;  // the question that the answer was given to, in its own words
  Duration age{0};        // of the answer
  Duration took{0};       // folding and looking up
};

struct AnswerLookup {
  std::optional<Answer> answer;
  std::vector<LadderStep> steps;  // in order; an answer is that of the last
  Duration saved{0};              // what the answer had taken

  /// The answer is there, and no model was asked for it.
  [[nodiscard]] bool avoided_work() const {
    return answer.has_value() && !steps.empty() &&
           (steps.back().verdict == Verdict::kServed || steps.back().verdict == Verdict::kJoined);
  }
};

struct AnswerFacts {
  Duration cost{0};                    // what answering took: each hit saves as much
  std::optional<Duration> ttl{};       // from now on; a hit does not prolong it. Absent: for ever
  std::vector<std::string> tags = {};  // what it depends on, by name: see erase_tagged
};

/// Of one rung. Every look-up adds one to one of them, at every rung that it came to.
struct RungStats {
  std::uint64_t served = 0;
  std::uint64_t matched_not_used = 0;
  std::uint64_t missed = 0;
};

/// Every counter is of the cache's whole life.
struct AnswerCacheStats {
  std::array<RungStats, kTextRungs.size()> rungs;
  RungStats proposed;  // of answer_to()
  std::uint64_t insertions = 0;
  std::uint64_t evictions = 0;
  std::uint64_t expired = 0;
  std::uint64_t erased = 0;   // by erase and its kin, clear, or an answer that took their place
  std::uint64_t damaged = 0;  // found and removed
  std::uint64_t refused_no_room = 0;
  std::uint64_t blocked = 0;      // not kept while admission was blocked
  Duration answer_time_saved{0};  // sum over what was served of the answers' costs
  EntryCount entries;             // resident now
  Bytes resident;                 // of those, as charged
};

struct AnswerCacheOptions {
  EntryCount max_entries = EntryCount(1'000'000);  // at least 1
  std::unique_ptr<EvictionPolicy> policy;          // nullptr: worth
  /// With whom the budget is shared: they make room, too. nullptr: with nobody.
  SharedBudget* shared = nullptr;
};

/// Is told of every question whose answer leaves the cache, or is replaced, while the cache is
/// locked: it must not call back.
class AnswerObserver {
 public:
  virtual ~AnswerObserver() = default;
  virtual void answer_left(const ScopeId& scope, std::string_view question) = 0;
};

/// Answers by the question they were given to, and found again by all questions of the same scope
/// that ask the same: exactly, canonically or nearly.
///
/// Shape    An entry is an answer's record with the question's words, their forms and the tags.
/// Unit     Bytes of those, charged to a MemoryBudget that other caches may share. The index, some
///          hundreds of bytes an entry, is not charged.
/// Match    Scope and form are compared in full. Of entries whose forms are the same at a rung, the
///          newest stands for all.
/// Errors   kInvalidArgument: an answer that is not whole, a tag with a zero byte. kNoSpace: larger
///          than what others leave of the budget; nobody is evicted for it. kUnavailable: admission
///          is blocked.
/// Threads  Any. One lock; folding and parsing happen outside of it. Copying and checking the bytes
///          of an answer happen inside: they are kilobytes, and done sooner than a pin is taken and
///          let go of.
/// Cost     find O(length of the question) and the policy's touch, however many are cached; insert
/// O(log n) amortised;
///          what erases by scope, space or tag looks at every entry.
/// Source   src/semantic/DESIGN.md.
class AnswerCache final : public BudgetSharer {
 public:
  /// `budget` and `clock` outlive the cache. kInvalidArgument: max_entries is 0.
  static Result<std::unique_ptr<AnswerCache>> create(AnswerCacheOptions options,
                                                     MemoryBudget& budget, const Clock& clock);
  ~AnswerCache() override;
  AnswerCache(const AnswerCache&) = delete;
  AnswerCache& operator=(const AnswerCache&) = delete;

  /// Down the ladder, the strictest rung first, until an answer may be served.
  [[nodiscard]] AnswerLookup find(Question& question, const LookupRules& rules = {});
  /// What find served saved no work after all (it failed the caller's own checks, the engine was
  /// asked anyway): it counts as matched and not used.
  void take_back(const AnswerLookup& served);

  /// The answer to just these words, for whoever found by other means that they may ask the same.
  /// `serve`: it will be served, and counts as such; else it is looked at, and counts as matched
  /// and not used. One step, under text:exact.
  [[nodiscard]] AnswerLookup answer_to(Question& candidate, const LookupRules& rules, bool serve);

  /// `observer` hears of all that leaves until it is taken off.
  void add_observer(AnswerObserver& observer);
  void remove_observer(AnswerObserver& observer);

  /// Keeps the answer; one to the same words in the same scope is replaced.
  Result<void> insert(Question& question, const Answer& answer, const AnswerFacts& facts);

  /// False: there is none.
  bool erase(Question& question);
  /// Each returns how many entries left.
  EntryCount erase_tagged(std::string_view tag);
  EntryCount erase_scope(const ScopeKey& scope);
  EntryCount purge(const NamespaceId& space);
  EntryCount expire();
  void clear();

  /// Evicts until at least `wanted` bytes are free again, those whose time is over first. Returns
  /// what was freed.
  Bytes shed(Bytes wanted) override;
  Bytes obey_budget() override;
  [[nodiscard]] std::optional<NextToLeave> next_to_leave() override;
  void block_admission(bool blocked) override;

  [[nodiscard]] AnswerCacheStats stats() const;
  /// Recounts everything from the entries; aborts where the books disagree. O(n): tests.
  void check_invariants() const;

 private:
  friend struct AnswerCacheInside;  // a test damages what is kept
  struct State;
  AnswerCache(std::unique_ptr<State> state, const Clock& clock);
  [[nodiscard]] std::span<const std::byte> kept_bytes(Question& question) const;

  mutable Mutex mutex_;
  const Clock& clock_;
  std::unique_ptr<State> state_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <variant>
#include <vector>

#include "afterimage/answer_cache.h"
#include "afterimage/clock.h"
#include "afterimage/result.h"

namespace afterimage {

class AnswerOnce;
struct AnswerFlight;     // a question being answered, and its waiters
struct AnswerFlightKey;  // one form of a question
/// A request's part in a flight; the deleter leaves it.
using AnswerFlightPart = std::unique_ptr<AnswerFlight, std::function<void(AnswerFlight*)>>;

/// The leader of a flight: it gets the question answered for all waiters. Move-only. Call publish()
/// or fail(); dropping a leader without either makes one of the waiters the leader.
class [[nodiscard]] AnswerLeader {
 public:
  /// Caches an answer to the leader's question: AnswerCache::insert, or something stricter.
  using Insert = std::function<Result<void>(Question& question)>;

  /// Caches the answer and hands it to the waiters. False: it was not cached (no space or admission
  /// blocked); the waiters get it all the same. kInvalidArgument: it is incomplete (truncated,
  /// filtered); one of the waiters becomes the leader. So it does after any error of `insert` that
  /// is neither kNoSpace nor kUnavailable. An empty `insert` is AnswerCache::insert.
  Result<bool> publish(const Answer& answer, const AnswerFacts& facts,
                       const Insert& insert = {}) &&;
  /// A permanent error (is_permanent) fails all waiters; after any other, one of them becomes the
  /// leader.
  void fail(const Error& error) &&;
  /// The look-up that missed, match level by match level.
  [[nodiscard]] const std::vector<MatchStep>& looked() const { return looked_; }

 private:
  friend class AnswerOnce;
  AnswerLeader(AnswerOnce& front, AnswerFlightPart flight, Question question,
               std::vector<MatchStep> looked)
      : front_(&front),
        flight_(std::move(flight)),
        question_(std::move(question)),
        looked_(std::move(looked)) {}

  AnswerOnce* front_;
  AnswerFlightPart flight_;
  Question question_;
  std::vector<MatchStep> looked_;
};

/// Waits for the answer of another request's flight. Move-only.
class [[nodiscard]] AnswerWaiter {
 public:
  AnswerWaiter(AnswerWaiter&&) noexcept;
  AnswerWaiter& operator=(AnswerWaiter&&) noexcept;
  ~AnswerWaiter();

  /// Blocks until one of: the answer is there (a look-up with it); the leader was dropped and this
  /// request leads now; the flight failed (its error); `stop` was requested (kCancelled). A look-up
  /// without an answer: a request with another wording took over, and its answer does not serve
  /// this question; claim again.
  Result<std::variant<AnswerLookup, AnswerLeader>> wait(const std::stop_token& stop = {}) &&;

 private:
  friend class AnswerOnce;
  AnswerWaiter(AnswerOnce& front, AnswerFlightPart flight, Question question,
               std::vector<AnswerFlightKey> admits, AnswerLookup looked);

  AnswerOnce* front_;
  AnswerFlightPart flight_;
  Question question_;
  std::vector<AnswerFlightKey> admits_;  // forms whose answers may serve this question
  AnswerLookup looked_;                  // the look-up that missed
  Duration began_;
};

struct AnswerOnceStats {
  std::uint64_t led = 0;         // questions that the model was asked
  std::uint64_t followed = 0;    // requests that waited instead of asking
  std::uint64_t joined = 0;      // of those, served by another's answer
  std::uint64_t taken_over = 0;  // flights whose lead passed to a waiter
  std::uint64_t not_cached = 0;  // answers not cached: no space, or admission was blocked
};

/// An answer cache with single flight: while a question is being answered, requests for the same
/// question (at any match level that their rules allow) wait for that answer. If the leader fails or gives
/// up, a waiter takes over.
///
///   Claim claim = front.claim(question);
///   // AnswerLookup: a hit. AnswerLeader: ask the model and publish. AnswerWaiter: wait.
///
/// Deadlock  None, if no thread waits on an AnswerWaiter while it holds an AnswerLeader.
/// Counts    A request that waited counts as a miss in the cache, and in `joined` here if it was
///           served.
/// Threads   Any. One lock, taken before the cache's, and not held while a model answers.
/// Source    src/caches/answers/DESIGN.md; foundation/platform/flight.h.
class AnswerOnce {
 public:
  using Claim = std::variant<AnswerLookup, AnswerLeader, AnswerWaiter>;
  struct Generated {
    Answer answer;
    AnswerFacts facts;  // `cost` is overwritten by the measured time
  };
  using Generate = std::function<Result<Generated>()>;

  /// `cache` and `clock` must outlive it.
  AnswerOnce(AnswerCache& cache, const Clock& clock);
  /// Requires that no leader or waiter is alive.
  ~AnswerOnce();
  AnswerOnce(const AnswerOnce&) = delete;
  AnswerOnce& operator=(const AnswerOnce&) = delete;

  [[nodiscard]] Claim claim(Question& question, const LookupRules& rules = {});

  /// Returns the cached answer, another flight's answer, or generate()'s, with the steps looked up
  /// on the way. An incomplete answer is returned to this caller only.
  Result<AnswerLookup> get_or_answer(Question& question, const LookupRules& rules,
                                     const Generate& generate, const std::stop_token& stop = {});

  [[nodiscard]] AnswerOnceStats stats() const;

 private:
  friend class AnswerLeader;
  friend class AnswerWaiter;
  struct State;

  Result<bool> publish(AnswerFlight& flight, Question& question, const Answer& answer,
                       const AnswerFacts& facts, const AnswerLeader::Insert& insert);
  Result<std::variant<AnswerLookup, AnswerLeader>> wait(AnswerWaiter waiter,
                                                        const std::stop_token& stop);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage

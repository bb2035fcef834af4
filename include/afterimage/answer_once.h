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
struct AnswerFlight;     // one question being answered, and those who wait for it
struct AnswerFlightKey;  // a question in one of its forms

/// The duty to have one question answered for everybody who waits for it. Move-only. Publish the
/// answer or say why there is none; letting go of it without either hands it to one who waits.
class [[nodiscard]] AnswerLeader {
 public:
  AnswerLeader(AnswerLeader&& other) noexcept;
  AnswerLeader& operator=(AnswerLeader other) noexcept;
  ~AnswerLeader();

  /// Keeps the answer and gives it to those who wait. True: it is kept; what does not fit is given
  /// to them all the same. kInvalidArgument: it is not whole (cut off, filtered); one of those who
  /// wait asks again.
  Result<bool> publish(const Answer& answer, const AnswerFacts& facts) &&;
  /// An error that would meet everybody is everybody's; after any other, one of those who wait
  /// tries again.
  void fail(const Error& error) &&;
  /// What there was, rung by rung: no answer.
  [[nodiscard]] const std::vector<MatchStep>& looked() const { return looked_; }

 private:
  friend class AnswerOnce;
  AnswerLeader(AnswerOnce& front, std::shared_ptr<AnswerFlight> flight, Question question,
               std::vector<MatchStep> looked);

  AnswerOnce* front_;
  std::shared_ptr<AnswerFlight> flight_;
  Question question_;
  std::vector<MatchStep> looked_;
};

/// A place in the queue for a question that somebody else has asked. Move-only.
class [[nodiscard]] AnswerWaiter {
 public:
  AnswerWaiter(AnswerWaiter&& other) noexcept;
  AnswerWaiter& operator=(AnswerWaiter other) noexcept;
  ~AnswerWaiter();

  /// Blocks until the answer is there, or the one who asked gave up and it is our turn, or it
  /// cannot be answered (the error), or `stop` is requested (kCancelled). A look-up without an
  /// answer: one whose words are too far from ours took over, and its answer is not for us; claim
  /// again.
  Result<std::variant<AnswerLookup, AnswerLeader>> wait(const std::stop_token& stop = {}) &&;

 private:
  friend class AnswerOnce;
  AnswerWaiter(AnswerOnce& front, std::shared_ptr<AnswerFlight> flight, Question question,
               std::vector<AnswerFlightKey> admits, AnswerLookup looked);

  AnswerOnce* front_;
  std::shared_ptr<AnswerFlight> flight_;
  Question question_;
  std::vector<AnswerFlightKey> admits_;  // whose answers it may be served
  AnswerLookup looked_;                  // what there was
  Duration began_;
};

struct AnswerOnceStats {
  std::uint64_t led = 0;         // questions that the model was asked
  std::uint64_t followed = 0;    // requests that waited instead of asking
  std::uint64_t joined = 0;      // of them, those whom another's answer served
  std::uint64_t taken_over = 0;  // turns that passed to one who waited
  std::uint64_t unkept = 0;      // answers that did not fit, or came while admission was blocked
};

/// The answer cache with questions in flight: while a question is being answered, all who ask the
/// same (as far as their rules go: exactly, canonically, nearly) wait for that answer, also when
/// the one who asked first fails, gives up or dies.
///
///   Claim claim = front.claim(question);  // AnswerLookup: there. AnswerLeader: ask. AnswerWaiter:
///   wait.
///
/// Whoever holds an AnswerLeader waits on no AnswerWaiter before it is published; so no two wait for
/// each other.
///
/// Counts   A request that waited missed in the cache when it asked, and counts in `joined` here
///          when it was served.
/// Threads  Any. One lock, taken before the cache's, and not held while anybody answers.
/// Source   src/semantic/DESIGN.md; platform/flight.h.
class AnswerOnce {
 public:
  using Claim = std::variant<AnswerLookup, AnswerLeader, AnswerWaiter>;
  struct Generated {
    Answer answer;
    AnswerFacts facts;  // the cost is measured, whatever it says
  };
  using Generate = std::function<Result<Generated>()>;

  /// `cache` and `clock` outlive the front.
  AnswerOnce(AnswerCache& cache, const Clock& clock);
  /// Nobody holds a turn or a ticket any more.
  ~AnswerOnce();
  AnswerOnce(const AnswerOnce&) = delete;
  AnswerOnce& operator=(const AnswerOnce&) = delete;

  [[nodiscard]] Claim claim(Question& question, const LookupRules& rules = {});

  /// The whole of it: what is kept, or what somebody else is asking, or generate(); and always what
  /// was looked at on the way. An answer that is not whole is given to the caller alone.
  Result<AnswerLookup> get_or_answer(Question& question, const LookupRules& rules,
                                     const Generate& generate, const std::stop_token& stop = {});

  [[nodiscard]] AnswerOnceStats stats() const;

 private:
  friend class AnswerLeader;
  friend class AnswerWaiter;
  struct State;

  Result<bool> publish(AnswerFlight& flight, Question& question, const Answer& answer,
                       const AnswerFacts& facts);
  void fail(AnswerFlight& flight, const Error& error);
  Result<std::variant<AnswerLookup, AnswerLeader>> wait(AnswerWaiter mine,
                                                        const std::stop_token& stop);
  void leave(AnswerFlight& flight);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage

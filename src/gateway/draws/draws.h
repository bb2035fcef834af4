// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "afterimage/answer_cache.h"
#include "afterimage/digest.h"
#include "afterimage/question.h"
#include "afterimage/units.h"
#include "caches/answers/answer_observer.h"
#include "foundation/platform/mutex.h"
#include "foundation/types/digest_hash.h"
#include "gateway/draws/requester_filter.h"

namespace afterimage {

/// A sampled request: whose draws serve it.
using SampledRequestId = Digest<struct SampledRequestIdTag>;
/// `form`: how the answer is sent. `sharers`: whom its draws serve, within the tenant's namespace;
/// empty: all.
[[nodiscard]] SampledRequestId sampled_request_id(const Question& question, std::string_view form,
                                                  std::string_view sharers);

/// One answer of the model to a sampled request, from when it is asked for.
struct Draw {
  SampledRequestId request;
  std::uint64_t serial = 0;  // never reused by this process
  std::uint32_t number = 0;  // of this request's draws: 1, 2, …; for people
  bool operator==(const Draw&) const = default;
};
/// The question under which a draw's answer is stored: in a scope of its own, so that nothing else
/// finds it.
[[nodiscard]] Question question_of(const Draw& draw, const Question& asked);

/// Which draws may serve a requester.
struct DrawRules {
  std::uint32_t most = 8;                            // draws of one request that are kept
  std::optional<Duration> ttl = std::nullopt;        // of a draw that is started
  std::optional<Duration> max_age = std::nullopt;    // older draws do not serve this requester
  std::optional<Duration> min_fresh = std::nullopt;  // nor do those that expire sooner
  bool fresh = false;                                // none that was started before serves
  bool may_start = true;                             // false: no draw is started
  bool may_wait = true;                              // false: only a stored draw serves
};

/// What serves a requester.
struct DrawClaim {
  std::optional<Draw> draw;   // nullopt: the model is asked, and the answer is not kept
  bool is_new = false;        // it is started by this claim
  bool is_stored = false;     // else it is being asked for
  bool had_others = false;    // the requester has had a draw of this request
  std::vector<Draw> retired;  // as many requesters have had them as can be remembered: erase them
};

/// The draws of sampled requests, and who has had which.
///
/// A stored answer of a sampled request is one independent draw of the model. Each requester gets the
/// draws of a request in the order in which they were started, whatever is in them and however long
/// they took, and none twice. So the answers of one requester are distributed as the model's own:
/// docs/decisions/0043-stored-draws-are-the-models.md.
///
/// The answers themselves are in the AnswerCache, under question_of(). Draws whose answers leave it are
/// forgotten, as its observer learns.
///
/// Shape    At most `capacity` requests, the least recently asked for forgotten first; some hundred
///          bytes each, and up to 6 KiB for a draw that thousands have had.
/// Threads  Any. Its lock is taken under the cache's, so it never calls the cache.
class Draws final : public AnswerObserver {
 public:
  static constexpr std::size_t kCapacity = 100'000;
  explicit Draws(std::size_t capacity = kCapacity) : capacity_(capacity) {}

  /// Chooses the draw for this requester and notes that it has it: the first that it has not had,
  /// or a new one, which the caller asks the model for, or nothing. `now` must not decrease.
  [[nodiscard]] DrawClaim claim(const SampledRequestId& request, const RequesterId& who,
                                const DrawRules& rules, Duration now);
  /// What claim() would return.
  [[nodiscard]] DrawClaim peek(const SampledRequestId& request, const RequesterId& who,
                               const DrawRules& rules, Duration now) const;
  /// It is stored, or being asked for.
  [[nodiscard]] bool holds(const Draw& draw) const;
  /// The answer is in the cache. False: the draw was forgotten meanwhile, and its answer must go.
  [[nodiscard]] bool stored(const Draw& draw);
  /// The requester has left before it was given anything: it has not had the draw, if that is not
  /// stored yet. Who comes back gets it, and not another, which would be short more often.
  void leave(const Draw& draw, const RequesterId& who);
  /// There is no answer, or not any more. Nobody has had it.
  void drop(const Draw& draw);
  void answer_removed(const ScopeId& scope, std::string_view question) override;

  /// What an eviction policy is told of a draw: means of the draws before it, since which one goes
  /// must not depend on what is in it.
  [[nodiscard]] EntryFacts weigh(Bytes bytes, Duration cost);

  [[nodiscard]] std::size_t requests() const;
  /// Aborts if the maps disagree. O(n): for tests.
  void check_invariants() const;

 private:
  struct IdHash {
    std::size_t operator()(const RequesterId& who) const { return who.low; }
  };
  struct Kept {
    Draw draw;
    Duration started{0};
    std::optional<Duration> expires = std::nullopt;
    bool is_stored = false;
    RequesterFilter had;
    /// Those who wait for it: if it fails they have not had it.
    std::unordered_set<RequesterId, IdHash> waiting;

    [[nodiscard]] bool was_had_by(const RequesterId& who) const {
      return waiting.contains(who) || had.may_contain(who);
    }
  };
  struct Request {
    std::vector<Kept> draws;  // in the order in which they were started
    std::uint32_t last_number = 0;
    std::list<SampledRequestId>::iterator used;
  };
  using Requests = std::unordered_map<SampledRequestId, Request, DigestHash>;

  [[nodiscard]] static bool may_serve(const Kept& kept, const DrawRules& rules, Duration now);
  /// In Request::draws; nullopt: it was forgotten.
  [[nodiscard]] std::optional<std::size_t> place_of(const Draw& draw) const AFI_REQUIRES(mutex_);
  /// The place in Request::draws of the draw that claim() gives; nullopt: none.
  [[nodiscard]] static std::optional<std::size_t> choose(const Request& request,
                                                         const RequesterId& who,
                                                         const DrawRules& rules, Duration now,
                                                         bool& had_others);
  void remove(const Draw& draw) AFI_REQUIRES(mutex_);
  void remove(Requests::iterator request) AFI_REQUIRES(mutex_);

  const std::size_t capacity_;
  mutable Mutex mutex_;
  Requests requests_ AFI_GUARDED_BY(mutex_);
  std::list<SampledRequestId> by_use_ AFI_GUARDED_BY(mutex_);  // the least recent first
  /// By the scope of the draw's answer.
  std::unordered_map<ScopeKey, Draw, DigestHash> by_scope_ AFI_GUARDED_BY(mutex_);
  std::uint64_t last_serial_ AFI_GUARDED_BY(mutex_) = 0;
  double mean_bytes_ AFI_GUARDED_BY(mutex_) = 0;
  double mean_cost_ns_ AFI_GUARDED_BY(mutex_) = 0;
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <variant>
#include <vector>

#include "afterimage/prefix_cache.h"

namespace afterimage {

class PrefillOnce;
struct PrefillFlight;  // a prefill in progress

/// A request's prompt. Layout and prompt must outlive the leader or waiter that the request gets.
struct PrefillRequest {
  NamespaceId space;
  const KvLayout* layout;
  const Sequence* prompt;
  /// For the eviction policy, which sees the request once: at commit, or when the leader is dropped
  /// without one. Facts that only the answer has (output_tokens, stop) are not included.
  RequestFacts facts = {};
};

/// The leader of a prefill: it knows where its request resumes, pins that KV, and prefills the rest
/// for everyone who waits. Move-only. Call commit() or fail(); dropping a leader without either
/// lets one of the waiters take over.
class [[nodiscard]] PrefillLeader {
 public:
  /// Pinned while the leader lives, also after commit.
  [[nodiscard]] const PrefixMatch& match() const { return match_; }
  /// Where this run should take snapshots: see snapshot_positions. Waiters rely on them.
  [[nodiscard]] const std::vector<TokenCount>& snapshots() const { return snapshots_; }
  /// The match could not be restored: this request now prefills the whole prompt.
  void start_over();
  /// Matches again, because KV of the prompt was inserted meanwhile. Drops the earlier match.
  Result<void> look_again();

  /// Copies in what is not cached yet and wakes the waiters. Call it as soon as the prompt is
  /// prefilled, before decoding: waiters need nothing of the output. At most once.
  Result<PrefixInsertion> commit(const KvSlice& kv);
  /// Nothing will be committed: the waiters prefill for themselves.
  void fail() { finish(); }

 private:
  friend class PrefillOnce;
  /// The deleter leaves the flight.
  using Part = std::unique_ptr<PrefillFlight, std::function<void(PrefillFlight*)>>;
  PrefillLeader(PrefillOnce& front, const PrefillRequest& request, PrefixMatch match,
                TokenCount branch_point, std::vector<TokenCount> snapshots, Part flight)
      : front_(&front),
        request_(request),
        match_(std::move(match)),
        branch_point_(branch_point),
        snapshots_(std::move(snapshots)),
        flight_(std::move(flight)) {}
  void finish();

  PrefillOnce* front_;
  PrefillRequest request_;
  PrefixMatch match_;
  TokenCount branch_point_{};
  std::vector<TokenCount> snapshots_;
  Part flight_;  // nullptr: nobody waits, or the flight is over
};

/// Permission to wait for another request's prefill. Dropping it affects nobody else.
class [[nodiscard]] PrefillWaiter {
 public:
  /// The resume point that this request will have if the leader succeeds.
  [[nodiscard]] TokenCount promised() const { return promised_; }
  /// Blocks until the leader is done. True: it was dropped without a result; claim again. False: it
  /// committed, failed, or its KV did not fit; call lead() and resume from what there is. So a
  /// request waits a second time only if its leader was dropped.
  /// kCancelled: `stop` was requested.
  Result<bool> wait(const std::stop_token& stop = {}) &&;

 private:
  friend class PrefillOnce;
  PrefillWaiter(PrefillOnce& front, std::shared_ptr<PrefillFlight> flight, TokenCount promised)
      : front_(&front), flight_(std::move(flight)), promised_(promised) {}

  PrefillOnce* front_;
  std::shared_ptr<PrefillFlight> flight_;
  TokenCount promised_{};
};

struct PrefillOnceOptions {
  /// Verify checksums at every hit; damaged KV is dropped, counted and recomputed.
  bool verify_hits = true;
  /// A request waits for another if that saves it at least this many tokens, and at least half of
  /// what it would have to compute. At least 1.
  TokenCount worth_waiting{32};
};

struct PrefillOnceStats {
  std::uint64_t led = 0;       // prefills started that others could wait for
  std::uint64_t followed = 0;  // requests that got a waiter
  std::uint64_t left = 0;      // leaders dropped without a result
};

/// Single flight in front of a prefix cache: concurrent prompts that share a prefix prefill it once.
///
///   Claim claim = front.claim(request);
///   // PrefillLeader: resume, prefill, commit. PrefillWaiter: wait.
///
/// Deadlock  A request waits for a prefix before it leads, here or in EncodeOnce, and the leader of
///           an encode publishes its result before it waits for anything. So prefix waiters wait
///           for prefills, prefills for encodes, and encodes for nobody.
///
/// Errors   As PrefixCache says.
/// Threads  Any. One lock, taken before the cache's and held while prompts in flight are compared
///          (microseconds), never while KV is computed, copied or verified.
/// Source   src/caches/prefix/DESIGN.md.
class PrefillOnce {
 public:
  using Claim = std::variant<PrefillLeader, PrefillWaiter>;

  /// `cache` outlives this object.
  explicit PrefillOnce(PrefixCache& cache, PrefillOnceOptions options = {});
  /// Requires that no leader is alive.
  ~PrefillOnce();
  PrefillOnce(const PrefillOnce&) = delete;
  PrefillOnce& operator=(const PrefillOnce&) = delete;

  /// Returns a leader, or a waiter for another request's prefill. Never blocks on one. Requests of
  /// different namespaces, and so of different tenants, never wait for each other.
  [[nodiscard]] Result<Claim> claim(const PrefillRequest& request);
  /// The same without waiting: always a leader.
  [[nodiscard]] Result<PrefillLeader> lead(const PrefillRequest& request);
  /// Claims, waits if a waiter was returned, and returns a leader.
  Result<PrefillLeader> wait_and_lead(const PrefillRequest& request,
                                      const std::stop_token& stop = {});

  /// A match whose bytes passed verification, or a miss.
  [[nodiscard]] Result<PrefixMatch> match(const NamespaceId& space, const Sequence& prompt,
                                          const RequestFacts& facts = {});

  /// The cache in front of which it is: for everything besides prefilling.
  [[nodiscard]] PrefixCache& cache() const;
  [[nodiscard]] PrefillOnceStats stats() const;

 private:
  friend class PrefillLeader;
  friend class PrefillWaiter;

  struct State;

  bool drop_if_damaged(PrefixMatch& match) const;
  Result<Claim> claim(const PrefillRequest& request, bool may_wait);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage

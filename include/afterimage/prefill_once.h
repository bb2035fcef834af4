// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <variant>
#include <vector>

#include "afterimage/prefix_cache.h"

namespace afterimage {

class PrefillOnce;
struct PrefillFlight;  // one prompt being prefilled
enum class PrefillLanding : unsigned char;

/// What a request wants to prefill. Layout and prompt outlive the turn or ticket that it gets.
struct PrefillRequest {
  NamespaceId space;
  const KvLayout* layout;
  const Sequence* prompt;
  /// For the eviction policy, which hears of the request once: at commit, or when the turn is let
  /// go of without one. So what is known only of the answer (output_tokens, stop) is not told.
  RequestFacts facts = {};
};

/// Where a request may resume, held, and the duty to prefill the rest for everybody who waits for
/// it. Move-only. Commit what was computed or say that it failed; letting go of a turn without
/// either hands the duty to one who waits.
class [[nodiscard]] PrefillLeader {
 public:
  PrefillLeader(PrefillLeader&& other) noexcept;
  PrefillLeader& operator=(PrefillLeader other) noexcept;
  ~PrefillLeader();

  /// Held as long as the turn, also after commit.
  [[nodiscard]] const PrefixMatch& match() const { return match_; }
  /// Where snapshots of this run should stand: see snapshot_positions. Those who wait count on
  /// them.
  [[nodiscard]] const std::vector<TokenCount>& snapshots() const { return snapshots_; }
  /// The match did not serve: the turn is for the whole prompt now.
  void start_over();
  /// Somebody has brought KV of the prompt into the cache meanwhile: matches once more. What was
  /// found before is let go of.
  Result<void> look_again();

  /// Copies in what is not cached yet and wakes those who wait. Best as soon as the prompt is
  /// prefilled: they need nothing of what is decoded after it. Once a turn.
  Result<PrefixInsertion> commit(const CapturedKv& kv);
  /// There will be nothing: those who wait compute it themselves.
  void fail();

 private:
  friend class PrefillOnce;
  PrefillLeader(PrefillOnce& front, const PrefillRequest& asked, PrefixMatch match,
                TokenCount parted, std::vector<TokenCount> snapshots,
                std::shared_ptr<PrefillFlight> flight);
  void land(PrefillLanding landing);

  PrefillOnce* front_;
  PrefillRequest asked_;
  PrefixMatch match_;
  TokenCount parted_{};
  std::vector<TokenCount> snapshots_;
  std::shared_ptr<PrefillFlight> flight_;  // nullptr: nobody can be waiting (any more)
};

/// Leave to wait for a prompt that somebody else is prefilling. Dropping it costs nobody anything.
class [[nodiscard]] PrefillWaiter {
 public:
  /// The resume point that there will be, if all goes well: what waiting is for.
  [[nodiscard]] TokenCount promised() const { return promised_; }
  /// Blocks until whoever prefills is done. True: the turn was let go of without a result; claim
  /// again. False: it is there, or it failed, or it did not fit; lead, from whatever there is. So a
  /// request waits a second time only if the one that it waited for was given up.
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
  /// Recompute the checksums at every hit; what is damaged is dropped, counted and computed again.
  bool verify_hits = true;
  /// A request waits for another if that spares it so many tokens, and at least half of what it
  /// would have to compute. At least 1.
  TokenCount worth_waiting{32};
  /// With whom the budget is shared: they make room, too. nullptr: with nobody.
  SharedBudget* shared = nullptr;
};

struct PrefillOnceStats {
  std::uint64_t led = 0;       // prefills begun that others could wait for
  std::uint64_t followed = 0;  // requests that were told to wait
  std::uint64_t left = 0;      // turns that were let go of
  std::uint64_t blocked = 0;   // insertions refused while admission was blocked
};

/// The prefix cache for many threads: what prompts have in common is prefilled once, also if they
/// come at the same time.
///
///   Claim claim = front.claim(asked);  // Turn: resume, prefill, commit. Ticket: wait.
///
/// A request waits for a prefix before it takes a turn, here or in EncodeOnce, and whoever holds an
/// encoder's turn publishes it before waiting for anything. So those who wait for prefixes wait for
/// those who wait for embeddings, those for those who encode, and these for nobody.
///
/// Errors   As PrefixCache says; kUnavailable: an insertion while admission is blocked.
/// Threads  Any. One lock, held while the tree is walked and prompts in flight are compared
///          (microseconds), never while KV is computed, copied or checked.
/// Source   src/prefix/DESIGN.md.
class PrefillOnce final : public BudgetClient, private PrefixOwner {
 public:
  using Claim = std::variant<PrefillLeader, PrefillWaiter>;

  /// `cache` outlives the front, and nobody else touches it while the front stands.
  explicit PrefillOnce(PrefixCache& cache, PrefillOnceOptions options = {});
  /// Nobody holds a match, a turn or a ticket any more.
  ~PrefillOnce() override;
  PrefillOnce(const PrefillOnce&) = delete;
  PrefillOnce& operator=(const PrefillOnce&) = delete;

  /// Where to resume, or whom to wait for. Never waits itself. Tenants never wait for each other.
  [[nodiscard]] Result<Claim> claim(const PrefillRequest& asked);
  /// The same for one who will not wait (any more).
  [[nodiscard]] Result<PrefillLeader> lead(const PrefillRequest& asked);
  /// The whole of it: claims, waits if told to, and comes back with a turn.
  Result<PrefillLeader> wait_and_lead(const PrefillRequest& asked,
                                      const std::stop_token& stop = {});

  /// A match whose bytes are intact, or a miss.
  [[nodiscard]] Result<PrefixMatch> match(const NamespaceId& space, const Sequence& prompt,
                                          const RequestFacts& facts = {});
  /// Requires match.holds(). Bytes stay valid, unchanged and readable without a lock while it
  /// lives.
  [[nodiscard]] CachedKv kv(const PrefixMatch& match) const;
  /// Copies in what is not cached yet. Whoever stores the same at the same time stores it once.
  Result<PrefixInsertion> insert(const NamespaceId& space, const KvLayout& layout,
                                 const Sequence& sequence, const CapturedKv& kv,
                                 PrefixMatch* from = nullptr);

  [[nodiscard]] Result<PrefixExplanation> explain(const NamespaceId& space,
                                                  const Sequence& prompt) const;
  bool erase(const NamespaceId& space);
  void clear();
  [[nodiscard]] std::optional<NextToLeave> eviction_candidate() override;
  Bytes evict_bytes(Bytes wanted) override;
  Bytes trim_to_budget() override;
  void block_admission(bool blocked) override;
  [[nodiscard]] PrefixCacheStats cache_stats() const;
  [[nodiscard]] PrefillOnceStats stats() const;
  void check_invariants() const;

 private:
  friend class PrefillLeader;
  friend class PrefillWaiter;

  struct State;

  void let_go(const PrefixHold& hold, const RequestFacts* request) override;
  bool drop_if_damaged(PrefixMatch& match, const std::vector<const Payload*>& payloads);
  Result<Claim> claim(const PrefillRequest& asked, bool may_wait);
  void land(PrefillFlight& flight, PrefillLanding landing);
  Result<bool> wait(PrefillFlight& flight, const std::stop_token& stop);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "foundation/platform/huge_pages.h"
#include "policy/eviction/hint_trust.h"
#include "policy/eviction/reuse_model.h"
#include "policy/eviction/run_ages.h"

namespace afterimage {

/// Evicts the entry of least worth: the fewest expected seconds saved per byte and second of
/// residence, P(reuse) × cost ÷ bytes. A ReuseModel learns P(reuse) online.
///
/// Entries that one request used together form a run, which is judged as a whole and evicted from
/// its deepest entry on. A request that continues a run takes over its entries: the run was reused
/// at that age, and the entries left behind become another kind of run. A request that shares only
/// the beginning of a run divides it. The model distinguishes runs by
///   - kind: a request's last entry, its own entries, shared entries, entries left behind;
///   - the number of uses, and whether they were divided;
///   - the model's stop reason, who started the turn, and the turn's number;
///   - the length of the output, and the time since the previous turn;
///   - the prompt's size, how much of it is new, and the size of the conversation's first prompt;
///   - turns begun by people, tool results since the last of them, and how fast those came.
/// A client's hint changes the odds that a run is reused by what HintTrust has learned of its owner.
/// Evicted entries are remembered by key for a while, so that a reuse after eviction is learned,
/// too. Without begin_request() all runs are of one kind and do not age.
///
/// Cost     touch and insert O(1); a victim O(log classes and ages in use).
class Worth final : public EvictionPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "worth"; }
  void begin_request(const RequestFacts& facts) override;
  void insert(SlotId slot, const EntryFacts& facts) override;
  void touch(SlotId slot) override;
  void split(SlotId lower, const EntryFacts& of_lower, SlotId upper,
             const EntryFacts& of_upper) override;
  void erase(SlotId slot, RemovalReason why) override;
  void park(SlotId slot) override;
  void unpark(SlotId slot) override;
  [[nodiscard]] std::optional<SlotId> victim() override;
  [[nodiscard]] std::optional<double> victim_worth() override;

  /// Number of remembered evicted entries; at most kMostRemembered when a request begins.
  [[nodiscard]] std::uint64_t remembered() const { return remembered_; }
  /// Number of classes of runs that the model keeps; those that no run has are dropped.
  [[nodiscard]] std::size_t classes() const { return model_.classes() + model_.released(); }
  static constexpr std::uint64_t kMostRemembered = 1U << 18U;

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = std::numeric_limits<Index>::max();
  static constexpr std::uint8_t kMaxCountedUses = 3;

  enum class Kind : unsigned char { kOwn, kTip, kShared, kLeftBehind, kTipLeftBehind };

  struct Links {
    Index before = kNone;
    Index after = kNone;
  };
  struct Ends {
    Index first = kNone;
    Index last = kNone;
  };
  /// An entry's position at its last use. Bytes are floats: they only serve as shares of a run.
  struct Past {
    Index run = kNone;
    float bytes = 0;   // of the entry
    float deeper = 0;  // of the deeper entries of its run
    std::uint8_t uses = 0;
  };
  struct Ghost {
    Past past;
    std::uint32_t serial = 0;
  };
  struct Entry {
    std::uint64_t key = 0;
    Past past;
    Links links;  // in its run's list, if it is not parked
    std::uint32_t generation = 0;
    std::uint8_t price = 0;
    bool present = false;
    bool parked = false;
  };
  /// A conversation up to its latest request.
  struct Conversation {
    std::uint32_t turn = 0;
    std::uint32_t human_turns = 0;
    std::uint32_t tool_turns = 0;  // since the last human turn
    double gap = 0;                // since the previous turn, seconds
    double pace = 0;               // of tool turns: log2 of their gaps in seconds, averaged
    double first_bytes = 0;        // of the first prompt
    double bytes = 0;              // of the prompt
    double new_bytes = 0;          // of these, neither resident nor remembered
    EntryLabel owner;              // zeros: unknown
    HintTrust::Bet bet;            // on what the latest request hinted
    int evidence = 0;              // of the hint, see ReuseModel::classify
  };
  struct Run {
    RequestFacts facts;
    Conversation conversation;
    double since = 0;        // last use, seconds
    double bytes = 0;        // initially
    double alive_bytes = 0;  // of the `alive` entries
    double taken_bytes = 0;  // taken over by the current request
    double remembered_bytes = 0;
    std::uint32_t alive = 0;  // entries not taken by another run; resident or remembered
    std::uint32_t remembered = 0;
    std::uint32_t serial = 0;               // remembered entries with another serial are forgotten
    ReuseModel::Class reuse_class = kNone;  // kNone: not classified yet
    RunAges::Place place = 0;               // in ages_, if it is not open
    std::uint8_t uses = 0;
    Kind kind = Kind::kOwn;
    bool open = false;       // of the current request
    bool touched = false;    // the current request took over some of it
    bool continued = false;  // the current request continues it
    bool divided = false;
    Ends standing;  // resident entries that are not parked, the deepest first
  };
  /// A run's position in its bucket. Separate from Run, because ageing changes nothing else.
  struct Listing {
    Links links;  // the oldest first
    Index bucket = kNone;
  };
  /// Runs of one class, age and price; may be empty for a while.
  struct Bucket {
    Ends runs;
    bool ordered = false;  // is in order_ or unordered_
  };
  /// Runs of one class and price: kBins consecutive buckets.
  struct Series {
    ReuseModel::Class reuse_class = 0;
    std::uint8_t price = 0;
    Index runs = 0;
  };
  struct Rank {
    double worth = 0;
    std::uint64_t tie = 0;  // class, age, price
    Index bucket = kNone;
    bool operator>(const Rank& other) const {
      return worth != other.worth ? worth > other.worth : tie > other.tie;
    }
  };

  Past recall(std::uint64_t key);
  bool take(const Past& past);
  void use(Index index, const Past& past);
  Index open_run(Kind kind, std::uint8_t uses);
  void close_runs();
  void follow_conversation();
  [[nodiscard]] static ReuseModel::Traits traits_of(const Run& run);
  void settle(Index run);
  void leave_behind(Index run);
  void classify(Run& run);
  void follow_hint();
  void start_aging(Index run);
  void age_runs();
  [[nodiscard]] std::size_t bin_of(const Run& run) const { return ages_.bin(run.place); }
  void forget_oldest();
  void drop_if_dead(Index run);
  void relist(Index run);
  void unlist(Index run);
  void list(Index run, Index bucket);
  void grow_older(Index run);
  Index series_of(ReuseModel::Class reuse_class, std::uint8_t price);
  void link_entry(Index entry, bool deepest);
  void link_entry_behind(Index upper, Index lower);
  void unlink_entry(Index entry);
  [[nodiscard]] Rank rank_of(Index bucket);
  void rank_buckets();
  void order_new_buckets();
  [[nodiscard]] const Rank* least_worth();

  ReuseModel model_;
  HintTrust trust_;
  bool stale_ranks_ = false;  // the model has learned since the buckets were ranked
  std::vector<Entry, HugePageAllocator<Entry>> entries_;  // by slot index
  std::vector<Run> runs_;
  std::vector<Index> free_runs_;
  RunAges ages_;
  std::vector<Listing, HugePageAllocator<Listing>> listings_;  // of runs_
  std::vector<Bucket> buckets_;
  std::vector<Series> series_;
  std::vector<Index> free_series_;
  boost::unordered_flat_map<std::uint64_t, Index> series_by_;  // class and price
  // A heap of buckets, the least worth first; empty ones are dropped when they reach the top. The
  // worth of a bucket is fixed until all are ranked again, so new buckets are ordered lazily.
  std::vector<Rank> order_;
  std::vector<Index> unordered_;

  boost::unordered_flat_map<std::uint64_t, Ghost> ghosts_;    // evicted entries by key
  std::deque<std::pair<Index, std::uint32_t>> memory_order_;  // runs and their serials
  std::uint64_t remembered_ = 0;

  RequestFacts request_;
  double now_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t ranked_at_ = 0;  // requests_ when the buckets were ranked
  double new_bytes_ = 0;
  EntryLabel owner_;  // of the current request's new entries
  Conversation conversation_;
  bool at_tip_ = true;
  std::vector<Index> open_;   // the current request's runs
  std::vector<Index> taken_;  // runs that it has taken entries from
};

}  // namespace afterimage

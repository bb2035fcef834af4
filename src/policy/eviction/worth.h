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
#include "policy/eviction/reuse_model.h"
#include "policy/eviction/run_ages.h"

namespace afterimage {

/// The entry leaves from which the fewest seconds saved by byte and second of keeping are expected:
/// P(reuse) × cost ÷ bytes, P(reuse) learned online by a ReuseModel.
///
/// What one request used together shares a fate. Such a run of entries is judged as a whole and
/// leaves from its deepest entry on. A request that goes on from a run takes its entries over: the
/// run was reused, at that age; what it leaves behind is another kind of run. A request that shares
/// only the beginning of one divides it. Runs are told apart by
///   - kind: a request's last entry, its own, those it shares with others, those left behind;
///   - how often they were used, and whether they were divided;
///   - what the client said, why the model stopped, who asked, which turn it was;
///   - how long the output was, and how long ago the turn before.
/// Entries that are gone are remembered for a while by key, so that a reuse that came too late
/// counts too. Without begin_request() all is one kind, and nothing is ever old.
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

  /// Entries that are gone and still remembered; at most kMostRemembered when a request begins.
  [[nodiscard]] std::uint64_t remembered() const { return remembered_; }
  static constexpr std::uint64_t kMostRemembered = 1U << 18U;

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = std::numeric_limits<Index>::max();

  enum class Kind : unsigned char { kOwn, kTip, kShared, kLeftBehind, kTipLeftBehind };

  struct Links {
    Index before = kNone;
    Index after = kNone;
  };
  struct Ends {
    Index first = kNone;
    Index last = kNone;
  };
  /// Where an entry was when it was last used. Bytes as floats: they only tell how much is whose.
  struct Past {
    Index run = kNone;
    float bytes = 0;   // its own
    float deeper = 0;  // of its run, those that are deeper
    std::uint8_t uses = 0;
  };
  struct Ghost {
    Past past;
    std::uint32_t serial = 0;
  };
  struct Entry {
    std::uint64_t key = 0;
    Past past;
    Links links;  // in its run, if it is not parked
    std::uint32_t generation = 0;
    std::uint8_t price = 0;
    bool present = false;
    bool parked = false;
  };
  struct Run {
    RequestFacts facts;
    double since = 0;        // last use, seconds
    double gap = 0;          // from the turn before, seconds
    double bytes = 0;        // at its beginning
    double alive_bytes = 0;  // of `alive`
    double taken_bytes = 0;  // by the present request
    double remembered_bytes = 0;
    std::uint32_t turn = 0;
    std::uint32_t alive = 0;  // entries not used by another run since; here or remembered
    std::uint32_t remembered = 0;
    std::uint32_t serial = 0;  // tells what is remembered of it from what is forgotten
    ReuseModel::Class reuse_class = 0;
    RunAges::Place place = 0;  // among the ages, if it is not open
    std::uint8_t uses = 0;
    Kind kind = Kind::kOwn;
    bool open = false;       // the present request's
    bool touched = false;    // the present request took of it
    bool continued = false;  // the present request took most of it
    bool divided = false;
    Ends standing;  // entries here and not parked, the deepest first
  };
  /// Where a run stands among those that are worth as much. Apart from it, because growing older
  /// changes nothing else.
  struct Listing {
    Links links;  // the oldest first
    Index bucket = kNone;
  };
  /// Runs of one class, age and price; for a while, none.
  struct Bucket {
    Ends runs;
    bool ordered = false;  // stands in order_ or newcomers_
  };
  /// Runs of one class and price: kBins buckets, one after the other.
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
  void settle(Index run);
  void leave_behind(Index run);
  void classify(Run& run);
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
  void stand(Index entry, bool deepest);
  void stand_behind(Index upper, Index lower);
  void unstand(Index entry);
  [[nodiscard]] Rank rank_of(Index bucket) const;
  void rank_buckets();
  void order_newcomers();
  [[nodiscard]] const Rank* least_worth();

  ReuseModel model_;
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
  // A heap of buckets, the least worth first; empty ones leave when they come up. What a bucket is
  // worth stays what it is until all are ranked again, so newcomers wait until somebody asks.
  std::vector<Rank> order_;
  std::vector<Index> newcomers_;

  boost::unordered_flat_map<std::uint64_t, Ghost> ghosts_;    // by key; some are forgotten
  std::deque<std::pair<Index, std::uint32_t>> memory_order_;  // runs and their serials
  std::uint64_t remembered_ = 0;

  RequestFacts request_;
  double now_ = 0;
  std::uint64_t requests_ = 0;
  std::uint32_t turn_ = 0;
  double gap_ = 0;
  bool at_tip_ = true;
  std::vector<Index> open_;   // the present request's runs
  std::vector<Index> taken_;  // runs it has taken entries from
};

}  // namespace afterimage

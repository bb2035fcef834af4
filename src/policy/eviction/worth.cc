// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/worth.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "afterimage/result.h"

namespace afterimage {
namespace {

constexpr std::uint64_t kRequestsPerFading = 100;
constexpr std::uint64_t kBucketsPerRequest = 64;  // ranked again, on average at most
constexpr std::size_t kFewClasses = 4096;
// Seconds saved per byte, in half octaves: 2^-64 … 1.
constexpr int kPrices = 128;

std::uint8_t price_of(const EntryFacts& facts) {
  if (facts.cost.count() <= 0 || facts.bytes == Bytes()) return 0;
  const double price =
      std::chrono::duration<double>(facts.cost).count() / static_cast<double>(facts.bytes.value());
  return static_cast<std::uint8_t>(
      std::clamp(kPrices + static_cast<int>(std::lround(2 * std::log2(price))), 0, kPrices - 1));
}

// An entry without bytes still counts as a part of its run.
float weight_of(const EntryFacts& facts) {
  return static_cast<float>(std::max<std::uint64_t>(facts.bytes.value(), 1));
}

// Doubly linked lists threaded through `nodes` by the member `links`.
template <auto Member, typename Nodes, typename Ends, typename Index>
void link_last(Nodes& nodes, Ends& ends, Index index, Index none) {
  (nodes[index].*Member) = {.before = ends.last, .after = none};
  (ends.last == none ? ends.first : (nodes[ends.last].*Member).after) = index;
  ends.last = index;
}
template <auto Member, typename Nodes, typename Ends, typename Index>
void link_first(Nodes& nodes, Ends& ends, Index index, Index none) {
  (nodes[index].*Member) = {.before = none, .after = ends.first};
  (ends.first == none ? ends.last : (nodes[ends.first].*Member).before) = index;
  ends.first = index;
}
template <auto Member, typename Nodes, typename Ends, typename Index>
void unlink(Nodes& nodes, Ends& ends, Index index, Index none) {
  const auto links = nodes[index].*Member;
  (links.before == none ? ends.first : (nodes[links.before].*Member).after) = links.after;
  (links.after == none ? ends.last : (nodes[links.after].*Member).before) = links.before;
}

}  // namespace

void Worth::begin_request(const RequestFacts& facts) {
  close_runs();
  request_ = facts;
  now_ = std::max(now_, std::chrono::duration<double>(facts.now).count());
  new_bytes_ = 0;
  owner_ = {};
  at_tip_ = true;
  age_runs();
  forget_oldest();
  if (++requests_ % kRequestsPerFading != 0) return;
  model_.fade();
  // Ranking costs a step for each bucket: it waits until requests have paid for it.
  stale_ranks_ |= requests_ - ranked_at_ >= order_.size() / kBucketsPerRequest;
  if (model_.released() > model_.classes() + kFewClasses) rank_buckets();
}

void Worth::insert(SlotId slot, const EntryFacts& facts) {
  if (slot.index >= entries_.size()) entries_.resize(slot.index + 1);
  Entry& entry = entries_[slot.index];
  AFI_CHECK(!entry.present);
  entry = Entry{};
  entry.key = facts.key;
  entry.generation = slot.generation;
  entry.price = price_of(facts);
  entry.present = true;
  entry.past.bytes = weight_of(facts);
  if (facts.owner != EntryLabel()) owner_ = facts.owner;
  Past past = recall(facts.key);
  for (const std::uint64_t key : facts.contains) {
    const Past shorter = recall(key);
    if (past.run == kNone) {
      past = shorter;  // the deepest key decides which run is continued
    } else if (shorter.run != kNone) {
      take(shorter);
    }
  }
  use(slot.index, past);
}

void Worth::touch(SlotId slot) {
  Entry& entry = entries_[slot.index];
  AFI_CHECK(entry.present && entry.generation == slot.generation);
  Past past = entry.past;
  past.uses = std::min<std::uint8_t>(past.uses + 1, kMaxCountedUses);
  if (!entry.parked) unlink_entry(slot.index);
  use(slot.index, past);
}

// The upper half is linked into the run right after the lower one.
void Worth::split(SlotId lower, const EntryFacts& of_lower, SlotId upper,
                  const EntryFacts& of_upper) {
  if (upper.index >= entries_.size()) entries_.resize(upper.index + 1);
  Entry& below = entries_[lower.index];
  Entry& above = entries_[upper.index];
  AFI_CHECK(below.present && below.generation == lower.generation && !above.present);
  above = Entry{};
  above.key = of_upper.key;
  above.generation = upper.generation;
  above.price = below.price;
  above.present = true;
  above.past = below.past;
  Run& run = runs_[below.past.run];
  below.key = of_lower.key;
  const float before = below.past.bytes;
  below.past.bytes = weight_of(of_lower);
  above.past.bytes = weight_of(of_upper);
  above.past.deeper += below.past.bytes;
  run.alive_bytes += static_cast<double>(below.past.bytes) + above.past.bytes - before;
  ++run.alive;
  below.parked ? link_entry(upper.index, /*deepest=*/true)
               : link_entry_behind(upper.index, lower.index);
}

void Worth::erase(SlotId slot, RemovalReason /*why*/) {
  Entry& entry = entries_[slot.index];
  AFI_CHECK(entry.present && entry.generation == slot.generation);
  if (!entry.parked) unlink_entry(slot.index);
  entry.present = false;
  const Index run = entry.past.run;
  Run& left = runs_[run];
  if (entry.key != 0 &&
      ghosts_.try_emplace(entry.key, Ghost{.past = entry.past, .serial = left.serial}).second) {
    if (left.remembered++ == 0) memory_order_.emplace_back(run, left.serial);
    left.remembered_bytes += entry.past.bytes;
    ++remembered_;
  } else {
    --left.alive;
    left.alive_bytes -= entry.past.bytes;
    drop_if_dead(run);
  }
}

void Worth::park(SlotId slot) {
  AFI_CHECK(entries_[slot.index].present && !entries_[slot.index].parked);
  unlink_entry(slot.index);
  entries_[slot.index].parked = true;
}

void Worth::unpark(SlotId slot) {
  AFI_CHECK(entries_[slot.index].present && entries_[slot.index].parked);
  entries_[slot.index].parked = false;
  link_entry(slot.index, /*deepest=*/true);
}

std::optional<double> Worth::victim_worth() {
  const Rank* const least = least_worth();
  return least == nullptr ? std::nullopt : std::optional(least->worth);
}

std::optional<SlotId> Worth::victim() {
  const Rank* const least = least_worth();
  if (least == nullptr) return std::nullopt;
  const Index entry = runs_[buckets_[least->bucket].runs.first].standing.first;
  return SlotId{.index = entry, .generation = entries_[entry].generation};
}

// The remembered past of evicted content, which is removed from the ghosts.
Worth::Past Worth::recall(std::uint64_t key) {
  const auto ghost = ghosts_.find(key);
  if (ghost == ghosts_.end()) return {};
  Past past = ghost->second.past;
  const bool forgotten = ghost->second.serial != runs_[past.run].serial;
  ghosts_.erase(ghost);
  if (forgotten) return {};
  --runs_[past.run].remembered;
  runs_[past.run].remembered_bytes -= past.bytes;
  --remembered_;
  past.uses = std::min<std::uint8_t>(past.uses + 1, kMaxCountedUses);
  return past;
}

// Takes an entry out of its run. True: the entry is shared by several requests.
bool Worth::take(const Past& past) {
  Run& source = runs_[past.run];
  // The deepest entry comes first: a request that continues a run begins in its deeper half.
  if (!source.open && !source.touched) {
    source.touched = true;
    taken_.push_back(past.run);
    source.continued = past.deeper <= source.bytes / 2 + past.bytes;
  }
  source.taken_bytes += past.bytes;
  source.alive_bytes -= past.bytes;
  --source.alive;
  return source.kind == Kind::kShared || !(source.open || source.continued);
}

// Moves the entry from its run to one of the current request's runs.
void Worth::use(Index index, const Past& past) {
  if (past.run == kNone) new_bytes_ += static_cast<double>(entries_[index].past.bytes);
  const bool shared = past.run != kNone && take(past);
  const Kind kind = shared ? Kind::kShared : at_tip_ ? Kind::kTip : Kind::kOwn;
  at_tip_ = false;
  const Index into = open_run(kind, past.uses);
  Run& run = runs_[into];
  Past& now = entries_[index].past;
  now.run = into;
  now.deeper = static_cast<float>(run.bytes);
  now.uses = past.uses;
  run.bytes += now.bytes;
  run.alive_bytes += now.bytes;
  ++run.alive;
  if (!entries_[index].parked) link_entry(index, /*deepest=*/false);
}

Worth::Index Worth::open_run(Kind kind, std::uint8_t uses) {
  for (const Index run : open_) {
    if (runs_[run].kind == kind && runs_[run].uses == uses) return run;
  }
  Index fresh = static_cast<Index>(runs_.size());
  if (free_runs_.empty()) {
    runs_.emplace_back();
    listings_.emplace_back();
  } else {
    fresh = free_runs_.back();
    free_runs_.pop_back();
  }
  const std::uint32_t serial = runs_[fresh].serial + 1;
  Run& run = runs_[fresh] = Run{};
  run.facts = request_;
  run.since = now_;
  run.serial = serial;
  run.uses = uses;
  run.kind = kind;
  run.open = true;
  open_.push_back(fresh);
  return fresh;
}

void Worth::close_runs() {
  if (open_.empty() && taken_.empty()) return;
  follow_conversation();
  for (const Index taken : taken_) settle(taken);
  taken_.clear();
  for (const Index opened : open_) {
    Run& run = runs_[opened];
    run.open = false;
    run.taken_bytes = 0;
    run.conversation = conversation_;
    classify(run);
  }
  follow_hint();
  for (const Index opened : open_) {
    start_aging(opened);
    relist(opened);
    drop_if_dead(opened);
  }
  open_.clear();
}

// Reports to the model that the run, or a part of it, was reused at this age.
void Worth::settle(Index taken) {
  Run& run = runs_[taken];
  const bool left = run.kind == Kind::kLeftBehind || run.kind == Kind::kTipLeftBehind;
  const bool divided = !run.continued && !left && run.alive > 0;
  const double part =
      divided || run.alive == 0 ? 1 : run.taken_bytes / (run.taken_bytes + run.alive_bytes);
  const std::size_t bin = bin_of(run);
  model_.observe(run.reuse_class, bin, now_ - run.since - ReuseModel::begin_of(bin), part);
  run.taken_bytes = 0;
  run.touched = false;
  if (run.alive == 0) {
    drop_if_dead(taken);
  } else if (divided) {
    run.divided = true;  // its own next request may still come
    classify(run);
    ages_.at(run.place).set_class(run.reuse_class);
    relist(taken);
  } else {
    leave_behind(taken);
  }
}

// The conversation continued without these entries.
void Worth::leave_behind(Index left) {
  Run& run = runs_[left];
  const bool tip = run.kind == Kind::kTip || run.kind == Kind::kTipLeftBehind;
  ages_.remove(run.place);
  run.kind = tip ? Kind::kTipLeftBehind : Kind::kLeftBehind;
  run.since = now_;
  run.conversation = {};
  run.facts = {};
  classify(run);
  start_aging(left);
  relist(left);
}

void Worth::start_aging(Index index) {
  Run& run = runs_[index];
  run.place = ages_.append(run.since, index, run.reuse_class);
  ages_.at(run.place).set_listed(listings_[index].bucket != kNone);
}

// Runs with only remembered entries age in the model alone; they are in no bucket.
void Worth::age_runs() {
  ages_.tidy([this](Index run, RunAges::Place place) { runs_[run].place = place; });
  ages_.age(
      now_,
      [this](const RunAges::Standing& run, std::size_t bin) {
        model_.expect(run.reuse_class(), bin);
        if (run.listed()) __builtin_prefetch(&listings_[run.run], /*rw=*/1);
      },
      [this](const RunAges::Standing& run, std::size_t bin) {
        model_.outlived(run.reuse_class(), bin);
        if (run.listed()) grow_older(run.run);
      });
}

void Worth::forget_oldest() {
  while (remembered_ > kMostRemembered) {
    const auto [oldest, serial] = memory_order_.front();
    memory_order_.pop_front();
    Run& run = runs_[oldest];
    if (run.serial != serial) continue;
    remembered_ -= run.remembered;
    run.alive -= run.remembered;
    run.alive_bytes -= run.remembered_bytes;
    run.remembered = 0;
    run.remembered_bytes = 0;
    ++run.serial;
    drop_if_dead(oldest);
  }
  const auto forgotten = [this](auto& ghost) {
    return ghost.second.serial != runs_[ghost.second.past.run].serial;
  };
  if (ghosts_.size() > 2 * remembered_ + 4096) boost::unordered::erase_if(ghosts_, forgotten);
  const auto gone = [this](const auto& place) { return runs_[place.first].serial != place.second; };
  if (memory_order_.size() > 2 * runs_.size() + 4096) std::erase_if(memory_order_, gone);
}

void Worth::drop_if_dead(Index index) {
  Run& run = runs_[index];
  if (run.alive > 0 || run.open || run.touched) return;
  unlist(index);
  ages_.remove(run.place);
  model_.release(run.reuse_class);
  run.reuse_class = kNone;
  ++run.serial;
  free_runs_.push_back(index);
}

// Moves a run to its current bucket, or to none if it has no entry to evict.
void Worth::relist(Index index) {
  const Run& run = runs_[index];
  if (run.open || run.standing.first == kNone) return unlist(index);
  const Index series = series_of(run.reuse_class, entries_[run.standing.first].price);
  const auto bucket = static_cast<Index>(series * ReuseModel::kBins + bin_of(run));
  if (listings_[index].bucket == bucket) return;
  unlist(index);
  ++series_[series].runs;
  list(index, bucket);
  ages_.at(run.place).set_listed(true);
}

void Worth::unlist(Index index) {
  Listing& listing = listings_[index];
  if (listing.bucket == kNone) return;
  --series_[listing.bucket / ReuseModel::kBins].runs;
  unlink<&Listing::links>(listings_, buckets_[listing.bucket].runs, index, kNone);
  listing.bucket = kNone;
  ages_.at(runs_[index].place).set_listed(false);
}

void Worth::list(Index index, Index bucket) {
  Bucket& into = buckets_[bucket];
  if (!std::exchange(into.ordered, true)) unordered_.push_back(bucket);
  link_last<&Listing::links>(listings_, into.runs, index, kNone);
  listings_[index].bucket = bucket;
}

// Moves a run to the next older bin.
void Worth::grow_older(Index index) {
  const Index bucket = listings_[index].bucket;
  unlink<&Listing::links>(listings_, buckets_[bucket].runs, index, kNone);
  list(index, bucket + 1);
}

Worth::Index Worth::series_of(ReuseModel::Class reuse_class, std::uint8_t price) {
  const auto fresh = static_cast<Index>(free_series_.empty() ? series_.size()  //
                                                             : free_series_.back());
  const auto [it, added] =
      series_by_.try_emplace(std::uint64_t{reuse_class} * kPrices + price, fresh);
  if (!added) return it->second;
  if (free_series_.empty()) {
    series_.emplace_back();
    buckets_.resize(buckets_.size() + ReuseModel::kBins);
  } else {
    free_series_.pop_back();
  }
  series_[fresh] = {.reuse_class = reuse_class, .price = price};
  return fresh;
}

void Worth::link_entry(Index entry, bool deepest) {
  const Index index = entries_[entry].past.run;
  Ends& standing = runs_[index].standing;
  if (deepest) {
    link_first<&Entry::links>(entries_, standing, entry, kNone);
  } else {
    link_last<&Entry::links>(entries_, standing, entry, kNone);
  }
  if (deepest && !runs_[index].open) relist(index);
}

void Worth::link_entry_behind(Index upper, Index lower) {
  const Index after = entries_[lower].links.after;
  entries_[upper].links = {.before = lower, .after = after};
  entries_[lower].links.after = upper;
  Ends& standing = runs_[entries_[upper].past.run].standing;
  (after == kNone ? standing.last : entries_[after].links.before) = upper;
}

void Worth::unlink_entry(Index entry) {
  const Index index = entries_[entry].past.run;
  Ends& standing = runs_[index].standing;
  const bool deepest = standing.first == entry;
  unlink<&Entry::links>(entries_, standing, entry, kNone);
  if (deepest && !runs_[index].open) relist(index);
}

Worth::Rank Worth::rank_of(Index bucket) {
  const Series& series = series_[bucket / ReuseModel::kBins];
  const std::size_t bin = bucket % ReuseModel::kBins;
  return {
      .worth = model_.index(series.reuse_class, bin) * std::exp2(series.price / 2.0),
      .tie = (std::uint64_t{series.reuse_class} * ReuseModel::kBins + bin) * kPrices + series.price,
      .bucket = bucket};
}

void Worth::rank_buckets() {
  ranked_at_ = requests_;
  model_.estimate();
  for (const Rank& rank : order_) unordered_.push_back(rank.bucket);
  order_.clear();
  order_new_buckets();
  // Series without runs have no buckets in order_ now: recycle them.
  boost::unordered::erase_if(series_by_, [this](const auto& series) {
    if (series_[series.second].runs > 0) return false;
    free_series_.push_back(series.second);
    return true;
  });
}

void Worth::order_new_buckets() {
  for (const Index added : unordered_) {
    Bucket& bucket = buckets_[added];
    bucket.ordered = bucket.runs.first != kNone;
    if (!bucket.ordered) continue;
    order_.push_back(rank_of(added));
    std::ranges::push_heap(order_, std::greater());
  }
  unordered_.clear();
}

// The least worth of the buckets with runs; nullptr: there is none.
const Worth::Rank* Worth::least_worth() {
  close_runs();
  if (std::exchange(stale_ranks_, false)) rank_buckets();
  order_new_buckets();
  while (!order_.empty()) {
    Bucket& bucket = buckets_[order_.front().bucket];
    if (bucket.runs.first != kNone) return &order_.front();
    bucket.ordered = false;
    std::ranges::pop_heap(order_, std::greater());
    order_.pop_back();
  }
  return nullptr;
}

}  // namespace afterimage

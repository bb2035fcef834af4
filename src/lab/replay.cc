// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/lab/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <queue>
#include <utility>

#include "afterimage/residency/eviction_policy.h"
#include "afterimage/residency/lfu.h"
#include "afterimage/residency/lru.h"

namespace afterimage {
namespace {

constexpr auto kPolicies = std::to_array<std::string_view>({"lru", "lfu", "min", "infinite"});

/// One thing that a request uses: a block, or a media item.
struct Use {
  std::uint32_t id = 0;
  std::uint32_t size = 1;
  std::uint32_t next = 0;  // the request that uses it next; kNever
  Duration cost{0};
};
constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

/// What is resident. `use` is told all uses of one request, those that should leave first in front.
class Store {
 public:
  explicit Store(std::size_t ids) : resident_(ids) {}
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  [[nodiscard]] bool holds(std::uint32_t id) const { return resident_[id]; }
  virtual void use(std::span<const Use> uses) = 0;

  std::uint64_t evictions = 0;
  std::uint64_t written = 0;  // in sizes

 protected:
  std::vector<bool> resident_;
};

class InfiniteStore final : public Store {
 public:
  using Store::Store;
  void use(std::span<const Use> uses) override {
    for (const Use& one : uses) {
      if (!resident_[one.id]) written += one.size;
      resident_[one.id] = true;
    }
  }
};

/// Keeps what is used soonest, and takes nothing in that is used later than all that it holds.
class MinStore final : public Store {
 public:
  MinStore(std::size_t ids, std::uint64_t capacity)
      : Store(ids), next_(ids, kNever), capacity_(capacity) {}

  void use(std::span<const Use> uses) override {
    std::uint64_t in_front = 0;
    for (const Use& one : uses) {
      next_[one.id] = one.next;
      // Of those used at one time, the deepest leaves first: it is worth nothing without the
      // others.
      farthest_.push({.next = one.next, .rank = uses.size() - in_front++, .use = one});
      if (!resident_[one.id]) {
        resident_[one.id] = true;
        size_ += one.size;
        fresh_.push_back(one);
      }
    }
    while (size_ > capacity_) {
      const Candidate leaving = farthest_.top();
      farthest_.pop();
      const std::uint32_t id = leaving.use.id;
      if (!resident_[id] || next_[id] != leaving.next) continue;  // used again since, or gone
      resident_[id] = false;
      size_ -= leaving.use.size;
      ++evictions;
    }
    for (const Use& one : fresh_) {
      if (resident_[one.id]) {
        written += one.size;
      } else {
        --evictions;  // it never came in
      }
    }
    fresh_.clear();
  }

 private:
  struct Candidate {
    std::uint32_t next = 0;
    std::size_t rank = 0;
    Use use;
    bool operator<(const Candidate& other) const {
      return std::tuple(next, rank, use.id) < std::tuple(other.next, other.rank, other.use.id);
    }
  };

  std::vector<std::uint32_t> next_;
  std::priority_queue<Candidate> farthest_;
  std::vector<Use> fresh_;
  std::uint64_t capacity_;
  std::uint64_t size_ = 0;
};

/// A cache that one of the policies rules, as the caches of this house are ruled.
class PolicyStore final : public Store {
 public:
  PolicyStore(std::size_t ids, std::uint64_t capacity, std::unique_ptr<EvictionPolicy> policy)
      : Store(ids), policy_(std::move(policy)), places_(ids), capacity_(capacity) {}

  void use(std::span<const Use> uses) override {
    uses = what_fits(uses);
    for (const Use& one : uses) places_[one.id].in_use = true;
    make_room(uses);
    for (const Use& one : uses) {
      if (resident_[one.id]) {
        policy_->touch(slot(one.id));
      } else {
        insert(one);
      }
    }
    for (const SlotId parked : parked_) policy_->unpark(parked);
    parked_.clear();
    for (const Use& one : uses) places_[one.id].in_use = false;
  }

 private:
  struct Place {
    std::uint32_t generation = 0;
    std::uint32_t size = 0;
    bool in_use = false;  // by the present request
  };

  [[nodiscard]] SlotId slot(std::uint32_t id) const {
    return {.index = id, .generation = places_[id].generation};
  }

  /// Without the first ones, if all are more than the cache holds.
  [[nodiscard]] std::span<const Use> what_fits(std::span<const Use> uses) const {
    std::uint64_t size = 0;
    for (const Use& one : uses) size += one.size;
    while (size > capacity_) {
      size -= uses.front().size;
      uses = uses.subspan(1);
    }
    return uses;
  }

  void make_room(std::span<const Use> uses) {
    std::uint64_t needed = size_;
    for (const Use& one : uses) needed += resident_[one.id] ? 0 : one.size;
    while (needed > capacity_) {
      const std::optional<SlotId> victim = policy_->victim();
      AFI_CHECK(victim.has_value());  // what the request uses fits, so something else is here
      Place& place = places_[victim->index];
      if (place.in_use) {
        policy_->park(*victim);
        parked_.push_back(*victim);
        continue;
      }
      policy_->erase(*victim, Leaving::kEvicted);
      resident_[victim->index] = false;
      ++place.generation;
      size_ -= place.size;
      needed -= place.size;
      ++evictions;
    }
  }

  void insert(const Use& one) {
    places_[one.id].size = one.size;
    policy_->insert(slot(one.id), {.bytes = Bytes(one.size), .cost = one.cost});
    resident_[one.id] = true;
    size_ += one.size;
    written += one.size;
  }

  std::unique_ptr<EvictionPolicy> policy_;
  std::vector<Place> places_;
  std::vector<SlotId> parked_;
  std::uint64_t capacity_;
  std::uint64_t size_ = 0;
};

std::unique_ptr<Store> make_store(std::string_view policy, std::size_t ids,
                                  std::uint64_t capacity) {
  if (policy == "infinite") return std::make_unique<InfiniteStore>(ids);
  if (policy == "min") return std::make_unique<MinStore>(ids, capacity);
  std::unique_ptr<EvictionPolicy> made;
  if (policy == "lru") made = std::make_unique<Lru>();
  if (policy == "lfu") made = std::make_unique<AgedLfu>();
  return std::make_unique<PolicyStore>(ids, capacity, std::move(made));
}

/// Seconds that prefilling the tokens [begin, end) takes.
double prefill_seconds(const ReplayOptions& options, double begin, double end) {
  const double attended = (end * end - begin * begin) / 2 / options.attention_tokens;
  return (end - begin + attended) / options.tokens_per_second;
}

/// The uses of every request, in the order in which stores want them.
struct Uses {
  std::vector<std::vector<Use>> of;

  void find_next(std::size_t ids) {
    std::vector<std::uint32_t> next(ids, kNever);
    for (std::size_t i = of.size(); i-- > 0;) {
      for (Use& one : of[i]) one.next = next[one.id];
      for (const Use& one : of[i]) next[one.id] = static_cast<std::uint32_t>(i);
    }
  }
};

Duration seconds(double s) { return Duration(std::llround(s * 1e9)); }

Uses block_uses(const Trace& trace, const ReplayOptions& options) {
  Uses uses;
  for (const TraceRequest& request : trace.requests) {
    auto& row = uses.of.emplace_back();
    for (std::size_t i = request.blocks.size(); i-- > 0;) {  // deepest first
      const double begin = static_cast<double>(i) * trace.block_tokens;
      const double end = std::min<double>(begin + trace.block_tokens, request.input_tokens);
      row.push_back(
          {.id = request.blocks[i], .cost = seconds(prefill_seconds(options, begin, end))});
    }
  }
  uses.find_next(trace.distinct_blocks);
  return uses;
}

Uses item_uses(const Trace& trace) {
  Uses uses;
  for (const TraceRequest& request : trace.requests) {
    auto& row = uses.of.emplace_back();
    for (const TraceMedia& media : request.media) {
      const auto same = [&media](const Use& use) { return use.id == media.item; };
      if (std::ranges::any_of(row, same)) continue;
      const TraceItem& item = trace.items[media.item];
      row.push_back({.id = media.item, .size = item.tokens, .cost = item.encode});
    }
  }
  uses.find_next(trace.items.size());
  return uses;
}

std::uint64_t item_capacity(const Trace& trace, std::uint64_t blocks) {
  std::uint64_t tokens = 0;
  for (const TraceItem& item : trace.items) tokens += item.tokens;
  const double part = std::min(1.0, static_cast<double>(blocks) / trace.distinct_blocks);
  return static_cast<std::uint64_t>(part * static_cast<double>(tokens));
}

/// One policy at one capacity.
class Run {
 public:
  Run(const Trace& trace, const ReplayOptions& options, std::string_view policy,
      const ReplayCapacity& capacity)
      : trace_(trace),
        options_(options),
        blocks_(make_store(policy, trace.distinct_blocks, capacity.blocks)),
        items_(make_store(policy, trace.items.size(), item_capacity(trace, capacity.blocks))) {
    result_.policy = policy;
    result_.capacity = capacity.name;
    result_.capacity_blocks = capacity.blocks;
  }

  void request(std::size_t i, std::span<const Use> blocks, std::span<const Use> items,
               bool counted) {
    const TraceRequest& request = trace_.requests[i];
    const auto found = static_cast<std::size_t>(
        std::ranges::find_if(request.blocks,
                             [this](std::uint32_t block) { return !blocks_->holds(block); }) -
        request.blocks.begin());
    const auto covered = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(found * trace_.block_tokens, request.input_tokens));
    const std::uint64_t evictions = blocks_->evictions;
    const std::uint64_t written = blocks_->written;
    if (counted) count(request, found, covered);
    blocks_->use(blocks);
    items_->use(items);
    if (!counted) return;
    result_.evictions += blocks_->evictions - evictions;
    written_blocks_ += blocks_->written - written;
  }

  ReplayResult finish() && {
    const auto ratio = [](double part, double of) { return of > 0 ? part / of : 0; };
    result_.token_hit_ratio = ratio(hit_tokens_, input_tokens_);
    result_.compute_saved_ratio = ratio(saved_, total_);
    result_.seconds_saved = saved_ + encode_saved_;
    const std::uint64_t token = options_.bytes_per_token.value();
    result_.bytes_read = Bytes(static_cast<std::uint64_t>(hit_tokens_) * token);
    result_.bytes_written = Bytes(written_blocks_ * trace_.block_tokens * token);
    return std::move(result_);
  }

 private:
  void count(const TraceRequest& request, std::size_t found, std::uint32_t covered) {
    result_.hits += found;
    result_.misses += request.blocks.size() - found;
    hit_tokens_ += covered;
    input_tokens_ += request.input_tokens;
    saved_ += prefill_seconds(options_, 0, covered);
    total_ += prefill_seconds(options_, 0, request.input_tokens);
    for (const TraceMedia& media : request.media) {
      const TraceItem& item = trace_.items[media.item];
      // What lies in the prefix that was hit needs no encoder output.
      const bool covered_whole = media.offset + item.tokens <= covered;
      const bool hit = items_->holds(media.item);
      if (!covered_whole) ++(hit ? result_.item_hits : result_.item_misses);
      if (covered_whole || hit) {
        encode_saved_ += std::chrono::duration<double>(item.encode).count();
      }
    }
  }

  const Trace& trace_;
  const ReplayOptions& options_;
  std::unique_ptr<Store> blocks_;
  std::unique_ptr<Store> items_;
  ReplayResult result_;
  double hit_tokens_ = 0, input_tokens_ = 0;  // whole numbers below 2^53
  double saved_ = 0, total_ = 0, encode_saved_ = 0;
  std::uint64_t written_blocks_ = 0;
};

Result<void> check(const ReplayOptions& options) {
  for (const std::string& policy : options.policies) {
    if (std::ranges::find(kPolicies, policy) != kPolicies.end()) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("there is no policy \"{}\"; there are {}",
                                                         policy, fmt::join(kPolicies, ", ")));
  }
  const auto is_ratio = [](double x) { return x >= 0 && x <= 1; };
  const bool fine = !options.capacities.empty() && is_ratio(options.warm_up) &&
                    is_ratio(options.hint_error.value_or(0)) && options.tokens_per_second > 0 &&
                    options.attention_tokens > 0;
  if (!fine) {
    return fail(ErrorCode::kInvalidArgument,
                "a replay needs a capacity, positive rates, and a warm-up and an error of hints "
                "from 0 to 1");
  }
  return {};
}

}  // namespace

std::span<const std::string_view> replay_policies() { return kPolicies; }

Result<std::vector<ReplayResult>> replay(const Trace& trace, const ReplayOptions& options,
                                         const Clock& clock, const ReplayProgress& progress) {
  AFI_TRY_VOID(check(options));
  const Uses blocks = block_uses(trace, options);
  const Uses items = item_uses(trace);
  const auto warm =
      static_cast<std::size_t>(options.warm_up * static_cast<double>(trace.requests.size()));
  std::vector<ReplayResult> results;
  const std::size_t runs = options.policies.size() * options.capacities.size();
  for (const ReplayCapacity& capacity : options.capacities) {
    for (const std::string& policy : options.policies) {
      const std::string now = fmt::format("{} at {}", policy, capacity.name);
      if (progress) progress(results.size(), runs, now);
      const Duration began = clock.now();
      Run run(trace, options, policy, capacity);
      for (std::size_t i = 0; i < trace.requests.size(); ++i) {
        run.request(i, blocks.of[i], items.of[i], i >= warm);
      }
      results.push_back(std::move(run).finish());
      results.back().wall = clock.now() - began;
      if (progress) progress(results.size(), runs, now);
    }
  }
  return results;
}

}  // namespace afterimage

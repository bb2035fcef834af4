// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/replay/replay.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "afterimage/eviction_policy.h"
#include "bench/replay/replay_store.h"

namespace afterimage {
namespace {

constexpr std::string_view kMin = "min";
constexpr std::string_view kInfinite = "infinite";

const std::vector<std::string_view>& names() {
  static const auto kNames = [] {
    std::vector<std::string_view> names(policy_names().begin(), policy_names().end());
    names.push_back(kMin);
    names.push_back(kInfinite);
    return names;
  }();
  return kNames;
}

/// For each use of a block or item, the request that uses it next.
struct Future {
  std::vector<std::uint32_t> blocks;  // concatenated over all requests
  std::vector<std::uint32_t> items;
};

Future find_next_uses(const Trace& trace) {
  Future future;
  std::size_t blocks = 0;
  std::size_t media = 0;
  for (const TraceRequest& request : trace.requests) {
    blocks += request.blocks.size();
    media += request.media.size();
  }
  future.blocks.resize(blocks);
  future.items.resize(media);
  std::vector<std::uint32_t> block_next(trace.distinct_blocks, ReplayStore::kNever);
  std::vector<std::uint32_t> item_next(trace.items.size(), ReplayStore::kNever);
  for (std::size_t r = trace.requests.size(); r-- > 0;) {
    const TraceRequest& request = trace.requests[r];
    const auto now = static_cast<std::uint32_t>(r);
    blocks -= request.blocks.size();
    media -= request.media.size();
    for (std::size_t i = 0; i < request.blocks.size(); ++i) {
      future.blocks[blocks + i] = std::exchange(block_next[request.blocks[i]], now);
    }
    for (std::size_t i = request.media.size(); i-- > 0;) {
      future.items[media + i] = std::exchange(item_next[request.media[i].item], now);
    }
  }
  return future;
}

Result<std::unique_ptr<ReplayStore>> make_store(std::string_view policy, std::uint32_t ids) {
  if (policy == kMin) return std::make_unique<MinStore>(ids);
  if (policy == kInfinite) return std::make_unique<ReplayStore>(ids);
  AFI_TRY(auto made, make_policy(policy));
  return std::make_unique<PolicyStore>(ids, std::move(made));
}

/// The tier below: first in, first out, as an append-only log evicts.
class LowerTier {
 public:
  LowerTier(std::uint32_t ids, std::uint64_t capacity) : held_(ids), capacity_(capacity) {}

  [[nodiscard]] bool holds(std::uint32_t id) const { return held_[id]; }
  /// False: it is there already, or there is no such tier.
  bool write(std::uint32_t id) {
    if (capacity_ == 0 || held_[id]) return false;
    if (order_.size() == capacity_) {
      held_[order_.front()] = false;
      order_.pop_front();
    }
    held_[id] = true;
    order_.push_back(id);
    return true;
  }

 private:
  std::vector<bool> held_;
  std::uint64_t capacity_;
  std::deque<std::uint32_t> order_;
};

/// One trace through one policy at one capacity.
class Replay {
 public:
  Replay(const Trace& trace, const ReplayOptions& options, const Future& future,
         const std::vector<bool>& hints)
      : trace_(trace),
        options_(options),
        future_(future),
        hints_(hints),
        below_(trace.distinct_blocks, options.below.blocks) {}

  Result<ReplayResult> run(std::string_view policy, const ReplayCapacity& capacity);

 private:
  [[nodiscard]] RequestFacts facts(std::size_t r) const;
  [[nodiscard]] double prefill_seconds(double first, double tokens) const;
  std::uint32_t use_blocks(const TraceRequest& request, bool counted);
  void use_items(const TraceRequest& request, std::uint32_t covered, bool counted);

  const Trace& trace_;
  const ReplayOptions& options_;
  const Future& future_;
  const std::vector<bool>& hints_;  // empty: no hints

  std::unique_ptr<ReplayStore> blocks_;
  std::unique_ptr<ReplayStore> items_;
  LowerTier below_;
  std::uint64_t block_capacity_ = 0;
  std::uint64_t item_capacity_ = 0;  // tokens
  std::size_t next_block_ = 0;       // in future_
  std::size_t next_item_ = 0;
  ReplayResult result_;
  double input_tokens_ = 0;
  double hit_tokens_ = 0;
  double prefill_ = 0;  // seconds without a cache
  double prefill_saved_ = 0;
  double kept_tokens_ = 0;
  double loaded_tokens_ = 0;
  double written_tokens_ = 0;
};

RequestFacts Replay::facts(std::size_t r) const {
  const TraceRequest& request = trace_.requests[r];
  RequestFacts facts{.now = request.at,
                     .output_tokens = request.output_tokens,
                     .kind = request.kind,
                     .stop = request.stop,
                     .hint = request.hint};
  if (!hints_.empty()) {
    facts.hint = hints_[r] ? ContinuationHint::kGoesOn : ContinuationHint::kEnds;
  }
  return facts;
}

// The mean position suffices, because the cost is linear in the position.
double Replay::prefill_seconds(double first, double tokens) const {
  return tokens * (1 + (first + tokens / 2) / options_.attention_tokens) /
         options_.tokens_per_second;
}

std::uint32_t Replay::use_blocks(const TraceRequest& request, bool counted) {
  const std::uint32_t size = trace_.block_tokens;
  const auto count = static_cast<std::uint32_t>(request.blocks.size());
  std::uint32_t hits = 0;
  while (hits < count && blocks_->holds(request.blocks[hits])) ++hits;
  const std::uint32_t in_cache = hits;
  // Blocks evicted from the cache may still be in the tier below.
  while (hits < count && below_.holds(request.blocks[hits])) ++hits;
  const EntryFacts facts{
      .bytes = Bytes(options_.bytes_per_token.value() * size),
      .cost = Duration(static_cast<Duration::rep>(1e9 * size / options_.tokens_per_second))};
  for (std::uint32_t i = count; i-- > 0;) {
    blocks_->use({.id = request.blocks[i],
                  .depth = i,
                  .next_use = future_.blocks[next_block_ + i],
                  .parent = i == 0 ? std::nullopt : std::optional(request.blocks[i - 1]),
                  .facts = facts});
  }
  blocks_->settle(block_capacity_);
  next_block_ += count;
  const std::uint32_t covered = std::min(hits * size, request.input_tokens);
  const auto tokens_of = [&](std::uint32_t i) {
    return std::min(size, request.input_tokens - i * size);
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    if (below_.write(request.blocks[i]) && counted) written_tokens_ += tokens_of(i);
  }
  if (!counted) return covered;
  result_.hits += in_cache;
  result_.below_hits += hits - in_cache;
  result_.misses += count - hits;
  loaded_tokens_ += covered - std::min(in_cache * size, request.input_tokens);
  input_tokens_ += request.input_tokens;
  hit_tokens_ += covered;
  prefill_ += prefill_seconds(0, request.input_tokens);
  prefill_saved_ += prefill_seconds(0, covered);
  for (std::uint32_t i = in_cache; i < count && blocks_->holds(request.blocks[i]); ++i) {
    kept_tokens_ += tokens_of(i);
  }
  return covered;
}

void Replay::use_items(const TraceRequest& request, std::uint32_t covered, bool counted) {
  for (const TraceMedia& media : request.media) {
    const std::uint32_t next_use = future_.items[next_item_++];
    const TraceItem& item = trace_.items[media.item];
    // Media entirely inside the prefix that hit need no encoder output.
    const bool needed = media.offset + std::uint64_t{item.tokens} > covered;
    const bool hit = needed && items_->holds(media.item);
    if (counted && needed) ++(hit ? result_.item_hits : result_.item_misses);
    if (counted && (hit || !needed)) {
      result_.seconds_saved += std::chrono::duration<double>(item.encode).count();
    }
    if (!needed) continue;
    items_->use({.id = media.item,
                 .next_use = next_use,
                 .size = item.tokens,
                 .parent = std::nullopt,
                 .facts = {.bytes = Bytes(item.tokens), .cost = item.encode}});
  }
  items_->settle(item_capacity_);
}

Result<ReplayResult> Replay::run(std::string_view policy, const ReplayCapacity& capacity) {
  AFI_TRY(blocks_, make_store(policy, trace_.distinct_blocks));
  AFI_TRY(items_, make_store(policy, static_cast<std::uint32_t>(trace_.items.size())));
  block_capacity_ = capacity.blocks;
  double item_tokens = 0;
  for (const TraceItem& item : trace_.items) item_tokens += item.tokens;
  const double part = static_cast<double>(capacity.blocks) /
                      std::max(1.0, static_cast<double>(trace_.distinct_blocks));
  item_capacity_ = static_cast<std::uint64_t>(item_tokens * std::min(part, 1.0));

  const std::size_t requests = trace_.requests.size();
  const auto warm = static_cast<std::size_t>(options_.warm_up * static_cast<double>(requests));
  std::uint64_t early_evictions = 0;
  for (std::size_t r = 0; r < requests; ++r) {
    if (r == warm) early_evictions = blocks_->evictions();
    const RequestFacts told = facts(r);
    blocks_->begin_request(told);
    items_->begin_request(told);
    const std::uint32_t covered = use_blocks(trace_.requests[r], r >= warm);
    use_items(trace_.requests[r], covered, r >= warm);
  }
  result_.policy = policy;
  result_.capacity = capacity.name;
  result_.capacity_blocks = capacity.blocks;
  result_.token_hit_ratio = input_tokens_ > 0 ? hit_tokens_ / input_tokens_ : 0;
  result_.compute_saved_ratio = prefill_ > 0 ? prefill_saved_ / prefill_ : 0;
  result_.seconds_saved += prefill_saved_;
  result_.evictions = blocks_->evictions() - (warm < requests ? early_evictions : 0);
  const auto token_bytes = static_cast<double>(options_.bytes_per_token.value());
  const auto bytes = [&](double tokens) {
    return Bytes(static_cast<std::uint64_t>(tokens * token_bytes));
  };
  result_.bytes_read = bytes(hit_tokens_);
  result_.bytes_written = bytes(kept_tokens_);
  result_.below_read = bytes(loaded_tokens_);
  result_.below_written = bytes(written_tokens_);
  return result_;
}

bool is_part(double value) { return value >= 0 && value <= 1; }

Result<void> check(const ReplayOptions& options) {
  if (options.capacities.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no capacity to replay at; give at least one");
  }
  for (const ReplayCapacity& capacity : options.capacities) {
    if (capacity.blocks > 0) continue;
    return fail(ErrorCode::kInvalidArgument,
                "capacity \"" + capacity.name + "\" is less than one block");
  }
  if (!is_part(options.warm_up) || !is_part(options.hint_error.value_or(0))) {
    return fail(ErrorCode::kInvalidArgument, "the warm-up and the hint error must be from 0 to 1");
  }
  if (!(options.tokens_per_second > 0) || !(options.attention_tokens > 0)) {
    return fail(ErrorCode::kInvalidArgument,
                "tokens_per_second and attention_tokens must be above 0");
  }
  for (const std::string& policy : options.policies) {
    if (std::ranges::find(names(), policy) != names().end()) continue;
    std::string message = "unknown policy \"" + policy + "\"; choose from";
    for (const std::string_view name : names()) message += " " + std::string(name);
    return fail(ErrorCode::kInvalidArgument, message);
  }
  return {};
}

}  // namespace

std::span<const std::string_view> replay_policies() { return names(); }

Result<std::vector<ReplayResult>> replay(const Trace& trace, const ReplayOptions& options,
                                         const Clock& clock, const ReplayProgress& progress) {
  AFI_TRY_VOID(check(options));
  const Future future = find_next_uses(trace);
  std::vector<bool> hints;
  if (options.hint_error.has_value()) {
    hints = continuation_hints(trace, *options.hint_error, options.seed);
  }
  std::vector<ReplayResult> results;
  const std::size_t of = options.capacities.size() * options.policies.size();
  for (const ReplayCapacity& capacity : options.capacities) {
    for (const std::string& policy : options.policies) {
      if (progress) progress(results.size(), of, policy + " at " + capacity.name);
      const auto began = clock.now();
      AFI_TRY(ReplayResult result, Replay(trace, options, future, hints).run(policy, capacity));
      result.wall = clock.now() - began;
      results.push_back(std::move(result));
    }
  }
  if (progress) progress(of, of, "");
  return results;
}

}  // namespace afterimage

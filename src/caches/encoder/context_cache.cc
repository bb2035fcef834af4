// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/context_cache.h"

#include <utility>

#include "foundation/crypto/sha256.h"
#include "policy/eviction/governed_policy.h"
#include "policy/eviction/workflow_order.h"

namespace afterimage {
namespace {

EncoderKey key_of(std::string_view name) { return {sha256(std::as_bytes(std::span(name)))}; }

}  // namespace

struct ContextCache::State {
  State(const Clock& its_clock, SharedBudget* others) : clock(its_clock), shared(others) {}

  /// Tells the policy who used it.
  void note_use(const Pin& pin, const WorkflowHint& step) {
    const SlotId slot = pin.slot();
    cache->note_request({.now = clock.now(), .step = workflows->begin({}, step)}, {&slot, 1});
  }

  const Clock& clock;
  SharedBudget* const shared;  // nullptr: nobody shares the budget
  std::shared_ptr<WorkflowOrder> workflows = std::make_shared<WorkflowOrder>();
  std::unique_ptr<EncoderCache> cache;
};

ContextCache::ContextCache(std::unique_ptr<State> state) : state_(std::move(state)) {}
ContextCache::~ContextCache() = default;

std::span<const std::byte> ContextCache::Held::bytes() const {
  return pin_->tensors().front().bytes();
}

Result<std::unique_ptr<ContextCache>> ContextCache::create(const Options& options,
                                                           MemoryBudget& budget, const Clock& clock,
                                                           SharedBudget* shared) {
  auto state = std::make_unique<State>(clock, shared);
  EncoderCacheOptions kept{.max_entries = options.max_entries, .max_tokens = options.max_tokens};
  AFI_TRY(kept.policy, make_governed_policy({.policy = options.policy,
                                             .keep_idle_order = options.keep_idle_order,
                                             .workflows = state->workflows}));
  AFI_TRY(state->cache, EncoderCache::create(std::move(kept), budget));
  return std::unique_ptr<ContextCache>(new ContextCache(std::move(state)));
}

Result<void> ContextCache::set(std::string_view name, std::span<const std::byte> bytes,
                               const Facts& facts) {
  AFI_TRY(const TensorView view, TensorView::over(DType::kU8, Shape{bytes.size()}, bytes));
  const Bytes needed = Payload::bytes_needed({&view, 1});
  if (state_->shared != nullptr) state_->shared->make_room(needed);
  const EncoderEntryFacts stored{
      .cost = facts.cost, .tokens = facts.tokens, .stored_at = state_->clock.now()};
  auto pin = state_->cache->insert(key_of(name), {&view, 1}, stored);
  if (!pin.has_value()) return std::unexpected(pin.error());
  state_->note_use(*pin, facts.step);
  return {};
}

std::optional<ContextCache::Held> ContextCache::get(std::string_view name,
                                                    const WorkflowHint& step) {
  auto pin = state_->cache->find(key_of(name));
  if (!pin.has_value()) return std::nullopt;
  state_->note_use(*pin, step);
  return Held(*std::move(pin));
}

std::optional<EncoderEntryInfo> ContextCache::info(std::string_view name) const {
  return state_->cache->info(key_of(name));
}

bool ContextCache::erase(std::string_view name) { return state_->cache->erase(key_of(name)); }
void ContextCache::clear() { state_->cache->clear(); }
BudgetClient& ContextCache::client() { return *state_->cache; }

EncoderCacheStats ContextCache::stats() const { return state_->cache->stats(); }

}  // namespace afterimage

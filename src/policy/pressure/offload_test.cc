// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "afterimage/governor.h"
#include "afterimage/memory_budget.h"
#include "afterimage/payload.h"
#include "policy/eviction/hinted.h"
#include "policy/eviction/lru.h"
#include "policy/eviction/workflow_graph.h"
#include "policy/pressure/residency_table.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

/// An owner of bytes that follows a ResidencyTable: payloads above and below, two budgets.
class Shelf {
 public:
  explicit Shelf(Bytes above) : above_(above) {
    residents_ = ResidencyTable::create({.below = 64_MiB}, above, [] {
                   return std::make_unique<Lru>();
                 }).value();
  }

  SlotId put(std::uint32_t value, Duration now) {
    const std::vector<std::uint32_t> content((1U << 20U) / 4, value);
    const TensorView view =
        TensorView::over(DType::kI32, {content.size()}, std::as_bytes(std::span(content))).value();
    const Bytes bytes = Payload::bytes_needed({&view, 1});
    const SlotId slot = residents_->admit({.bytes = bytes}, now).value();
    settle();
    payloads_[slot].above = Payload::copy_of({&view, 1}, above_.reserve(bytes).value()).value();
    return slot;
  }

  void act(const GovernorActions& actions, Duration now) {
    std::vector<CleanOrder> orders;
    residents_->obey(actions, now, orders);
    settle();
    for (const CleanOrder& order : orders) {
      const Payload& from = *payloads_.at(order.slot).above;
      payloads_.at(order.slot).below =
          Payload::copy_of(from.tensors(), below_.reserve(order.bytes).value()).value();
      residents_->finish_clean(order.slot, true);
    }
    settle();
  }

  /// Promotes the entry if needed.
  std::uint32_t read(SlotId slot, Duration now) {
    const bool fetch = residents_->place(slot) == Place::kBelow;
    if (fetch) {
      EXPECT_TRUE(residents_->promote(slot, now).has_value());
      settle();
      const Payload& from = *payloads_.at(slot).below;
      EXPECT_TRUE(from.intact());
      payloads_.at(slot).above =
          Payload::copy_of(from.tensors(), above_.reserve(from.bytes()).value()).value();
    }
    residents_->touch(slot, now);
    const Payload& payload = *payloads_.at(slot).above;
    EXPECT_TRUE(payload.intact());
    std::uint32_t first = 0;
    std::memcpy(&first, payload.tensors()[0].bytes().data(), sizeof first);
    return first;
  }

  void check() const {
    EXPECT_EQ(above_.used(), residents_->used());
    EXPECT_EQ(below_.used(), residents_->below());
    residents_->check_invariants();
  }
  [[nodiscard]] Bytes above() const { return above_.used(); }
  [[nodiscard]] const ResidencyTable& residents() const { return *residents_; }

 private:
  struct Held {
    std::optional<Payload> above;
    std::optional<Payload> below;
  };

  void settle() {
    for (const Move& move : residents_->moves()) {
      if (move.now == Place::kGone) payloads_.erase(move.slot);
      if (move.now == Place::kBelow) payloads_.at(move.slot).above.reset();
    }
  }

  MemoryBudget above_;
  MemoryBudget below_{64_MiB};
  std::unique_ptr<ResidencyTable> residents_;
  std::map<SlotId, Held> payloads_;
};

// M6: the original VRAMAwareCache set a flag, moved nothing and freed nothing.
TEST(Offload, m6_bytes_leave_in_critical_and_come_back_the_same) {
  Shelf shelf(8_MiB);
  std::vector<SlotId> slots;
  for (std::uint32_t i = 0; i < 6; ++i) slots.push_back(shelf.put(100 + i, 0s));
  GovernorOptions options{.cap = 8_MiB, .reserve = 64_MiB};
  options.idle = IdleLimits::seed();
  options.ladder = LadderOptions::seed();
  GovernorState state;
  const Bytes before = shelf.above();
  for (int tick = 0; tick < 3; ++tick) {
    const Duration now = 31s + tick * 50ms;
    const Bytes ours = shelf.above();
    const MemorySample sample{.taken_at = now, .total = 16_GiB, .used = 15_GiB, .ours = ours};
    const GovernorStep next =
        step(state, {.now = now, .ledger = shelf.residents().ledger(), .sample = sample}, options);
    EXPECT_EQ(next.actions.mode, PressureMode::kCritical);
    state = next.state;
    shelf.act(next.actions, now);
    shelf.check();
  }
  EXPECT_LT(shelf.above(), before);
  EXPECT_EQ(shelf.above(), 0_B) << "all were idle for more than 30 s";
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(shelf.read(slots[i], 32s), 100 + i);
  shelf.check();
}

// The seed's workflow_aware mode: reachable, farthest first, and no more than is missing.
TEST(Offload, m5_workflow_aware_frees_what_is_missing_from_the_farthest_agent) {
  HintedPolicy* hints = nullptr;
  const auto all = ResidencyTable::create({}, 4_MiB, [&] {
                     auto made = std::make_unique<HintedPolicy>(std::make_unique<Lru>(),
                                                                HintedPolicy::Options{.soon = 1});
                     hints = made.get();
                     return made;
                   }).value();
  const WorkflowGraph graph = WorkflowGraph::create({{"retrieve", AgentId(1), {}},
                                                     {"summarize", AgentId(2), {"retrieve"}},
                                                     {"criticize", AgentId(3), {"summarize"}},
                                                     {"respond", AgentId(4), {"criticize"}}})
                                  .value();
  std::map<AgentId, SlotId> contexts;
  for (const AgentId agent : {AgentId(4), AgentId(3), AgentId(2), AgentId(1)}) {
    contexts[agent] = all->admit({.bytes = 1_MiB}, 0s).value();
    hints->expect(contexts[agent], graph.next_use(agent).steps);
  }
  std::vector<CleanOrder> orders;
  all->obey({.budget = 2_MiB, .target = 2_MiB}, 1s, orders);
  EXPECT_EQ(all->place(contexts[AgentId(4)]), Place::kGone);
  EXPECT_EQ(all->place(contexts[AgentId(3)]), Place::kGone);
  EXPECT_EQ(all->place(contexts[AgentId(2)]), Place::kAbove) << "two of four were enough";
  EXPECT_EQ(all->place(contexts[AgentId(1)]), Place::kAbove);
}

}  // namespace
}  // namespace afterimage

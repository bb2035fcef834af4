// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/pressure_scripts/pressure_rules.h"

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "afterimage/check.h"
#include "policy/eviction/lfu.h"
#include "policy/pressure/residency_table.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

class GovernedCache final : public SimulatedCache {
 public:
  explicit GovernedCache(const PressureScript& script)
      : size_(script.load.size), options_(script.governor), slots_(script.load.objects) {
    auto made = ResidencyTable::create({.below = script.below}, options_.cap,
                                       [] { return std::make_unique<AgedLfu>(); });
    AFI_CHECK(made.has_value());  // the script's governor options were validated
    residents_ = *std::move(made);
    actions_.budget = options_.cap;
  }

  Duration poll(Duration now, const std::optional<MemorySample>& sample, Bytes refused) override {
    GovernorStep next = step(state_,
                             {.now = now,
                              .ledger = residents_->ledger(),
                              .sample = sample,
                              .planned = {},
                              .refused = refused},
                             options_);
    state_ = next.state;
    actions_ = next.actions;
    std::vector<CleanOrder> orders;
    residents_->obey(actions_, now, orders);
    for (const CleanOrder& order : orders) orders_.push_back(order);
    static_cast<void>(residents_->moves());
    return actions_.next_step;
  }

  Found request(std::uint32_t object, Duration now) override {
    std::optional<SlotId>& slot = slots_[object];
    if (slot.has_value() && residents_->is_live(*slot)) {
      const bool below = residents_->place(*slot) == Place::kBelow;
      // Without space above, the entry is served from the lower tier and stays there.
      if (below && residents_->promote(*slot, now).has_value())
        static_cast<void>(residents_->moves());
      residents_->touch(*slot, now);
      return below ? Found::kBelow : Found::kAbove;
    }
    const auto stored = residents_->admit({.bytes = size_}, now);
    static_cast<void>(residents_->moves());
    if (!stored.has_value()) return Found::kRefused;
    slot = *stored;
    return Found::kStored;
  }

  void copy(Bytes allowance) override {
    progress_ += orders_.empty() ? 0_B : allowance;
    while (!orders_.empty() && progress_ >= orders_.front().bytes) {
      progress_ -= orders_.front().bytes;
      copied_ += orders_.front().bytes;
      residents_->finish_clean(orders_.front().slot, true);
      orders_.pop_front();
    }
  }

  [[nodiscard]] Bytes held() const override { return residents_->used(); }
  [[nodiscard]] Bytes budget() const override { return actions_.budget; }
  [[nodiscard]] Bytes copied() const override { return copied_; }
  [[nodiscard]] std::uint64_t entries() const override { return residents_->entries_above(); }
  [[nodiscard]] PressureMode mode() const override { return actions_.mode; }
  [[nodiscard]] bool open() const override { return actions_.admission == Admission::kOpen; }

 private:
  Bytes size_;
  GovernorOptions options_;
  GovernorState state_;
  GovernorActions actions_;
  std::unique_ptr<ResidencyTable> residents_;
  std::vector<std::optional<SlotId>> slots_;  // by object
  std::deque<CleanOrder> orders_;
  Bytes progress_;
  Bytes copied_;
};

class SeedCache final : public SimulatedCache {
 public:
  explicit SeedCache(const PressureScript& script)
      : size_(script.load.size), cap_(script.governor.cap) {}

  Duration poll(Duration now, const std::optional<MemorySample>& sample,
                Bytes /*refused: nobody told it*/) override {
    if (now < next_check_) return next_check_ - now;
    next_check_ = now + 2s;
    // Without a gauge the original assumed 0 of 192 GiB used.
    const double pressure = sample.has_value() ? static_cast<double>(sample->used.value()) /
                                                     static_cast<double>(sample->total.value())
                                               : 0.0;
    const PressureMode mode = mode_at(pressure);
    if (mode != mode_) {
      mode_ = mode;
      apply(now);
    }
    return 2s;
  }

  Found request(std::uint32_t object, Duration now) override {
    const auto it = store_.find(object);
    if (it != store_.end()) {
      it->second.last = now;
      ++it->second.uses;
      return Found::kAbove;
    }
    if (blocked_) return Found::kRefused;
    store_[object] = {.last = now, .uses = 1};
    if (mode_ >= PressureMode::kPressure) apply(now);
    return Found::kStored;
  }

  void copy(Bytes /*allowance*/) override {}
  [[nodiscard]] Bytes held() const override { return Bytes(size_.value() * store_.size()); }
  [[nodiscard]] Bytes budget() const override { return cap_; }
  [[nodiscard]] Bytes copied() const override { return 0_B; }
  [[nodiscard]] std::uint64_t entries() const override { return store_.size(); }
  [[nodiscard]] PressureMode mode() const override { return mode_; }
  [[nodiscard]] bool open() const override { return !blocked_; }

 private:
  struct Entry {
    Duration last{0};
    std::uint64_t uses = 0;
  };

  static PressureMode mode_at(double pressure) {
    if (pressure < 0.70) return PressureMode::kRelaxed;
    if (pressure < 0.85) return PressureMode::kNormal;
    if (pressure < 0.92) return PressureMode::kPressure;
    if (pressure < 0.96) return PressureMode::kCritical;
    return PressureMode::kEmergency;
  }

  void apply(Duration now) {
    blocked_ = mode_ == PressureMode::kEmergency;
    if (mode_ == PressureMode::kEmergency || mode_ == PressureMode::kNormal) {
      const Duration idle = mode_ == PressureMode::kNormal ? 120s : 30s;
      std::erase_if(store_, [&](const auto& entry) { return now - entry.second.last > idle; });
    } else if (mode_ == PressureMode::kPressure) {
      evict_a_quarter();
    }  // critical sets a flag and frees nothing; relaxed does nothing
  }

  /// Heaviest and least used first, which a new entry always is.
  void evict_a_quarter() {
    // Uses, then object; all have equal tokens.
    std::vector<std::pair<std::uint64_t, std::uint32_t>> order;
    for (const auto& [object, entry] : store_) order.emplace_back(entry.uses, object);
    if (order.empty()) return;
    const std::size_t quarter = std::max<std::size_t>(1, order.size() / 4);
    std::ranges::nth_element(order, order.begin() + static_cast<std::ptrdiff_t>(quarter - 1));
    for (std::size_t i = 0; i < quarter; ++i) store_.erase(order[i].second);
  }

  Bytes size_;
  Bytes cap_;
  std::map<std::uint32_t, Entry> store_;
  PressureMode mode_ = PressureMode::kRelaxed;
  bool blocked_ = false;
  Duration next_check_{0};
};

}  // namespace

std::unique_ptr<SimulatedCache> governed_cache(const PressureScript& script) {
  return std::make_unique<GovernedCache>(script);
}

std::unique_ptr<SimulatedCache> seed_cache(const PressureScript& script) {
  return std::make_unique<SeedCache>(script);
}

}  // namespace afterimage

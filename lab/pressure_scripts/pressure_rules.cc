// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/pressure_scripts/pressure_rules.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/reuse.h"
#include "afterimage/reuse_stats.h"
#include "afterimage/tier.h"
#include "runtime/reuse/plan.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

/// Objects as encoder outputs of a Reuse, with a tier in memory below it, on a clock that this moves.
class GovernedCache final : public SimulatedCache {
 public:
  explicit GovernedCache(const PressureScript& script)
      : size_(script.load.size),
        governor_(script.governor),
        below_budget_(script.below),
        below_(script.below > 0_B ? std::make_unique<HostTier>(below_budget_) : nullptr) {}

  Duration poll(Duration now, const std::optional<GaugeReading>& reading, Bytes refused) override {
    clock_.advance(now - clock_.now());
    gauge_->shown = reading;
    // Its first reading is that of the first poll.
    if (reuse_ == nullptr) reuse_ = make_caches();
    actions_ = reuse_->pressure()->tick(refused);
    return actions_.next_step;
  }

  Found request(std::uint32_t object, Duration now) override {
    AFI_CHECK(reuse_ != nullptr);
    clock_.advance(now - clock_.now());
    MediaPlan plan = reuse_->plan_media(named(object), "", 0, {.now = now});
    for (const std::size_t at : plan.to_encode()) {
      const auto committed = plan.commit(at, output(object), kCost);
      AFI_CHECK(committed.has_value());
    }
    const auto done = plan.await();
    AFI_CHECK(done.has_value() && *done);
    AFI_CHECK(plan.embeddings().front().front().bytes().front() == content(object));
    switch (plan.sources().front()) {
      case MediaSource::kReused:
        return Found::kAbove;
      case MediaSource::kLoaded:
        return Found::kBelow;
      case MediaSource::kUncached:
        return Found::kRefused;
      default:
        return Found::kStored;
    }
  }

  [[nodiscard]] Bytes held() const override {
    return reuse_ == nullptr ? 0_B : reuse_->memory().used();
  }
  [[nodiscard]] Bytes budget() const override { return reuse_->memory().capacity(); }
  [[nodiscard]] Bytes copied() const override {
    return Bytes(below_ == nullptr ? 0 : below_->stats().puts * size_.value());
  }
  [[nodiscard]] std::uint64_t entries() const override {
    return reuse_->stats().encoder.entries.value();
  }
  [[nodiscard]] PressureMode mode() const override { return actions_.mode; }
  [[nodiscard]] bool open() const override { return actions_.admits; }

 private:
  struct Gauge final : PressureGauge {
    [[nodiscard]] std::string_view name() const override { return "script"; }
    Result<GaugeReading> read() override {
      if (!shown.has_value()) return fail(ErrorCode::kUnavailable, "the script silences the gauge");
      return *shown;
    }
    std::optional<GaugeReading> shown;
  };
  static constexpr Duration kCost = 100ms;

  [[nodiscard]] std::unique_ptr<Reuse> make_caches() const {
    ReuseOptions options{
        .budget = governor_.cap,
        .prefixes = false,
        .tier = below_.get(),
        .weigh_loads = false,  // loading takes no simulated time
        .pressure = {
            .gauge = gauge_, .governor = governor_, .own_thread = false, .return_memory = [] {}}};
    auto made = Reuse::create(options, Secret{}, clock_);
    AFI_CHECK(made.has_value());  // the script's governor options were validated
    return *std::move(made);
  }
  static std::byte content(std::uint32_t object) { return static_cast<std::byte>(object); }
  [[nodiscard]] EncoderOutput output(std::uint32_t object) const {
    return {{.dtype = DType::kU8,
             .shape = Shape{size_.value()},
             .bytes = std::vector<std::byte>(size_.value(), content(object))}};
  }
  static Fingerprint named(std::uint32_t object) {
    EncoderKey key;
    std::memcpy(key.bytes.data(), &object, sizeof object);
    return {.contents = {ContentDigest()}, .keys = {key}, .modalities = {Modality::kImage}};
  }

  Bytes size_;
  GovernorOptions governor_;
  ManualClock clock_;
  std::shared_ptr<Gauge> gauge_ = std::make_shared<Gauge>();
  MemoryBudget below_budget_;
  std::unique_ptr<HostTier> below_;
  std::unique_ptr<Reuse> reuse_;  // nullptr before the first poll
  GovernorActions actions_;
};

class SeedCache final : public SimulatedCache {
 public:
  explicit SeedCache(const PressureScript& script)
      : size_(script.load.size), cap_(script.governor.cap) {}

  Duration poll(Duration now, const std::optional<GaugeReading>& reading,
                Bytes /*refused: nobody told it*/) override {
    if (now < next_check_) return next_check_ - now;
    next_check_ = now + 2s;
    // Without a gauge the original assumed 0 of 192 GiB used.
    const double pressure = reading.has_value() ? static_cast<double>(reading->used.value()) /
                                                      static_cast<double>(reading->total.value())
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

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/pressure_scripts/pressure.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "foundation/platform/random.h"
#include "lab/pressure_scripts/pressure_rules.h"

namespace afterimage {
namespace {

constexpr Duration kStep = std::chrono::milliseconds(1);

/// Memory held by other users, as scripted.
class OtherUsers {
 public:
  explicit OtherUsers(std::uint64_t seed) : rng_(seed) {}

  void begin(const PressureEvent& event) {
    from_ = now_bytes_;
    plan_ = event;
    changed_at_ = event.at;
    if (event.kind == PressureEvent::Kind::kExternal && event.lasts == Duration(0)) {
      now_bytes_ = event.bytes;
    }
  }
  void allocate(Bytes bytes, Duration until) { allocations_.push_back({bytes, until}); }

  Bytes at(Duration now) {
    std::erase_if(allocations_, [&](const Allocation& a) { return a.until <= now; });
    if (plan_.kind == PressureEvent::Kind::kHover) {
      hover(now);
    } else if (plan_.lasts > Duration(0)) {
      const double part = std::min(1.0, static_cast<double>((now - plan_.at).count()) /
                                            static_cast<double>(plan_.lasts.count()));
      const auto start = static_cast<double>(from_.value());
      const auto end = static_cast<double>(plan_.bytes.value());
      now_bytes_ = Bytes(static_cast<Bytes::rep>(start + (end - start) * part));
    }
    Bytes sum = now_bytes_;
    for (const Allocation& a : allocations_) sum += a.bytes;
    return sum;
  }

 private:
  struct Allocation {
    Bytes bytes;
    Duration until;
  };

  void hover(Duration now) {
    if (now - plan_.at >= plan_.lasts) {
      now_bytes_ = plan_.bytes;
    } else if (now >= changed_at_) {
      changed_at_ = now + plan_.every;
      now_bytes_ = plan_.bytes - plan_.spread + Bytes(rng_.below(2 * plan_.spread.value() + 1));
    }
  }

  Rng rng_;
  PressureEvent plan_;
  Bytes from_;
  Bytes now_bytes_;
  Duration changed_at_{0};
  std::vector<Allocation> allocations_;
};

/// Draws objects from a Zipf distribution.
class Popularity {
 public:
  explicit Popularity(const PressureLoad& load) : rng_(load.seed) {
    double sum = 0;
    for (std::uint32_t i = 1; i <= load.objects; ++i) {
      sum += std::pow(static_cast<double>(i), -load.zipf);
      below_.push_back(sum);
    }
  }
  std::uint32_t next() {
    const double at = rng_.uniform() * below_.back();
    const auto it = std::ranges::upper_bound(below_, at);
    return static_cast<std::uint32_t>(std::min<std::ptrdiff_t>(
        it - below_.begin(), static_cast<std::ptrdiff_t>(below_.size()) - 1));
  }

 private:
  Rng rng_;
  std::vector<double> below_;
};

/// The caches are real, and so are their bytes: a KiB of the simulation stands for a MiB of the script,
/// or for more where the caches would take more than 64 MiB.
std::uint64_t scale_of(const PressureScript& script) {
  constexpr std::uint64_t kScale = 1024;
  const std::uint64_t most = std::max(script.governor.cap, script.below).value();
  return std::max(kScale, (most - 1) / (64_MiB).value() + 1);
}

PressureScript scaled(PressureScript script, std::uint64_t scale) {
  const auto scale_down = [scale](Bytes& bytes) {
    if (bytes > 0_B) bytes = Bytes(std::max<std::uint64_t>(bytes.value() / scale, 1));
  };
  for (Bytes* bytes : {&script.memory, &script.below, &script.load.size, &script.governor.cap,
                       &script.governor.reserve, &script.governor.tolerance}) {
    scale_down(*bytes);
  }
  for (PressureEvent& event : script.events) {
    scale_down(event.bytes);
    scale_down(event.spread);
  }
  // What does not fit is served uncached, however large it is.
  script.load.size = std::min(script.load.size, script.governor.cap + 1_B);
  return script;
}

class Simulation {
 public:
  Simulation(const PressureScript& script, PressureRules rules)
      : scale_(scale_of(script)),
        script_(scaled(script, scale_)),
        others_(script.load.seed),
        popularity_(script.load) {
    report_.rules = rules;
    report_.ran = script.runs;
    cache_ = rules == PressureRules::kGovernor ? governed_cache(script_) : seed_cache(script_);
  }

  PressureReport run() {
    for (now_ = Duration(0); now_ < script_.runs; now_ += kStep) {
      begin_events();
      external_ = others_.at(now_);
      record_oom();
      if (now_ >= next_poll_) poll();
      serve();
      record();
    }
    finish();
    return std::move(report_);
  }

 private:
  void begin_events() {
    using Kind = PressureEvent::Kind;
    for (; next_event_ < script_.events.size() && script_.events[next_event_].at <= now_;
         ++next_event_) {
      const PressureEvent& event = script_.events[next_event_];
      const Duration until = event.at + event.lasts;
      switch (event.kind) {
        case Kind::kExternal:
        case Kind::kHover:
          others_.begin(event);
          break;
        case Kind::kAllocate:
          allocate(event.bytes, until);
          break;
        case Kind::kFreeze:
          frozen_until_ = until;
          frozen_at_ = external_ + cache_->held();
          break;
        case Kind::kSilence:
          silent_until_ = until;
          break;
      }
    }
  }

  /// The engine cooperates: when an allocation fails, it asks the cache for space and retries once.
  void allocate(Bytes bytes, Duration until) {
    external_ = others_.at(now_);
    const auto fits = [&] { return sub_sat(script_.memory, external_ + cache_->held()) >= bytes; };
    if (!fits()) {
      cache_->poll(now_, reading(), bytes);
      record_mode();
    }
    if (fits()) {
      others_.allocate(bytes, until);
    } else {
      ++report_.oom;
    }
  }

  /// The gauge's reading: the true value unless the script freezes or silences it.
  [[nodiscard]] std::optional<GaugeReading> reading() const {
    if (now_ < silent_until_) return std::nullopt;
    const Bytes used = now_ < frozen_until_ ? frozen_at_ : external_ + cache_->held();
    return GaugeReading{.total = script_.memory, .used = std::min(used, script_.memory)};
  }

  void poll() {
    next_poll_ = now_ + std::max(cache_->poll(now_, reading(), 0_B), kStep);
    if (cache_->held() > cache_->budget()) ++report_.violations;
    record_mode();
  }

  void record_mode() {
    if (cache_->mode() == mode_) return;
    report_.changes.push_back({.at = now_, .from = mode_, .to = cache_->mode()});
    mode_ = cache_->mode();
  }

  void serve() {
    due_ += script_.load.per_second / 1000;
    for (; due_ >= 1; due_ -= 1) {
      ++report_.requests;
      switch (cache_->request(popularity_.next(), now_)) {
        case Found::kAbove:
          ++report_.hits;
          break;
        case Found::kBelow:
          ++report_.hits_below;
          break;
        case Found::kRefused:
          ++report_.refused;
          break;
        case Found::kStored:
          break;
      }
    }
  }

  void record_oom() {
    const bool over = external_ + cache_->held() > script_.memory;
    if (over && !over_) ++report_.oom;
    over_ = over;
  }

  void record() {
    report_.peak = std::max(report_.peak, cache_->held());
    report_.time_in_mode[static_cast<std::size_t>(mode_)] += kStep;
    record_oom();
    // Only memory held by the cache can be released.
    const Bytes missing =
        sub_sat(external_ + cache_->held() + script_.governor.reserve, script_.memory);
    const bool dented = missing > 0_B && cache_->held() > 0_B;
    if (dented && !reserve_dented_since_.has_value()) reserve_dented_since_ = now_;
    if (!dented && reserve_dented_since_.has_value()) {
      report_.releases.push_back(now_ - *reserve_dented_since_);
      reserve_dented_since_.reset();
    }
  }

  void finish() {
    if (reserve_dented_since_.has_value())
      report_.releases.push_back(now_ - *reserve_dented_since_);
    std::ranges::sort(report_.releases);
    report_.entries = cache_->entries();
    report_.open = cache_->open();
    report_.copied = cache_->copied();
    for (Bytes* bytes : {&report_.peak, &report_.copied}) *bytes = Bytes(bytes->value() * scale_);
    for (const PressureExpectation& expectation : script_.expectations) {
      report_.expectations.push_back(judge(expectation));
    }
  }

  [[nodiscard]] double found(const PressureExpectation& expectation) const {
    using What = PressureExpectation::What;
    switch (expectation.what) {
      case What::kOom:
        return static_cast<double>(report_.oom);
      case What::kViolations:
        return static_cast<double>(report_.violations);
      case What::kTransitions:
        return static_cast<double>(std::ranges::count_if(report_.changes, [&](const auto& change) {
          return change.at >= expectation.from && change.at <= expectation.to;
        }));
      case What::kReleaseMs:
        return to_milliseconds(report_.release_percentile(99));
      case What::kHitPercent:
        return 100 * report_.hit_rate();
      case What::kEntries:
        return static_cast<double>(report_.entries);
      case What::kOpen:
        break;
    }
    return report_.open ? 1 : 0;
  }

  [[nodiscard]] ExpectationOutcome judge(const PressureExpectation& expectation) const {
    ExpectationOutcome outcome{.text = expectation.text, .found = found(expectation)};
    if (expectation.what == PressureExpectation::What::kOpen) {
      outcome.met = report_.open;
    } else {
      outcome.met = expectation.at_least ? outcome.found >= expectation.limit
                                         : outcome.found <= expectation.limit;
    }
    return outcome;
  }

  std::uint64_t scale_;  // bytes of the script that a byte of the simulation stands for
  PressureScript script_;
  PressureReport report_;
  std::unique_ptr<SimulatedCache> cache_;
  OtherUsers others_;
  Popularity popularity_;
  Duration now_{0};
  Duration next_poll_{0};
  Duration frozen_until_{0};
  Duration silent_until_{0};
  Bytes frozen_at_;
  Bytes external_;
  PressureMode mode_ = PressureMode::kRelaxed;
  std::size_t next_event_ = 0;
  double due_ = 0;
  bool over_ = false;
  std::optional<Duration> reserve_dented_since_;
};

}  // namespace

double PressureReport::hit_rate() const {
  return requests == 0 ? 0 : static_cast<double>(hits + hits_below) / static_cast<double>(requests);
}

Duration PressureReport::release_percentile(int percent) const {
  if (releases.empty()) return Duration(0);
  const std::size_t rank = (releases.size() * static_cast<std::size_t>(percent) + 99) / 100;
  return releases[std::max<std::size_t>(rank, 1) - 1];
}

bool PressureReport::fine() const {
  return std::ranges::all_of(expectations, &ExpectationOutcome::met);
}

PressureReport run_pressure(const PressureScript& script, PressureRules rules) {
  return Simulation(script, rules).run();
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/pressure/governor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "afterimage/pressure.h"
#include "afterimage/result.h"

namespace afterimage {
namespace {

using Seconds = std::chrono::duration<double>;

double seconds(Duration d) { return Seconds(d).count(); }

Bytes plus(Bytes a, Bytes b) { return b > Bytes::max() - a ? Bytes::max() : a + b; }

/// Rounds up, so that a need is never underestimated, and clamps to the range of Bytes.
Bytes to_bytes(double value) {
  if (!(value > 0)) return 0_B;
  constexpr double kLargest = 9.0e18;
  return Bytes(static_cast<Bytes::rep>(std::ceil(std::min(value, kLargest))));
}

/// Allowed disagreement: gauges count in pages and are read a moment after our ledger.
Bytes tolerance(Bytes total, const GovernorOptions& options) {
  return std::max(options.tolerance, Bytes(total.value() / 100));
}

GaugeTrust check_trust(const GovernorState& state, const GovernorInputs& inputs,
                       const GovernorOptions& options) {
  const auto& sample = inputs.sample;
  if (!sample.has_value()) {
    if (!state.last.has_value()) return GaugeTrust::kNone;
    const bool fresh = inputs.now - state.last->taken_at <= options.stale_after;
    return fresh && state.trust == GaugeTrust::kTrusted ? GaugeTrust::kTrusted : GaugeTrust::kStale;
  }
  if (sample->total == 0_B || sample->used > sample->total || sample->taken_at > inputs.now) {
    return GaugeTrust::kNonsense;
  }
  if (inputs.now - sample->taken_at > options.stale_after) return GaugeTrust::kStale;
  if (sample->ours > plus(sample->used, tolerance(sample->total, options)))
    return GaugeTrust::kDisagrees;
  if (state.still.has_value() && state.still->used == sample->used &&
      state.still->taken_at != sample->taken_at) {
    const Bytes moved = std::max(sub_sat(sample->ours, state.still->ours),
                                 sub_sat(state.still->ours, sample->ours));
    if (moved > tolerance(sample->total, options)) return GaugeTrust::kFrozen;
  }
  return GaugeTrust::kTrusted;
}

/// Updates the external use and its growth rate.
void update_external(GovernorState& state, const MemorySample& sample,
                     const GovernorOptions& options) {
  if (state.last.has_value() && state.last->taken_at == sample.taken_at) return;
  const Bytes external = sub_sat(sample.used, sample.ours);
  if (state.last.has_value() && sample.taken_at > state.last->taken_at) {
    // A leaky sum over the horizon: a ramp shows its slope; a jump counts once more and decays.
    const double dt = seconds(sample.taken_at - state.last->taken_at);
    const double horizon = seconds(options.horizon);
    state.growth = state.growth * std::exp(-dt / horizon) +
                   static_cast<double>(sub_sat(external, state.external).value()) / horizon;
    if (state.growth < 1) state.growth = 0;
  }
  if (!state.still.has_value() || state.still->used != sample.used) state.still = sample;
  state.external = external;
  state.last = sample;
}

/// External use extrapolated to `ahead` from now. Without new readings, growth is assumed to
/// continue for up to ten horizons.
Bytes expected_external(const GovernorState& state, Duration now, Duration ahead,
                        const GovernorOptions& options) {
  const Duration age = state.last.has_value() ? now - state.last->taken_at : Duration(0);
  ahead += std::clamp(age, Duration(0), 10 * options.horizon);
  return plus(state.external, to_bytes(state.growth * seconds(ahead)));
}

/// Nothing may stay beyond `budget`, and nothing new is admitted beyond `target`. The reserve lies
/// between them. Only the target extrapolates.
struct Limits {
  Bytes budget;
  Bytes target;
};

Limits compute_limits(const GovernorState& state, const GovernorInputs& inputs,
                      const GovernorOptions& options) {
  if (!state.last.has_value()) return {.budget = options.blind(), .target = options.blind()};
  const Bytes claimed = plus(inputs.planned, inputs.refused);
  const auto left_over = [&](Duration ahead) {
    return sub_sat(state.last->total,
                   plus(claimed, expected_external(state, inputs.now, ahead, options)));
  };
  const Bytes soon = sub_sat(left_over(options.horizon), options.reserve);
  Limits limits{.budget = std::min(options.cap, left_over(Duration(0))),
                .target = std::min(options.cap, soon)};
  if (state.trust != GaugeTrust::kTrusted) {
    limits.target = std::min({limits.target, options.blind(), state.target.value_or(Bytes::max())});
  } else if (state.target.has_value() && limits.target > *state.target) {
    const double dt = seconds(std::max(inputs.now - state.stepped_at, Duration(0)));
    const double step = options.regrow_per_second * static_cast<double>(options.cap.value()) * dt;
    limits.target = std::min(limits.target, plus(*state.target, to_bytes(step)));
  }
  return limits;
}

LadderOptions ladder_of(const GovernorOptions& options) {
  return options.modes.has_value() ? LadderOptions::by_use(*options.modes)
                                   : LadderOptions::headroom();
}

double stress_of(const GovernorState& state, const GovernorInputs& inputs, Bytes expected,
                 const GovernorOptions& options) {
  if (!state.last.has_value()) return 0;
  const auto total = static_cast<double>(state.last->total.value());
  if (options.modes.has_value()) {
    return static_cast<double>(plus(state.external, inputs.ledger.used).value()) / total;
  }
  const Bytes need = plus(plus(options.reserve, sub_sat(expected, state.external)),
                          plus(inputs.planned, inputs.refused));
  const Bytes free = sub_sat(state.last->total, plus(state.external, inputs.ledger.used));
  const Bytes headroom = plus(free, inputs.ledger.evictable);
  if (headroom == 0_B) return std::numeric_limits<double>::infinity();
  return static_cast<double>(need.value()) / static_cast<double>(headroom.value());
}

/// The lower bound on stress from failed allocations, stalls and an untrusted gauge.
double min_stress(GaugeTrust trust, const GovernorInputs& inputs, const GovernorOptions& options) {
  const LadderOptions ladder = ladder_of(options);
  const auto border = [&](PressureMode mode) {
    return ladder.borders[static_cast<std::size_t>(mode) - 1].enter;
  };
  if (inputs.refused > 0_B) return border(PressureMode::kEmergency);
  const bool stalls = !(inputs.stall < options.stall_limit);
  if (trust != GaugeTrust::kTrusted || stalls) return border(PressureMode::kPressure);
  return 0;
}

/// The shortest limit of `mode` and all milder modes, so that limits are monotone.
std::optional<Duration> idle_limit(PressureMode mode, const IdleLimits& idle) {
  std::optional<Duration> shortest = idle.relaxed;
  const auto also = [&](std::optional<Duration> limit) {
    if (limit.has_value()) shortest = std::min(shortest.value_or(*limit), *limit);
  };
  if (mode >= PressureMode::kNormal) also(idle.normal);
  if (mode == PressureMode::kEmergency) also(idle.emergency);
  return shortest;
}

void plan_releases(GovernorActions& actions, const LedgerView& ledger,
                   const GovernorOptions& options) {
  AFI_CHECK(ledger.evictable <= ledger.used);
  const Bytes deficit = sub_sat(ledger.used, actions.target);
  actions.release = std::min(deficit, ledger.evictable);
  actions.overrun = sub_sat(ledger.used - actions.release, actions.budget);
  actions.next_step = deficit > 0_B ? options.busy_tick : options.tick;
}

constexpr std::array<std::string_view, 6> kTrustNames = {"none",     "trusted", "stale",
                                                         "nonsense", "frozen",  "disagrees"};

}  // namespace

std::string_view to_string(GaugeTrust trust) {
  return kTrustNames[static_cast<std::size_t>(trust)];
}

IdleLimits IdleLimits::seed() {
  using namespace std::chrono_literals;
  return {.relaxed = 10min, .normal = 120s, .emergency = 30s, .offload = 30s};
}

IdleLimits IdleLimits::of(Duration relaxed) {
  return {.relaxed = relaxed,
          .normal = relaxed / 5,
          .emergency = relaxed / 20,
          .offload = relaxed / 20};
}

Result<void> check(const GovernorOptions& options) {
  const auto invalid = [](std::string message) {
    return fail(ErrorCode::kInvalidArgument, "governor: " + std::move(message));
  };
  if (options.cap == 0_B)
    return invalid("the cap is 0; set the most bytes that the cache may hold");
  if (options.reserve == 0_B) {
    return invalid("the reserve is 0; set the bytes to keep free until the governor can react");
  }
  if (options.blind() > options.cap) {
    return invalid(fmt::format("the blind cap of {} bytes is above the cap of {}",
                               options.blind().value(), options.cap.value()));
  }
  for (const Duration d : {options.horizon, options.stale_after, options.tick, options.busy_tick}) {
    if (d <= Duration(0))
      return invalid("horizon, stale_after, tick and busy_tick must be positive");
  }
  for (const double rate : {options.regrow_per_second, options.stall_limit}) {
    if (!(rate > 0) || !std::isfinite(rate))
      return invalid("rates and limits must be positive numbers");
  }
  return check(ladder_of(options));
}

GovernorStep step(const GovernorState& state, const GovernorInputs& inputs,
                  const GovernorOptions& options) {
  GovernorStep next{.state = state, .actions = {}};
  next.state.trust = check_trust(state, inputs, options);
  if (next.state.trust == GaugeTrust::kTrusted && inputs.sample)
    update_external(next.state, *inputs.sample, options);
  const Limits limits = compute_limits(next.state, inputs, options);
  const Bytes expected = expected_external(next.state, inputs.now, options.horizon, options);
  const double stress = std::max(stress_of(next.state, inputs, expected, options),
                                 min_stress(next.state.trust, inputs, options));
  next.state.ladder = climb(state.ladder, stress, inputs.now, ladder_of(options));
  next.state.target = limits.target;
  next.state.stepped_at = inputs.now;

  GovernorActions& actions = next.actions;
  actions.mode = next.state.ladder.mode;
  actions.trust = next.state.trust;
  actions.admits = actions.mode != PressureMode::kEmergency;
  actions.budget = limits.budget;
  actions.target = std::min(limits.target, limits.budget);
  plan_releases(actions, inputs.ledger, options);
  actions.speculate = actions.mode <= PressureMode::kNormal && inputs.ledger.used < actions.target;
  actions.expire_idle = idle_limit(actions.mode, options.idle);
  if (actions.mode >= PressureMode::kCritical) actions.offload_idle = options.idle.offload;
  return next;
}

}  // namespace afterimage

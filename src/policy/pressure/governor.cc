// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/governor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "afterimage/check.h"

namespace afterimage {
namespace {

using Seconds = std::chrono::duration<double>;

double seconds(Duration d) { return Seconds(d).count(); }

Bytes plus(Bytes a, Bytes b) { return b > Bytes::max() - a ? Bytes::max() : a + b; }

/// Rounded up, so that a need is never underestimated; at most what Bytes can hold.
Bytes to_bytes(double value) {
  if (!(value > 0)) return 0_B;
  constexpr double kLargest = 9.0e18;
  return Bytes(static_cast<Bytes::rep>(std::ceil(std::min(value, kLargest))));
}

/// Gauges count in pages and sample a moment after our ledger: this much is no lie.
Bytes tolerance(Bytes total) { return std::max(64_MiB, Bytes(total.value() / 100)); }

GaugeTrust judge(const GovernorState& state, const GovernorInputs& inputs,
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
  if (sample->ours > plus(sample->used, tolerance(sample->total))) return GaugeTrust::kDisagrees;
  if (state.still.has_value() && state.still->used == sample->used &&
      state.still->taken_at != sample->taken_at) {
    const Bytes moved = std::max(sub_sat(sample->ours, state.still->ours),
                                 sub_sat(state.still->ours, sample->ours));
    if (moved > tolerance(sample->total)) return GaugeTrust::kFrozen;
  }
  return GaugeTrust::kTrusted;
}

/// What others hold and how fast they grow.
void learn(GovernorState& state, const MemorySample& sample, const GovernorOptions& options) {
  if (state.last.has_value() && state.last->taken_at == sample.taken_at) return;
  const Bytes external = sub_sat(sample.used, sample.ours);
  if (state.last.has_value() && sample.taken_at > state.last->taken_at) {
    // A leaky sum over the horizon: a ramp shows its slope, a jump counts once more and fades.
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

/// Others' bytes after another `ahead`, if they go on as they did. Without new readings they are
/// taken to have gone on meanwhile, for a while.
Bytes expected_external(const GovernorState& state, Duration now, Duration ahead,
                        const GovernorOptions& options) {
  const Duration age = state.last.has_value() ? now - state.last->taken_at : Duration(0);
  ahead += std::clamp(age, Duration(0), 10 * options.horizon);
  return plus(state.external, to_bytes(state.growth * seconds(ahead)));
}

/// The two lines: beyond `budget` nothing may stay, beyond `target` nothing new comes in. What
/// others may take before we have reacted is the reserve between them, so only the target looks
/// ahead: a guess about the future costs clean entries and no others.
struct Lines {
  Bytes budget;
  Bytes target;
};

Lines draw_lines(const GovernorState& state, const GovernorInputs& inputs,
                 const GovernorOptions& options) {
  if (!state.last.has_value()) return {.budget = options.blind(), .target = options.blind()};
  const Bytes claimed = plus(inputs.planned, inputs.refused);
  const auto left_over = [&](Duration ahead) {
    return sub_sat(state.last->total,
                   plus(claimed, expected_external(state, inputs.now, ahead, options)));
  };
  const Bytes soon = sub_sat(left_over(options.horizon), options.reserve);
  Lines lines{.budget = std::min(options.cap, left_over(Duration(0))),
              .target = std::min(options.cap, soon)};
  if (state.trust != GaugeTrust::kTrusted) {
    lines.target = std::min({lines.target, options.blind(), state.target.value_or(Bytes::max())});
  } else if (state.target.has_value() && lines.target > *state.target) {
    const double dt = seconds(std::max(inputs.now - state.stepped_at, Duration(0)));
    const double step = options.regrow_per_second * static_cast<double>(options.cap.value()) * dt;
    lines.target = std::min(lines.target, plus(*state.target, to_bytes(step)));
  }
  return lines;
}

double stress_of(const GovernorState& state, const GovernorInputs& inputs, Bytes expected,
                 const GovernorOptions& options) {
  if (!state.last.has_value()) return 0;
  const auto total = static_cast<double>(state.last->total.value());
  if (options.ladder.scale == StressScale::kUsedFraction) {
    return static_cast<double>(plus(state.external, inputs.ledger.used).value()) / total;
  }
  const Bytes need = plus(plus(options.reserve, sub_sat(expected, state.external)),
                          plus(inputs.planned, inputs.refused));
  const Bytes free = sub_sat(state.last->total, plus(state.external, inputs.ledger.used));
  const Bytes headroom = plus(free, inputs.ledger.clean);
  if (headroom == 0_B) return std::numeric_limits<double>::infinity();
  return static_cast<double>(need.value()) / static_cast<double>(headroom.value());
}

/// The least stress that what we know beside the numbers allows for.
double least_stress(GaugeTrust trust, const GovernorInputs& inputs,
                    const GovernorOptions& options) {
  const auto border = [&](PressureMode mode) {
    return options.ladder.borders[static_cast<std::size_t>(mode) - 1].enter;
  };
  if (inputs.refused > 0_B) return border(PressureMode::kEmergency);
  const bool stalls = !(inputs.stall < options.stall_limit);
  if (trust != GaugeTrust::kTrusted || stalls) return border(PressureMode::kPressure);
  return 0;
}

/// The shortest of those that hold in `mode` or a milder one: the ladder is monotone.
std::optional<Duration> idle_limit(PressureMode mode, const IdleLimits& idle) {
  std::optional<Duration> shortest = idle.relaxed;
  const auto also = [&](std::optional<Duration> limit) {
    if (limit.has_value()) shortest = std::min(shortest.value_or(*limit), *limit);
  };
  if (mode >= PressureMode::kNormal) also(idle.normal);
  if (mode == PressureMode::kEmergency) also(idle.emergency);
  return shortest;
}

/// Which bytes leave, and which get a copy below so that they can leave soon.
void share_out(GovernorActions& actions, const GovernorInputs& inputs, bool keep_clean,
               const GovernorOptions& options) {
  const LedgerView& ledger = inputs.ledger;
  AFI_CHECK(plus(ledger.clean, ledger.cleaning) <= ledger.used);
  const Bytes deficit = sub_sat(ledger.used, actions.target);
  actions.release = std::min(deficit, ledger.clean);
  actions.drop = sub_sat(ledger.used - actions.release, actions.budget);
  const Bytes missing = sub_sat(deficit, plus(actions.release, actions.drop));
  const Bytes wanted = plus(missing, keep_clean ? options.clean_wanted() : 0_B);
  const Bytes there = plus(ledger.clean - actions.release, ledger.cleaning);
  const Bytes at_once = to_bytes(options.clean_bytes_per_second * seconds(options.tick));
  actions.clean = std::min(sub_sat(wanted, there), sub_sat(at_once, ledger.cleaning));
  const bool busy = deficit > 0_B;
  actions.next_step = busy ? options.busy_tick : options.tick;
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

Result<void> check(const GovernorOptions& options) {
  const auto wrong = [](std::string message) {
    return fail(ErrorCode::kInvalidArgument, "governor: " + std::move(message));
  };
  if (options.cap == 0_B) return wrong("the cap is 0; give the bytes that may be held");
  if (options.reserve == 0_B) {
    return wrong("the reserve is 0; give what others may take before the governor has reacted");
  }
  if (options.blind() > options.cap) {
    return wrong(fmt::format("the blind cap of {} bytes is above the cap of {}",
                             options.blind().value(), options.cap.value()));
  }
  for (const Duration d : {options.horizon, options.stale_after, options.tick, options.busy_tick}) {
    if (d <= Duration(0)) return wrong("horizon, stale_after, tick and busy_tick are positive");
  }
  for (const double rate :
       {options.regrow_per_second, options.clean_bytes_per_second, options.stall_limit}) {
    if (!(rate > 0) || !std::isfinite(rate)) return wrong("rates and limits are positive numbers");
  }
  return check(options.ladder);
}

GovernorStep step(const GovernorState& state, const GovernorInputs& inputs,
                  const GovernorOptions& options) {
  GovernorStep next{.state = state, .actions = {}};
  next.state.trust = judge(state, inputs, options);
  if (next.state.trust == GaugeTrust::kTrusted && inputs.sample)
    learn(next.state, *inputs.sample, options);
  const Lines lines = draw_lines(next.state, inputs, options);
  const Bytes expected = expected_external(next.state, inputs.now, options.horizon, options);
  const double stress = std::max(stress_of(next.state, inputs, expected, options),
                                 least_stress(next.state.trust, inputs, options));
  next.state.ladder = climb(state.ladder, stress, inputs.now, options.ladder);
  next.state.target = lines.target;
  next.state.stepped_at = inputs.now;

  GovernorActions& actions = next.actions;
  actions.mode = next.state.ladder.mode;
  actions.trust = next.state.trust;
  actions.admission =
      actions.mode == PressureMode::kEmergency ? Admission::kBlocked : Admission::kOpen;
  actions.budget = lines.budget;
  actions.target = std::min(lines.target, lines.budget);
  const bool plenty = actions.mode == PressureMode::kRelaxed;
  share_out(actions, inputs, !plenty, options);
  actions.speculate = actions.mode <= PressureMode::kNormal && inputs.ledger.used < actions.target;
  actions.expire_idle = idle_limit(actions.mode, options.idle);
  if (actions.mode >= PressureMode::kCritical) actions.offload_idle = options.idle.offload;
  return next;
}

}  // namespace afterimage

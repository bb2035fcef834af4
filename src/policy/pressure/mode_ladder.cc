// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "afterimage/pressure.h"
#include "policy/pressure/governor.h"

namespace afterimage {
namespace {

constexpr std::array<std::string_view, kPressureModes> kNames = {"relaxed", "normal", "pressure",
                                                                 "critical", "emergency"};

std::size_t index_of(PressureMode mode) { return static_cast<std::size_t>(mode); }

const ModeBorder& border_of(std::size_t mode, const LadderOptions& options) {
  return options.borders[mode - 1];
}

void enter(LadderState& state, std::size_t mode, Duration now, const LadderOptions& options) {
  const bool relapsed = state.left[mode].has_value() && now - *state.left[mode] < options.relapse;
  const Duration before = std::max(state.dwell[mode], options.dwell);
  state.dwell[mode] = relapsed ? std::min(2 * before, options.longest_dwell) : options.dwell;
  state.mode = static_cast<PressureMode>(mode);
  state.calm_since.reset();
}

}  // namespace

std::string_view to_string(PressureMode mode) { return kNames[index_of(mode)]; }

LadderOptions LadderOptions::headroom() {
  return {.scale = StressScale::kNeedOverHeadroom,
          .borders = {{{.enter = 1 / 3.0, .leave = 1 / 3.5},
                       {.enter = 1 / 1.5, .leave = 1 / 1.8},
                       {.enter = 1 / 1.0, .leave = 1 / 1.2},
                       {.enter = 1 / 0.5, .leave = 1 / 0.7}}}};
}

LadderOptions LadderOptions::by_use(const ModesByUse& modes) {
  LadderOptions options{.scale = StressScale::kUsedFraction, .borders = {}};
  for (std::size_t i = 0; i < modes.size(); ++i) {
    options.borders[i] = {.enter = modes[i], .leave = modes[i] - 0.01};
  }
  return options;
}

Result<std::optional<ModesByUse>> parse_modes(std::string_view text) {
  if (text == "headroom") return std::nullopt;
  if (text == "seed") return kSeedModes;
  ModesByUse modes{};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  double below = 1;
  for (std::size_t i = 0; i < modes.size(); ++i) {
    while (at != end && *at == ' ') ++at;
    double percent = 0;
    const auto read = std::from_chars(at, end, percent);
    const bool ends = i + 1 == modes.size() ? read.ptr == end : read.ptr != end && *read.ptr == ',';
    if (read.ec != std::errc() || !ends || !(percent > below && percent <= 100)) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("modes '{}': expected headroom, seed, or the four percentages of memory "
                      "in use at which normal, pressure, critical and emergency begin, each "
                      "above the one before: 70,85,92,96",
                      text));
    }
    modes[i] = percent / 100;
    below = percent;
    at = read.ptr + (i + 1 == modes.size() ? 0 : 1);
  }
  return modes;
}

Result<void> check(const LadderOptions& options) {
  double below = 0;
  for (std::size_t mode = 1; mode < kPressureModes; ++mode) {
    const ModeBorder& border = border_of(mode, options);
    // Written so that NaN fails, too.
    if (!(border.leave > 0 && border.leave < border.enter && border.enter > below)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("mode {} is entered at {} and left below {}: give borders that rise "
                              "from mode to mode and are left below where they are entered",
                              kNames[mode], border.enter, border.leave));
    }
    below = border.enter;
  }
  if (options.dwell <= Duration(0) || options.longest_dwell < options.dwell) {
    return fail(ErrorCode::kInvalidArgument,
                "the dwell of a mode must be positive and at most the longest dwell");
  }
  return {};
}

LadderState climb(const LadderState& state, double stress, Duration now,
                  const LadderOptions& options) {
  LadderState next = state;
  for (std::size_t mode = kPressureModes - 1; mode > index_of(state.mode); --mode) {
    if (stress >= border_of(mode, options).enter) {
      enter(next, mode, now, options);
      return next;
    }
  }
  const std::size_t mode = index_of(state.mode);
  if (mode == 0 || !(stress < border_of(mode, options).leave)) {
    next.calm_since.reset();
    return next;
  }
  if (!next.calm_since.has_value()) next.calm_since = now;
  if (now - *next.calm_since < std::max(next.dwell[mode], options.dwell)) return next;
  next.left[mode] = now;
  next.mode = static_cast<PressureMode>(mode - 1);
  next.calm_since.reset();
  return next;
}

}  // namespace afterimage

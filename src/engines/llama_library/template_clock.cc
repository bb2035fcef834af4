// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/template_clock.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

namespace afterimage {
namespace {

/// What llama.cpp tells a template of the clock: a function, and two dates as text.
constexpr auto kClocks =
    std::to_array<std::string_view>({"strftime_now", "date_string", "datetime"});
/// Of strftime, finer than a day.
constexpr auto kTimes = std::to_array<std::string_view>(
    {"%H", "%I", "%M", "%S", "%p", "%r", "%R", "%T", "%X", "%c", "%s", "%k", "%l"});

bool has_any(std::string_view text, const auto& words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return text.contains(word); });
}

}  // namespace

TemplateClock clock_of(std::string_view chat_template) {
  if (!has_any(chat_template, kClocks)) return TemplateClock::kNone;
  const bool has_times = chat_template.contains("strftime_now") && has_any(chat_template, kTimes);
  return has_times ? TemplateClock::kAlways : TemplateClock::kDaily;
}

std::string moment_of(TemplateClock clock, WallTime now) {
  if (clock == TemplateClock::kNone) return {};
  const std::time_t seconds = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(now));
  std::tm local{};
  localtime_r(&seconds, &local);
  return clock == TemplateClock::kDaily ? fmt::format("{:%Y-%m-%d}", local)
                                        : fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

}  // namespace afterimage

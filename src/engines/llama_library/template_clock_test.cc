// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/template_clock.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kNoon{std::chrono::sys_days{std::chrono::year{2026} / 11 / 28} + 12h};

TEST(TemplateClock, PlainTemplatesHaveNone) {
  EXPECT_EQ(clock_of(""), TemplateClock::kNone);
  EXPECT_EQ(clock_of("{% for m in messages %}100%Hello {{ m.content }}{% endfor %}"),
            TemplateClock::kNone);
  EXPECT_EQ(moment_of(TemplateClock::kNone, kNoon), "");
}

TEST(TemplateClock, ATemplateThatWritesTodaysDateChangesDaily) {
  EXPECT_EQ(clock_of(R"({{ "Today Date: " + strftime_now("%d %b %Y") }})"), TemplateClock::kDaily);
  EXPECT_EQ(
      clock_of(R"({%- if not date_string is defined %}{%- set date_string = "26 Jul 2024" %})"),
      TemplateClock::kDaily);
  EXPECT_EQ(clock_of("{{ datetime }}"), TemplateClock::kDaily);
}

TEST(TemplateClock, ATemplateThatWritesATimeChangesAlways) {
  EXPECT_EQ(clock_of(R"({{ strftime_now("%Y-%m-%d %H:%M") }})"), TemplateClock::kAlways);
}

TEST(TemplateClock, TheMomentChangesWithTheDayOrTheSecond) {
  const auto day = [](WallTime at) { return moment_of(TemplateClock::kDaily, at); };
  EXPECT_EQ(day(kNoon), day(kNoon + 1s));
  EXPECT_NE(day(kNoon), day(kNoon + 24h));
  const auto second = [](WallTime at) { return moment_of(TemplateClock::kAlways, at); };
  EXPECT_EQ(second(kNoon), second(kNoon + 1ms));
  EXPECT_NE(second(kNoon), second(kNoon + 1s));
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/pressure_scripts/pressure.h"

#include <gtest/gtest.h>

#include <string>

#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;

PressureScript script(const std::string& text) { return parse_pressure_script(text).value(); }

PressureReport governed(const std::string& text) {
  return run_pressure(script(text), PressureRules::kGovernor);
}

PressureReport seed(const std::string& text) {
  return run_pressure(script(text), PressureRules::kSeed);
}

constexpr const char* kSmall =
    "memory 16GiB\ngovernor cap 8GiB\ngovernor reserve 1GiB\n"
    "load objects=400 size=8MiB zipf=0.5 per_second=150\n";

// --- the script ----------------------------------------------------------------------------------

TEST(PressureScript, ParsesEventsInOrderOfTime) {
  const PressureScript read = script(
      "# a comment\n\nmemory 8GiB  # and another\n"
      "load objects=10 size=1.5MiB zipf=1 per_second=5 seed=7\n"
      "governor cap 4GiB\ngovernor modes seed\ngovernor tick 20ms\n"
      "at 2s external 1GiB in 500ms\nat 1s hover 2GiB by 1MiB every 10ms for 1min\n"
      "run 90s\nexpect transitions <= 2 between 1s and 3s  # at most\n");
  EXPECT_EQ(read.memory, 8_GiB);
  EXPECT_EQ(read.load.size, Bytes(3U << 19U));
  EXPECT_EQ(read.load.seed, 7U);
  EXPECT_EQ(read.governor.modes, kSeedModes);
  EXPECT_EQ(read.governor.stale_after, 60ms);
  ASSERT_EQ(read.events.size(), 2U);
  EXPECT_EQ(read.events[0].kind, PressureEvent::Kind::kHover) << "by time";
  EXPECT_EQ(read.events[0].lasts, 60s);
  EXPECT_EQ(read.events[1].lasts, 500ms);
  EXPECT_EQ(read.expectations[0].text, "expect transitions <= 2 between 1s and 3s");
}

TEST(PressureScript, ReportsEveryErrorWithItsLine) {
  const struct {
    const char* line;
    const char* said;
  } kCases[] = {
      {"memori 4GiB", "unknown 'memori'"},
      {"memory 4GB", "512MiB"},
      {"memory -4GiB", "512MiB"},
      {"memory nanGiB", "512MiB"},
      {"memory 0B", "memory must be above 0"},
      {"memory 9999999999TiB", "too large for a memory size"},
      {"run 2 s", "10min"},
      {"run 9000min", "longer than a day"},
      {"run .0s", "run must be above 0"},
      {"load objects=0", "a load needs objects"},
      {"load objects=1e9", "at most 100000"},
      {"load colour=1", "unknown 'colour'"},
      {"load", ""},
      {"governor speed 1", "governor has no 'speed'"},
      {"governor cap 0B", "the cap is 0"},
      {"governor tick 0s", "positive"},
      {"at 1s", "unknown event"},
      {"at 1s hover 1MiB by 2MiB every 1s for 1s", "hover"},
      {"at 1s hover 1MiB by 1MiB every 0s for 1s", "hover"},
      {"at 1s gauge explodes for 1s", "'freezes' or is 'silent'"},
      {"at 1s external 1GiB now", "unexpected 'now'"},
      {"expect luck", "unknown expectation"},
      {"expect oom = 0", "'<=' or '>='"},
  };
  for (const auto& c : kCases) {
    const auto read = parse_pressure_script(std::string("\n") + c.line + "\n");
    if (*c.said == '\0') {
      EXPECT_TRUE(read.has_value()) << c.line;
      continue;
    }
    ASSERT_FALSE(read.has_value()) << c.line;
    EXPECT_NE(read.error().message.find(c.said), std::string::npos) << read.error().message;
  }
  EXPECT_NE(parse_pressure_script("\nrun x").error().message.find("line 2:"), std::string::npos);
}

// --- the governor
// ----------------------------------------------------------------------------------

TEST(Pressure, ReleasesMemoryUnderARamp) {
  const PressureReport report =
      governed(std::string(kSmall) + "at 0s external 8GiB\nat 8s external 14GiB in 1s\nrun 15s\n");
  EXPECT_EQ(report.oom, 0U);
  EXPECT_EQ(report.violations, 0U);
  EXPECT_GT(report.entries, 100U) << "entries that fit remain";
  EXPECT_LE(report.release_percentile(100), 60ms);
}

TEST(Pressure, m16_a_burst_inside_two_seconds_is_survived) {
  const std::string burst = std::string(kSmall) +
                            "at 0s external 2GiB\nat 10500ms external 15500MiB in 1s\n"
                            "at 11800ms external 2GiB\nrun 15s\n";
  EXPECT_EQ(governed(burst).oom, 0U);
  EXPECT_GT(seed(burst).oom, 0U) << "over before its second check";
}

TEST(Pressure, HoverMakesAtMostOneTransitionWhereTheSeedFlaps) {
  const std::string hover =
      "memory 16GiB\ngovernor cap 4GiB\nload objects=100 size=4MiB zipf=0.5 per_second=300\n"
      "at 0s external 13525MiB\nat 5s hover 13525MiB by 60MiB every 100ms for 50s\nrun 60s\n"
      "expect transitions <= 1 between 5s and 55s\n";
  const PressureReport report = governed(hover);
  EXPECT_TRUE(report.fine()) << report.expectations[0].found;
  EXPECT_EQ(report.entries, 100U);
  EXPECT_GE(seed(hover).changes.size(), 10U);
}

TEST(Pressure, m1_the_seed_keeps_nothing_under_steady_pressure) {
  const std::string steady = std::string(kSmall) + "at 0s external 14500MiB\nrun 20s\n";
  EXPECT_LE(seed(steady).entries, 8U);
  EXPECT_GE(governed(steady).entries, 100U);
}

TEST(Pressure, m12_the_seeds_block_sticks_and_ours_does_not) {
  const std::string sticky =
      std::string(kSmall) + "at 0s external 2GiB\nat 10s external 12700MiB in 1s\nrun 40s\n";
  EXPECT_FALSE(seed(sticky).open);
  EXPECT_TRUE(governed(sticky).open);
}

TEST(Pressure, m10_a_silent_gauge_is_not_calm) {
  const std::string silence =
      std::string(kSmall) + "at 0s external 2GiB\nat 9s gauge silent for 60s\nrun 20s\n";
  EXPECT_EQ(governed(silence).changes.back().to, PressureMode::kPressure);
  EXPECT_TRUE(seed(silence).changes.empty()) << "relaxed throughout";
}

TEST(Pressure, TheSameScriptGivesTheSameReport) {
  const std::string text = std::string(kSmall) +
                           "at 0s external 2GiB\nat 3s allocate 9GiB for 1s\n"
                           "at 5s hover 10GiB by 1GiB every 30ms for 3s\nrun 10s\n";
  const auto told = [&] { return to_json(governed(text), seed(text)); };
  EXPECT_EQ(told(), told());
}

TEST(Pressure, ReportsAnUnmetExpectation) {
  const PressureReport report =
      governed(std::string(kSmall) + "run 1s\nexpect entries >= 100000\n");
  EXPECT_FALSE(report.fine());
  EXPECT_NE(to_table(report, report).find("NOT MET  expect entries >= 100000"), std::string::npos);
}

/// For any behaviour of other users within the limits for which the reserve was chosen.
TEST(PressureProperty, RandomScriptsNeverBreakTheBudget) {
  for_each_seed(4, [](Rng& rng) {
    PressureScript random = script(std::string(kSmall) + "governor reserve 2GiB\nrun 20s\n");
    random.load.seed = rng.next();
    Bytes external = 0_B;
    for (Duration at = 0s; at < 20s;) {
      PressureEvent event{.at = at};
      event.bytes = Bytes(rng.below((14_GiB).value()));
      // At most 2 GiB in the 55 ms until the governor has read the gauge and acted.
      const double apart = std::abs(static_cast<double>(event.bytes.value()) -
                                    static_cast<double>(external.value()));
      event.lasts = Duration(static_cast<Duration::rep>(apart / 0x1p31 * 55e6)) + 50ms +
                    Duration(rng.below(1'000'000'000));
      external = event.bytes;
      random.events.push_back(event);
      at += event.lasts;
      at += Duration(rng.below(2'000'000'000));
    }
    const PressureReport report = run_pressure(random, PressureRules::kGovernor);
    EXPECT_EQ(report.oom, 0U);
    EXPECT_EQ(report.violations, 0U);
    EXPECT_LE(report.peak, random.governor.cap);
  });
}

}  // namespace
}  // namespace afterimage

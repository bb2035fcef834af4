// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/simulation/simulation_settings.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

const std::vector<std::string>& known() {
  static const std::vector<std::string> kKnown = {"cluster.nodes", "cluster.policy", "node.memory",
                                                  "node.load_always"};
  return kKnown;
}

TEST(SimulationSettings, AreReadLikeFlagValues) {
  const auto read = parse_simulation_settings(
      "[cluster]\nnodes = [1, 10]\npolicy = 'lru'\n\n[node]\nload_always = true\nmemory = 1.5\n",
      "file", known());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const std::vector<SimulationSetting> expected = {
      {.key = "cluster.nodes", .values = {"1", "10"}, .list = true, .line = 2},
      {.key = "cluster.policy", .values = {"lru"}, .line = 3},
      {.key = "node.load_always", .values = {"true"}, .line = 6},
      {.key = "node.memory", .values = {"1.5"}, .line = 7}};
  EXPECT_EQ(*read, expected);
}

TEST(SimulationSettings, ConvertsEveryKindOfValueToText) {
  const auto read = parse_simulation_settings(
      "[cluster]\nnodes = [1]\npolicy = ['a,b', \"c\\nd\"]\n[node]\nload_always = false\nmemory = "
      "[-7, true, 1e300, 0.1]\n",
      "file", known());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const std::vector<SimulationSetting> expected = {
      {.key = "cluster.nodes", .values = {"1"}, .list = true, .line = 2},
      {.key = "cluster.policy", .values = {"a,b", "c\nd"}, .list = true, .line = 3},
      {.key = "node.load_always", .values = {"false"}, .line = 5},
      {.key = "node.memory", .values = {"-7", "true", "1e+300", "0.1"}, .list = true, .line = 6}};
  EXPECT_EQ(*read, expected);
}

TEST(SimulationSettings, AcceptsAFileOfExactlyOneMebibyteAndAnEmptyOne) {
  EXPECT_TRUE(parse_simulation_settings("", "file", known()).value().empty());
  EXPECT_TRUE(
      parse_simulation_settings(std::string(1U << 20U, ' '), "file", known()).value().empty());
  EXPECT_TRUE(parse_simulation_settings("[node]\n", "file", known()).value().empty());
}

TEST(SimulationSettings, ReportsAllProblemsOnePerLine) {
  const auto read = parse_simulation_settings(
      "[node]\nx = 1\nmemory = nan\n[rack]\n[cluster]\nnodes = 3\n", "file", known());
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().message,
            "file:3: node.memory: expected a string, a finite number, true or false, or a list of "
            "these\n"
            "file:2: node.x: unknown key; the keys are memory load_always\n"
            "file:4: rack: unknown section; the sections are cluster node");
}

TEST(SimulationSettings, ReportsProblemsWithTheValidNames) {
  const struct {
    const char* name;
    std::string toml;
    const char* says;
  } kCases[] = {
      {"no TOML", "[cluster", "file:1: this is not TOML"},
      {"an unknown key", "\n[node]\nmemorx = 1",
       "file:3: node.memorx: unknown key; the keys "
       "are memory load_always"},
      {"an unknown section", "[rack]\na = 1",
       "file:1: rack: unknown section; the sections are "
       "cluster node"},
      {"a key without a section", "nodes = 1", "file:1: nodes: unknown section"},
      {"a section as a key", "node = 1", "write [node] with its keys below it"},
      {"a table for a value", "[node]\nmemory = {a = 1}",
       "file:2: node.memory: expected a string, a finite"},
      {"a list of lists", "[cluster]\nnodes = [[1]]", "cluster.nodes: expected"},
      {"a list that begins badly", "[cluster]\nnodes = [{a = 1}, 2]", "cluster.nodes: expected"},
      {"an empty list", "[cluster]\nnodes = []", "cluster.nodes: expected"},
      {"infinity", "[node]\nmemory = inf", "node.memory: expected a string, a finite"},
      {"a date", "[node]\nmemory = 2026-01-01", "node.memory: expected"},
      {"two at once", "[node]\nx = 1\ny = 2", "file:3: node.y"},
      {"nested without end", "[cluster]\nnodes = " + std::string(100'000, '['), "not TOML"},
      {"bytes that are no text", "[node]\nmemory = \"\xFF\"", "not TOML"},
      {"too large", std::string((1U << 20U) + 1, ' '), "too large for a settings file"},
  };
  for (const auto& c : kCases) {
    const auto read = parse_simulation_settings(c.toml, "file", known());
    ASSERT_FALSE(read.has_value()) << c.name;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument) << c.name;
    EXPECT_NE(read.error().message.find(c.says), std::string::npos)
        << c.name << ": " << read.error().message;
  }
}

/// A string stays a string, whatever it would be without quotes.
TEST(SimulationSettings, StringsRoundTrip) {
  for (const std::string text : {"",
                                 "0",
                                 "-1",
                                 "-0",
                                 "+1",
                                 "007",
                                 "9223372036854775807",
                                 "9223372036854775808",
                                 "1.5",
                                 "1.50",
                                 "-0.0",
                                 ".5",
                                 "1.",
                                 "1e5",
                                 "1e+20",
                                 "1e400",
                                 "inf",
                                 "-inf",
                                 "nan",
                                 "0x10",
                                 "1_000",
                                 "true",
                                 "false",
                                 "True",
                                 "1979-05-27",
                                 "'",
                                 "\"",
                                 "\\",
                                 "\\n",
                                 "#",
                                 "[1]",
                                 "a = b",
                                 "\n",
                                 "\r\n",
                                 "\t",
                                 "\x1F",
                                 "\x7F",
                                 "…",
                                 "32GiB"}) {
    for (const bool list : {false, true}) {
      const SimulationSetting setting{.key = "node.memory", .values = {text}, .list = list};
      const std::string printed =
          print_simulation_settings(std::vector{DescribedSetting{setting, "x"}});
      const auto read = parse_simulation_settings(printed, "printed", known());
      ASSERT_TRUE(read.has_value()) << printed << read.error().message;
      ASSERT_EQ(read->size(), 1U) << printed;
      EXPECT_EQ(read->front().values, setting.values) << printed;
      EXPECT_EQ(read->front().list, list) << printed;
    }
  }
}

TEST(SimulationSettings, PrintsSectionsWithCommentsAboveSettings) {
  const std::vector<DescribedSetting> all = {
      {{.key = "cluster.nodes", .values = {"1", "10"}, .list = true}, "How many;\n\nseveral"},
      {{.key = "cluster.policy", .values = {"lru"}}, ""},
      {{.key = "node.memory"}, "A node's"},
      {{.key = "node.load_always", .values = {"true"}}, "Always"}};
  EXPECT_EQ(print_simulation_settings(all),
            "[cluster]\n# How many;\n# several\nnodes = [1, 10]\npolicy = \"lru\"\n\n"
            "[node]\n# A node's\n# memory = …\n# Always\nload_always = true\n");
}

TEST(SimulationSettings, PrintedSettingsRoundTrip) {
  const std::vector<DescribedSetting> all = {
      {{.key = "cluster.nodes", .values = {"1", "-0", "007", "1e+20"}, .list = true},
       "How many;\nseveral are compared"},
      {{.key = "cluster.policy", .values = {"a \"b\" \\ \x01"}}, "LeaseStatus"},
      {{.key = "node.memory"}, "Not set"},
      {{.key = "node.load_always", .values = {"false"}}, ""}};
  const std::string text = print_simulation_settings(all);
  EXPECT_NE(text.find("# memory = …\n"), std::string::npos) << text;
  EXPECT_NE(text.find("# several are compared\n"), std::string::npos) << text;
  const auto read = parse_simulation_settings(text, "printed", known());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ASSERT_EQ(read->size(), 3U);
  EXPECT_EQ((*read)[0].values, all[0].setting.values);
  EXPECT_EQ((*read)[1].values, all[1].setting.values);
  EXPECT_EQ((*read)[2].key, "node.load_always");
}

}  // namespace
}  // namespace afterimage

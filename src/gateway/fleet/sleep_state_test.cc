// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/sleep_state.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

std::string metrics(const std::string& engine, int awake, int level_1, int level_2) {
  const auto sample = [&](const std::string& state, int value) {
    return "vllm:engine_sleep_state{engine=\"" + engine + "\",model_name=\"a}b\",sleep_state=\"" +
           state + "\"} " + std::to_string(value) + ".0\n";
  };
  return "# HELP vllm:engine_sleep_state Engine sleep state; awake = 0 means engine is sleeping\n"
         "# TYPE vllm:engine_sleep_state gauge\n" +
         sample("awake", awake) + sample("weights_offloaded", level_1) +
         sample("discard_all", level_2) + "vllm:num_requests_running{engine=\"0\"} 0.0\n";
}

std::optional<bool> read(const std::string& text) {
  SleepState state;
  state.feed(text);
  SleepState pieces;
  for (const char c : text) pieces.feed({&c, 1});
  EXPECT_EQ(state.asleep(), pieces.asleep());
  return state.asleep();
}

TEST(SleepState, ReadsWhetherAnEngineSleeps) {
  EXPECT_EQ(read(metrics("0", 1, 0, 0)), false);
  EXPECT_EQ(read(metrics("0", 0, 1, 0)), true);
  EXPECT_EQ(read(metrics("0", 0, 0, 1)), true);
  EXPECT_EQ(read(metrics("0", 0, 0, 0)), true) << "level 0, or its KV cache was released";
  EXPECT_EQ(read(metrics("0", 1, 0, 0) + metrics("1", 0, 1, 0)), true) << "one of two engines";
}

TEST(SleepState, OtherServersDoNotSay) {
  EXPECT_FALSE(read("").has_value());
  EXPECT_FALSE(read("sglang:num_running_reqs 1\n").has_value());
  EXPECT_FALSE(read("vllm:engine_sleep_state{sleep_state=\"awake\"} x\n").has_value());
  EXPECT_FALSE(read("vllm:engine_sleep_state{sleep_state=\"awake\"").has_value());
  EXPECT_EQ(read(std::string(10'000, 'x') + "\n" + metrics("0", 0, 1, 0)), true);
}

}  // namespace
}  // namespace afterimage

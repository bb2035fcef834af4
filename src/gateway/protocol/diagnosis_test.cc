// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/protocol/diagnosis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace afterimage {
namespace {

using State = PromptDiagnosis::State;

PromptDiagnosis parted(PartKind kind, std::uint32_t index = 0) {
  PromptDivergence divergence{.shared_bytes = 400, .total_bytes = 4000, .lost_bytes = 2000};
  divergence.part = PartPlace{.kind = kind, .index = index};
  return {.state = State::kCompared, .divergence = divergence};
}

std::uint32_t index_of(std::string_view field) {
  const auto fields = prompt_fields();
  return static_cast<std::uint32_t>(std::ranges::find(fields, field) - fields.begin());
}

TEST(PromptDiagnosis, SaysItInTheWordsOfBothProtocols) {
  const PromptDiagnosis kept{
      .state = State::kCompared,
      .divergence = {.shared_bytes = 400, .total_bytes = 400, .lost_bytes = 0}};
  const auto anthropic = [](const std::string& type) {
    return R"({"cache_miss_reason":{"type":")" + type + R"(","cache_missed_input_tokens":500}})";
  };
  const auto openai = [](const std::string& reason) {
    return R"({"type":"cache_miss","reason":")" + reason +
           R"(","cache_missed_tokens":500,"comparison_reusable_tokens":100})";
  };
  const std::string unavailable = R"({"cache_miss_reason":{"type":"unavailable"}})";
  const std::string not_available = R"({"type":"unavailable"})";
  const struct {
    const char* name;
    PromptDiagnosis diagnosis;
    std::string messages;
    std::string responses;
  } kCases[] = {
      {"nothing to compare with", {}, "null", "null"},
      {"answered from the cache", {.state = State::kAnswered}, "null", R"({"type":"cache_hit"})"},
      {"not found",
       {.state = State::kNotFound},
       R"({"cache_miss_reason":{"type":"previous_message_not_found"}})",
       R"({"type":"comparison_response_not_found"})"},
      {"not compared", {.state = State::kNotCompared}, unavailable, not_available},
      {"goes on", kept, "null", R"({"type":"cache_hit"})"},
      {"model", parted(PartKind::kModel), anthropic("model_changed"), openai("model_changed")},
      {"tools", parted(PartKind::kTools, 3), anthropic("tools_changed"), openai("tools_changed")},
      {"system", parted(PartKind::kSystem), anthropic("system_changed"), openai("input_changed")},
      {"a message", parted(PartKind::kMessages, 2), anthropic("messages_changed"),
       openai("input_changed")},
      {"a picture", parted(PartKind::kMedia), anthropic("messages_changed"),
       openai("input_changed")},
      {"effort", parted(PartKind::kParameters, index_of("reasoning_effort")), unavailable,
       openai("reasoning_effort_changed")},
      {"another parameter", parted(PartKind::kParameters, index_of("documents")), unavailable,
       not_available},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(messages_diagnostics(c.diagnosis, 1000), c.messages) << c.name;
    EXPECT_EQ(responses_diagnostics(c.diagnosis, 1000), c.responses) << c.name;
  }
}

TEST(PromptDiagnosis, ATokenIsFourBytesUntilTheServerSaysHowManyThereAre) {
  const PromptDiagnosis diagnosis = parted(PartKind::kModel);
  EXPECT_EQ(diagnosis.tokens_of(2000, 0), 500U);
  EXPECT_EQ(diagnosis.tokens_of(2000, 800), 400U);
  EXPECT_EQ(PromptDiagnosis{}.tokens_of(40, 800), 10U) << "an empty prompt";
}

}  // namespace
}  // namespace afterimage

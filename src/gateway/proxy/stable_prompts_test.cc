// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// prompt.stabilise before a model's server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "testing/running_gateway.h"

namespace afterimage {
namespace {

using testing::ask;
using ::testing::HasSubstr;
using testing::json;
using testing::Running;
using testing::Said;

constexpr const char* kStable = "[prompt]\nstabilise = [\"tool-order\", \"date-line\"]\n";

std::string chat_with(const std::string& tools, const std::string& system) {
  return R"({"model":"m","temperature":0,"tools":[)" + tools +
         R"(],"messages":[{"role":"system","content":")" + system +
         R"("},{"role":"user","content":"Q"}]})";
}
std::string tool_named(const std::string& name) {
  return R"({"type":"function","function":{"name":")" + name + R"(","parameters":{}}})";
}

TEST(StablePrompts, EqualToolsInAnotherOrderAreOneEntry) {
  Running running(kStable);
  const std::string a = tool_named("a");
  const std::string b = tool_named("b");
  const Said first = running.chat(chat_with(b + "," + a, "Help."));
  EXPECT_EQ(first.header("X-Cache"), "MISS");
  EXPECT_EQ(first.header("X-Afterimage-Stabilised"), "tools");
  EXPECT_EQ(*running.model.last().body, chat_with(a + "," + b, "Help."));
  const Said second = running.chat(chat_with(a + "," + b, "Help."));
  EXPECT_EQ(second.header("X-Cache"), "HIT");
  EXPECT_EQ(second.header("X-Afterimage-Stabilised"), "");
}

TEST(StablePrompts, DecisionsAndMetricsNameTheChange) {
  Running running(kStable);
  const Said said = running.chat(chat_with("", "Help.\\nToday is 2026-11-29.\\nBe brief."));
  EXPECT_EQ(said.header("X-Afterimage-Stabilised"), "messages[0]");
  const json sent = json::parse(*running.model.last().body);
  EXPECT_EQ(sent["messages"][0]["content"], "Help.\nBe brief.");
  EXPECT_EQ(sent["messages"][1]["content"], "Q\n\nToday is 2026-11-29.");
  const json last = running.admin("GET", "/admin/api/decisions");
  const json decision =
      running.admin("GET", "/admin/api/decisions/" + std::to_string(last["last"].get<int>()));
  EXPECT_EQ(decision["stabilised"],
            json::array({{{"change", "date-line"}, {"place", "messages[0]"}}}));
  EXPECT_THAT(ask(running.service->admin_port(), "GET", "/metrics", "").body,
              HasSubstr("afterimage_prompt_stabilised_total{change=\"date-line\"} 1\n"));
}

TEST(StablePrompts, HoldForOtherApisToo) {
  Running running(kStable);
  const std::string tools =
      R"("tools":[{"name":"b","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}])";
  const Said said = ask(
      running.service->port(), "POST", "/v1/messages",
      R"({"model":"m","max_tokens":9,"system":"Date: 2026-11-29","messages":[{"role":"user","content":"Q"}],)" +
          tools + "}");
  EXPECT_EQ(said.header("X-Afterimage-Stabilised"), "tools, messages[0]");
  const json sent = json::parse(*running.model.last().body);
  EXPECT_EQ(sent["tools"][0]["function"]["name"], "a");
  EXPECT_EQ(sent["messages"].size(), 1U);
}

TEST(StablePrompts, BillingLinesStayIfTheyAreNotListed) {
  const std::string line = "x-anthropic-billing-header: cch=1;\\n\\nHelp.";
  const std::string chat = chat_with("", line);
  const std::string message = R"({"model":"m","max_tokens":9,"system":")" + line +
                              R"(","messages":[{"role":"user","content":"Q"}]})";
  const std::string response = R"({"model":"m","instructions":")" + line + R"(","input":"Q"})";
  for (const bool keeps : {true, false}) {
    Running running(keeps ? "[prompt]\nstabilise = []\n" : "");
    for (const auto& [path, body] :
         std::map<std::string, std::string>{{"/v1/chat/completions", chat},
                                            {"/v1/messages", message},
                                            {"/v1/responses", response}}) {
      const Said said = running.post(path, body);
      EXPECT_EQ(running.model.last().body->contains("cch=1"), keeps) << path;
      EXPECT_EQ(said.header("X-Afterimage-Ignored").empty(), keeps) << path;
    }
    const std::string metrics = ask(running.service->admin_port(), "GET", "/metrics", "").body;
    EXPECT_EQ(metrics.contains("afterimage_prompt_stabilised_total{change=\"billing-lines\"} 3\n"),
              !keeps);
  }
}

}  // namespace
}  // namespace afterimage

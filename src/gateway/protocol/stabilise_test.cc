// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/protocol/stabilise.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testing/seeds.h"

namespace afterimage {
namespace {

using nlohmann::json;
using testing::for_each_seed;

constexpr Stabilising kTools{.tool_order = true};
constexpr Stabilising kSchemas{.schema_keys = true};
constexpr Stabilising kDates{.date_line = true};
constexpr Stabilising kAll{
    .billing_lines = true, .tool_order = true, .schema_keys = true, .date_line = true};

/// "place: change, …" and the body; empty: nothing was changed.
std::string made(const std::string& chat, const Stabilising& may) {
  const auto stable = stabilised(chat, may);
  if (!stable.has_value()) return "";
  std::string said;
  for (const auto& part : stable->parts) said += std::string(part.change) + " " + part.place + "; ";
  return said + stable->body;
}

std::string tool(const std::string& name, const std::string& parameters = "{}") {
  return R"({"type":"function", "function":{"name":")" + name + R"(","parameters":)" + parameters +
         "}}";
}
std::string with_tools(const std::string& tools) {
  return R"({ "model":"m","tools":)" + tools + R"(,"messages":[] , "n":1.0 })";
}

TEST(Stabilise, ToolsAreSortedByName) {
  const std::string a = tool("a");
  const std::string b = tool("b");
  EXPECT_EQ(made(with_tools("[ " + b + " , " + a + "]"), kTools),
            "tool-order tools; " + with_tools("[" + a + "," + b + "]"));
  EXPECT_EQ(made(with_tools("[ " + a + " , " + b + "]"), kTools), "") << "sorted already";
  EXPECT_EQ(made(with_tools("[]"), kTools), "");
  EXPECT_EQ(made(with_tools("7"), kTools), "");
  EXPECT_EQ(made("no JSON", kTools), "");
  EXPECT_EQ(made(with_tools("[" + b + "," + a + "]"), kSchemas), "") << "not asked for";
}

TEST(Stabilise, ToolsOfOneNameKeepTheirOrder) {
  const std::string first = tool("b", "1");
  const std::string second = tool("b", "2");
  const std::string a = tool("a");
  EXPECT_EQ(made(with_tools("[" + first + "," + second + "," + a + "]"), kTools),
            "tool-order tools; " + with_tools("[" + a + "," + first + "," + second + "]"));
}

TEST(Stabilise, MembersOfSchemasAreSorted) {
  const std::string mixed =
      R"({"type": "object","properties":{"b":{"type":"number","maximum":1.50},"a":[{"y":1,"x":2}]},"required":["b","a"]})";
  const std::string sorted =
      R"({"properties":{"a":[{"x":2,"y":1}],"b":{"maximum":1.50,"type":"number"}},"required":["b","a"],"type":"object"})";
  const std::string a = tool("a", R"({ "type":"object" })");
  EXPECT_EQ(made(with_tools("[" + a + " , " + tool("b", mixed) + "]"), kSchemas),
            "schema-keys tools[1].function.parameters; " +
                with_tools("[" + a + " , " + tool("b", sorted) + "]"));
  EXPECT_EQ(made(with_tools("[" + tool("b", mixed) + "," + a + "]"), kAll),
            "schema-keys tools[0].function.parameters; tool-order tools; " +
                with_tools("[" + a + "," + tool("b", sorted) + "]"));
}

std::string chat(const std::string& messages) { return R"({"messages":)" + messages + "}"; }

TEST(Stabilise, DateLinesGoToTheLastMessageOfTheUser) {
  const struct {
    const char* name;
    std::string before;
    std::string after;
  } kCases[] = {
      {"between lines",
       R"([{"role":"system", "content":"Help.\nToday's date is 2026-11-29.\nBe brief."},{"role":"user","content":"Hi"}])",
       R"(date-line messages[0]; [{"role":"system", "content":"Help.\nBe brief."},{"role":"user","content":"Hi\n\nToday's date is 2026-11-29."}])"},
      {"the last line",
       R"([{"role":"system","content":"Help.\nCurrent time: 12:30:01"},{"role":"user","content":"Hi"}])",
       R"(date-line messages[0]; [{"role":"system","content":"Help."},{"role":"user","content":"Hi\n\nCurrent time: 12:30:01"}])"},
      {"nothing else",
       R"([{"role":"developer","content":"Today is Sunday, 29 November"},{"role":"user","content":"Hi"}])",
       R"(date-line messages[0]; [{"role":"user","content":"Hi\n\nToday is Sunday, 29 November"}])"},
      {"parts, and an answer before the last question",
       R"([{"role":"system","content":[{"type":"text","text":"Help."},{"type":"text","text":"Date: 2026/11/29","x":1}]},{"role":"user","content":"A"},{"role":"assistant","content":"B"},{"role":"user","content":[{"type":"text","text":"C"}]}])",
       R"(date-line messages[0].content[1]; [{"role":"system","content":[{"type":"text","text":"Help."}]},{"role":"user","content":"A"},{"role":"assistant","content":"B"},{"role":"user","content":[{"type":"text","text":"C"},{"type":"text","text":"Date: 2026/11/29"}]}])"},
      {"two lines",
       R"([{"role":"system","content":"Date: 29.11.2026\nNow: 12:30\r\nHelp."},{"role":"user","content":"Hi"}])",
       R"(date-line messages[0]; [{"role":"system","content":"Help."},{"role":"user","content":"Hi\n\nDate: 29.11.2026\nNow: 12:30"}])"},
      {"said by the user", R"([{"role":"user","content":"Today is 2026-11-29"}])", ""},
      {"no user", R"([{"role":"system","content":"Today is 2026-11-29"}])", ""},
      {"after the user",
       R"([{"role":"user","content":"Hi"},{"role":"system","content":"Today is 2026-11-29"}])", ""},
      {"no messages", "7", ""},
  };
  for (const auto& c : kCases) {
    const std::string expected = c.after.empty() ? ""
                                                 : c.after.substr(0, c.after.find("; ") + 2) +
                                                       chat(c.after.substr(c.after.find("; ") + 2));
    EXPECT_EQ(made(chat(c.before), kDates), expected) << c.name;
    EXPECT_EQ(made(chat(c.before), kTools), "") << c.name;
  }
}

TEST(Stabilise, DateLinesSayWhatTimeItIsNow) {
  for (const char* line :
       {"Today's date is 2026-11-29.", "  Today's date: Sun Nov 29 2026", "Current time: 9:05 am",
        "The current date and time is 2026-11-29T03:21:53Z", "Today is Sunday.",
        "timestamp: 1795922513", "Date: 11/29/2026", "<current_date>29 November</current_date>",
        "It is now 12:30."}) {
    EXPECT_TRUE(is_date_line(line)) << line;
  }
  for (const char* line :
       {"", "Today you help.", "Refunds of orders before 2024-01-01 are not accepted.",
        "Opening hours: 09:00-17:00 local time", "Update the record of 2026-11-29.",
        "Use the current version 1.2.", "See https://example.org:8080/today", "Date of birth"}) {
    EXPECT_FALSE(is_date_line(line)) << line;
  }
  EXPECT_FALSE(is_date_line("Today is 2026-11-29." + std::string(200, 'x'))) << "a text";
}

std::string random_chat(Rng& rng) {
  static const std::vector<std::string> kLines = {
      "Help.", "Today is 2026-11-29", "", "Now: 12:30", "\"quoted\" \\ ü", "Be brief. "};
  json chat = {{"model", "m"}, {"tools", json::array()}, {"messages", json::array()}};
  for (std::uint64_t i = rng.below(5); i > 0; --i) {
    json schema = json::parse(rng.below(2) == 0 ? R"({"a":{"x":1},"b":[{"c":1}]})" : "{}");
    json made = {{"type", "function"}};
    made["function"]["name"] = std::string(1, static_cast<char>('a' + rng.below(4)));
    made["function"]["parameters"] = schema;
    chat["tools"].push_back(made);
  }
  for (std::uint64_t i = rng.below(6); i > 0; --i) {
    std::string text;
    for (std::uint64_t lines = rng.below(4); lines > 0; --lines) {
      text += kLines[rng.below(kLines.size())] + (rng.below(3) > 0 ? "\n" : "");
    }
    const char* const roles[] = {"system", "user", "assistant", "developer"};
    json content = text;
    if (rng.below(2) == 0) content = json::array({{{"type", "text"}, {"text", text}}});
    chat["messages"].push_back({{"role", roles[rng.below(4)]}, {"content", content}});
  }
  return chat.dump();
}

std::multimap<std::string, json> tools_of(const std::string& body) {
  std::multimap<std::string, json> tools;
  const json chat = json::parse(body);
  for (const json& one : chat["tools"]) tools.emplace(one["function"]["name"], one);
  return tools;
}

TEST(StabiliseProperty, TheResultIsJsonWithTheSameToolsAndMakingItAgainChangesNothing) {
  for_each_seed(500, [](Rng& rng) {
    const std::string body = random_chat(rng);
    const Stabilising may{.tool_order = rng.below(2) == 0,
                          .schema_keys = rng.below(2) == 0,
                          .date_line = rng.below(2) == 0};
    const auto stable = stabilised(body, may);
    if (!stable.has_value()) return;
    ASSERT_TRUE(json::accept(stable->body)) << stable->body;
    EXPECT_FALSE(stable->parts.empty());
    EXPECT_EQ(stabilised(stable->body, may), std::nullopt) << body << "\n" << stable->body;
    EXPECT_EQ(tools_of(stable->body), tools_of(body));
  });
}

}  // namespace
}  // namespace afterimage

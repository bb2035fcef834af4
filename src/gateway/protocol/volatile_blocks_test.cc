// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/protocol/volatile_blocks.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

constexpr const char* kLine = "x-anthropic-billing-header: cc_version=2.1; cch=00a1b;";

TEST(VolatileLines, AreTheBeginningOfAText) {
  const std::string line = kLine;
  EXPECT_EQ(without_volatile_line(line), "");
  EXPECT_EQ(without_volatile_line(line + "\n\n"), "");
  EXPECT_EQ(without_volatile_line(line + "\n\nYou help.\nBe brief."), "You help.\nBe brief.");
  EXPECT_EQ(without_volatile_line("See: " + line), "See: " + line);
  EXPECT_EQ(without_volatile_line(""), "");
}

TEST(VolatileLines, LeaveAChatsSystemMessages) {
  const std::string user = R"({ "role":"user","content":"x-anthropic-billing-header: mine" })";
  const auto chat = [&](const std::string& system) {
    return R"({"model":"m", "messages": [)" + system + user + R"(], "n" : 1})";
  };
  const std::string line = std::string("\"") + kLine;
  const struct {
    const char* name;
    std::string system;
    std::string expected;
    std::vector<std::string> left_out;
  } kCases[] = {
      {"a string",
       R"({"role":"system","content":)" + line + R"(\n\nHelp.", "x":[ 1]},)",
       R"({"role":"system","content":"Help.", "x":[ 1]},)",
       {"messages[0].content"}},
      {"nothing else",
       R"({"role":"system","content":)" + line + R"("},)",
       "",
       {"messages[0].content"}},
      {"a part",
       R"({"role":"developer","content":[{"type":"text","text":)" + line +
           R"("},{"type":"text","text":"Help."}]},)",
       R"({"role":"developer","content":[{"type":"text","text":"Help."}]},)",
       {"messages[0].content[0]"}},
      {"the beginning of a part",
       R"({"role":"system","content":[{"type":"text","text":)" + line + R"(\nHelp.","x":1}]},)",
       R"({"role":"system","content":[{"type":"text","text":"Help.","x":1}]},)",
       {"messages[0].content[0]"}},
      {"no other part",
       R"({"role":"system","content":[{"type":"text","text":)" + line + R"("}]},)",
       "",
       {"messages[0].content[0]"}},
      {"two messages",
       R"({"role":"system","content":)" + line + R"("},{"role":"system","content":)" + line +
           R"(\nB"},)",
       R"({"role":"system","content":"B"},)",
       {"messages[0].content", "messages[1].content"}},
  };
  for (const auto& c : kCases) {
    const auto made = without_volatile_lines(chat(c.system));
    ASSERT_TRUE(made.has_value()) << c.name;
    EXPECT_EQ(made->body, chat(c.expected)) << c.name;
    EXPECT_EQ(made->left_out, c.left_out) << c.name;
  }
  EXPECT_EQ(without_volatile_lines(chat("")), std::nullopt) << "a user may say so";
  EXPECT_EQ(without_volatile_lines(chat(R"({"role":"system","content":"Help."},)")), std::nullopt);
  EXPECT_EQ(without_volatile_lines(R"({"messages":"\"x-anthropic-billing-header:"})"),
            std::nullopt);
  EXPECT_EQ(without_volatile_lines(R"(["x-anthropic-billing-header:)"), std::nullopt);
}

}  // namespace
}  // namespace afterimage

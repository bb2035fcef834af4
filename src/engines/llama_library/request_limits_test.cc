// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/request_limits.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

using ::testing::HasSubstr;
using Limits = RequestLimits;

std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

void expect_refused(const Result<void>& checked, std::string_view why) {
  ASSERT_FALSE(checked.has_value()) << why;
  EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(checked.error().message, HasSubstr(why));
}

std::string grouped(std::size_t depth) {
  return "root ::= " + repeated("(", depth) + "\"a\"" + repeated(")", depth);
}

TEST(RequestLimits, OfTheGroupsInAGrammar) {
  EXPECT_TRUE(check_grammar("").has_value());
  EXPECT_TRUE(check_grammar(grouped(Limits::kDepth)).has_value());
  expect_refused(check_grammar(grouped(Limits::kDepth + 1)), "groups inside each other");
}

TEST(RequestLimits, QuotedBracketsOfAGrammarAreNoGroups) {
  const std::string many = repeated("(", 2 * Limits::kDepth);
  for (const std::string& quoted : {"\"" + many + "\\\"(\"", "[" + many + "\\](]", "# " + many}) {
    EXPECT_TRUE(check_grammar("root ::= \"a\" " + quoted + "\n").has_value()) << quoted;
  }
}

TEST(RequestLimits, OfTheRulesInAGrammar) {
  const std::string most = repeated("a ::= \"b\"\n", Limits::kGrammarRules);
  EXPECT_TRUE(check_grammar(most).has_value());
  expect_refused(check_grammar(most + "root ::= a"), "10001 rules");
}

/// A response format with this schema, and tools that take it.
void expect_both(const std::string& schema, const char* why) {
  Request formatted;
  formatted.rules.response_format =
      R"({"type":"json_schema","json_schema":{"name":"n","schema":)" + schema + "}}";
  Request tooled;
  tooled.rules.tools =
      R"([{"type":"function","function":{"name":"f","parameters":)" + schema + "}}]";
  for (const Request* request : {&formatted, &tooled}) {
    const auto checked = check_request(*request);
    if (why == nullptr) {
      EXPECT_TRUE(checked.has_value()) << checked.error().message;
    } else {
      expect_refused(checked, why);
    }
  }
}

std::string with_pattern(std::size_t depth) {
  return R"({"type":"string","pattern":"^)" + repeated("(", depth) + "a" + repeated(")", depth) +
         R"($"})";
}

TEST(RequestLimits, OfAPatternInASchema) {
  expect_both(with_pattern(Limits::kDepth), nullptr);
  expect_both(with_pattern(Limits::kDepth + 1), "'pattern'");
  expect_both(R"({"type":"string","pattern":"^)" + repeated("\\\\(", 200) + R"($"})", nullptr);
}

std::string with_members(std::size_t optional, std::size_t required) {
  std::string members;
  std::string names;
  for (std::size_t i = 0; i < optional + required; ++i) {
    const std::string name = "\"m" + std::to_string(i) + "\"";
    members += (i == 0 ? "" : ",") + name + R"(:{"type":"null"})";
    if (i >= optional) names += (names.empty() ? "" : ",") + name;
  }
  return R"({"type":"object","properties":{)" + members + R"(},"required":[)" + names + "]}";
}

TEST(RequestLimits, OfTheOptionalMembersInASchema) {
  expect_both(with_members(Limits::kOptionalMembers, 1'000), nullptr);
  expect_both(with_members(Limits::kOptionalMembers + 1, 0), "257 optional members");
}

TEST(RequestLimits, OfTheNamesInASchema) {
  const auto named = [](std::size_t length) {
    return R"({"type":"object","properties":{")" + std::string(length, '_') + R"(":{}}})";
  };
  expect_both(named(Limits::kName), nullptr);
  expect_both(named(Limits::kName + 1), "a member's name");
  expect_both(R"({"$ref":"#/)" + std::string(Limits::kName, '_') + R"("})", "$ref");
}

TEST(RequestLimits, OfAToolsName) {
  Request request;
  request.rules.tools = R"([{"type":"function","function":{"name":")" +
                        std::string(Limits::kName + 1, '-') + R"("}}])";
  expect_refused(check_request(request), "a tool's name");
}

/// "#/$defs/d0" leads to d1, and so on; the last one is a string.
std::string with_chain(std::size_t length) {
  std::string definitions;
  for (std::size_t i = 0; i + 1 < length; ++i) {
    definitions += fmt::format(R"("d{}":{{"$ref":"#/$defs/d{}"}},)", i, i + 1);
  }
  definitions += fmt::format(R"("d{}":{{"type":"string"}})", length - 1);
  return R"({"$defs":{)" + definitions + R"(},"allOf":[{"$ref":"#/$defs/d0"}]})";
}

TEST(RequestLimits, OfReferencesThatLeadToReferences) {
  expect_both(with_chain(Limits::kReferenceChain), nullptr);
  expect_both(with_chain(Limits::kReferenceChain + 2), "perhaps in a circle");
}

TEST(RequestLimits, ASchemaOfATreeIsTaken) {
  expect_both(R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object",)"
              R"("properties":{"left":{"$ref":"#/$defs/t"},"right":{"$ref":"#/$defs/t"}}}}})",
              nullptr);
}

TEST(RequestLimits, OfTheReferencesInASchema) {
  const auto with_references = [](std::size_t count) {
    std::string all;
    for (std::size_t i = 0; i < count; ++i) {
      all += fmt::format(R"({}{{"$ref":"#/$defs/d{}"}})", i == 0 ? "" : ",", i);
    }
    return R"({"anyOf":[)" + all + "]}";
  };
  expect_both(with_references(Limits::kReferences), nullptr);
  expect_both(with_references(Limits::kReferences + 1), "too many different $refs");
}

TEST(RequestLimits, OfTheLevelsInACallsArguments) {
  const auto called = [](const std::string& arguments) {
    Request request;
    request.messages.push_back({.role = Role::kAssistant, .parts = {}});
    request.messages.back().tool_calls.push_back({.id = "1", .name = "f", .arguments = arguments});
    return check_request(request);
  };
  const std::string most = repeated("[", Limits::kDepth) + repeated("]", Limits::kDepth);
  EXPECT_TRUE(called(most).has_value());
  EXPECT_TRUE(called(most + most).has_value());
  EXPECT_TRUE(called("{\"a\":\"\\\"" + repeated("[", 200) + "\"}").has_value()) << "in a string";
  expect_refused(called("{\"a\":" + most + "}"), "too many levels");
  expect_refused(called(repeated("[", Limits::kDepth + 1)), "too many levels");
}

TEST(RequestLimits, OfTheLevelsInAnAnswer) {
  const std::string most = repeated("[{", Limits::kAnswerDepth / 2);
  EXPECT_TRUE(check_answer(most).has_value());
  EXPECT_TRUE(check_answer(most + "}" + "(").has_value());
  EXPECT_TRUE(check_answer(repeated("()", 5'000)).has_value());
  const auto refused = check_answer(most + "(");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorruption);
}

TEST(RequestLimits, OfRunsDependOnTheTokenizer) {
  EXPECT_EQ(word_split_of("gpt2", "qwen2"), WordSplit::kByHand);
  EXPECT_EQ(word_split_of("llama", "default"), WordSplit::kByHand) << "SentencePiece";
  EXPECT_EQ(word_split_of("gpt2", "default"), WordSplit::kByClass);
  EXPECT_EQ(word_split_of("gpt2", "tekken"), WordSplit::kByClass);
  EXPECT_EQ(word_split_of("gpt2", "one of tomorrow"), WordSplit::kByClass);
  EXPECT_EQ(word_split_of("gpt2", "bloom"), WordSplit::kByBlanks);
  EXPECT_EQ(word_split_of("gpt2", "exaone-moe"), WordSplit::kThroughBlanks);
  const std::string most(Limits::kRun, 'a');
  EXPECT_TRUE(check_runs(most + "a", WordSplit::kByHand).has_value());
  for (const auto split : {WordSplit::kByClass, WordSplit::kByBlanks, WordSplit::kThroughBlanks}) {
    EXPECT_TRUE(check_runs(most, split).has_value());
    expect_refused(check_runs("b. " + most + "a", split), "in a row");
  }
}

TEST(RequestLimits, OfRunsCountWhatOneMatchTakes) {
  const struct {
    const char* name;
    std::string_view repeated;
    bool by_class, by_blanks, through_blanks;
  } kCases[] = {{"prose", "a word ", true, true, false},
                {"sentences", "A word, and one. ", true, true, true},
                {"JSON without blanks", R"({"a":1,"b":[2,3]},)", true, false, true},
                {"base64", "aGVsbG8gd29ybGQgMTIzNDU2", true, false, true},
                {"blank lines", "\n\n", false, false, false},
                {"words without blanks", "\xE4\xB8\x80\xE4\xB8\xAA", false, false, false},
                {"with full-width commas", "\xE4\xB8\x80\xEF\xBC\x8C", true, false, true}};
  for (const auto& c : kCases) {
    const std::string text = repeated(c.repeated, 5'000);
    EXPECT_EQ(check_runs(text, WordSplit::kByClass).has_value(), c.by_class) << c.name;
    EXPECT_EQ(check_runs(text, WordSplit::kByBlanks).has_value(), c.by_blanks) << c.name;
    EXPECT_EQ(check_runs(text, WordSplit::kThroughBlanks).has_value(), c.through_blanks) << c.name;
  }
}

}  // namespace
}  // namespace afterimage

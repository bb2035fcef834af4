// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/schema_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace afterimage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::set<std::string> of(std::string_view schema) {
  JsonReader reader;
  return unenforced_keywords(reader.read(schema).value());
}

TEST(SchemaLimits, NamesWhatAGrammarLeavesOutOnceAndInOrder) {
  EXPECT_THAT(of(R"({"type":"object","properties":{"a":{"type":"number","minimum":0,"multipleOf":5},
             "b":{"type":"array","items":{"type":"number","maximum":1,"minimum":0},"uniqueItems":true}},
             "required":["a"],"additionalProperties":false})"),
              ElementsAre("maximum", "minimum", "multipleOf", "uniqueItems"));
  EXPECT_THAT(of("{}"), IsEmpty());
  EXPECT_THAT(of(R"({"not":{"type":"string"}})"), ElementsAre("not"));
}

TEST(SchemaLimits, AKeywordThatForbidsNothingOrIsOfAnotherTypeIsNotNamed) {
  EXPECT_THAT(of(R"({"type":"string","minimum":3,"title":"t","description":"d","x-own":1})"),
              IsEmpty());
  EXPECT_THAT(
      of(R"({"type":"object","properties":{},"minProperties":0,"unevaluatedProperties":true})"),
      IsEmpty());
  EXPECT_THAT(of(R"({"type":"array","uniqueItems":false})"), IsEmpty());
}

TEST(SchemaLimits, FollowsReferences) {
  EXPECT_THAT(of(R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{
                      "next":{"$ref":"#/$defs/a"},"n":{"type":"number","minimum":1}}}}})"),
              ElementsAre("minimum"));
  EXPECT_THAT(of(R"({"type":"object","properties":{"a":{"$ref":"#/own/deep"},"b":{"$ref":"#/none"}},
                     "own":{"deep":{"$ref":"#/own/other"},"other":{"type":"number","minimum":1}}})"),
              ElementsAre("minimum"));
  std::string many = R"({"type":"object","properties":{)";
  for (int i = 0; i < 100; ++i) {
    const std::string name = std::to_string(i);
    many += "\"p" + name + R"(":{"$ref":"#/own/)" + name + "\"},";
  }
  EXPECT_THAT(of(many + R"("last":{}},"own":{}})"), ElementsAre("$ref")) << "more than are read";
}

TEST(SchemaLimits, RulesAreNamedByTheirField) {
  const AnswerRules rules{
      .tools =
          R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{
                  "p":{"type":"string","pattern":"^[a-z]+$"},"n":{"type":"number","minimum":0}}}}}])",
      .response_format =
          R"({"type":"json_schema","json_schema":{"schema":{"type":"number","multipleOf":2}}})"};
  EXPECT_THAT(unenforced_rules(rules, CallArguments::kJson),
              ElementsAre("response_format.multipleOf", "tools.minimum"));
  EXPECT_THAT(unenforced_rules(rules, CallArguments::kTaggedText),
              ElementsAre("response_format.multipleOf", "tools.minimum", "tools.pattern"));
  EXPECT_THAT(unenforced_rules(rules, CallArguments::kFree),
              ElementsAre("response_format.multipleOf", "tools.parameters"));
  AnswerRules none = rules;
  none.tool_choice = R"("none")";
  EXPECT_THAT(unenforced_rules(none, CallArguments::kJson),
              ElementsAre("response_format.multipleOf"));
  EXPECT_THAT(unenforced_rules({}, CallArguments::kFree), IsEmpty());
}

}  // namespace
}  // namespace afterimage

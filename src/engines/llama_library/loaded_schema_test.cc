// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What schema_limits.h says of the library's grammars, compared with the grammars.
#include <gtest/gtest.h>
#include <llama-common/json-schema-to-grammar.h>

#include "engines/llama_library/schema_limits.h"

namespace afterimage {
namespace {

std::string grammar_of(const std::string& schema) {
  return json_schema_to_grammar(common_json::parse(schema));
}
std::set<std::string> unenforced_in(const std::string& schema) {
  JsonReader reader;
  return unenforced_keywords(reader.read(schema).value());
}

// A keyword is named if, and only if, its absence changes no grammar.
TEST(LoadedSchema, TheNamedKeywordsAreThoseThatChangeNoGrammar) {
  const struct {
    const char* keyword;
    const char* value;
    const char* rest;
  } kCases[] = {
      {"minimum", "3", R"("type":"integer")"},
      {"maximum", "3", R"("type":"integer")"},
      {"exclusiveMinimum", "3", R"("type":"integer")"},
      {"exclusiveMinimum", "3", R"("type":"integer","minimum":1)"},
      {"exclusiveMaximum", "3", R"("type":"integer","maximum":9)"},
      {"multipleOf", "5", R"("type":"integer")"},
      {"minimum", "3", R"("type":"number")"},
      {"maximum", "3", R"("type":"number")"},
      {"exclusiveMaximum", "3", R"("type":"number")"},
      {"multipleOf", "0.5", R"("type":"number")"},
      {"minimum", "3", R"("type":["integer","null"])"},
      {"minLength", "3", R"("type":"string")"},
      {"maxLength", "3", R"("type":"string")"},
      {"maxLength", "3", R"("type":"string","pattern":"^a+$")"},
      {"maxLength", "3", R"("type":"string","format":"date")"},
      {"format", "\"date\"", R"("type":"string")"},
      {"format", "\"uuid4\"", R"("type":"string")"},
      {"format", "\"email\"", R"("type":"string")"},
      {"format", "\"date\"", R"("type":"string","pattern":"^a+$")"},
      {"pattern", "\"^a+$\"", R"("type":"string")"},
      {"pattern", "\"^a+$\"", R"("type":["string","null"])"},
      {"minItems", "2", R"("type":"array","items":{"type":"string"})"},
      {"maxItems", "2", R"("type":"array","items":{"type":"string"})"},
      {"uniqueItems", "true", R"("type":"array","items":{"type":"string"})"},
      {"contains", R"({"const":1})", R"("type":"array","items":{"type":"string"})"},
      {"prefixItems", R"([{"const":1}])", R"("type":"array","items":{"type":"string"})"},
      {"prefixItems", R"([{"const":1}])", R"("type":"array")"},
      {"maxItems", "1", R"("type":"array","prefixItems":[{"const":1},{"const":2}])"},
      {"required", R"(["a"])", R"("type":"object","properties":{"a":{"type":"string"}})"},
      {"required", R"(["b"])", R"("type":"object","properties":{"a":{"type":"string"}})"},
      {"additionalProperties", R"({"type":"string"})",
       R"("type":"object","properties":{"a":{"type":"string"}})"},
      {"minProperties", "1", R"("type":"object","properties":{"a":{"type":"string"}})"},
      {"maxProperties", "1", R"("type":"object","properties":{"a":{"type":"string"}})"},
      {"patternProperties", R"({"^x":{"type":"string"}})",
       R"("type":"object","properties":{"a":{"type":"string"}})"},
      {"propertyNames", R"({"maxLength":3})",
       R"("type":"object","properties":{"a":{"type":"string"}})"},
      {"dependentRequired", R"({"a":["b"]})",
       R"("type":"object","properties":{"a":{"type":"string"}})"},
      {"if", R"({"properties":{"a":{"const":"x"}}})",
       R"("type":"object","properties":{"a":{"type":"string"}})"},
      {"not", R"({"type":"string"})", R"("type":"object","properties":{"a":{"type":"string"}})"},
      {"allOf", R"([{"properties":{"b":{"type":"string"}}}])",
       R"("type":"object","properties":{"a":{"type":"string"}})"},
      {"allOf", R"([{"properties":{"b":{"type":"string"}}}])", R"("type":"object")"},
      {"anyOf", R"([{"type":"string"}])", R"("oneOf":[{"type":"integer"}])"},
      {"minimum", "3", R"("anyOf":[{"type":"integer"},{"type":"null"}])"},
      {"minimum", "3", R"("$ref":"#/$defs/a","$defs":{"a":{"type":"integer"}})"},
      {"minimum", "3", ""},
      {"enum", "[1,2]", R"("type":"integer")"},
      {"const", "1", R"("type":"integer")"},
  };
  for (const auto& c : kCases) {
    const std::string comma = *c.rest == '\0' ? "" : ",";
    const std::string without = "{" + std::string(c.rest) + "}";
    const std::string with =
        "{\"" + std::string(c.keyword) + "\":" + c.value + comma + c.rest + "}";
    EXPECT_EQ(unenforced_in(with).contains(c.keyword), grammar_of(with) == grammar_of(without))
        << with;
  }
}

TEST(LoadedSchema, PatternsAreEnforcedAsTheLibraryDoes) {
  const std::string any = grammar_of(R"({"type":"string","pattern":"not anchored"})");
  for (const std::string pattern : {"^a$",
                                    "^$",
                                    "a",
                                    "^a",
                                    "a$",
                                    "^[a-z]{2,3}$",
                                    "^(ab|cd)+$",
                                    "^(?:ab)?$",
                                    "^(?=a)b$",
                                    "^(?!a)b$",
                                    "^(?<n>a)$",
                                    "^\\\\d+$",
                                    "^\\\\w+$",
                                    "^\\\\s$",
                                    "^\\\\.$",
                                    "^a\\\\-b$",
                                    "^[\\\\d]$",
                                    "^[\\\\]a]$",
                                    "^[^a]$",
                                    "^a|^b$",
                                    "^a{2}$",
                                    "^a{2,}$",
                                    "^a]$",
                                    "^a}$",
                                    "^\\\\bfoo$",
                                    "^.*$",
                                    "^\\\\x41$",
                                    "^\\\\u0041$",
                                    "^[\\\\x41-\\\\x5a]$",
                                    "^\\\\u00$",
                                    "^\\\\p{L}+$",
                                    "^a\\\\$",
                                    "^\\\"$",
                                    "^[0-9]{3}-[0-9]{4}$",
                                    "^a{x}$"}) {
    const std::string schema = "{\"type\":\"string\",\"pattern\":\"" + pattern + "\"}";
    JsonReader reader;
    const std::string text(reader.read(schema).value()["pattern"].text());
    std::string grammar;
    try {
      grammar = grammar_of(schema);
    } catch (const std::exception&) {
      continue;  // refused: nothing is left out silently
    }
    EXPECT_EQ(enforces_pattern(text), grammar != any) << text;
  }
}

}  // namespace
}  // namespace afterimage

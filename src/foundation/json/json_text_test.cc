// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/json/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "testing/seeds.h"

namespace afterimage {
namespace {

std::string canonical_of(std::string_view text) {
  JsonReader reader;
  const auto value = reader.read(text);
  return value.has_value() ? canonical(*value) : "error: " + value.error().message;
}
bool is_read(std::string_view text) { return JsonReader().read(text).has_value(); }

TEST(JsonText, SpacesAndEscapesDoNotMatterAndOrderAndNumbersAreKeptAsWritten) {
  EXPECT_EQ(canonical_of(
                " { \"b\" : [ 1 , 1.0 , -0 , 1e5 , 123456789012345678901234567890 ] ,\n"
                "\t\"a\" : { \"\\u00e9\" : null , \"\" : [ ] } , \"A\":{}, \"c\":[true,false] } "),
            "{\"b\":[1,1.0,-0,1e5,123456789012345678901234567890],\"a\":{\"é\":null,\"\":[]},"
            "\"A\":{},\"c\":[true,false]}");
  EXPECT_EQ(canonical_of(R"(["\u0041\/\"\\\b\f\n\r\t\u0000\ud83d\udc31", "é🐱"])"),
            "[\"A/\\\"\\\\\\u0008\\u000c\\n\\u000d\\u0009\\u0000🐱\",\"é🐱\"]");
}

TEST(JsonText, RecordsTheOffsetsOfValues) {
  const std::string text = R"( {"a" : {"b": [1, "x\n" , {} ] } , "c":"y"} )";
  JsonReader reader;
  const JsonValue root = reader.read(text).value();
  EXPECT_EQ(root.source(), R"({"a" : {"b": [1, "x\n" , {} ] } , "c":"y"})");
  EXPECT_EQ(root["a"].source(), R"({"b": [1, "x\n" , {} ] })");
  EXPECT_EQ(root["a"]["b"].source(), R"([1, "x\n" , {} ])");
  EXPECT_EQ(root["c"].begin_offset(), text.find("\"y\""));
  EXPECT_EQ(root["c"].end_offset(), text.find("\"y\"") + 3);
  EXPECT_EQ(root["a"]["b"].front().count(), 1U);
}

TEST(JsonText, AbsentValuesAreEmpty) {
  JsonReader reader;
  const JsonValue root = reader.read(R"({"n":null,"s":"","a":[],"f":false,"z":0})").value();
  EXPECT_TRUE(root["x"].is(JsonKind::kAbsent));
  EXPECT_TRUE(root["x"]["y"].is_none());
  EXPECT_TRUE(root["n"].is_none());
  EXPECT_TRUE(root["s"].is_empty());
  EXPECT_TRUE(root["a"].front().is(JsonKind::kAbsent));
  EXPECT_FALSE(root["f"].is_empty());
  EXPECT_FALSE(root["z"].is_empty());
  EXPECT_EQ(root["x"].begin(), root["x"].end());
  EXPECT_EQ(root["x"].text(), "");
}

TEST(JsonText, NumbersAreTakenOnlyIfTheyFit) {
  JsonReader reader;
  const JsonValue numbers =
      reader.read("[0, -0.0, 0.5, 1e400, 1e-400, 18446744073709551616, 1.0, 4294967296]").value();
  std::vector<JsonValue> n;
  for (const JsonValue number : numbers) n.push_back(number);
  EXPECT_EQ(n[0].number(), 0.0);
  EXPECT_EQ(n[1].number(), 0.0);
  EXPECT_EQ(n[2].number(), 0.5);
  EXPECT_EQ(n[3].number(), std::nullopt);
  EXPECT_EQ(n[4].number(), std::nullopt) << "0 would be another temperature";
  EXPECT_EQ(n[5].count(), std::nullopt);
  EXPECT_EQ(n[6].count(), std::nullopt);
  EXPECT_EQ(n[7].count_or_zero(), 4'294'967'295U);
  EXPECT_EQ(n[2].count_or_zero(), 0U);
}

TEST(JsonText, DepthKeysAndEncodingAreChecked) {
  EXPECT_TRUE(is_read(std::string(128, '[') + std::string(128, ']')));
  EXPECT_FALSE(is_read(std::string(129, '[') + std::string(129, ']')));
  EXPECT_FALSE(is_read(std::string(1'000'000, '[')));
  EXPECT_FALSE(is_read(R"({"a":1,"b":2,"a":3})"));
  EXPECT_FALSE(is_read(R"([{"a":1,"\u0061":1}])"));
  EXPECT_TRUE(is_read(R"([{"a":{"a":1}},{"a":1}])"));
  EXPECT_FALSE(is_read("\"\xFF\""));
  EXPECT_FALSE(is_read("\xEF\xBB\xBF{}"));
  EXPECT_FALSE(is_read(R"("\ud83d")"));
  EXPECT_FALSE(is_read(R"("\udc31\ud83d")"));
  EXPECT_FALSE(is_read(R"("\ud83d\u0041")"));
  EXPECT_FALSE(is_read("\"a\nb\""));
  EXPECT_FALSE(is_read("\"abcdefgh\x01ijklmnop\""));
  EXPECT_FALSE(is_read(std::string("[1]\0", 4)));
  std::string many = "[0";
  for (int i = 0; i < 1'000'000; ++i) many += ",0";
  EXPECT_FALSE(is_read(many + "]"));
}

// Long strings are checked many bytes at a time.
TEST(JsonText, ControlCharactersAreRefusedWhereverTheyAre) {
  for (std::size_t length : {1UL, 63UL, 64UL, 65UL, 200UL}) {
    for (std::size_t at = 0; at < length; ++at) {
      std::string text = '"' + std::string(length, at % 2 == 0 ? '\x7F' : ' ') + '"';
      ASSERT_TRUE(is_read(text));
      text[1 + at] = static_cast<char>(at % 0x20);
      ASSERT_FALSE(is_read(text)) << at << " of " << length;
    }
  }
}

TEST(JsonText, ChecksButDoesNotRecordDeeperLevels) {
  JsonReader reader;
  const JsonValue root = reader.read(R"({"a":{"b":[1,2]},"c":3})", 1).value();
  EXPECT_TRUE(root["a"].is(JsonKind::kObject));
  EXPECT_TRUE(root["a"].is_empty());
  EXPECT_EQ(root["a"].source(), R"({"b":[1,2]})");
  EXPECT_EQ(root["c"].count(), 3U);
  EXPECT_FALSE(JsonReader().read(R"({"a":{"b":[1,]}})", 1).has_value());
}

// Compares with nlohmann-json: both accept and refuse the same texts, except for duplicate keys,
// depth and unpaired surrogates.
TEST(JsonTextProperty, AgreesWithAnotherReader) {
  const std::string_view kTexts[] = {
      R"({"a":[1,-2.5e+3,true,false,null,"x\u0041\n"],"b":{"c":{},"d":[]},"e":"\\"})",
      R"([[],[{}],"",0,-0,1E9,0.1e-1,{"":""}])", R"( {"k" : "v" , "n" : [ 1 , 2 ] } )"};
  testing::for_each_seed(30'000, [&](Rng& rng) {
    std::string text(kTexts[rng.below(std::size(kTexts))]);
    constexpr std::string_view kLetters = "{}[]\",:0123456789-+.eE\\utrfalsn \n\x01/\x7F";
    for (std::uint64_t edits = rng.below(4); edits > 0; --edits) {
      const std::size_t at = rng.below(text.size());
      switch (rng.below(3)) {
        case 0:
          text[at] = kLetters[rng.below(kLetters.size())];
          break;
        case 1:
          text.insert(at, 1, kLetters[rng.below(kLetters.size())]);
          break;
        default:
          text.erase(at, 1);
          break;
      }
    }
    JsonReader reader;
    const auto value = reader.read(text);
    const bool is_double = !value.has_value() && value.error().message.contains("twice");
    ASSERT_EQ(value.has_value() || is_double, nlohmann::json::accept(text)) << text;
    if (value.has_value()) {
      ASSERT_EQ(nlohmann::json::parse(canonical(*value)), nlohmann::json::parse(text));
      ASSERT_EQ(canonical_of(canonical(*value)), canonical(*value));
    }
  });
}

}  // namespace
}  // namespace afterimage

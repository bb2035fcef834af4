// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/attached_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "foundation/crypto/sha256.h"
#include "foundation/text/data_url.h"

namespace afterimage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kFile =
    "%PDF-1.7 the bytes of a file, of which there are more than sixty \xFF\xFE.";

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }
ContentDigest digest(const std::string& text) { return {sha256(bytes(text))}; }

std::vector<ContentDigest> of(const std::string& json) {
  JsonReader reader;
  std::vector<ContentDigest> found;
  add_attached(reader.read(json).value(), found);
  return found;
}
std::vector<ContentDigest> of_text(const std::string& text) {
  std::vector<ContentDigest> found;
  add_data_urls(text, found);
  return found;
}

TEST(AttachedBytes, AreFoundInEveryFormThatServersRead) {
  const std::string base64 = encode_base64(bytes(kFile));
  std::string for_urls = base64;
  for (char& c : for_urls) c = c == '+' ? '-' : c == '/' ? '_' : c;
  while (for_urls.ends_with('=')) for_urls.pop_back();
  const std::string url = "data:application/pdf;base64," + base64;
  const struct {
    const char* name;
    std::string json;
  } kCases[] = {
      {"data URL", "\"" + url + "\""},
      {"data URL deep within", R"({"a":[{"b":{"c":")" + url + R"("}}]})"},
      {"data URL within a text", R"({"arguments":"{\"file\":\")" + url + R"(\"}"})"},
      {"base64", R"({"type":"image","source":{"type":"base64","data":")" + base64 + R"("}})"},
      {"base64 with line ends",
       R"({"data":")" + base64.substr(0, 40) + "\\r\\n" + base64.substr(40) + R"("})"},
      {"base64 for URLs without padding", R"({"data":")" + for_urls + R"("})"},
      {"twice", R"([")" + url + R"(",")" + base64 + R"("])"},
  };
  for (const auto& c : kCases) EXPECT_THAT(of(c.json), ElementsAre(digest(kFile))) << c.name;
  EXPECT_THAT(of(R"({"type":"text","media_type":"text/plain","data":"a note"})"),
              ElementsAre(digest("a note")));
  EXPECT_THAT(of(R"({"url":"data:,a%20note"})"), ElementsAre(digest("a note")));
}

TEST(AttachedBytes, WordsNamesAndNumbersAreNone) {
  EXPECT_THAT(of(R"({"name":"get_weather","id":"call_abcdef0123456789","n":12345,"b":true})"),
              IsEmpty());
  EXPECT_THAT(of("\"" + std::string(200, 'a') + " " + std::string(100, 'b') + "\""), IsEmpty());
  EXPECT_THAT(of(R"({"url":"https://example.com/a.png;base64,!"})"), IsEmpty());
}

TEST(AttachedBytes, OfAWrittenTextAreDataUrls) {
  const std::string base64 = encode_base64(bytes(kFile));
  const std::string other = encode_base64(bytes("other"));
  EXPECT_THAT(of_text("See ![one](data:image/png;base64," + base64 +
                      ") and <img src='data:image/gif;base64," + other + "'>."),
              ElementsAre(digest(kFile), digest("other")));
  EXPECT_THAT(of_text(base64), IsEmpty()) << "a text that is base64 is a text";
  EXPECT_THAT(of_text("say ;base64, and nothing"), IsEmpty());
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/text/data_url.h"

#include <gtest/gtest.h>

#include <string>

#include "testing/seeds.h"

namespace afterimage {
namespace {

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string decoded(std::string_view text) {
  const auto bytes = decode_base64(text);
  return bytes.has_value() ? text_of(*bytes) : "none";
}

TEST(Base64, IsThatOfTheRfc) {
  const char* const kVectors[][2] = {{"", ""},
                                     {"f", "Zg=="},
                                     {"fo", "Zm8="},
                                     {"foo", "Zm9v"},
                                     {"foob", "Zm9vYg=="},
                                     {"fooba", "Zm9vYmE="},
                                     {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, text] : kVectors) {
    EXPECT_EQ(decoded(text), plain);
    EXPECT_EQ(encode_base64(std::as_bytes(std::span(std::string_view(plain)))), text);
  }
  EXPECT_EQ(decoded("+/+/"), "\xFB\xFF\xBF");
}

TEST(Base64, BytesHaveOneText) {
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zm9v=", "====", "Z===", "Zg==Zg==", "Zm9v\n", "Zm 9", "Zm9-", "Zm9_",
        "Zh==", "Zm9=", "Z=g=", "=Zg=", "Zm9\xC3", "Zm9v====", "Zm9vZg==Zm9v"}) {
    EXPECT_EQ(decoded(text), "none") << text;
  }
}

// Long texts are decoded many characters at a time: every byte at every place of them is refused or
// accepted as the alphabet says.
TEST(Base64, EveryByteAtEveryPlaceOfALongText) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::byte> bytes(192);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 % 251);
  const std::string text = encode_base64(bytes);
  ASSERT_EQ(decode_base64(text).value(), bytes);
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      std::string other = text;
      other[at] = static_cast<char>(byte);
      const auto read = decode_base64(other);
      const bool is_padding = other[at] == '=' && at + 1 == text.size();
      if (!is_padding) {
        ASSERT_EQ(read.has_value(), kDigits.contains(other[at])) << at << " " << byte;
      }
      if (read.has_value()) ASSERT_EQ(encode_base64(*read), other) << at << " " << byte;
    }
  }
}

TEST(Base64Property, TextsOfAnyLengthComeBack) {
  testing::for_each_seed(300, [](Rng& rng) {
    std::vector<std::byte> bytes(rng.below(400));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(256));
    ASSERT_EQ(decode_base64(encode_base64(bytes)).value(), bytes);
  });
}

TEST(Base64Property, EveryCharacterOfItMatters) {
  testing::for_each_seed(500, [](Rng& rng) {
    std::vector<std::byte> bytes(rng.below(40));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(256));
    const std::string text = encode_base64(bytes);
    ASSERT_EQ(decode_base64(text).value(), bytes);
    for (std::size_t at = 0; at < text.size(); ++at) {
      std::string other = text;
      other[at] = static_cast<char>(rng.below(256));
      const auto read = decode_base64(other);
      if (read.has_value() && other != text) {
        ASSERT_NE(*read, bytes) << text << " " << other;
      }
    }
  });
}

TEST(DataUrl, DecodesBytesAndMediaType) {
  const struct {
    const char* url;
    const char* type;
    const char* bytes;
  } kCases[] = {
      {"data:image/png;base64,Zm9v", "image/png", "foo"},
      {"DATA:image/png;BASE64,Zm9v", "image/png", "foo"},
      {"data:;base64,Zm9v", "", "foo"},
      {"data:audio/wav;rate=8;base64,Zm9v", "audio/wav;rate=8", "foo"},
      {"data:image/png;base64,Zg%3D%3d", "image/png", "f"},
      {"data:text/plain;charset=utf-8,a%20b,c", "text/plain;charset=utf-8", "a b,c"},
      {"data:,x", "", "x"},
  };
  for (const auto& c : kCases) {
    const auto url = decode_data_url(c.url);
    ASSERT_TRUE(url.has_value()) << c.url << ": " << url.error().message;
    EXPECT_EQ(url->type, c.type);
    EXPECT_EQ(text_of(url->bytes), c.bytes);
  }
}

TEST(DataUrl, RefusesMalformedUrls) {
  for (const char* url : {"", "data:", "data:image/png;base64", "http://x/,y",
                          "data:image/png;base64,", "data:image/png;base64,Zm9", "data:,",
                          "data:,%", "data:,%4", "data:,%4g", "data:image/png;base64,%"}) {
    const auto read = decode_data_url(url);
    ASSERT_FALSE(read.has_value()) << url;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace afterimage

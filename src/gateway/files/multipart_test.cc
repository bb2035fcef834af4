// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/files/multipart.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

constexpr const char* kType = "multipart/form-data; boundary=B";

std::string part(const std::string& headers, const std::string& content) {
  return "--B\r\n" + headers + "\r\n\r\n" + content + "\r\n";
}
std::string named(const std::string& name) {
  return "Content-Disposition: form-data; name=\"" + name + "\"";
}

TEST(Multipart, ReadsEachPart) {
  const std::string body =
      part(named("purpose"), "vision") +
      part(named("file") + "; filename=\"a;\\\"b\\\".png\"\r\nContent-Type: image/PNG; x=y",
           std::string("\r\n--not\r\n\0\xff", 11)) +
      part(named("empty"), "") + "--B--\r\n";
  const auto parts = parse_multipart("Multipart/Form-Data; charset=utf-8; boundary=\"B\"", body);
  ASSERT_TRUE(parts.has_value()) << parts.error().message;
  ASSERT_EQ(parts->size(), 3U);
  EXPECT_EQ((*parts)[0].name, "purpose");
  EXPECT_EQ((*parts)[0].content, "vision");
  EXPECT_EQ((*parts)[1].filename, "a;\"b\".png");
  EXPECT_EQ((*parts)[1].type, "image/png");
  EXPECT_EQ((*parts)[1].content, std::string_view("\r\n--not\r\n\0\xff", 11));
  EXPECT_EQ((*parts)[2].content, "");
  EXPECT_TRUE(parse_multipart(kType, "--B--")->empty());
}

TEST(Multipart, RefusesWhatItCannotReadForSure) {
  const std::string good = part(named("file"), "x");
  const struct {
    const char* name;
    std::string type;
    std::string body;
  } kCases[] = {
      {"no form", "application/json", "{}"},
      {"no boundary", "multipart/form-data", good + "--B--"},
      {"a long boundary", "multipart/form-data; boundary=" + std::string(71, 'b'), good + "--B--"},
      {"two boundaries", "multipart/form-data; boundary=B; boundary=C", good + "--B--"},
      {"an open quotation", "multipart/form-data; boundary=\"B", good + "--B--"},
      {"text before", kType, "hello\r\n" + good + "--B--"},
      {"text after", kType, good + "--B--\r\nhello"},
      {"no end", kType, good},
      {"no end of the part", kType, "--B\r\n" + named("file") + "\r\n\r\nx"},
      {"no end of the headers", kType, "--B\r\n" + named("file") + "\r\nx: y"},
      {"no name", kType, part("Content-Type: text/plain", "x") + "--B--"},
      {"no colon", kType, part("Content", "x") + "--B--"},
      {"two names", kType, part(named("file") + "\r\n" + named("other"), "x") + "--B--"},
      {"two types", kType,
       part(named("file") + "\r\nContent-Type: a/b\r\ncontent-type: c/d", "x") + "--B--"},
      {"not form-data", kType,
       part("Content-Disposition: attachment; name=\"file\"", "x") + "--B--"},
      {"two of one name", kType, good + good + "--B--"},
      {"a name that is not UTF-8", kType, part(named("\xff"), "x") + "--B--"},
      {"a line break in a file name", kType,
       part(named("file") + "; filename=\"a\nb\"", "x") + "--B--"},
      {"a NUL in a file name", kType,
       part(named("file") + std::string("; filename=\"a\0b\"", 17), "x") + "--B--"},
      {"base64", kType,
       part(named("file") + "\r\nContent-Transfer-Encoding: base64", "eA==") + "--B--"},
      {"a boundary that goes on", kType, "--Bx\r\n" + named("file") + "\r\n\r\nx\r\n--B--"},
  };
  for (const auto& c : kCases) {
    const auto parts = parse_multipart(c.type, c.body);
    ASSERT_FALSE(parts.has_value()) << c.name;
    EXPECT_EQ(parts.error().code, ErrorCode::kInvalidArgument) << c.name;
  }
}

TEST(Multipart, Limits) {
  std::string many;
  for (int i = 0; i < 33; ++i) many += part(named("p" + std::to_string(i)), "x");
  EXPECT_EQ(parse_multipart(kType, many + "--B--").error().code, ErrorCode::kLimitExceeded);
  const std::string long_headers = named("file") + "\r\nx: " + std::string(9000, 'y');
  EXPECT_EQ(parse_multipart(kType, part(long_headers, "x") + "--B--").error().code,
            ErrorCode::kLimitExceeded);
}

}  // namespace
}  // namespace afterimage

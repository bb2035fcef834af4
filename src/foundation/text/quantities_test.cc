// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/text/quantities.h"

#include <gtest/gtest.h>

#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;

TEST(Quantities, DurationsHaveAUnit) {
  const struct {
    const char* text;
    Duration expected;
  } kCases[] = {
      {"0 s", 0s},       {"1 ns", 1ns}, {"5us", 5us},
      {"250 ms", 250ms}, {"90 s", 90s}, {"10 min", 10min},
      {"24 h", 24h},     {"7 d", 168h}, {"106751 d", std::chrono::days(106'751)},
  };
  for (const auto& c : kCases) {
    const auto duration = parse_duration(c.text);
    ASSERT_TRUE(duration.has_value()) << c.text;
    EXPECT_EQ(*duration, c.expected) << c.text;
  }
}

TEST(Quantities, SizesHaveAUnit) {
  const struct {
    const char* text;
    Bytes expected;
  } kCases[] = {
      {"0 B", 0_B},
      {"1 B", 1_B},
      {"64 KiB", 64_KiB},
      {"512MiB", 512_MiB},
      {"4 GiB", 4_GiB},
      {"2 TiB", 2048_GiB},
      {"2 GB", Bytes(2'000'000'000)},
      {"3 kB", 3000_B},
      {"16777215 TiB", Bytes(16'777'215ULL << 40U)},
  };
  for (const auto& c : kCases) {
    const auto size = parse_size(c.text);
    ASSERT_TRUE(size.has_value()) << c.text;
    EXPECT_EQ(*size, c.expected) << c.text;
  }
}

TEST(Quantities, RefusesMalformedText) {
  for (const char* text :
       {"", " ", "s", "90", "90  s", " 90 s", "90 s ", "-1 s", "+1 s", "1.5 h", "1e3 s", "90 S",
        "90 sec", "90 m", "1 h 30 min", "0x10 s", "106752 d", "99999999999999999999 ns"}) {
    const auto duration = parse_duration(text);
    ASSERT_FALSE(duration.has_value()) << text;
    EXPECT_EQ(duration.error().code, ErrorCode::kInvalidArgument) << text;
  }
  for (const char* text : {"", "512", "512 Mib", "512 M", "512 mb", "-1 B", "1.5 GiB", "1 b",
                           "16777216 TiB", "99999999999999999999 B"}) {
    EXPECT_FALSE(parse_size(text).has_value()) << text;
  }
  EXPECT_EQ(parse_duration("90").error().message,
            R"('90' is not a whole number and ns, us, ms, s, min, h or d, such as "90 s")");
}

TEST(Quantities, PrintTheLargestUnitThatIsWhole) {
  EXPECT_EQ(print_duration(90s), "90 s");
  EXPECT_EQ(print_duration(120s), "2 min");
  EXPECT_EQ(print_duration(48h), "2 d");
  EXPECT_EQ(print_duration(0s), "0 s");
  EXPECT_EQ(print_duration(1500us), "1500 us");
  EXPECT_EQ(print_size(4_GiB), "4 GiB");
  EXPECT_EQ(print_size(0_B), "0 B");
  EXPECT_EQ(print_size(Bytes(2'000'000'000)), "1953125 KiB");
  EXPECT_EQ(print_size(1025_B), "1025 B");
}

TEST(QuantitiesProperty, PrintedTextIsParsedBack) {
  for_each_seed(500, [](Rng& rng) {
    const std::uint64_t bits = rng.next() >> (1 + rng.below(63));
    const Duration duration(static_cast<Duration::rep>(bits));
    ASSERT_EQ(parse_duration(print_duration(duration)).value(), duration);
    ASSERT_EQ(parse_size(print_size(Bytes(bits))).value(), Bytes(bits));
  });
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/write_admission.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace afterimage {
namespace {

TierKey entry(std::uint64_t number) {
  TierKey key{};
  const std::uint64_t mixed = number * 0x9E37'79B9'7F4A'7C15ULL + 1;
  std::memcpy(key.bytes.data(), &mixed, sizeof mixed);
  return key;
}

/// Computes the entries first, first + 1, …; how many were written.
int written(WriteAdmission& admission, std::uint64_t first, int count) {
  int admitted = 0;
  for (int i = 0; i < count; ++i) {
    admitted += admission.admit(entry(first + static_cast<std::uint64_t>(i))) ? 1 : 0;
  }
  return admitted;
}

TEST(WriteAdmission, WritesEverythingAtFirst) {
  WriteAdmission admission;
  EXPECT_EQ(written(admission, 0, 64), 64);
}

TEST(WriteAdmission, StopsWhereNothingReturns) {
  WriteAdmission admission;
  EXPECT_LE(written(admission, 0, 2'000), 100) << "at most 5 %";
  EXPECT_EQ(written(admission, 2'000, 10'000), 0);
}

TEST(WriteAdmission, WritesEverythingWhereOneInTwentyReturns) {
  WriteAdmission admission;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(admission.admit(entry(i))) << i;
    if (i % 20 == 19) EXPECT_FALSE(admission.returned(entry(i - 10))) << "it was written";
  }
}

TEST(WriteAdmission, AnEntryThatIsUsedOftenSaysNothingOfNewOnes) {
  WriteAdmission admission;
  ASSERT_TRUE(admission.admit(entry(1'000'000)));
  int admitted = 0;
  for (std::uint64_t i = 0; i < 2'000; ++i) {
    admission.returned(entry(1'000'000));
    admitted += admission.admit(entry(i)) ? 1 : 0;
  }
  EXPECT_LE(admitted, 140);
}

TEST(WriteAdmission, ADeclinedEntryIsWrittenWhenItReturns) {
  WriteAdmission admission;
  written(admission, 0, 1'000);
  ASSERT_FALSE(admission.admit(entry(5'000)));
  EXPECT_TRUE(admission.returned(entry(5'000)));
  EXPECT_FALSE(admission.returned(entry(5'000))) << "once";
  ASSERT_FALSE(admission.admit(entry(6'000)));
  EXPECT_TRUE(admission.admit(entry(6'000))) << "computed again";
  written(admission, 10'000, 1'000);
  EXPECT_TRUE(admission.admit(entry(500))) << "also long after";
  EXPECT_FALSE(admission.returned(entry(999'999))) << "never seen";
}

TEST(WriteAdmission, WritesEverythingAgainSoonAfterSharingBegins) {
  WriteAdmission admission;
  written(admission, 0, 5'000);
  int lost = 0;
  for (std::uint64_t i = 10'000; i < 11'000; ++i) {  // each is asked for twice
    lost += admission.admit(entry(i)) ? 0 : 1;
    admission.returned(entry(i));
  }
  EXPECT_LE(lost, 80) << "the first ones are judged when 64 others were computed";
  EXPECT_EQ(written(admission, 20'000, 32), 32);
}

TEST(WriteAdmission, ReturnsAfterALongTimeCount) {
  WriteAdmission admission;
  written(admission, 0, 5'000);
  EXPECT_GE(written(admission, 0, 5'000), 4'990) << "each is computed for the second time";
  EXPECT_EQ(written(admission, 50'000, 32), 32);
}

TEST(WriteAdmission, WhatContinuesAKnownEntryIsWritten) {
  WriteAdmission admission;
  written(admission, 0, 1'000);
  const std::array first{entry(7'000), entry(7'001)};
  ASSERT_FALSE(admission.admit(first));
  const std::array longer{entry(7'000), entry(7'001), entry(7'002)};
  EXPECT_TRUE(admission.admit(longer));
  const std::array beside{entry(7'000), entry(8'000)};
  EXPECT_FALSE(admission.admit(beside)) << "what both begin with was no entry's end";
}

TEST(WriteAdmission, ForgetsTheOldestOfTooMany) {
  WriteAdmission admission;
  written(admission, 0, 1'000);
  ASSERT_FALSE(admission.admit(entry(2'000)));
  written(admission, 10'000, 70'000);
  EXPECT_FALSE(admission.returned(entry(2'000)));
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/invalidation/invalidations.h"

#include <gtest/gtest.h>

#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

InvalidationList empty_list() { return InvalidationList(Secret{std::byte{1}, std::byte{2}}); }

ScopeKey scope(unsigned n) {
  ScopeKey key;
  key.bytes[9] = static_cast<std::byte>(n);
  return key;
}

const std::vector<std::string> kTags = {"doc:1", "doc:2"};
const TenantId kOwner("ann");

/// An answer that was created after `count` invalidations.
InvalidationSubject created_after(std::uint64_t count) {
  return {.space = {},
          .scope = scope(1),
          .question = "What is the Dog?",
          .tags = kTags,
          .owner = kOwner,
          .stored_at = WallTime(100s),
          .invalidations = count};
}

TEST(InvalidationList, RejectsMatchingAnswersCreatedBefore) {
  const struct {
    const char* name;
    Invalidation invalidation;
    bool refused;
  } kCases[] = {
      {"all", {}, true},
      {"the space", {.space = NamespaceId()}, true},
      {"another space", {.space = NamespaceId{{std::byte{9}}}}, false},
      {"the scope", {.scope = scope(1)}, true},
      {"another scope", {.scope = scope(2)}, false},
      {"the question", {.question = "What is the Dog?"}, true},
      {"a part of it", {.question = "What is the"}, false},
      {"a tag", {.tag = "doc:2"}, true},
      {"a part of a tag", {.tag = "doc"}, false},
      {"the owner", {.owner = TenantId("ann")}, true},
      {"another owner", {.owner = TenantId("bob")}, false},
      {"words", {.words = "THE dog"}, true},
      {"other words", {.words = "the dogs"}, false},
      {"kept later", {.stored_before = WallTime(100s)}, false},
      {"kept before", {.stored_before = WallTime(100s) + 1ns}, true},
      {"one of two", {.tag = "doc:1", .owner = TenantId("bob")}, false},
  };
  for (const auto& c : kCases) {
    InvalidationList list = empty_list();
    EXPECT_FALSE(list.refuses(created_after(0)));
    ASSERT_TRUE(list.add(c.invalidation).has_value());
    EXPECT_EQ(list.refuses(created_after(0)), c.refused) << c.name;
    EXPECT_FALSE(list.refuses(created_after(1))) << c.name << ": it was created after";
    const auto read = InvalidationList::from_bytes(list.to_bytes());
    ASSERT_TRUE(read.has_value()) << c.name;
    EXPECT_EQ(*read, list) << c.name;
  }
}

TEST(InvalidationList, RejectsAnAnswerAheadOfTheList) {
  EXPECT_TRUE(empty_list().refuses(created_after(1))) << "the list is older than the answer";
}

TEST(InvalidationList, MergedEntriesRejectMoreNeverLess) {
  InvalidationList list = empty_list();
  for (std::size_t i = 0; i < InvalidationList::kMaxEntries; ++i) {
    ASSERT_TRUE(list.add({.tag = "other:" + std::to_string(i)}).has_value());
  }
  EXPECT_FALSE(list.refuses(created_after(0)));
  ASSERT_TRUE(list.add({.tag = "doc:1"}).has_value());
  EXPECT_EQ(list.entries().size(), InvalidationList::kMaxEntries / 2 + 1);
  EXPECT_TRUE(list.refuses(created_after(127)));
  EXPECT_TRUE(list.refuses(created_after(128))) << "by its tag";
  InvalidationSubject other = created_after(127);
  other.tags = {};
  EXPECT_TRUE(list.refuses(other)) << "the 128th invalidation was merged";
  other.invalidations = 128;
  EXPECT_FALSE(list.refuses(other));
  EXPECT_FALSE(list.refuses(created_after(257)));
  EXPECT_EQ(InvalidationList::from_bytes(list.to_bytes()), list);
}

TEST(InvalidationList, RejectsAnInvalidationWithTooMuchText) {
  InvalidationList list = empty_list();
  const auto refused = list.add({.words = std::string(InvalidationList::kMaxBytes + 1, 'x')});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
  EXPECT_EQ(list.count(), 0U);
}

TEST(InvalidationList, AnotherVersionIsNotTakenForDamage) {
  FieldWriter fields("afterimage/answer-erasures/2");
  fields.number("members", 3);
  std::vector<std::byte> bytes(fields.message().begin(), fields.message().end());
  const auto checksum = sha256(bytes);
  bytes.insert(bytes.end(), checksum.begin(), checksum.end());
  EXPECT_EQ(InvalidationList::from_bytes(bytes).error().code, ErrorCode::kUnsupported);
}

TEST(InvalidationListProperty, OneFlippedBitIsDetected) {
  InvalidationList list = empty_list();
  ASSERT_TRUE(list.add({.question = "one", .stored_before = WallTime(5s)}).has_value());
  const auto bytes = list.to_bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(InvalidationList::from_bytes(std::span(bytes).first(size)).has_value()) << size;
  }
  testing::for_each_seed(500, [&](Rng& rng) {
    auto other = bytes;
    other[rng.below(other.size())] ^= static_cast<std::byte>(1U << rng.below(8));
    ASSERT_FALSE(InvalidationList::from_bytes(other).has_value());
  });
}

}  // namespace
}  // namespace afterimage

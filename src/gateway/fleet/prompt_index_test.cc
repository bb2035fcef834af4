// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/prompt_index.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "testing/seeds.h"

namespace afterimage {
namespace {

LinkEnd end_of(std::uint64_t key, BlockContent content) {
  LinkEnd end{.key = {}, .tokens = 64, .content = content};
  for (std::size_t i = 0; i < 8; ++i) end.key.bytes[i] = static_cast<std::byte>(key >> (8 * i));
  return end;
}

TEST(PromptIndex, FindsLinksByBlock) {
  PromptIndex index;
  const LinkEnd one = end_of(1, 10);
  const LinkEnd two = end_of(2, 20);
  const auto changes = index.learn(std::vector{one, two});
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_TRUE(changes[0].added);
  EXPECT_EQ(changes[1].content, 20U);
  ASSERT_EQ(index.links_of(10).size(), 1U);
  EXPECT_EQ(index.links_of(10)[0].key, one.key);
  EXPECT_TRUE(index.links_of(30).empty());
  EXPECT_TRUE(index.learn(std::vector{one, two}).empty()) << "nothing new";
}

TEST(PromptIndex, ALinkKeepsItsLatestBlocks) {
  PromptIndex index;
  for (BlockContent content = 1; content <= PromptIndex::kMostBlocks; ++content) {
    EXPECT_EQ(index.learn(std::vector{end_of(1, content)}).size(), 1U);
  }
  const auto changes = index.learn(std::vector{end_of(1, 99)});
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_FALSE(changes[0].added);
  EXPECT_EQ(changes[0].content, 1U);
  EXPECT_EQ(index.blocks_of(end_of(1, 0).key), (std::vector<BlockContent>{99, 4, 3, 2}));
  EXPECT_TRUE(index.links_of(1).empty());
  index.check_invariants();
}

TEST(PromptIndex, TheLinksThatWereLearnedLeastRecentlyGoFirst) {
  PromptIndex index(2);
  index.learn(std::vector{end_of(1, 10), end_of(2, 20)});
  index.learn(std::vector{end_of(1, 10)});
  const auto changes = index.learn(std::vector{end_of(3, 30)});
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].content, 20U);
  EXPECT_TRUE(index.blocks_of(end_of(2, 0).key).empty());
  EXPECT_EQ(index.links(), 2U);
}

TEST(PromptIndex, ManyLinksOfOneBlockAreNotKept) {
  PromptIndex index;
  for (std::uint64_t key = 0; key < 1000; ++key) index.learn(std::vector{end_of(key, 7)});
  EXPECT_EQ(index.links_of(7).size(), PromptIndex::kMostLinksOfBlock);
  EXPECT_EQ(index.links(), PromptIndex::kMostLinksOfBlock);
}

TEST(PromptIndexProperty, ChangesTellWhatTheIndexHolds) {
  testing::for_each_seed(200, [](Rng& rng) {
    PromptIndex index(1 + rng.below(20));
    std::map<BlockContent, std::set<ChainKey>> told;
    for (int step = 0; step < 200; ++step) {
      std::vector<LinkEnd> ends;
      for (std::uint64_t i = rng.below(6); i > 0; --i) {
        ends.push_back(end_of(rng.below(30), 1 + rng.below(12)));
      }
      for (const PromptIndex::Change& change : index.learn(ends)) {
        auto& its = told[change.content];
        if (change.added) {
          ASSERT_TRUE(its.insert(change.link.key).second);
        } else {
          ASSERT_EQ(its.erase(change.link.key), 1U);
        }
      }
      index.check_invariants();
      for (BlockContent content = 1; content <= 12; ++content) {
        std::set<ChainKey> held;
        for (const auto& link : index.links_of(content)) held.insert(link.key);
        ASSERT_EQ(held, told[content]);
      }
    }
  });
}

}  // namespace
}  // namespace afterimage

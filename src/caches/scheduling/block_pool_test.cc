// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/scheduling/block_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace afterimage {
namespace {

BlockKey key(std::uint8_t number) {
  BlockKey result;
  result.bytes.fill(std::byte{number});
  return result;
}

std::vector<BlockKey> keys(std::initializer_list<std::uint8_t> numbers) {
  std::vector<BlockKey> result;
  for (const std::uint8_t number : numbers) result.push_back(key(number));
  return result;
}

std::vector<BlockId> ids(std::initializer_list<std::uint32_t> numbers) {
  std::vector<BlockId> result;
  for (const std::uint32_t number : numbers) result.push_back(BlockId(number));
  return result;
}

BlockPool pool_of(std::uint32_t blocks, std::uint32_t groups = 1) {
  return BlockPool::open({.blocks = blocks, .block_tokens = TokenCount(4), .groups = groups})
      .value();
}

/// Runs a finished sequence: allocates its blocks, publishes them in order, releases them.
std::vector<BlockId> finished(BlockPool& pool, const std::vector<BlockKey>& chain) {
  const auto blocks = pool.allocate(chain.size()).value();
  for (std::size_t i = 0; i < chain.size(); ++i)
    EXPECT_TRUE(pool.publish(blocks[i], chain[i]).value());
  EXPECT_TRUE(pool.release(blocks).has_value());
  return blocks;
}

std::uint32_t matched(const BlockPool& pool, const std::vector<BlockKey>& chain,
                      std::uint32_t tokens, const std::vector<MediaSpan>& spans = {}) {
  return pool.match({.keys = chain, .tokens = TokenCount(tokens), .spans = spans})
      .value()
      .length.value();
}

MediaSpan span(std::uint32_t begin, std::uint32_t end, bool splittable) {
  return {.offset = TokenCount(begin), .length = TokenCount(end - begin), .splittable = splittable};
}

TEST(BlockPool, ANewPoolIsFreeInOrderAndEmpty) {
  const BlockPool pool = pool_of(3);
  EXPECT_EQ(pool.free_order(), ids({0, 1, 2}));
  EXPECT_EQ(matched(pool, keys({1}), 100), 0U);
  pool.check_invariants();
}

TEST(BlockPool, RefusesEmptyOptions) {
  EXPECT_EQ(BlockPool::open({.blocks = 0}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(BlockPool::open({.blocks = 1, .block_tokens = TokenCount(0)}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(BlockPool::open({.blocks = 1, .groups = 0}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(BlockPool::open({.blocks = ~0U}).error().code, ErrorCode::kLimitExceeded);
}

TEST(BlockPool, FreedBlocksAreFoundUntilTheyAreAllocatedAgain) {
  BlockPool pool = pool_of(3);
  finished(pool, keys({1, 2, 3}));
  EXPECT_EQ(matched(pool, keys({1, 2, 3}), 13), 12U);
  EXPECT_EQ(matched(pool, keys({1, 2, 9}), 13), 8U);
  EXPECT_EQ(matched(pool, keys({9, 2, 3}), 13), 0U) << "a match starts at the first block";
  ASSERT_TRUE(pool.allocate(3).has_value());
  EXPECT_EQ(matched(pool, keys({1, 2, 3}), 13), 0U);
  pool.check_invariants();
}

TEST(BlockPool, ReusesTheTailOfAChainFirst) {
  BlockPool pool = pool_of(4);
  const auto blocks = finished(pool, keys({1, 2, 3, 4}));
  EXPECT_EQ(pool.free_order(), ids({3, 2, 1, 0}));
  ASSERT_EQ(pool.allocate(1).value(), ids({3}));
  EXPECT_EQ(matched(pool, keys({1, 2, 3, 4}), 17), 12U);
}

TEST(BlockPool, ReusesTheMostRecentlyUsedLast) {
  BlockPool pool = pool_of(4);
  finished(pool, keys({1, 2}));
  finished(pool, keys({3, 4}));
  const auto chain = keys({1, 2});
  const auto taken = pool.take({.keys = chain, .tokens = TokenCount(9)}).value();
  EXPECT_EQ(taken.blocks, ids({0, 1}));
  EXPECT_EQ(pool.references(BlockId(0)), 1U);
  EXPECT_EQ(pool.free_blocks(), 2U);
  ASSERT_TRUE(pool.release(taken.blocks).has_value());
  EXPECT_EQ(pool.free_order(), ids({3, 2, 1, 0}));
}

TEST(BlockPool, ReusesBlocksWithoutAKeyFirst) {
  BlockPool pool = pool_of(4);
  finished(pool, keys({1, 2}));
  const auto plain = pool.allocate(2).value();
  ASSERT_TRUE(pool.release(plain).has_value());
  EXPECT_EQ(pool.free_order(), ids({2, 3, 1, 0}));
}

TEST(BlockPool, TheLastTokenIsNeverMatched) {
  BlockPool pool = pool_of(4);
  finished(pool, keys({1, 2}));
  const struct {
    std::uint32_t tokens;
    std::uint32_t expected;
  } kCases[] = {{0, 0}, {1, 0}, {4, 0}, {5, 4}, {8, 4}, {9, 8}, {100, 8}};
  for (const auto& c : kCases)
    EXPECT_EQ(matched(pool, keys({1, 2}), c.tokens), c.expected) << c.tokens;
}

TEST(BlockPool, NoMatchEndsInsideAnUnsplittableSpan) {
  BlockPool pool = pool_of(6);
  finished(pool, keys({1, 2, 3, 4}));
  const struct {
    const char* name;
    std::vector<MediaSpan> spans;
    std::uint32_t expected;
  } kCases[] = {
      {"none", {}, 16},
      {"ends at the span's end", {span(10, 16, false)}, 16},
      {"ends at the span's begin", {span(16, 20, false)}, 16},
      {"one token inside", {span(15, 17, false)}, 12},
      {"inside from the start of a block", {span(12, 18, false)}, 12},
      {"inside from the first token", {span(0, 18, false)}, 0},
      {"inside one that may be split", {span(10, 20, true)}, 16},
      {"going back lands inside the one before", {span(3, 13, false), span(14, 18, false)}, 0},
      {"going back lands behind one before", {span(3, 12, false), span(14, 18, false)}, 12},
      {"going back lands inside one that may be split",
       {span(3, 13, true), span(14, 18, false)},
       12},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(matched(pool, keys({1, 2, 3, 4, 5}), 21, c.spans), c.expected) << c.name;
  }
}

TEST(BlockPool, SharedBlocksStayHeldUntilTheLastRelease) {
  BlockPool pool = pool_of(3);
  const auto blocks = pool.allocate(2).value();
  ASSERT_TRUE(pool.share(blocks).has_value());
  ASSERT_TRUE(pool.release(blocks).has_value());
  EXPECT_EQ(pool.free_blocks(), 1U);
  EXPECT_EQ(pool.allocate(2).error().code, ErrorCode::kNoSpace);
  ASSERT_TRUE(pool.release(blocks).has_value());
  EXPECT_EQ(pool.free_blocks(), 3U);
  pool.check_invariants();
}

TEST(BlockPool, FindsTheOldestOfDuplicateBlocks) {
  BlockPool pool = pool_of(3);
  const auto chain = keys({1});
  const auto blocks = pool.allocate(3).value();
  for (const BlockId block : blocks) ASSERT_TRUE(pool.publish(block, key(1)).value());
  const BlockQuery query{.keys = chain, .tokens = TokenCount(5)};
  EXPECT_EQ(pool.match(query)->blocks, ids({0}));
  ASSERT_TRUE(pool.forget(BlockId(0)).has_value());
  EXPECT_EQ(pool.match(query)->blocks, ids({1}));
  ASSERT_TRUE(pool.forget(BlockId(2)).has_value());
  pool.check_invariants();
  EXPECT_EQ(pool.match(query)->blocks, ids({1}));
  ASSERT_TRUE(pool.forget(BlockId(1)).has_value());
  EXPECT_EQ(pool.match(query)->blocks, ids({}));
}

TEST(BlockPool, MatchesOnlyPositionsPresentInEveryGroup) {
  BlockPool pool = pool_of(4, 2);
  const auto chain = keys({1, 2});
  const auto blocks = pool.allocate(4).value();
  ASSERT_TRUE(pool.publish(blocks[0], key(1), KvGroup(1)).value());
  ASSERT_TRUE(pool.publish(blocks[1], key(2), KvGroup(0)).value());
  const BlockQuery query{.keys = chain, .tokens = TokenCount(9)};
  EXPECT_EQ(pool.match(query)->length, TokenCount(0));
  ASSERT_TRUE(pool.publish(blocks[2], key(1), KvGroup(0)).value());
  EXPECT_EQ(pool.match(query)->blocks, ids({2, 0})) << "nothing of position 1";
  ASSERT_TRUE(pool.publish(blocks[3], key(2), KvGroup(1)).value());
  EXPECT_EQ(pool.match(query)->blocks, ids({2, 0, 1, 3}));
  EXPECT_EQ(pool.publish(blocks[3], key(2), KvGroup(2)).error().code, ErrorCode::kInvalidArgument);
}

TEST(BlockPool, AResetForgetsPublishedBlocks) {
  BlockPool pool = pool_of(4);
  finished(pool, keys({1, 2}));
  const auto running = pool.allocate(1).value();
  pool.reset();
  EXPECT_EQ(matched(pool, keys({1, 2}), 9), 0U);
  EXPECT_FALSE(pool.publish(running[0], key(3)).value()) << "its rows are from before the reset";
  EXPECT_EQ(pool.published_blocks(), 0U);
  ASSERT_TRUE(pool.release(running).has_value());
  const auto fresh = pool.allocate(1).value();
  EXPECT_EQ(fresh, running);
  EXPECT_TRUE(pool.publish(fresh[0], key(3)).value());
  pool.check_invariants();
}

TEST(BlockPool, MisuseIsAnErrorAndChangesNothing) {
  BlockPool pool = pool_of(3);
  const auto held = pool.allocate(2).value();  // 0 and 1; 2 is free
  const auto code = [](const auto& result) { return result.error().code; };
  const auto kBad = ErrorCode::kInvalidArgument;
  EXPECT_EQ(code(pool.release(ids({0, 1, 2}))), kBad) << "2 is not held";
  EXPECT_EQ(code(pool.release(ids({0, 3}))), kBad) << "3 does not exist";
  EXPECT_EQ(code(pool.release(ids({1, 1}))), kBad) << "held once, released twice";
  EXPECT_EQ(code(pool.share(ids({0, 2}))), kBad);
  EXPECT_EQ(code(pool.publish(BlockId(2), key(1))), kBad);
  EXPECT_EQ(code(pool.forget(BlockId(3))), kBad);
  EXPECT_EQ(code(pool.allocate(2)), ErrorCode::kNoSpace);
  EXPECT_EQ(pool.references(BlockId(0)), 1U);
  EXPECT_EQ(pool.references(BlockId(1)), 1U);
  EXPECT_EQ(pool.references(BlockId(3)), std::nullopt);

  ASSERT_TRUE(pool.publish(BlockId(0), key(1)).value());
  EXPECT_TRUE(pool.publish(BlockId(0), key(1)).value())
      << "publishing the same key again is allowed";
  EXPECT_EQ(code(pool.publish(BlockId(0), key(2))), kBad);
  for (const auto& spans : {std::vector{span(3, 3, true)}, std::vector{span(3, 9, true)},
                            std::vector{span(3, 5, true), span(4, 6, true)}}) {
    const auto chain = keys({1});
    EXPECT_EQ(code(pool.take({.keys = chain, .tokens = TokenCount(8), .spans = spans})), kBad);
  }
  pool.check_invariants();
  ASSERT_TRUE(pool.release(held).has_value());
  EXPECT_EQ(code(pool.release(held)), kBad) << "released twice";
}

TEST(BlockPool, ABlockHeldTwiceMayBeReleasedTwiceInOneCall) {
  BlockPool pool = pool_of(2);
  const auto held = pool.allocate(1).value();
  ASSERT_TRUE(pool.share(held).has_value());
  ASSERT_TRUE(pool.release(ids({0, 0})).has_value());
  EXPECT_EQ(pool.free_blocks(), 2U);
  pool.check_invariants();
}

}  // namespace
}  // namespace afterimage

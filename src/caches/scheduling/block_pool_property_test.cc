// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "caches/scheduling/block_pool.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

constexpr std::uint32_t kBlockTokens = 3;

/// The obvious model: it scans all blocks at each call.
struct ModelPool {
  struct Block {
    unsigned references = 0;
    std::optional<std::pair<BlockKey, std::uint32_t>> name;
    std::uint64_t published = 0;  // when
    bool stale = false;
  };

  ModelPool(std::size_t count, std::uint32_t all_groups) : blocks(count), groups(all_groups) {
    for (std::uint32_t id = 0; id < count; ++id) free.push_back(id);
  }

  std::vector<Block> blocks;
  std::uint32_t groups;
  std::deque<std::uint32_t> free;  // in order of allocation
  std::uint64_t now = 0;

  bool held(std::uint32_t id) const { return id < blocks.size() && blocks[id].references > 0; }

  std::optional<std::uint32_t> find(const BlockKey& key, std::uint32_t group) const {
    std::optional<std::uint32_t> oldest;
    for (std::uint32_t id = 0; id < blocks.size(); ++id) {
      if (blocks[id].name != std::pair(key, group)) continue;
      if (!oldest || blocks[id].published < blocks[*oldest].published) oldest = id;
    }
    return oldest;
  }
  /// The longest legal length, by trying all of them.
  std::vector<BlockId> match(const std::vector<BlockKey>& keys, std::uint32_t tokens,
                             const std::vector<MediaSpan>& spans) const {
    std::vector<BlockId> found;
    std::vector<BlockId> longest;
    for (std::size_t position = 0; position < keys.size(); ++position) {
      for (std::uint32_t group = 0; group < groups; ++group) {
        const auto id = find(keys[position], group);
        if (!id) return longest;
        found.push_back(BlockId(*id));
      }
      const std::uint64_t length = (position + 1) * kBlockTokens;
      const bool inside = std::ranges::any_of(spans, [&](const MediaSpan& span) {
        return !span.splittable && span.offset.value() < length && length < span.end().value();
      });
      if (length < tokens && !inside) longest = found;
    }
    return longest;
  }
  void hold(std::uint32_t id) {
    if (blocks[id].references++ == 0) std::erase(free, id);
  }
  std::optional<std::vector<BlockId>> allocate(std::size_t count) {
    if (count > free.size()) return std::nullopt;
    std::vector<BlockId> result;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t id = free.front();
      blocks[id].name.reset();
      hold(id);
      result.push_back(BlockId(id));
    }
    return result;
  }
  std::optional<bool> publish(std::uint32_t id, const BlockKey& key, std::uint32_t group) {
    if (!held(id) || group >= groups) return std::nullopt;
    if (blocks[id].stale) return false;
    if (blocks[id].name) {
      return blocks[id].name == std::pair(key, group) ? std::optional(true) : std::nullopt;
    }
    blocks[id].name = std::pair(key, group);
    blocks[id].published = ++now;
    return true;
  }
  bool release(const std::vector<BlockId>& ids) {
    for (const BlockId id : ids) {
      const auto given = static_cast<unsigned>(std::ranges::count(ids, id));
      if (!held(std::to_underlying(id)) || blocks[std::to_underlying(id)].references < given) {
        return false;
      }
    }
    std::set<std::uint32_t> let_go;
    for (const BlockId id : ids) {
      if (--blocks[std::to_underlying(id)].references == 0) let_go.insert(std::to_underlying(id));
    }
    for (std::size_t i = ids.size(); i-- > 0;) {
      const std::uint32_t id = std::to_underlying(ids[i]);
      if (let_go.erase(id) == 0) continue;
      blocks[id].stale = false;
      blocks[id].name ? free.push_back(id) : free.push_front(id);
    }
    return true;
  }
  void reset() {
    for (Block& block : blocks) {
      block.name.reset();
      block.stale = block.references > 0;
    }
  }
};

/// Few keys, so that chains share prefixes, diverge and have duplicates.
struct World {
  explicit World(Rng& rng)
      : blocks(static_cast<std::uint32_t>(1 + rng.below(12))),
        groups(static_cast<std::uint32_t>(1 + rng.below(2))),
        keys(6) {
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i].bytes.back() = static_cast<std::byte>(i);
  }
  std::uint32_t blocks;
  std::uint32_t groups;
  std::vector<BlockKey> keys;  // equal first eight bytes, so that hashes collide

  std::vector<BlockKey> chain(Rng& rng) const {
    std::vector<BlockKey> result(rng.below(6));
    for (BlockKey& key : result) key = keys[rng.below(keys.size())];
    return result;
  }
  static std::vector<MediaSpan> spans(Rng& rng, std::uint32_t tokens) {
    std::vector<MediaSpan> result;
    std::uint64_t at = rng.below(5);
    while (rng.chance(0.7)) {
      const std::uint64_t length = 1 + rng.below(9);
      if (at + length > tokens) break;
      result.push_back({.offset = TokenCount(static_cast<std::uint32_t>(at)),
                        .length = TokenCount(static_cast<std::uint32_t>(length)),
                        .splittable = rng.chance(0.3)});
      at += length + rng.below(3);
    }
    return result;
  }
};

class Walk {
 public:
  explicit Walk(Rng& rng)
      : rng_(rng),
        world_(rng),
        pool_(BlockPool::open({.blocks = world_.blocks,
                               .block_tokens = TokenCount(kBlockTokens),
                               .groups = world_.groups})
                  .value()),
        model_(world_.blocks, world_.groups) {}

  void step() {
    switch (rng_.below(10)) {
      case 0:
      case 1:
        return look_up(true);
      case 2:
        return look_up(false);
      case 3:
      case 4:
        return allocate();
      case 5:
      case 6:
        return publish();
      case 7:
        return share();
      case 8:
        return release();
      default:
        return rarely();
    }
  }

  void compare() {
    std::vector<BlockId> free;
    for (const std::uint32_t id : model_.free) free.push_back(BlockId(id));
    ASSERT_EQ(pool_.free_order(), free);
    ASSERT_EQ(pool_.free_blocks(), free.size());
    for (std::uint32_t id = 0; id < world_.blocks; ++id) {
      ASSERT_EQ(pool_.references(BlockId(id)), model_.blocks[id].references) << id;
    }
    pool_.check_invariants();
  }

 private:
  BlockId some_block() {
    return BlockId(static_cast<std::uint32_t>(rng_.below(world_.blocks + 1)));
  }
  std::vector<BlockId> some_blocks() {
    std::vector<BlockId> result(rng_.below(4));
    for (BlockId& id : result) id = some_block();
    return result;
  }

  void look_up(bool take) {
    const auto keys = world_.chain(rng_);
    const auto tokens = static_cast<std::uint32_t>(rng_.below(20));
    const auto spans = World::spans(rng_, tokens);
    const BlockQuery query{.keys = keys, .tokens = TokenCount(tokens), .spans = spans};
    const auto found = take ? pool_.take(query) : pool_.match(query);
    ASSERT_TRUE(found.has_value());
    const auto expected = model_.match(keys, tokens, spans);
    ASSERT_EQ(found->blocks, expected);
    ASSERT_EQ(found->length.value(), expected.size() / world_.groups * kBlockTokens);
    if (!take) return;
    for (const BlockId id : expected) model_.hold(std::to_underlying(id));
    if (!expected.empty()) sequences_.push_back(expected);
  }
  void allocate() {
    const std::size_t count = rng_.below(5);
    const auto blocks = pool_.allocate(count);
    const auto expected = model_.allocate(count);
    ASSERT_EQ(blocks.has_value(), expected.has_value());
    if (!blocks) return;
    ASSERT_EQ(*blocks, *expected);
    sequences_.push_back(*blocks);
  }
  void publish() {
    const BlockId id = some_block();
    const BlockKey& key = world_.keys[rng_.below(world_.keys.size())];
    const auto group = static_cast<std::uint32_t>(rng_.below(world_.groups + 1));
    const auto published = pool_.publish(id, key, KvGroup(group));
    const auto expected = model_.publish(std::to_underlying(id), key, group);
    ASSERT_EQ(published.has_value(), expected.has_value());
    if (!published) return;
    ASSERT_EQ(*published, *expected);
  }
  void share() {
    const auto blocks = some_blocks();
    const bool legal = std::ranges::all_of(
        blocks, [&](BlockId id) { return model_.held(std::to_underlying(id)); });
    ASSERT_EQ(pool_.share(blocks).has_value(), legal);
    if (!legal) return;
    for (const BlockId id : blocks) model_.hold(std::to_underlying(id));
    sequences_.push_back(blocks);
  }
  /// Mostly a whole sequence; sometimes blocks that were never taken.
  void release() {
    std::vector<BlockId> blocks = some_blocks();
    if (!sequences_.empty() && rng_.chance(0.9)) {
      const auto chosen =
          sequences_.begin() + static_cast<std::ptrdiff_t>(rng_.below(sequences_.size()));
      blocks = std::move(*chosen);
      sequences_.erase(chosen);
    }
    ASSERT_EQ(pool_.release(blocks).has_value(), model_.release(blocks));
  }
  void rarely() {
    if (rng_.chance(0.1)) {
      pool_.reset();
      model_.reset();
    } else if (rng_.chance(0.3)) {
      const BlockId id = some_block();
      const bool exists = std::to_underlying(id) < world_.blocks;
      ASSERT_EQ(pool_.forget(id).has_value(), exists);
      if (exists) model_.blocks[std::to_underlying(id)].name.reset();
    }
  }

  Rng& rng_;
  World world_;
  BlockPool pool_;
  ModelPool model_;
  std::vector<std::vector<BlockId>> sequences_;
};

TEST(BlockPoolProperty, AgreesWithAnObviousModel) {
  testing::for_each_seed(300, [](Rng& rng) {
    Walk walk(rng);
    for (int step = 0; step < 300; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      walk.step();
      walk.compare();
      if (::testing::Test::HasFailure()) return;
    }
  });
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/scheduling/block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <ranges>
#include <utility>

#include "afterimage/result.h"
#include "foundation/types/digest_hash.h"

namespace afterimage {
namespace {

using Index = std::uint32_t;
constexpr Index kNone = 0xFFFF'FFFFU;

struct GroupKey {  // key of the index
  BlockKey key;
  KvGroup group{};
  bool operator==(const GroupKey&) const = default;
};

struct GroupKeyHash {
  using is_avalanching = void;
  std::size_t operator()(const GroupKey& wanted) const noexcept {
    // Keys are uniform; the odd factor separates the groups of one key.
    return DigestHash{}(wanted.key) + std::to_underlying(wanted.group) * 0x9E37'79B9'7F4A'7C15U;
  }
};

struct Block {
  Index references = 0;
  // Free blocks form a ring with the sentinel, which is stored after the last block.
  Index next_free = kNone;
  Index previous_free = kNone;
  // Blocks with the same key and group form a list, oldest first; the index has both ends.
  Index next_twin = kNone;
  Index previous_twin = kNone;
  bool published = false;
  bool stale = false;  // held since before a reset
  GroupKey key{};      // if published
};

struct Twins {
  Index first;
  Index last;
};

std::uint64_t begin_of(const MediaSpan& span) { return span.offset.value(); }
std::uint64_t end_of(const MediaSpan& span) {
  return std::uint64_t{span.offset.value()} + span.length.value();
}

Result<void> check_spans(const BlockQuery& query) {
  std::uint64_t free_from = 0;
  for (const MediaSpan& span : query.spans) {
    if (span.length.value() == 0 || begin_of(span) < free_from ||
        end_of(span) > query.tokens.value()) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("a media span covers [{}, {}) of {} tokens; spans must not be empty, must "
                      "stay inside and must not overlap (the next may begin at {})",
                      begin_of(span), end_of(span), query.tokens.value(), free_from));
    }
    free_from = end_of(span);
  }
  return {};
}

/// The largest number of blocks, at most `blocks`, that does not end inside an unsplittable span.
std::size_t clamp_to_spans(std::size_t blocks, std::uint64_t block_tokens,
                           std::span<const MediaSpan> spans) {
  // Backwards, because clamping to the start of one span may end inside the span before it.
  for (const MediaSpan& span : spans | std::views::reverse) {
    const std::uint64_t length = blocks * block_tokens;
    if (!span.splittable && begin_of(span) < length && length < end_of(span)) {
      blocks = begin_of(span) / block_tokens;
    }
  }
  return blocks;
}

}  // namespace

struct BlockPool::State {
  explicit State(const BlockPoolOptions& options)
      : block_tokens(options.block_tokens.value()),
        groups(options.groups),
        blocks(std::size_t{options.blocks} + 1) {
    blocks.back().next_free = blocks.back().previous_free = sentinel();
    by_key.reserve(options.blocks);
    for (Index block = 0; block < options.blocks; ++block) link_free(block, sentinel());
  }

  [[nodiscard]] Result<Index> held(BlockId block) const;
  [[nodiscard]] Index sentinel() const { return static_cast<Index>(blocks.size() - 1); }
  [[nodiscard]] std::size_t resident_blocks(std::span<const BlockKey> keys, std::size_t limit,
                                            std::vector<BlockId>& found) const;
  void link_free(Index block, Index before);
  void unlink_free(Index block);
  void unpublish(Index block);

  std::uint32_t block_tokens;
  std::uint32_t groups;
  std::vector<Block> blocks;  // and the sentinel
  boost::unordered_flat_map<GroupKey, Twins, GroupKeyHash> by_key;
  std::size_t free = 0;
  std::size_t published = 0;
};

Result<BlockPool> BlockPool::open(const BlockPoolOptions& options) {
  if (options.blocks == 0 || options.block_tokens.value() == 0 || options.groups == 0) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("a block pool of {} blocks of {} tokens in {} groups: each must be at least 1",
                    options.blocks, options.block_tokens.value(), options.groups));
  }
  if (options.blocks >= kNone) {
    return fail(ErrorCode::kLimitExceeded,
                fmt::format("a block pool of {} blocks: the number must be below {}",
                            options.blocks, kNone));
  }
  return BlockPool(std::make_unique<State>(options));
}

BlockPool::BlockPool(std::unique_ptr<State> state) : state_(std::move(state)) {}

BlockPool::BlockPool(BlockPool&& other) noexcept = default;
BlockPool& BlockPool::operator=(BlockPool&& other) noexcept = default;
BlockPool::~BlockPool() = default;

std::size_t BlockPool::blocks() const { return state_->sentinel(); }
std::size_t BlockPool::free_blocks() const { return state_->free; }
std::size_t BlockPool::published_blocks() const { return state_->published; }

Result<BlockMatch> BlockPool::match(const BlockQuery& query) const {
  AFI_TRY_VOID(check_spans(query));
  const std::size_t computable =
      query.tokens.value() == 0 ? 0 : (query.tokens.value() - 1) / state_->block_tokens;
  BlockMatch match;
  std::size_t blocks =
      state_->resident_blocks(query.keys, std::min(query.keys.size(), computable), match.blocks);
  blocks = clamp_to_spans(blocks, state_->block_tokens, query.spans);
  match.blocks.resize(blocks * state_->groups);
  match.length = TokenCount(static_cast<std::uint32_t>(blocks * state_->block_tokens));
  return match;
}

/// Appends the blocks of each position, up to the first position that is missing in some group.
std::size_t BlockPool::State::resident_blocks(std::span<const BlockKey> keys, std::size_t limit,
                                              std::vector<BlockId>& found) const {
  for (std::size_t position = 0; position < limit; ++position) {
    for (std::uint32_t group = 0; group < groups; ++group) {
      const auto twins = by_key.find(GroupKey{keys[position], KvGroup(group)});
      if (twins == by_key.end()) return position;
      found.push_back(BlockId(twins->second.first));
    }
  }
  return limit;
}

Result<BlockMatch> BlockPool::take(const BlockQuery& query) {
  AFI_TRY(BlockMatch found, match(query));
  for (const BlockId id : found.blocks) {
    const Index block = std::to_underlying(id);
    if (state_->blocks[block].references++ == 0) state_->unlink_free(block);
  }
  return found;
}

Result<void> BlockPool::share(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) AFI_TRY_VOID(state_->held(block));
  for (const BlockId block : blocks) ++state_->blocks[std::to_underlying(block)].references;
  return {};
}

Result<std::vector<BlockId>> BlockPool::allocate(std::size_t count) {
  if (count > state_->free) {
    return fail(ErrorCode::kNoSpace, fmt::format("cannot allocate {} blocks: {} of {} are free",
                                                 count, state_->free, blocks()));
  }
  std::vector<BlockId> allocated;
  allocated.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Index block = state_->blocks[state_->sentinel()].next_free;
    state_->unlink_free(block);
    state_->unpublish(block);
    state_->blocks[block].references = 1;
    allocated.push_back(BlockId(block));
  }
  return allocated;
}

Result<bool> BlockPool::publish(BlockId id, const BlockKey& key, KvGroup group) {
  AFI_TRY(const Index index, state_->held(id));
  if (std::to_underlying(group) >= state_->groups) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("group {} does not exist in a pool of {} groups",
                            std::to_underlying(group), state_->groups));
  }
  Block& block = state_->blocks[index];
  if (block.stale) return false;
  const GroupKey wanted{key, group};
  if (block.published) {
    if (block.key == wanted) return true;
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("block {} is already published as {} of group {}; it cannot also be {} of "
                    "group {}",
                    index, block.key.key.hex(), std::to_underlying(block.key.group), key.hex(),
                    std::to_underlying(group)));
  }
  const auto [twins, first] =
      state_->by_key.try_emplace(wanted, Twins{.first = index, .last = index});
  if (!first) {
    block.previous_twin = twins->second.last;
    state_->blocks[block.previous_twin].next_twin = index;
    twins->second.last = index;
  }
  block.key = wanted;
  block.published = true;
  ++state_->published;
  return true;
}

Result<void> BlockPool::release(std::span<const BlockId> blocks) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (const auto found = state_->held(blocks[i]); !found) {
      for (const BlockId taken : blocks.first(i))
        ++state_->blocks[std::to_underlying(taken)].references;
      return std::unexpected(found.error());
    }
    --state_->blocks[std::to_underlying(blocks[i])].references;
  }
  for (const BlockId id : blocks | std::views::reverse) {
    const Index index = std::to_underlying(id);
    Block& block = state_->blocks[index];
    const bool linked = block.next_free != kNone;  // listed twice in one call
    if (block.references > 0 || linked) continue;
    block.stale = false;
    // A block without a key cannot be found, so reusing it first loses nothing.
    state_->link_free(
        index, block.published ? state_->sentinel() : state_->blocks[state_->sentinel()].next_free);
  }
  return {};
}

Result<void> BlockPool::forget(BlockId id) {
  const Index index = std::to_underlying(id);
  if (index >= blocks()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("block {} does not exist in a pool of {} blocks", index, blocks()));
  }
  state_->unpublish(index);
  return {};
}

void BlockPool::reset() {
  for (Block& block : state_->blocks | std::views::take(blocks())) {
    block.published = false;
    block.next_twin = block.previous_twin = kNone;
    block.stale = block.references > 0;
  }
  state_->by_key.clear();
  state_->published = 0;
}

std::optional<std::uint32_t> BlockPool::references(BlockId id) const {
  const Index index = std::to_underlying(id);
  if (index >= blocks()) return std::nullopt;
  return state_->blocks[index].references;
}

std::vector<BlockId> BlockPool::free_order() const {
  std::vector<BlockId> order;
  order.reserve(state_->free);
  for (Index block = state_->blocks[state_->sentinel()].next_free; block != state_->sentinel();
       block = state_->blocks[block].next_free) {
    order.push_back(BlockId(block));
  }
  return order;
}

Result<Index> BlockPool::State::held(BlockId id) const {
  const Index index = std::to_underlying(id);
  if (index < sentinel() && blocks[index].references > 0) return index;
  return fail(
      ErrorCode::kInvalidArgument,
      index < sentinel()
          ? fmt::format("block {} is not held: take or allocate it first", index)
          : fmt::format("block {} does not exist in a pool of {} blocks", index, sentinel()));
}

void BlockPool::State::link_free(Index index, Index before) {
  Block& block = blocks[index];
  block.next_free = before;
  block.previous_free = std::exchange(blocks[before].previous_free, index);
  blocks[block.previous_free].next_free = index;
  ++free;
}

void BlockPool::State::unlink_free(Index index) {
  Block& block = blocks[index];
  AFI_CHECK(block.next_free != kNone && index != sentinel());
  blocks[block.previous_free].next_free = block.next_free;
  blocks[block.next_free].previous_free = block.previous_free;
  block.next_free = block.previous_free = kNone;
  --free;
}

void BlockPool::State::unpublish(Index index) {
  Block& block = blocks[index];
  if (!block.published) return;
  const auto twins = by_key.find(block.key);
  AFI_CHECK(twins != by_key.end());
  auto& [first, last] = twins->second;
  if (first == index && last == index) {
    by_key.erase(twins);
  } else {
    (first == index ? first : blocks[block.previous_twin].next_twin) = block.next_twin;
    (last == index ? last : blocks[block.next_twin].previous_twin) = block.previous_twin;
  }
  block.next_twin = block.previous_twin = kNone;
  block.published = false;
  --published;
}

void BlockPool::check_invariants() const {
  std::size_t free = 0;
  std::size_t published = 0;
  for (std::size_t i = 0; i < blocks(); ++i) {
    const Block& block = state_->blocks[i];
    const bool linked = block.next_free != kNone;
    AFI_CHECK(linked == (block.references == 0) && linked == (block.previous_free != kNone));
    if (linked) AFI_CHECK(state_->blocks[block.next_free].previous_free == i);
    free += linked ? 1U : 0U;
    published += block.published ? 1U : 0U;
    AFI_CHECK(!block.stale || (block.references > 0 && !block.published));
  }
  AFI_CHECK(free == state_->free && free_order().size() == state_->free &&
            published == state_->published);

  std::size_t found = 0;
  for (const auto& [key, twins] : state_->by_key) {
    Index previous = kNone;
    for (Index i = twins.first; i != kNone;
         previous = std::exchange(i, state_->blocks[i].next_twin)) {
      AFI_CHECK(state_->blocks[i].published && state_->blocks[i].key == key &&
                state_->blocks[i].previous_twin == previous);
      ++found;
    }
    AFI_CHECK(previous == twins.last && previous != kNone);
  }
  AFI_CHECK(found == state_->published);
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/scheduling/block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "afterimage/check.h"

namespace afterimage {
namespace {

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

std::size_t BlockPool::GroupKeyHash::operator()(const GroupKey& wanted) const noexcept {
  // Keys are uniform; the odd factor separates the groups of one key.
  return DigestHash{}(wanted.key) + std::to_underlying(wanted.group) * 0x9E37'79B9'7F4A'7C15U;
}

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
  return BlockPool(options);
}

BlockPool::BlockPool(const BlockPoolOptions& options)
    : block_tokens_(options.block_tokens.value()),
      groups_(options.groups),
      blocks_(std::size_t{options.blocks} + 1) {
  blocks_.back().next_free = blocks_.back().previous_free = sentinel();
  index_.reserve(options.blocks);
  for (Index block = 0; block < options.blocks; ++block) link_free(block, sentinel());
}

Result<BlockMatch> BlockPool::match(const BlockQuery& query) const {
  AFI_TRY_VOID(check_spans(query));
  const std::size_t computable =
      query.tokens.value() == 0 ? 0 : (query.tokens.value() - 1) / block_tokens_;
  BlockMatch match;
  std::size_t blocks =
      resident_blocks(query.keys, std::min(query.keys.size(), computable), match.blocks);
  blocks = clamp_to_spans(blocks, block_tokens_, query.spans);
  match.blocks.resize(blocks * groups_);
  match.length = TokenCount(static_cast<std::uint32_t>(blocks * block_tokens_));
  return match;
}

/// Appends the blocks of each position, up to the first position that is missing in some group.
std::size_t BlockPool::resident_blocks(std::span<const BlockKey> keys, std::size_t limit,
                                       std::vector<BlockId>& found) const {
  for (std::size_t position = 0; position < limit; ++position) {
    for (std::uint32_t group = 0; group < groups_; ++group) {
      const auto twins = index_.find(GroupKey{keys[position], KvGroup(group)});
      if (twins == index_.end()) return position;
      found.push_back(BlockId(twins->second.first));
    }
  }
  return limit;
}

Result<BlockMatch> BlockPool::take(const BlockQuery& query) {
  AFI_TRY(BlockMatch found, match(query));
  for (const BlockId id : found.blocks) {
    const Index block = std::to_underlying(id);
    if (blocks_[block].references++ == 0) unlink_free(block);
  }
  return found;
}

Result<void> BlockPool::share(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) AFI_TRY_VOID(held(block));
  for (const BlockId block : blocks) ++blocks_[std::to_underlying(block)].references;
  return {};
}

Result<std::vector<BlockId>> BlockPool::allocate(std::size_t count) {
  if (count > free_) {
    return fail(ErrorCode::kNoSpace, fmt::format("cannot allocate {} blocks: {} of {} are free",
                                                 count, free_, blocks()));
  }
  std::vector<BlockId> allocated;
  allocated.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Index block = blocks_[sentinel()].next_free;
    unlink_free(block);
    unpublish(block);
    blocks_[block].references = 1;
    allocated.push_back(BlockId(block));
  }
  return allocated;
}

Result<bool> BlockPool::publish(BlockId id, const BlockKey& key, KvGroup group) {
  AFI_TRY(const Index index, held(id));
  if (std::to_underlying(group) >= groups_) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("group {} does not exist in a pool of {} groups",
                            std::to_underlying(group), groups_));
  }
  Block& block = blocks_[index];
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
  const auto [twins, first] = index_.try_emplace(wanted, Twins{.first = index, .last = index});
  if (!first) {
    block.previous_twin = twins->second.last;
    blocks_[block.previous_twin].next_twin = index;
    twins->second.last = index;
  }
  block.key = wanted;
  block.published = true;
  ++published_;
  return true;
}

Result<void> BlockPool::release(std::span<const BlockId> blocks) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (const auto found = held(blocks[i]); !found) {
      for (const BlockId taken : blocks.first(i)) ++blocks_[std::to_underlying(taken)].references;
      return std::unexpected(found.error());
    }
    --blocks_[std::to_underlying(blocks[i])].references;
  }
  for (const BlockId id : blocks | std::views::reverse) {
    const Index index = std::to_underlying(id);
    Block& block = blocks_[index];
    const bool linked = block.next_free != kNone;  // listed twice in one call
    if (block.references > 0 || linked) continue;
    block.stale = false;
    // A block without a key cannot be found, so reusing it first loses nothing.
    link_free(index, block.published ? sentinel() : blocks_[sentinel()].next_free);
  }
  return {};
}

Result<void> BlockPool::forget(BlockId id) {
  const Index index = std::to_underlying(id);
  if (index >= blocks()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("block {} does not exist in a pool of {} blocks", index, blocks()));
  }
  unpublish(index);
  return {};
}

void BlockPool::reset() {
  for (Block& block : blocks_ | std::views::take(blocks())) {
    block.published = false;
    block.next_twin = block.previous_twin = kNone;
    block.stale = block.references > 0;
  }
  index_.clear();
  published_ = 0;
}

std::optional<std::uint32_t> BlockPool::references(BlockId id) const {
  const Index index = std::to_underlying(id);
  if (index >= blocks()) return std::nullopt;
  return blocks_[index].references;
}

std::vector<BlockId> BlockPool::free_order() const {
  std::vector<BlockId> order;
  order.reserve(free_);
  for (Index block = blocks_[sentinel()].next_free; block != sentinel();
       block = blocks_[block].next_free) {
    order.push_back(BlockId(block));
  }
  return order;
}

Result<BlockPool::Index> BlockPool::held(BlockId id) const {
  const Index index = std::to_underlying(id);
  if (index < blocks() && blocks_[index].references > 0) return index;
  return fail(ErrorCode::kInvalidArgument,
              index < blocks()
                  ? fmt::format("block {} is not held: take or allocate it first", index)
                  : fmt::format("block {} does not exist in a pool of {} blocks", index, blocks()));
}

void BlockPool::link_free(Index index, Index before) {
  Block& block = blocks_[index];
  block.next_free = before;
  block.previous_free = std::exchange(blocks_[before].previous_free, index);
  blocks_[block.previous_free].next_free = index;
  ++free_;
}

void BlockPool::unlink_free(Index index) {
  Block& block = blocks_[index];
  AFI_CHECK(block.next_free != kNone && index != sentinel());
  blocks_[block.previous_free].next_free = block.next_free;
  blocks_[block.next_free].previous_free = block.previous_free;
  block.next_free = block.previous_free = kNone;
  --free_;
}

void BlockPool::unpublish(Index index) {
  Block& block = blocks_[index];
  if (!block.published) return;
  const auto twins = index_.find(block.key);
  AFI_CHECK(twins != index_.end());
  auto& [first, last] = twins->second;
  if (first == index && last == index) {
    index_.erase(twins);
  } else {
    (first == index ? first : blocks_[block.previous_twin].next_twin) = block.next_twin;
    (last == index ? last : blocks_[block.next_twin].previous_twin) = block.previous_twin;
  }
  block.next_twin = block.previous_twin = kNone;
  block.published = false;
  --published_;
}

void BlockPool::check_invariants() const {
  std::size_t free = 0;
  std::size_t published = 0;
  for (std::size_t i = 0; i < blocks(); ++i) {
    const Block& block = blocks_[i];
    const bool linked = block.next_free != kNone;
    AFI_CHECK(linked == (block.references == 0) && linked == (block.previous_free != kNone));
    if (linked) AFI_CHECK(blocks_[block.next_free].previous_free == i);
    free += linked ? 1U : 0U;
    published += block.published ? 1U : 0U;
    AFI_CHECK(!block.stale || (block.references > 0 && !block.published));
  }
  AFI_CHECK(free == free_ && free_order().size() == free_ && published == published_);

  std::size_t found = 0;
  for (const auto& [key, twins] : index_) {
    Index previous = kNone;
    for (Index i = twins.first; i != kNone; previous = std::exchange(i, blocks_[i].next_twin)) {
      AFI_CHECK(blocks_[i].published && blocks_[i].key == key &&
                blocks_[i].previous_twin == previous);
      ++found;
    }
    AFI_CHECK(previous == twins.last && previous != kNone);
  }
  AFI_CHECK(found == published_);
}

}  // namespace afterimage

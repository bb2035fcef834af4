// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "foundation/platform/huge_pages.h"

namespace afterimage {

/// Memory for runs of tokens, each contiguous and cache-line aligned, packed into huge pages: with
/// a million runs, every look-up would otherwise take a page walk per run.
///
/// Unit     Runs are rounded up to a size class: multiples of 16 tokens, at most an eighth too
///          large. A freed run is reused for its class; memory is released only at destruction.
/// Threads  Not thread-safe.
class TokenArena {
 public:
  TokenId* allocate(std::uint32_t tokens) {
    const Class c = class_of(tokens);
    std::vector<TokenId*>& free = free_[c.index];
    if (!free.empty()) {
      TokenId* run = free.back();
      free.pop_back();
      return run;
    }
    if (c.tokens > left_) {
      if (c.tokens >= kSlabTokens / 8) return add_slab(c.tokens);
      next_ = add_slab(kSlabTokens);  // wastes the previous slab's rest: under an eighth
      left_ = kSlabTokens;
    }
    TokenId* run = next_;
    next_ += c.tokens;
    left_ -= c.tokens;
    return run;
  }
  void deallocate(TokenId* run, std::uint32_t tokens) {
    free_[class_of(tokens).index].push_back(run);
  }

  [[nodiscard]] std::size_t bytes() const { return slab_tokens_ * sizeof(TokenId); }

 private:
  static constexpr std::uint32_t kUnit = 16;  // tokens per cache line
  static constexpr std::uint32_t kSlabTokens = (4U << 20U) / sizeof(TokenId);
  struct Class {
    std::size_t index;
    std::uint32_t tokens;
  };
  // Eight classes for each power of two: 1, 2, … 16 units, then 18, 20, … 32, 36, 40, …
  static Class class_of(std::uint32_t tokens) {
    AFI_CHECK(tokens > 0);
    const std::uint32_t units = (tokens - 1) / kUnit + 1;
    const auto log = static_cast<std::uint32_t>(std::bit_width(units - 1));
    const std::uint32_t shift = log > 4 ? log - 4 : 0;
    const std::uint32_t steps = (units - 1) >> shift;  // below 16
    return {.index = std::size_t{shift} * 16 + steps, .tokens = ((steps + 1) << shift) * kUnit};
  }
  TokenId* add_slab(std::uint32_t tokens) {
    HugePageAllocator<TokenId> memory;
    slabs_.push_back({memory.allocate(tokens), Free{tokens}});
    slab_tokens_ += tokens;
    return slabs_.back().get();
  }

  struct Free {
    std::uint32_t tokens;
    void operator()(TokenId* slab) const { HugePageAllocator<TokenId>().deallocate(slab, tokens); }
  };
  std::vector<std::unique_ptr<TokenId, Free>> slabs_;
  std::size_t slab_tokens_ = 0;
  TokenId* next_ = nullptr;
  std::uint32_t left_ = 0;
  std::array<std::vector<TokenId*>, std::size_t{16} * 32> free_;
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/prefix/policy_keys.h"

#include <xxhash.h>

#include <algorithm>

#include "caches/identity/span_walk.h"

namespace afterimage {
namespace {

std::uint64_t with_span(std::uint64_t key, const MediaSpan& span) {
  struct {
    ContentDigest content;
    std::uint64_t key;
    std::uint32_t offset, length, modality, splittable;
  } const media{.content = span.content,
                .key = key,
                .offset = span.offset.value(),
                .length = span.length.value(),
                .modality = static_cast<std::uint32_t>(span.modality),
                .splittable = span.splittable ? 1U : 0U};
  static_assert(sizeof media == 56, "padding would be hashed");
  return XXH3_64bits(&media, sizeof media);
}

}  // namespace

std::uint64_t extend_keys(std::uint64_t chain, const Sequence& sequence, std::uint32_t start,
                          std::uint32_t end, std::vector<std::uint64_t>& keys) {
  keys.clear();
  const auto first = std::ranges::upper_bound(sequence.spans, TokenCount(start - start % kKeyStep),
                                              {}, &MediaSpan::end);
  SpanWalk<MediaSpan> spans({first, sequence.spans.end()});
  for (std::uint32_t at = start - start % kKeyStep; at + kKeyStep <= end; at += kKeyStep) {
    chain = XXH3_64bits_withSeed(sequence.tokens.data() + at, kKeyStep * sizeof(TokenId), chain);
    for (const MediaSpan& span : spans.overlapping(at, at + kKeyStep)) {
      chain = with_span(chain, span);
    }
    if (chain == 0) chain = 1;  // 0 means "no key"
    keys.push_back(chain);
  }
  std::ranges::reverse(keys);
  return chain;
}

}  // namespace afterimage

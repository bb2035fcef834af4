// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/lanes.h"

#include <span>

namespace afterimage {

bool HeldRows::begins_with(const Sequence& asked, TokenCount covered) const {
  const std::size_t count = covered.value();
  if (count == 0 || count > after.size() || count > asked.tokens.size()) return false;
  const auto spans_of = [covered](const Sequence& sequence) {
    const auto end = std::ranges::find_if(
        sequence.spans, [covered](const MediaSpan& span) { return span.offset >= covered; });
    return std::span(sequence.spans.begin(), end);
  };
  const auto spans = spans_of(asked);
  return std::ranges::none_of(
             spans, [](const MediaSpan& span) { return span.content == ContentDigest(); }) &&
         std::ranges::equal(spans, spans_of(prompt)) &&
         std::equal(asked.tokens.begin(), asked.tokens.begin() + static_cast<std::ptrdiff_t>(count),
                    prompt.tokens.begin());
}

}  // namespace afterimage

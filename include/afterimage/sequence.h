// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/ids.h"
#include "afterimage/media.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// A run of placeholder tokens whose embeddings come from an encoder instead of the embedding
/// table.
struct MediaSpan {
  TokenCount offset{};  // first placeholder, counted from the start of the sequence
  TokenCount length{};  // number of placeholders; also the rows that the encoder output must have
  Modality modality = Modality::kImage;
  ContentDigest content{};  // digest of the media item; compared in full
  /// Whether a prefix may end inside the span. False where attention inside it is bidirectional.
  bool splittable = true;
  /// Tokens in one row of an image, for engines whose tokens have places in it; 0: they have none.
  std::uint32_t columns = 0;
  /// Positions that it takes, for engines where that is another number than its length; 0: `length`.
  std::uint32_t positions = 0;

  [[nodiscard]] TokenCount end() const { return offset + length; }
  bool operator==(const MediaSpan&) const = default;
};

/// A prompt as a model sees it: token ids, and the spans of it that are media.
struct Sequence {
  std::vector<TokenId> tokens;   // placeholders included
  std::vector<MediaSpan> spans;  // ordered by offset, not overlapping
  /// Where other prompts are likely to part from this one, ascending: where the user's last message begins,
  /// or its media, and where an answer begins whose thoughts the next turn leaves out. Hints of the engine,
  /// and no part of what the prompt is.
  std::vector<TokenCount> branches = {};
  bool operator==(const Sequence& other) const {
    return tokens == other.tokens && spans == other.spans;
  }
};

/// kInvalidArgument if a span is empty, exceeds the sequence, is out of order or overlaps another.
Result<void> check_sequence(const Sequence& sequence);

}  // namespace afterimage

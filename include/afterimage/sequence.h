// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <vector>

#include "afterimage/digest.h"
#include "afterimage/ids.h"
#include "afterimage/media.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// A run of placeholder tokens whose rows come from an encoder instead of the embedding table.
struct MediaSpan {
  TokenCount offset{};  // first placeholder, counted from the start of the sequence
  TokenCount length{};  // placeholders; also the rows that the encoder output must have
  Modality modality = Modality::kImage;
  ContentDigest content{};  // what the span shows: compared in full
  bool splittable = true;  // may a prefix end inside? Not with attention both ways inside the span.

  [[nodiscard]] TokenCount end() const { return offset + length; }
  bool operator==(const MediaSpan&) const = default;
};

/// A prompt as a model sees it: token ids, and which stretches of it are media.
struct Sequence {
  std::vector<TokenId> tokens;   // placeholders included
  std::vector<MediaSpan> spans;  // in order of offset, not overlapping
  bool operator==(const Sequence&) const = default;
};

/// kInvalidArgument if a span is empty, leaves the sequence, is out of order or overlaps another.
Result<void> check_sequence(const Sequence& sequence);

}  // namespace afterimage

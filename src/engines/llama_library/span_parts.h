// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"

namespace afterimage {

/// The parts that one media item becomes in a prompt: usually the placeholders of one image; for
/// models that cut large images into tiles, several images with text tokens between them. Stored as
/// the second tensor of the item's encoder output, so that a hit needs neither the image nor its
/// preprocessing.
///
/// Shape    Bytes, u8 [n]: "AFIP", version, then for each part its kind, its tokens and its bytes,
///          all numbers 32-bit little-endian.

/// Text tokens that the model puts between tiles.
using SpanText = std::vector<TokenId>;
/// An image or audio clip as the library describes it: the positions of its rows, not its content.
struct SpanMedia {
  TokenCount length{};
  std::vector<std::byte> description;
  bool operator==(const SpanMedia&) const = default;
};
using SpanPart = std::variant<SpanText, SpanMedia>;

[[nodiscard]] TokenCount length_of(const SpanPart& part);
[[nodiscard]] TokenCount length_of(std::span<const SpanPart> parts);

Tensor to_tensor(std::span<const SpanPart> parts);
/// kCorruption: not a tensor that to_tensor() made.
Result<std::vector<SpanPart>> parts_of(const TensorView& tensor);

}  // namespace afterimage

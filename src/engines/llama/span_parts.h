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

/// What one media item becomes in a prompt: usually one picture's placeholders; with models that
/// cut large pictures into tiles, several, and the words that the model wants between them. It
/// travels with the item's embeddings, as their second tensor, so that whoever has them needs
/// neither the picture nor its preprocessing.
///
/// Shape    Bytes, u8 [n]: "AFIP", version, then for each part its kind, its tokens and its bytes,
///          all numbers 32-bit little-endian.

/// Words of the model's own between tiles.
using SpanText = std::vector<TokenId>;
/// A picture or sound as the library describes it: where its rows stand, not what it shows.
struct SpanMedia {
  TokenCount length{};
  std::vector<std::byte> description;
  bool operator==(const SpanMedia&) const = default;
};
using SpanPart = std::variant<SpanText, SpanMedia>;

[[nodiscard]] TokenCount length_of(const SpanPart& part);
[[nodiscard]] TokenCount length_of(std::span<const SpanPart> parts);

Tensor to_tensor(std::span<const SpanPart> parts);
/// kCorruption: not what to_tensor() makes.
Result<std::vector<SpanPart>> parts_of(const TensorView& tensor);

}  // namespace afterimage

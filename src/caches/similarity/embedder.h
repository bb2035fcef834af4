// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

/// A text in UTF-8, or the bytes of an image file.
using EmbedInput = std::variant<std::string_view, std::span<const std::byte>>;
using Vector = std::vector<float>;

/// Maps texts or images to vectors whose cosine measures similarity. Used to find candidates, never
/// to decide.
///
/// Shape    dimensions() floats, of length 1; or a zero vector, which matches nothing, if the input
///          has no features. Deterministic.
/// Errors   kUnsupported: input of another kind. kUnavailable, kTimeout: a remote model did not
///          answer. kCorruption: an undecodable image, a response without valid vectors.
/// Threads  Any.
class Embedder {
 public:
  virtual ~Embedder() = default;

  /// Model and version. Vectors of different names are never compared.
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual std::size_t dimensions() const = 0;
  /// One vector per input, in order.
  [[nodiscard]] virtual Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) = 0;

  [[nodiscard]] Result<Vector> embed_one(const EmbedInput& input) {
    AFI_TRY(std::vector<Vector> vectors, embed(std::span(&input, 1)));
    return std::move(vectors.front());
  }
};

}  // namespace afterimage

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

/// Turns texts or pictures into vectors that are near each other where these are alike. It finds
/// candidates and decides nothing.
///
/// Shape    dimensions() floats, of length 1; or all zero where there was nothing to go by, which
/// is
///          near to nothing. The same input gives the same vector, always.
/// Errors   kUnsupported: it takes no such input. kUnavailable: a model elsewhere did not answer in
///          time. kCorruption: a picture that is none, an answer that is no vector.
/// Threads  Any.
class Embedder {
 public:
  virtual ~Embedder() = default;

  /// Model and version: vectors under different names are never compared.
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual std::size_t dimensions() const = 0;
  /// One vector an input, in order.
  [[nodiscard]] virtual Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) = 0;

  [[nodiscard]] Result<Vector> embed_one(const EmbedInput& input) {
    AFI_TRY(std::vector<Vector> vectors, embed(std::span(&input, 1)));
    return std::move(vectors.front());
  }
};

}  // namespace afterimage

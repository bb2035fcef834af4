// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "foundation/json/json_text.h"

namespace afterimage {

/// A response with embeddings, taken apart: each vector as the server wrote it, and what is around them.
///
/// Threads  Any; immutable.
class VectorResponse {
 public:
  /// kInvalidArgument: not a JSON object with as many vectors in "data" as there were inputs, each an
  /// object with an "embedding" and, if it has one, the "index" of an input of its own.
  [[nodiscard]] static Result<VectorResponse> read(std::string body, std::size_t inputs);

  /// What is around the vectors alone: as with() makes it of none, for a record.
  [[nodiscard]] std::string frame() const;
  /// Reads what frame() made, or any response whose vectors are not wanted.
  [[nodiscard]] static Result<VectorResponse> read_frame(std::string body);

  [[nodiscard]] std::size_t size() const { return vectors_.size(); }
  /// The vector of input i, as JSON, as it is written at position `at` of another response.
  [[nodiscard]] std::string vector(std::size_t i, std::size_t at) const;

  /// What "usage" says of a response whose vectors nobody counted the tokens of.
  enum class Usage : bool { kAsCounted, kNothing };
  /// This response with other vectors, which are those of vector(), in order.
  [[nodiscard]] std::string with(std::span<const std::string> vectors, Usage usage) const;

 private:
  [[nodiscard]] Result<JsonValue> find_places(JsonReader& reader);

  struct Place {
    std::size_t begin = 0;
    std::size_t end = 0;  // 0: it is not there
  };
  struct Vector {
    Place all;
    Place index;  // within the body
  };

  std::string body_;
  Place data_;
  Place usage_;
  std::vector<Vector> vectors_;  // by input
};

}  // namespace afterimage

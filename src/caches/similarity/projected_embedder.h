// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "caches/similarity/embedder.h"

namespace afterimage {

/// Another embedder's vectors, multiplied with a matrix that keeps what tells questions apart, such
/// as "where" from "how big", and drops what they are about.
///
/// Shape    The matrix: 32-bit floats, little-endian; for each of dimensions() one weight for every
///          number of the other's vectors, and then what is added. A vector of zeros stays one.
/// Errors   Those of the other embedder.
/// Threads  Any.
/// Source   bench/train_similar.py writes such matrices. name() has the matrix's digest.
class ProjectedEmbedder final : public Embedder {
 public:
  /// kInvalidArgument: the matrix is empty, has half a row, or a number that is not finite.
  static Result<std::unique_ptr<Embedder>> create(std::unique_ptr<Embedder> of,
                                                  std::span<const std::byte> matrix);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t dimensions() const override { return rows_; }
  [[nodiscard]] Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) override;

 private:
  ProjectedEmbedder(std::unique_ptr<Embedder> of, std::vector<float> matrix, std::string name);
  [[nodiscard]] Vector project(const Vector& vector) const;

  std::unique_ptr<Embedder> of_;
  std::vector<float> matrix_;
  std::size_t rows_;
  std::string name_;
};

}  // namespace afterimage

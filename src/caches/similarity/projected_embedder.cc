// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/projected_embedder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the file's numbers are read as they are");
constexpr std::size_t kDigestDigits = 16;

bool is_zero(const Vector& vector) {
  return std::ranges::all_of(vector, [](float x) { return x == 0.0F; });
}

}  // namespace

ProjectedEmbedder::ProjectedEmbedder(std::unique_ptr<Embedder> of, std::vector<float> matrix,
                                     std::string name)
    : of_(std::move(of)),
      matrix_(std::move(matrix)),
      rows_(matrix_.size() / (of_->dimensions() + 1)),
      name_(std::move(name)) {}

Result<std::unique_ptr<Embedder>> ProjectedEmbedder::create(std::unique_ptr<Embedder> of,
                                                            std::span<const std::byte> matrix) {
  const std::size_t row = (of->dimensions() + 1) * sizeof(float);
  if (matrix.empty() || matrix.size() % row != 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a projection of {} bytes: vectors of \"{}\" need rows of {} bytes",
                            matrix.size(), of->name(), row));
  }
  std::vector<float> numbers(matrix.size() / sizeof(float));
  std::memcpy(numbers.data(), matrix.data(), matrix.size());
  if (!std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); })) {
    return fail(ErrorCode::kInvalidArgument, "a number of the projection is not finite");
  }
  std::string name = fmt::format("{}, projected by {}", of->name(),
                                 to_hex(sha256(matrix)).substr(0, kDigestDigits));
  return std::unique_ptr<Embedder>(
      new ProjectedEmbedder(std::move(of), std::move(numbers), std::move(name)));
}

Vector ProjectedEmbedder::project(const Vector& vector) const {
  Vector projected(rows_, 0.0F);
  if (is_zero(vector)) return projected;
  for (std::size_t row = 0; row < rows_; ++row) {
    const auto* const weights = matrix_.data() + row * (vector.size() + 1);
    projected[row] =
        std::inner_product(vector.begin(), vector.end(), weights, weights[vector.size()]);
  }
  const float length =
      std::sqrt(std::inner_product(projected.begin(), projected.end(), projected.begin(), 0.0F));
  if (!std::isnormal(length)) return Vector(rows_, 0.0F);
  for (float& x : projected) x /= length;
  return projected;
}

Result<std::vector<Vector>> ProjectedEmbedder::embed(std::span<const EmbedInput> inputs) {
  AFI_TRY(std::vector<Vector> vectors, of_->embed(inputs));
  for (Vector& vector : vectors) vector = project(vector);
  return vectors;
}

}  // namespace afterimage

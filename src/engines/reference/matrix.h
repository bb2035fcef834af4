// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <vector>

#include "engines/reference/kernel_table.h"
#include "foundation/platform/random.h"

namespace afterimage {

/// Allocator aligned to cache lines, so that no vector load straddles two.
template <typename T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  CacheLineAllocator() = default;
  template <typename U>
  explicit CacheLineAllocator(const CacheLineAllocator<U>&) {}

  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* at, std::size_t) { ::operator delete(at, kLine); }
  bool operator==(const CacheLineAllocator&) const = default;
};

using Floats = std::vector<float, CacheLineAllocator<float>>;

/// Rows of activations, dense and row-major.
class Matrix {
 public:
  Matrix() = default;
  Matrix(std::size_t rows, std::size_t columns)
      : rows_(rows), columns_(columns), data_(rows * columns) {}

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] float* row(std::size_t i) { return data_.data() + i * columns_; }
  [[nodiscard]] const float* row(std::size_t i) const { return data_.data() + i * columns_; }
  [[nodiscard]] std::span<const float> all() const { return data_; }
  /// The same numbers with `factor` rows joined into one. Requires that factor divides rows().
  [[nodiscard]] Matrix merged(std::size_t factor) &&;

 private:
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  Floats data_;
};

/// Element by element; shapes must agree.
void add(Matrix& to, const Matrix& what);
[[nodiscard]] Matrix normalized(const Matrix& rows, const Floats& gain, const Kernels& kernels);

/// The constant right-hand side of a product, [inner, columns], in panels of 32 columns.
class PackedWeights {
 public:
  /// Row-major numbers. Requires numbers.size() == inner * columns.
  PackedWeights(std::size_t inner, std::size_t columns, std::span<const float> numbers);
  /// Uniform with variance 1 / inner: inputs with variance 1 give outputs with variance 1.
  static PackedWeights random(std::size_t inner, std::size_t columns, Rng& rng);

  [[nodiscard]] std::size_t inner() const { return inner_; }
  [[nodiscard]] std::size_t columns() const { return columns_; }
  /// rows · weights. Row i of the result depends on row i alone, bit for bit.
  [[nodiscard]] Matrix times(const Matrix& rows, const Kernels& kernels) const;

 private:
  std::size_t inner_;
  std::size_t columns_;
  Floats panels_;
};

/// Uniform in [low, high).
[[nodiscard]] Floats random_floats(std::size_t count, float low, float high, Rng& rng);

}  // namespace afterimage

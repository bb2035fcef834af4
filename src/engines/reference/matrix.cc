// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/matrix.h"

#include <cmath>
#include <utility>

#include "afterimage/result.h"

namespace afterimage {

Matrix Matrix::merged(std::size_t factor) && {
  AFI_CHECK(rows_ % factor == 0);
  Matrix wide;
  wide.rows_ = rows_ / factor;
  wide.columns_ = columns_ * factor;
  wide.data_ = std::move(data_);
  return wide;
}

void add(Matrix& to, const Matrix& what) {
  AFI_CHECK(to.rows() == what.rows() && to.columns() == what.columns());
  float* left = to.row(0);
  const float* right = what.row(0);
  for (std::size_t i = 0; i < what.all().size(); ++i) left[i] += right[i];
}

Matrix normalized(const Matrix& rows, const Floats& gain, const Kernels& kernels) {
  AFI_CHECK(rows.columns() == gain.size() && gain.size() % kSumLanes == 0);
  Matrix result(rows.rows(), rows.columns());
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    kernels.rms_norm(rows.row(i), gain.data(), gain.size(), result.row(i));
  }
  return result;
}

PackedWeights::PackedWeights(std::size_t inner, std::size_t columns, std::span<const float> numbers)
    : inner_(inner), columns_(columns) {
  AFI_CHECK(numbers.size() == inner * columns);
  const std::size_t panels = (columns + kPanelColumns - 1) / kPanelColumns;
  panels_.resize(panels * inner * kPanelColumns);
  for (std::size_t j = 0; j < columns; ++j) {
    float* column = panels_.data() + j / kPanelColumns * inner * kPanelColumns + j % kPanelColumns;
    for (std::size_t k = 0; k < inner; ++k) column[k * kPanelColumns] = numbers[k * columns + j];
  }
}

PackedWeights PackedWeights::random(std::size_t inner, std::size_t columns, Rng& rng) {
  const float bound = std::sqrt(3.0F / static_cast<float>(inner));
  return {inner, columns, random_floats(inner * columns, -bound, bound, rng)};
}

Matrix PackedWeights::times(const Matrix& rows, const Kernels& kernels) const {
  AFI_CHECK(rows.columns() == inner_);
  Matrix result(rows.rows(), columns_);
  kernels.product(
      rows.row(0), inner_, rows.rows(),
      {.at = panels_.data(), .row_stride = kPanelColumns, .panel_stride = inner_ * kPanelColumns},
      inner_, columns_, result.row(0), columns_);
  return result;
}

Floats random_floats(std::size_t count, float low, float high, Rng& rng) {
  Floats numbers(count);
  const double range = static_cast<double>(high) - static_cast<double>(low);
  for (float& number : numbers) number = static_cast<float>(low + range * rng.uniform());
  return numbers;
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// Element type. The numeric values are written into keys and files: append, never renumber.
enum class DType : std::uint8_t {
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kF64 = 4,
  kI8 = 5,
  kU8 = 6,
  kI16 = 7,
  kI32 = 8,
  kI64 = 9,
};

[[nodiscard]] Bytes size_of(DType dtype);
[[nodiscard]] std::string_view to_string(DType dtype);

/// Extents of a dense row-major tensor, outermost first. Rank 0 is a scalar.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;

  Shape() = default;
  /// At most kMaxRank extents, for literals in code. Use of() for outside input.
  Shape(std::initializer_list<std::uint64_t> extents);
  /// kInvalidArgument above kMaxRank.
  static Result<Shape> of(std::span<const std::uint64_t> extents);

  [[nodiscard]] std::size_t rank() const { return rank_; }
  [[nodiscard]] std::uint64_t operator[](std::size_t axis) const { return extents_[axis]; }
  [[nodiscard]] std::span<const std::uint64_t> extents() const {
    return std::span(extents_).first(rank_);
  }
  bool operator==(const Shape&) const = default;

 private:
  std::array<std::uint64_t, kMaxRank> extents_{};  // unused axes stay 0, so == can compare them all
  std::size_t rank_ = 0;
};

/// "[256, 128]"
std::string to_string(const Shape& shape);

/// Bytes of a dense tensor of any rank; kInvalidArgument if the product does not fit 64 bits.
Result<Bytes> tensor_bytes(DType dtype, const Shape& shape);

/// A non-owning view of a dense tensor. Its size is exactly what dtype and shape require.
class TensorView {
 public:
  TensorView() = default;
  /// kInvalidArgument if the size of `bytes` is not exactly what dtype and shape require.
  static Result<TensorView> over(DType dtype, const Shape& shape, std::span<const std::byte> bytes);

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  /// The elements as floats. Requires dtype kF32; the bytes must be aligned for float.
  [[nodiscard]] std::span<const float> f32() const;

 private:
  TensorView(DType dtype, const Shape& shape, std::span<const std::byte> bytes)
      : dtype_(dtype), shape_(shape), bytes_(bytes) {}

  DType dtype_ = DType::kF32;
  Shape shape_{0};
  std::span<const std::byte> bytes_;
};

/// An encoder's output for one media item: one tensor, or several (deepstack planes, grids).
/// The views point into the engine's own buffers; a caller that stores the tensors copies them.
using TensorViews = std::vector<TensorView>;

/// A dense tensor that owns its bytes.
struct Tensor {
  DType dtype = DType::kF32;
  Shape shape{0};
  std::vector<std::byte> bytes;

  /// kInvalidArgument if the size of `bytes` is not what dtype and shape require.
  [[nodiscard]] Result<TensorView> view() const { return TensorView::over(dtype, shape, bytes); }
};

/// An encoder's output while the engine still owns it. The first tensor has one row per embedding.
using EncoderOutput = std::vector<Tensor>;

/// Views of all tensors. kInvalidArgument, naming the tensor, if the size of one does not match its
/// dtype and shape.
Result<TensorViews> views_of(const EncoderOutput& output);

}  // namespace afterimage

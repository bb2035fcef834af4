// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/tensor.h"

#include <algorithm>
#include <bit>

namespace afterimage {

Bytes size_of(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
      return 1_B;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
      return 2_B;
    case DType::kF32:
    case DType::kI32:
      return 4_B;
    case DType::kF64:
    case DType::kI64:
      return 8_B;
  }
  AFI_CHECK(false && "a DType outside the list");
  return 0_B;
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kF64:
      return "f64";
    case DType::kI8:
      return "i8";
    case DType::kU8:
      return "u8";
    case DType::kI16:
      return "i16";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
  }
  return "unknown";
}

Shape::Shape(std::initializer_list<std::uint64_t> extents) : rank_(extents.size()) {
  AFI_CHECK(extents.size() <= kMaxRank);
  std::copy(extents.begin(), extents.end(), extents_.begin());
}

Result<Shape> Shape::of(std::span<const std::uint64_t> extents) {
  if (extents.size() > kMaxRank) {
    return fail(ErrorCode::kInvalidArgument, "a tensor of rank " + std::to_string(extents.size()) +
                                                 "; at most " + std::to_string(kMaxRank));
  }
  Shape shape;
  shape.rank_ = extents.size();
  std::copy(extents.begin(), extents.end(), shape.extents_.begin());
  return shape;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(shape[axis]);
  }
  return text + "]";
}

Result<Bytes> tensor_bytes(DType dtype, const Shape& shape) {
  const auto extents = shape.extents();
  // A zero extent makes the tensor empty, even if the product of the others would overflow.
  if (std::find(extents.begin(), extents.end(), 0U) != extents.end()) return 0_B;
  std::uint64_t total = size_of(dtype).value();
  for (const std::uint64_t extent : extents) {
    if (__builtin_mul_overflow(total, extent, &total)) {
      return fail(ErrorCode::kInvalidArgument,
                  "a tensor of shape " + to_string(shape) + " has more than 2^64 bytes");
    }
  }
  return Bytes(total);
}

Result<TensorView> TensorView::over(DType dtype, const Shape& shape,
                                    std::span<const std::byte> bytes) {
  AFI_TRY(const Bytes needed, tensor_bytes(dtype, shape));
  if (needed.value() != bytes.size()) {
    return fail(ErrorCode::kInvalidArgument, std::string(to_string(dtype)) + to_string(shape) +
                                                 " needs " + std::to_string(needed.value()) +
                                                 " bytes, got " + std::to_string(bytes.size()));
  }
  return TensorView(dtype, shape, bytes);
}

std::span<const float> TensorView::f32() const {
  AFI_CHECK(dtype_ == DType::kF32);
  AFI_CHECK(std::bit_cast<std::uintptr_t>(bytes_.data()) % alignof(float) == 0);
  return {reinterpret_cast<const float*>(bytes_.data()), bytes_.size() / sizeof(float)};
}

Result<TensorViews> views_of(const EncoderOutput& output) {
  TensorViews views;
  views.reserve(output.size());
  for (const Tensor& tensor : output) {
    AFI_TRY(TensorView view, tensor.view());
    views.push_back(view);
  }
  return views;
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <string>

#include "afterimage/engine.h"

namespace afterimage {
namespace {

Error misfit(std::size_t part, const std::string& what) {
  return {ErrorCode::kCorruption,
          "the output of part " + std::to_string(part) + " does not fit its item's: " + what};
}

/// Rows of the joined tensor. Every part must have the first one's dtype and the first one's extents
/// after the rows.
Result<std::uint64_t> joined_rows(std::span<const TensorViews> parts, std::size_t tensor) {
  const TensorView& first = parts.front()[tensor];
  std::uint64_t rows = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const TensorView& view = parts[i][tensor];
    const auto extents = view.shape().extents();
    if (extents.empty()) return std::unexpected(misfit(i, "a tensor without rows"));
    const bool fits = view.dtype() == first.dtype() &&
                      std::ranges::equal(extents.subspan(1), first.shape().extents().subspan(1));
    if (!fits) {
      return std::unexpected(misfit(
          i, std::string(to_string(view.dtype())) + " " + to_string(view.shape()) + " after " +
                 std::string(to_string(first.dtype())) + " " + to_string(first.shape())));
    }
    rows += extents[0];
  }
  return rows;
}

}  // namespace

Result<EncoderOutput> join_parts(std::span<const TensorViews> parts) {
  if (parts.empty()) return fail(ErrorCode::kCorruption, "an item without parts has no output");
  const std::size_t tensors = parts.front().size();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].size() == tensors && tensors > 0) continue;
    return std::unexpected(misfit(i, std::to_string(parts[i].size()) + " tensors"));
  }
  EncoderOutput joined;
  for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
    AFI_TRY(const std::uint64_t rows, joined_rows(parts, tensor));
    const TensorView& first = parts.front()[tensor];
    std::vector<std::uint64_t> extents(first.shape().extents().begin(),
                                       first.shape().extents().end());
    extents[0] = rows;
    Tensor whole{.dtype = first.dtype(), .shape = Shape(), .bytes = {}};
    AFI_TRY(whole.shape, Shape::of(extents));
    AFI_TRY(const Bytes bytes, tensor_bytes(whole.dtype, whole.shape));
    whole.bytes.reserve(bytes.value());
    for (const TensorViews& part : parts) {
      whole.bytes.insert(whole.bytes.end(), part[tensor].bytes().begin(),
                         part[tensor].bytes().end());
    }
    joined.push_back(std::move(whole));
  }
  return joined;
}

}  // namespace afterimage

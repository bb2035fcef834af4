// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/packed_tensors.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "afterimage/memory_budget.h"

namespace afterimage {

static_assert(Payload::padded(1) == 64, "entries on disk use this alignment");

PackedTensors pack(std::span<const TensorView> tensors) {
  static constexpr std::array<std::byte, Payload::kAlignment> kPadding{};
  PackedTensors packed;
  for (const TensorView& tensor : tensors) {
    const std::uint64_t size = tensor.bytes().size();
    packed.forms.push_back({.dtype = tensor.dtype(), .shape = tensor.shape()});
    packed.pieces.push_back(tensor.bytes());
    packed.pieces.push_back(std::span(kPadding).first(Payload::padded(size) - size));
  }
  return packed;
}

Result<TensorViews> unpack(const TierEntry& entry) {
  TensorViews views;
  std::uint64_t at = 0;
  for (const TensorSpec& form : entry.meta.tensors) {
    AFI_TRY(const Bytes size, tensor_bytes(form.dtype, form.shape));
    const std::uint64_t room = entry.bytes.size() - at;
    const bool ends_it = size.value() == room;
    if (size.value() > room || (!ends_it && Payload::padded(size.value()) > room)) {
      return fail(ErrorCode::kCorruption,
                  fmt::format("the tensors of an entry exceed its {} bytes", entry.bytes.size()));
    }
    AFI_TRY(TensorView view,
            TensorView::over(form.dtype, form.shape, entry.bytes.subspan(at, size.value())));
    views.push_back(view);
    at += ends_it ? room : Payload::padded(size.value());
  }
  if (at != entry.bytes.size()) {
    return fail(
        ErrorCode::kCorruption,
        fmt::format("an entry has {} bytes, but its tensors have {}", entry.bytes.size(), at));
  }
  return views;
}

}  // namespace afterimage

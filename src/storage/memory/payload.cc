// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string>

#include "afterimage/memory_budget.h"
#include "afterimage/result.h"

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // three times the speed of the plain symbols
#else
#include <xxhash.h>
#endif

namespace afterimage {
void Payload::Free::operator()(std::byte* bytes) const {
  ::operator delete(bytes, std::align_val_t(kAlignment));
}

Bytes Payload::bytes_needed(std::span<const TensorView> tensors) {
  Bytes total;
  for (const TensorView& tensor : tensors) total += Bytes(padded(tensor.bytes().size()));
  return total;
}

Result<Payload> Payload::copy_of(std::span<const TensorView> tensors, Reservation room) {
  const Bytes needed = bytes_needed(tensors);
  if (room.bytes() != needed) {
    return fail(ErrorCode::kNoSpace, std::to_string(needed.value()) +
                                         " bytes are needed, but the reservation has " +
                                         std::to_string(room.bytes().value()));
  }
  Payload payload;
  payload.charged_ = needed;
  payload.room_ = std::move(room);
  payload.bytes_.reset(static_cast<std::byte*>(::operator new(
      std::max<std::uint64_t>(needed.value(), 1), std::align_val_t(kAlignment), std::nothrow)));
  if (payload.bytes_ == nullptr) {
    return fail(ErrorCode::kNoSpace,
                "the machine has no memory for " + std::to_string(needed.value()) + " bytes");
  }
  payload.stored_bytes_ = {payload.bytes_.get(), needed.value()};
  std::byte* at = payload.bytes_.get();
  for (const TensorView& tensor : tensors) {
    const std::uint64_t size = tensor.bytes().size();
    if (size > 0) std::memcpy(at, tensor.bytes().data(), size);
    std::memset(at + size, 0, padded(size) - size);
    AFI_TRY(TensorView view, TensorView::over(tensor.dtype(), tensor.shape(), std::span(at, size)));
    payload.views_.push_back(view);
    at += padded(size);
  }
  payload.stored_ = payload.checksum();
  return payload;
}

Payload Payload::taken_over(std::shared_ptr<AlignedBytes> memory, std::span<const std::byte> stored,
                            TensorViews tensors, Reservation room) {
  AFI_CHECK(room.bytes() == Bytes(memory->bytes().size()));
  Payload payload;
  payload.charged_ = room.bytes();
  memory->charge(std::move(room));
  payload.memory_ = std::move(memory);
  payload.stored_bytes_ = stored;
  payload.views_ = std::move(tensors);
  payload.stored_ = payload.checksum();
  return payload;
}

Payload::Checksum Payload::checksum() const {
  // Shapes are hashed too: the same bytes with another shape are another tensor.
  std::uint64_t seed = views_.size();
  for (const TensorView& view : views_) {
    std::array<std::uint64_t, Shape::kMaxRank + 2> header{};
    header[0] = static_cast<std::uint64_t>(view.dtype());
    header[1] = view.shape().rank();
    std::ranges::copy(view.shape().extents(), header.begin() + 2);
    seed = XXH3_64bits_withSeed(header.data(), sizeof header, seed);
  }
  const XXH128_hash_t hash =
      XXH3_128bits_withSeed(stored_bytes_.data(), stored_bytes_.size(), seed);
  return {.low = hash.low64, .high = hash.high64};
}

bool Payload::intact() const { return checksum() == stored_; }

}  // namespace afterimage

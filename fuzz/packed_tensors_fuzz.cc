// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// The tensor specs and bytes of an untrusted entry: views within the bytes that do not overlap, or
// an error; packing the views reproduces the entry, except for gaps and padding.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "afterimage/result.h"
#include "fuzz_input.h"
#include "storage/memory/byte_pieces.h"
#include "storage/memory/packed_tensors.h"

using namespace afterimage;

namespace {

constexpr std::array kTypes{DType::kF32, DType::kF16, DType::kBF16, DType::kU8, DType::kI64};

/// Extents are small or huge: those in between only cost time.
std::uint64_t extent_of(testing::FuzzInput& input) {
  const std::uint8_t n = input.u8();
  return n < 250 ? n : input.u64();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  testing::FuzzInput input(data, size);
  MemoryBudget budget(1_MiB);  // declared before what it pays for
  TierEntry entry;
  for (std::uint8_t left = input.u8() % 8; left > 0; --left) {
    const DType dtype = kTypes.at(input.u8() % kTypes.size());
    std::array<std::uint64_t, Shape::kMaxRank> extents{};
    const std::size_t rank = input.u8() % (Shape::kMaxRank + 1);
    for (std::size_t axis = 0; axis < rank; ++axis) extents.at(axis) = extent_of(input);
    const auto shape = Shape::of(std::span(extents).first(rank));
    if (!shape.has_value()) return 0;
    entry.meta.tensors.push_back({.dtype = dtype, .shape = *shape});
  }
  const std::size_t given = input.u16();
  const auto memory = AlignedBytes::create(given, budget);
  if (!memory.has_value()) return 0;
  const std::string_view content = input.rest();
  std::ranges::fill((*memory)->bytes(), std::byte{0});
  std::ranges::copy(std::as_bytes(std::span(content)).first(std::min(content.size(), given)),
                    (*memory)->bytes().begin());
  entry.memory = *memory;
  entry.bytes = (*memory)->bytes().first(given);

  const auto views = unpack(entry);
  if (!views.has_value()) {
    AFI_CHECK(!views.error().message.empty());
    return 0;
  }
  AFI_CHECK(views->size() == entry.meta.tensors.size());
  const std::byte* end = entry.bytes.data();
  for (const TensorView& view : *views) {
    AFI_CHECK(view.bytes().empty() || view.bytes().data() >= end);
    if (!view.bytes().empty()) end = view.bytes().data() + view.bytes().size();
    AFI_CHECK(end <= entry.bytes.data() + entry.bytes.size());
  }
  const PackedTensors packed = pack(*views);
  AFI_CHECK(packed.forms == entry.meta.tensors && size_of(packed.pieces) >= given);
  const auto used = static_cast<std::size_t>(end - entry.bytes.data());
  AFI_CHECK(size_of(packed.pieces) == given ||
            (given == used && size_of(packed.pieces) - given < 64));
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/packed_tensors.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "storage/memory/byte_pieces.h"

namespace afterimage {
namespace {

std::vector<std::byte> counted(std::size_t size, unsigned from) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((from + i) & 0xFFU);
  return bytes;
}

TensorView view(DType dtype, const Shape& shape, std::span<const std::byte> bytes) {
  return TensorView::over(dtype, shape, bytes).value();
}

/// As a tier stores them.
struct Stored {
  explicit Stored(const PackedTensors& packed)
      : forms(packed.forms), bytes(size_of(packed.pieces)) {
    copy_pieces(packed.pieces, bytes);
  }
  Stored(std::vector<TensorSpec> its_forms, std::vector<std::byte> its_bytes)
      : forms(std::move(its_forms)), bytes(std::move(its_bytes)) {}
  std::vector<TensorSpec> forms;
  std::vector<std::byte> bytes;
};
TierEntry entry_of(const Stored& stored) {
  return {.meta = {.tensors = stored.forms}, .bytes = stored.bytes, .memory = nullptr};
}

TEST(PackedTensors, RoundTripAlignedTo64) {
  const auto first = counted(12, 1);
  const auto second = counted(130, 50);
  const std::vector<TensorView> tensors = {view(DType::kF32, Shape{3}, first),
                                           view(DType::kU8, Shape{0, 7}, {}),
                                           view(DType::kU8, Shape{2, 65}, second)};
  const Stored packed(pack(tensors));
  EXPECT_EQ(packed.bytes.size(), 64U + 192U);
  const TierEntry entry = entry_of(packed);
  const TensorViews views = unpack(entry).value();
  ASSERT_EQ(views.size(), tensors.size());
  for (std::size_t i = 0; i < views.size(); ++i) {
    EXPECT_EQ(views[i].dtype(), tensors[i].dtype());
    EXPECT_EQ(views[i].shape(), tensors[i].shape());
    EXPECT_TRUE(std::ranges::equal(views[i].bytes(), tensors[i].bytes()));
    EXPECT_EQ((views[i].bytes().data() - packed.bytes.data()) % 64, 0);
  }
}

TEST(PackedTensors, RefersToTheTensorsBytes) {
  const auto bytes = counted(100, 0);
  const std::vector<TensorView> tensors = {view(DType::kU8, Shape{100}, bytes)};
  EXPECT_EQ(pack(tensors).pieces.front().data(), bytes.data());
}

TEST(PackedTensors, ASingleTensorNeedsNoPacking) {
  const auto bytes = counted(100, 0);
  for (const std::uint64_t size : {1U, 63U, 64U, 65U, 100U}) {
    Stored lies({{DType::kU8, Shape{size}}}, bytes);
    lies.bytes.resize(size);
    const TierEntry entry = entry_of(lies);
    const TensorViews views = unpack(entry).value();
    ASSERT_EQ(views.size(), 1U);
    EXPECT_TRUE(std::ranges::equal(views[0].bytes(), lies.bytes));
    lies.bytes.push_back(std::byte{0});
    EXPECT_EQ(unpack(entry_of(lies)).has_value(), size % 64 == 63) << size;
  }
}

TEST(PackedTensors, SpecsThatDoNotMatchTheBytesAreCorruption) {
  const auto bytes = counted(100, 0);
  const std::vector<TensorView> tensors = {view(DType::kU8, Shape{100}, bytes)};
  const Stored packed(pack(tensors));
  const auto refused = [&](std::vector<TensorSpec> forms) {
    TierEntry entry = entry_of(packed);
    entry.meta.tensors = std::move(forms);
    const auto views = unpack(entry);
    return !views.has_value();
  };
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  EXPECT_FALSE(refused({{DType::kU8, Shape{100}}}));
  EXPECT_TRUE(refused({{DType::kU8, Shape{300}}}));
  EXPECT_TRUE(refused({{DType::kU8, Shape{10}}}));
  EXPECT_TRUE(refused({{DType::kU8, Shape{100}}, {DType::kU8, Shape{1}}}));
  EXPECT_TRUE(refused({{DType::kF64, Shape{kHuge}}}));
  EXPECT_TRUE(refused({{DType::kU8, Shape{kHuge}}}));
  EXPECT_TRUE(refused({}));
}

}  // namespace
}  // namespace afterimage

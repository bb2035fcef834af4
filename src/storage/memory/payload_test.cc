// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "afterimage/memory_budget.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

Tensor tensor(DType dtype, Shape shape, unsigned fill = 7) {
  const Bytes size = tensor_bytes(dtype, shape).value();
  return {.dtype = dtype,
          .shape = shape,
          .bytes = std::vector<std::byte>(size.value(), static_cast<std::byte>(fill))};
}

Payload stored(MemoryBudget& budget, const EncoderOutput& output) {
  const TensorViews views = views_of(output).value();
  return Payload::copy_of(views, budget.reserve(Payload::bytes_needed(views)).value()).value();
}

TEST(Payload, ChargesTheExactBytesOfAnyRankRoundedToAlignment) {
  const struct {
    const char* name;
    Shape shape;
    std::uint64_t charged;
  } kCases[] = {
      {"scalar", Shape{}, 64},
      {"empty", Shape{0, 5}, 0},
      {"rank 1", Shape{16}, 64},
      {"rank 1, one more", Shape{17}, 128},
      {"rank 2", Shape{32, 48}, 6'144},
      {"rank 3", Shape{3, 32, 48}, 18'432},
      // The seed implementation charged 256 bytes for this one.
      {"rank 4, a video", Shape{16, 16, 64, 64}, 4'194'304},
      {"rank 5", Shape{2, 2, 2, 2, 16}, 1'024},
  };
  for (const auto& c : kCases) {
    MemoryBudget budget(1_GiB);
    const Payload payload = stored(budget, {tensor(DType::kF32, c.shape)});
    EXPECT_EQ(payload.bytes().value(), c.charged) << c.name;
    EXPECT_EQ(budget.used(), payload.bytes()) << c.name;
  }
}

TEST(Payload, SeveralTensorsKeepTheirShapesAndBytes) {
  MemoryBudget budget(1_MiB);
  const EncoderOutput output = {tensor(DType::kF32, {4, 3}, 1), tensor(DType::kBF16, {5}, 2),
                                tensor(DType::kU8, {}, 3)};
  const Payload payload = stored(budget, output);
  ASSERT_EQ(payload.tensors().size(), 3U);
  for (std::size_t i = 0; i < output.size(); ++i) {
    const TensorView& view = payload.tensors()[i];
    EXPECT_EQ(view.dtype(), output[i].dtype);
    EXPECT_EQ(view.shape(), output[i].shape);
    EXPECT_TRUE(std::ranges::equal(view.bytes(), output[i].bytes));
    EXPECT_EQ(std::bit_cast<std::uintptr_t>(view.bytes().data()) % Payload::kAlignment, 0U);
  }
}

// The seed implementation stored the caller's array: changing it later changed every agent's data.
TEST(Payload, IsACopyAndNotTheCallersArray) {
  MemoryBudget budget(1_KiB);
  EncoderOutput output = {tensor(DType::kU8, {8}, 1)};
  const Payload payload = stored(budget, output);
  output[0].bytes[0] = std::byte{99};
  EXPECT_EQ(payload.tensors()[0].bytes()[0], std::byte{1});
  EXPECT_TRUE(payload.intact());
}

TEST(Payload, NeedsAnExactReservation) {
  MemoryBudget budget(1_KiB);
  const EncoderOutput output = {tensor(DType::kU8, {100})};
  const TensorViews views = views_of(output).value();
  for (const Bytes promised : {0_B, 64_B, 192_B}) {
    EXPECT_EQ(Payload::copy_of(views, budget.reserve(promised).value()).error().code,
              ErrorCode::kNoSpace);
    EXPECT_EQ(budget.used(), 0_B) << "a failed copy releases its reservation";
  }
}

TEST(Payload, ReleasesItsReservationWhenDestroyed) {
  MemoryBudget budget(1_KiB);
  {
    const Payload payload = stored(budget, {tensor(DType::kU8, {100})});
    EXPECT_EQ(budget.used(), 128_B);
  }
  EXPECT_EQ(budget.used(), 0_B);
}

TEST(Payload, EveryFlippedBitIsDetected) {
  MemoryBudget budget(1_KiB);
  const Payload payload = stored(budget, {tensor(DType::kU8, {48}), tensor(DType::kF32, {3})});
  // Writing through the view simulates a memory error.
  auto* bytes = const_cast<std::byte*>(payload.tensors()[0].bytes().data());
  for (std::size_t bit = 0; bit < payload.bytes().value() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(payload.intact()) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  EXPECT_TRUE(payload.intact());
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Packed activations: bytes, then a scale for each block, then what the format needs of sums.
namespace afterimage {
namespace {

struct PackedRow {
  const std::int8_t* bytes;
  const float* scales;
  const std::byte* sums;
};

inline PackedRow packed_row(const ProductColumns& columns, std::size_t c, std::size_t inner,
                            std::size_t block) {
  const std::byte* const at = columns.packed + c * columns.packed_bytes;
  const auto* const scales = reinterpret_cast<const float*>(at + inner);
  return {reinterpret_cast<const std::int8_t*>(at), scales,
          reinterpret_cast<const std::byte*>(scales + inner / block)};
}

/// Of one block of a row with each column: eight numbers, of which the sum is meant.
template <std::size_t C>
struct BlockSums {
  HalfInts whole[C];
};

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/engine.h"
#include "afterimage/kv.h"
#include "afterimage/result.h"
#include "afterimage/tensor.h"

namespace afterimage {

/// How keys in an engine's KV rows depend on a token's place, so that rows can be used at another
/// one: a key is turned by rotary embeddings, a value is not. Such rows are approximations: they
/// still depend on what stood before them where they were computed.
struct KeyRotation {
  /// Which numbers of a head are turned together: i and i + half (NeoX), or 2i and 2i + 1.
  enum class Pairs : unsigned char { kHalves, kNeighbours };
  /// The keys of one layer in a row.
  struct Keys {
    std::size_t group = 0;  // of the layout
    std::uint64_t at = 0;   // byte offset in a row
    std::uint32_t heads = 0;
  };
  DType dtype = DType::kF32;  // of keys: f32 or f16
  Pairs pairs = Pairs::kHalves;
  std::uint32_t head_size = 0;     // numbers; those after the last pair are not turned
  std::vector<float> radians;      // by which one step turns pair i
  std::vector<std::uint8_t> axes;  // of TokenPlace: which one turns pair i
  std::vector<Keys> keys;
};

/// kUnsupported, naming the group: the layout has windows or states, which no rotation moves.
/// kInvalidArgument: the rotation does not fit the layout's rows.
Result<void> check_rotation(const KeyRotation& rotation, const KvLayout& layout);

/// Turns the keys of one row of `group` by `steps` along each axis. Requires a rotation that
/// check_rotation() accepts.
void rotate_keys(const KeyRotation& rotation, std::size_t group, const TokenPlace& steps,
                 std::span<std::byte> row);

/// How far the keys `rotation.keys[index]` of two rows are apart, relative to the length of those of
/// `b`.
[[nodiscard]] double key_difference(const KeyRotation& rotation, std::size_t index,
                                    std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace afterimage

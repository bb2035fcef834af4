// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// How a group of layers stores its KV. The numeric values are written into keys and files: append,
/// never renumber.
enum class KvKind : std::uint8_t {
  kFull = 1,       // one row per token, for all tokens
  kSliding = 2,    // one row per token, for the last `window` tokens
  kShared = 3,     // no rows of its own: reads another group's rows
  kRecurrent = 4,  // one state, whatever the length
};
/// "full", "sliding", "shared", "recurrent".
std::string_view to_string(KvKind kind);

/// Layers that store their KV the same way and are captured and restored together.
struct LayerGroup {
  KvKind kind = KvKind::kFull;
  std::uint32_t layers = 1;
  /// Sliding: the rows before a token that it attends to, besides its own. Resuming at r needs rows
  /// [r - window, r), or all rows where r < window.
  TokenCount window{};
  std::uint32_t owner = 0;  // shared: index of the full or sliding group whose rows it reads
  Bytes row_bytes{};        // full, sliding: one token's rows in all layers of the group
  Bytes state_bytes{};      // recurrent: the state of all layers of the group

  bool operator==(const LayerGroup&) const = default;
};

/// The layer groups of a model's KV cache. Two models, or two configurations of one model, with
/// different layouts never read each other's rows.
struct KvLayout {
  std::vector<LayerGroup> groups;
  TokenCount alignment{1};  // resume points are multiples of it: 1, or a paged engine's block size

  bool operator==(const KvLayout&) const = default;
};

/// Validates a layout. kInvalidArgument, naming the group: no groups at all, a sliding group
/// without a window, a shared group whose owner is not an earlier full or sliding group, rows or
/// states of zero bytes, alignment 0.
Result<void> check_layout(const KvLayout& layout);

}  // namespace afterimage

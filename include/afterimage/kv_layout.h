// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// How a group of layers remembers the tokens it has seen. The numeric values are written into keys
/// and files: append, never renumber.
enum class KvKind : std::uint8_t {
  kFull = 1,       // a row a token, all of them
  kSliding = 2,    // a row a token, the last `window`
  kShared = 3,     // none of its own: reads another group's
  kRecurrent = 4,  // one state, whatever the length
};
/// "full", "sliding", "shared", "recurrent".
std::string_view to_string(KvKind kind);

/// Layers that keep their KV in the same way, and are captured and restored together.
struct LayerGroup {
  KvKind kind = KvKind::kFull;
  std::uint32_t layers = 1;
  TokenCount window{};  // sliding: rows before a token that it sees besides its own; to go on at r,
                        // rows [r - window, r) are needed, or all of them where r < window
  std::uint32_t owner = 0;  // shared: the group whose rows it reads; full or sliding
  Bytes row_bytes{};        // full, sliding: one token's rows in all layers of the group
  Bytes state_bytes{};      // recurrent: the state of all layers of the group

  bool operator==(const LayerGroup&) const = default;
};

/// What a model's KV consists of. Two models, or one model in two configurations, whose layouts
/// differ never read each other's rows.
struct KvLayout {
  std::vector<LayerGroup> groups;
  TokenCount alignment{1};  // resume points are multiples of this: 1, or a paged engine's block

  bool operator==(const KvLayout&) const = default;
};

/// kInvalidArgument, naming the group: no groups at all, a sliding group without a window, a shared
/// one whose owner is not an earlier full or sliding group, rows or states of no bytes, alignment
/// 0.
Result<void> check_layout(const KvLayout& layout);

}  // namespace afterimage

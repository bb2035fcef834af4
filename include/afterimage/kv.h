// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "afterimage/digest.h"
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

/// KV of a token sequence, as it moves between engines, caches and tiers: the same type in every
/// direction. An engine resumes from a slice and captures a slice; the prefix cache inserts one and
/// hands one out.
///
/// Shape    By layer group, in the order of KvLayout::groups. Rows and states are opaque bytes: the
///          engine defines what they contain, and they must not depend on where they were computed
///          or on how the prompt was cut. Rows may lie in any number of pieces, so that a cache can
///          hand out its segments without copying them together.
/// Unit     Positions count from the start of the sequence; one row per token.
/// Errors   kInvalidArgument: check_slice(). Checksums are the job of caches and tiers.
/// Threads  Values and views. Nobody may change the bytes while a slice refers to them.

/// Identifies what produced KV: model, weights, encoder, adapter, template, KV dtype and layout. An
/// engine never restores KV of another origin, even if its sizes match.
using KvOrigin = Digest<struct KvOriginTag>;

/// Consecutive rows of one group, contiguous in memory; or one recurrent state.
struct KvRows {
  TokenCount first{};                // position of the first row; 0 for a state
  TokenCount count{};                // 1 for a state
  std::span<const std::byte> bytes;  // `count` rows of row_bytes each, or state_bytes
};

/// What sliding and recurrent groups hold after exactly `at` tokens. It exists only while a run is
/// at that position.
struct KvSnapshot {
  TokenCount at{};
  /// One element per group. sliding: the rows before `at`, in order; at least the last
  /// min(at, window) of them, and more rows serve more positions. recurrent: its state. full,
  /// shared: empty.
  std::vector<std::vector<KvRows>> groups;
};

/// KV of positions [begin, end) of one sequence. To resume at `end` takes begin == 0 and, if the
/// layout has sliding or recurrent groups, a last snapshot at `end`.
struct KvSlice {
  KvOrigin origin{};  // set where an engine is involved; caches tell origins apart by namespace
  TokenCount begin{};
  TokenCount end{};
  /// One element per group. full: rows [begin, end), in order. Others: empty.
  std::vector<std::vector<KvRows>> rows;
  std::vector<KvSnapshot> snapshots;  // in order of position
  Duration cost{0};                   // measured time to compute it; 0: unknown
  /// Keeps the bytes alive. nullptr: somebody else does, such as a prefix match.
  std::shared_ptr<const void> owner;
};

/// Checks that a slice has the rows, windows and states that `layout` and its own positions
/// require. kInvalidArgument: the message names the group.
Result<void> check_slice(const KvSlice& slice, const KvLayout& layout);

/// `bytes` as the rows of `group` that end before `end`, or as its state. Whether the bytes are
/// whole rows is checked by check_slice().
KvRows rows_before(TokenCount end, const LayerGroup& group, std::span<const std::byte> bytes);

/// The part of `pieces` in [begin, end), without empty pieces. Requires pieces that check_slice()
/// accepts.
std::vector<KvRows> rows_between(std::span<const KvRows> pieces, TokenCount begin, TokenCount end);

/// Memory for a capture: what an engine's KvSlice::owner points to. Buffers stay where they are
/// while others are added.
class KvBuffers {
 public:
  /// `size` zeroed bytes.
  std::span<std::byte> add(std::uint64_t size) { return buffers_.emplace_back(size); }

 private:
  std::vector<std::vector<std::byte>> buffers_;
};

}  // namespace afterimage

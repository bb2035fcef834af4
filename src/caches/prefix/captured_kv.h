// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/prefix_cache.h"

namespace afterimage {

/// Checks a slice against its layout and sequence. kInvalidArgument: the message names the group.
Result<void> check_captured(const KvLayout& layout, const Sequence& sequence, const KvSlice& kv);

/// Whether some group stores one row per token; some group needs snapshots; some group has a state.
bool keeps_rows(const KvLayout& layout);
bool keeps_snapshots(const KvLayout& layout);
bool keeps_states(const KvLayout& layout);

/// The shortest length that a snapshot's windows serve; its own position if the layout has states.
std::uint32_t serves_from(const KvLayout& layout, const KvSnapshot& snapshot);

/// The tensors of a payload. Rows in one piece, as engines capture them, are not copied; rows in
/// several pieces are joined first.
struct PayloadTensors {
  TensorViews views;
  KvBuffers joined;
};
/// Rows [first, first + count) of every full group; one snapshot.
PayloadTensors row_tensors(const KvLayout& layout, const KvSlice& kv, TokenCount first,
                           TokenCount count);
PayloadTensors snapshot_tensors(const KvLayout& layout, const KvSnapshot& snapshot);
/// What Payload::bytes_needed() says of them.
Bytes row_payload_bytes(const KvLayout& layout, TokenCount count);
Bytes snapshot_payload_bytes(const KvLayout& layout, const KvSnapshot& snapshot);

/// Checks that the sequence has at most 2^31 tokens and that its media spans are in order.
Result<void> check_prompt(const Sequence& sequence);

}  // namespace afterimage

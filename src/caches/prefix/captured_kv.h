// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/prefix_cache.h"

namespace afterimage {

/// Checks a capture against its layout and sequence. kInvalidArgument: the message names the group.
Result<void> check_captured(const KvLayout& layout, const Sequence& sequence, const CapturedKv& kv);

/// Whether some group stores one row per token; some group needs snapshots; some group has a state.
bool keeps_rows(const KvLayout& layout);
bool keeps_snapshots(const KvLayout& layout);
bool keeps_states(const KvLayout& layout);

/// The shortest length that a snapshot's windows serve; its own position if the layout has states.
std::uint32_t serves_from(const KvLayout& layout, const CapturedSnapshot& snapshot);

/// The tensors of a payload: rows [first, first + count) of every full group; one snapshot.
TensorViews row_views(const KvLayout& layout, const CapturedKv& kv, TokenCount first,
                      TokenCount count);
TensorViews snapshot_views(const KvLayout& layout, const CapturedSnapshot& snapshot);

/// Checks that the sequence has at most 2^31 tokens and that its media spans are in order.
Result<void> check_prompt(const Sequence& sequence);

}  // namespace afterimage

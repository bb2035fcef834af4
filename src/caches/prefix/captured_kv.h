// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/prefix_cache.h"

namespace afterimage {

/// Is a capture what the layout and the sequence say it must be? kInvalidArgument, naming the
/// group.
Result<void> check_captured(const KvLayout& layout, const Sequence& sequence, const CapturedKv& kv);

/// Whether any group keeps a row a token; any, a snapshot; any, a state.
bool keeps_rows(const KvLayout& layout);
bool keeps_snapshots(const KvLayout& layout);
bool keeps_states(const KvLayout& layout);

/// The shortest length that a snapshot's windows serve; its own position if the layout has states.
std::uint32_t serves_from(const KvLayout& layout, const CapturedSnapshot& snapshot);

/// Views of rows [first, first + count) of every full group, and of one snapshot: a payload's
/// tensors.
TensorViews row_views(const KvLayout& layout, const CapturedKv& kv, TokenCount first,
                      TokenCount count);
TensorViews snapshot_views(const KvLayout& layout, const CapturedSnapshot& snapshot);

/// Token ids are not negative, positions fit, spans are in order.
Result<void> check_prompt(const Sequence& sequence);

}  // namespace afterimage

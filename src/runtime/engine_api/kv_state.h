// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/kv_layout.h"
#include "afterimage/model.h"
#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"

namespace afterimage {

/// The KV and recurrent state of a prefix, as it is moved into and out of an engine.
///
/// Shape    Opaque bytes, u8: [tokens, row_bytes] for full and sliding groups, [1, state_bytes] for
///          recurrent ones; a shared group is empty. The contents of a row are defined by the
///          engine and must not depend on where the row was computed or how the prompt was cut.
/// Unit     Positions count from the start of the sequence; one row per token.
/// Errors   kInvalidArgument: not for this engine, prompt or position; kCorruption: the size
///          differs from what the layout requires. Checksums are the job of whoever stores the
///          bytes.
/// Threads  Values and views; the owner of the bytes must not change them while a call reads them.

/// Identifies what produced a state: model, weights, encoder, adapter, template, KV dtype and
/// layout. A state of another origin is never restored, even if its sizes match.
using KvOrigin = Digest<struct KvOriginTag>;
KvOrigin kv_origin(const ModelIdentity& identity, const KvLayout& layout);

/// Number of rows of `group` in a state that covers `covered` tokens: all of them (full), the last
/// window (sliding), one (recurrent) or none (shared).
std::uint64_t rows_at(const LayerGroup& group, TokenCount covered);
/// Bytes per row of `group`.
Bytes row_size(const LayerGroup& group);

/// The state to resume from. groups[i] belongs to layout.groups[i]: its rows in order of position,
/// in any number of slices, together exactly rows_at(group, covered).
struct KvState {
  KvOrigin origin{};
  TokenCount covered{};
  std::vector<TensorViews> groups;
};

/// As a position: the end of the run, rounded down to the layout's alignment.
inline constexpr TokenCount kEndOfRun = TokenCount::max();

/// What to capture from a run.
struct KvWanted {
  TokenCount rows_from{};  // rows [rows_from, rows_to) of full groups, after the run
  TokenCount rows_to{};    // at most the prompt's length, or kEndOfRun
  /// Strictly increasing; each is at or after the resume point and at most the prompt's length.
  /// kEndOfRun may be the last. The engine stops prefill at each of them, so that the captured
  /// state is exactly the one at that position.
  std::vector<TokenCount> snapshots;
};

/// Whether everything in `wanted` is available once the prompt has been prefilled.
bool within_prompt(const KvWanted& wanted);

/// State that full groups do not hold: window rows and recurrent states as they were after `at`
/// tokens.
struct KvSnapshot {
  TokenCount at{};
  std::vector<Tensor> groups;  // one per group; empty for full and shared groups
};

struct KvCapture {
  KvOrigin origin{};
  TokenCount covered{};  // at the end of the run: the prompt and the answer tokens fed back
  TokenCount rows_from{};
  TokenCount rows_to{};
  std::vector<Tensor> rows;  // one per group; empty for all but full groups
  std::vector<KvSnapshot> snapshots;
};

/// Checks that `prompt`, which check_sequence() accepts, can resume from `state`.
///
/// Errors   kInvalidArgument: another origin; it covers nothing, or not less than the prompt (at
///          least one token must remain to be computed); it ends inside an unsplittable span or off
///          the alignment. kCorruption, naming the group: rows are missing, too many or of the
///          wrong kind.
Result<void> check_state(const KvState& state, const KvLayout& layout, const KvOrigin& origin,
                         const Sequence& prompt);

/// kInvalidArgument if a run of `prompt` from `resumed_from` cannot capture `wanted`.
Result<void> check_wanted(const KvWanted& wanted, const KvLayout& layout, const Sequence& prompt,
                          TokenCount resumed_from);

/// kCorruption if the engine's capture does not match `wanted`: fewer rows, or another position.
Result<void> check_capture(const KvCapture& capture, const KvWanted& wanted,
                           const KvLayout& layout);

}  // namespace afterimage

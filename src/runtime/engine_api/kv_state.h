// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/kv_layout.h"
#include "afterimage/kv_slice.h"
#include "afterimage/model.h"
#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/units.h"

namespace afterimage {

/// KV that goes into and out of an engine is a KvSlice. This header says what an engine may be asked
/// to capture, and checks slices in both directions.
///
/// Errors   kInvalidArgument: not for this engine, prompt or position; kCorruption: rows or states
///          differ from what the layout requires.

KvOrigin kv_origin(const ModelIdentity& identity, const KvLayout& layout);

/// Number of rows of `group` that an engine restores to resume at `covered`: all of them (full), the
/// last window (sliding), one (recurrent) or none (shared).
std::uint64_t rows_at(const LayerGroup& group, TokenCount covered);
/// Bytes per row of `group`.
Bytes row_size(const LayerGroup& group);

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

/// Checks that `prompt`, which check_sequence() accepts, can resume at the end of `slice`.
///
/// Errors   kInvalidArgument: another origin; it covers nothing, or not less than the prompt (at
///          least one token must remain to be computed); it ends inside an unsplittable span or off
///          the alignment. kCorruption, naming the group: rows are missing, too many or of the
///          wrong size. A window must be exactly the last rows_at() rows.
Result<void> check_resume(const KvSlice& slice, const KvLayout& layout, const KvOrigin& origin,
                          const Sequence& prompt);

/// What an engine restores of a group to resume at the end of `slice`: exactly rows_at() rows in
/// order, or the state, or nothing. Requires a slice that check_resume() accepts.
std::span<const KvRows> rows_to_restore(const KvSlice& slice, const KvLayout& layout,
                                        std::size_t group);

/// kInvalidArgument if a run of `prompt` from `resumed_from` cannot capture `wanted`.
Result<void> check_wanted(const KvWanted& wanted, const KvLayout& layout, const Sequence& prompt,
                          TokenCount resumed_from);

/// kCorruption if what the engine captured of a run over `covered` tokens does not match `wanted`:
/// fewer rows, or another position.
Result<void> check_capture(const KvSlice& capture, const KvWanted& wanted, TokenCount covered,
                           const KvLayout& layout);

}  // namespace afterimage

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

/// What a model remembers of a prefix, on its way into and out of an engine.
///
/// Shape    Opaque bytes, u8: [tokens, row_bytes] for full and sliding groups, [1, state_bytes] for
///          recurrent ones; a shared group has nothing. What is inside a row is the engine's own
///          business, but it is the same wherever the row was computed and however the prompt was
///          cut.
/// Unit     Positions are counted from the start of the sequence; a row a token.
/// Errors   kInvalidArgument: not for this engine, prompt or position; kCorruption: not as large as
///          the layout says it must be. The bytes themselves are whoever stores them to check.
/// Threads  Values and views; whoever owns the bytes keeps them unchanged while a call reads them.

/// Names what wrote a state: model, weights, encoder, adapter, template, KV dtype and layout. A
/// state of another origin is never read, however well its sizes fit.
using KvOrigin = Digest<struct KvOriginTag>;
KvOrigin kv_origin(const ModelIdentity& identity, const KvLayout& layout);

/// Rows of `group` in a state that covers `covered` tokens: all of them, the last window, one,
/// none.
std::uint64_t rows_at(const LayerGroup& group, TokenCount covered);
/// Bytes of one of them.
Bytes row_size(const LayerGroup& group);

/// From where to go on. groups[i] belongs to layout.groups[i]: its rows in order of position, in as
/// many slices as they happen to lie in, together exactly rows_at(group, covered).
struct KvState {
  KvOrigin origin{};
  TokenCount covered{};
  std::vector<TensorViews> groups;
};

/// As a position: where the run ends, rounded down to the layout's alignment.
inline constexpr TokenCount kEndOfRun = TokenCount::max();

/// What to hand out of a run.
struct KvWanted {
  TokenCount rows_from{};  // rows [rows_from, rows_to) of full groups, after the run
  TokenCount rows_to{};    // at most the prompt's length, or kEndOfRun
  std::vector<TokenCount>
      snapshots;  // strictly increasing; not before the resume point, at most the
                  // prompt's length; kEndOfRun may be the last. The engine stops
                  // there, so that what is captured is exactly that position's.
};

/// Whether all of it is there once the prompt is prefilled.
bool within_prompt(const KvWanted& wanted);

/// What full groups do not keep: window rows and recurrent states as they were after `at` tokens.
struct KvSnapshot {
  TokenCount at{};
  std::vector<Tensor> groups;  // one a group; full and shared: empty
};

struct KvCapture {
  KvOrigin origin{};
  TokenCount covered{};  // when the run ended: its prompt, and what it fed back of its own answer
  TokenCount rows_from{};
  TokenCount rows_to{};
  std::vector<Tensor> rows;  // one a group; all but full: empty
  std::vector<KvSnapshot> snapshots;
};

/// Whether `prompt`, which check_sequence() accepts, can go on from `state`. kInvalidArgument:
/// another origin; it covers nothing, or not less than the prompt (a token must remain to be
/// computed); it ends inside an unsplittable span or off the alignment. kCorruption, naming the
/// group: rows are missing, too many or of another kind.
Result<void> check_state(const KvState& state, const KvLayout& layout, const KvOrigin& origin,
                         const Sequence& prompt);

/// kInvalidArgument if `wanted` is not what a run of `prompt` from `resumed_from` can give.
Result<void> check_wanted(const KvWanted& wanted, const KvLayout& layout, const Sequence& prompt,
                          TokenCount resumed_from);

/// kCorruption if an engine gave something else than `wanted`: fewer rows, another position.
Result<void> check_capture(const KvCapture& capture, const KvWanted& wanted,
                           const KvLayout& layout);

}  // namespace afterimage

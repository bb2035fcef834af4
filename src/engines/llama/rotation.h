// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "engines/llama/sequence_rows.h"
#include "engines/llama_library/rotary_facts.h"
#include "runtime/engine_api/key_rotation.h"

namespace afterimage {

/// The rotation that a model's file declares, for the rows of its KV. check_keys_turn() finds out
/// whether the model does so.
///
/// Errors   kUnsupported: rotary embeddings that `facts` does not describe, keys of another type
///          than f16 and f32, or windows and states.
Result<KeyRotation> rotation_of(const RotaryFacts& facts, const SequenceRows& rows);

/// The place of token `at` of a prompt, from the positions and columns of its media. Of an item without
/// columns: the place of its first token.
[[nodiscard]] TokenPlace place_in(const Sequence& prompt, TokenCount at);

}  // namespace afterimage

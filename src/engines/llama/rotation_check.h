// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "engines/llama/sequence_rows.h"
#include "engines/llama_library/loaded_model.h"
#include "runtime/engine_api/key_rotation.h"

namespace afterimage {

/// Whether a model's keys turn as `rotation` says: computes a few embeddings at two places, with
/// nothing before them, and compares the keys of every layer. What attends only to what moved along
/// with it is the same but for the rotation. So layers without rotary embeddings, or with others than
/// the file names, are found.
///
/// Errors   kUnsupported, naming the layer: its keys turn otherwise; errors of the library.
/// Threads  Before the model serves requests: uses sequence 0, which is empty afterwards.
Result<void> check_keys_turn(const LoadedModel& model, const SequenceRows& rows,
                             const KeyRotation& rotation);

}  // namespace afterimage

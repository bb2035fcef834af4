// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "afterimage/request.h"
#include "afterimage/result.h"
#include "caches/identity/fingerprint.h"
#include "foundation/platform/clock.h"
#include "runtime/engine_api/engine.h"
#include "runtime/reuse/reuse.h"

namespace afterimage {

/// One request answered, and what it took.
struct Served {
  Completion completion;
  Fingerprint prints;                // of its media; empty without reuse
  std::vector<MediaSource> sources;  // of each media item's embeddings
  std::uint64_t encoder_calls = 0;
  /// What the kept answers were looked at for, rung by rung; empty: they were not asked.
  std::vector<MatchStep> ladder;
  bool answered = false;  // one of them, or another's of this moment: no model was asked, and the
                          // completion has a text, no tokens and no logits
  bool restore_failed = false;    // cached KV did not serve, and all was computed instead
  Duration encoding{0};           // inside the encoder
  std::vector<Duration> encodes;  // of it, each media item; only without reuse
  Duration time_to_first_token{
      0};  // from the request's arrival; identity, plan and waiting included
  Duration total{0};
};

/// The way of a request: identify, ask the kept answers, plan, compute what the plan lacks, commit,
/// generate, and keep the answer if the model had said all. Whoever waits for another's answer
/// holds nothing; so waits go answers, prefix, embeddings, encoder, and in no circle.
///
/// A request that does not end in words of the user has no question, and is computed.
///
/// Eviction policies hear of it as one request: of its encoder outputs when all are there, of its
/// prefix when that is prefilled, each with the time of arrival, who asks and the client's hint.
/// What only the answer tells (its length, why it stopped) they do not hear.
///
/// Errors   Of the engine and of media/, and those who waited for an item that cannot be encoded
///          get the same. A full cache is no error: see MediaSource::kUncached.
/// Threads  Any.
Result<Served> serve(const Request& request, const Engine& engine, Reuse& reuse, const Clock& clock,
                     const GenerateOptions& options, std::stop_token stop = {});

/// What an engine does alone: every media item is encoded, every time. The measure of what reuse
/// saves.
Result<Served> serve_without_reuse(const Request& request, const Engine& engine, const Clock& clock,
                                   const GenerateOptions& options);

/// Who asks for this turn: the last message says.
TurnKind turn_kind(const Request& request);

/// What the engine does to each modality before encoding.
Recipes recipes_of(const Engine& engine);

}  // namespace afterimage

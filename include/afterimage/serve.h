// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "afterimage/identity.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "afterimage/reuse.h"

namespace afterimage {

/// One served request, and what it took.
struct Served {
  Completion completion;
  std::shared_ptr<const AnswerFormat> format;  // reads completion.text; nullptr: plain text
  Fingerprint prints;                          // of its media; empty without reuse
  std::vector<MediaSource> sources;            // one a media item
  std::uint64_t encoder_calls = 0;  // times that an item, or some of its parts, was encoded
  std::uint64_t parts = 0;          // of its media, as far as they were needed
  std::uint64_t encoded_parts = 0;  // of them, by this request
  /// What it took from the caches or put there; nullptr: no model ran, or without reuse.
  std::shared_ptr<const PrefetchTarget> target = nullptr;
  std::vector<MatchStep> match_steps;  // of the answer cache; empty: it was not looked up
  /// A cached answer, or that of an identical request in flight: no model ran, and the completion
  /// has text but neither tokens nor logits.
  bool answered = false;
  /// The answer is bounded (Completion::moved): it used KV of media computed at other places.
  bool bounded = false;
  bool compared = false;            // it was computed again without that, for the samples
  bool restore_failed = false;      // the cached KV could not be restored; all of it was computed
  Duration encoding{0};             // inside the encoder
  std::vector<Duration> encodes;    // of it, each media item; only without reuse
  Duration time_to_first_token{0};  // from arrival; includes identity, plan and waiting
  Duration total{0};
};

/// The way of a request: identify → plan → compute what the plan lacks → commit → settle.
///
/// The answer is looked up, and stored, if the identity has a question. A request whose last message is not text of the user has no question, and is computed. So is one
/// with tools or a response format, and one whose sampling is not reproducible: its answer is
/// neither stored nor taken from the library, but its media and prefix are reused.
/// `options.format` is ignored: the engine derives it from the request.
/// The eviction policies see one request: its encoder outputs once all are there, its prefix once it
/// is prefilled, both with the time of arrival, who asked and the client's hint. They do not see
/// what only the answer tells (its length, why it ended).
///
/// Media in parts: if the engine splits an item, each part is looked up, and only those that no cache
/// has are encoded. The first split item of a model is also encoded as a whole; if one bit differs,
/// that model's items are no longer split.
///
/// Bounded answers (ReuseOptions::moved): KV of media that no prefix covers is taken from where it was
/// computed before. One in so many is computed again, exactly, after it was streamed.
///
/// Errors   Of the engine and of media decoding; requests that waited for an item which cannot be
///          encoded get the same error. A full cache is no error: MediaSource::kUncached.
/// Threads  Any.
Result<Served> serve(const RequestIdentity& identity, const Engine& engine, Reuse& reuse,
                     const GenerateOptions& options = {}, const std::stop_token& stop = {});

/// The same for a request that is prepared, too: `prepared` is what Engine::prepare_answer() says of it.
Result<Served> serve(const RequestIdentity& identity, PreparedRequest prepared,
                     const Engine& engine, Reuse& reuse, const GenerateOptions& options = {},
                     const std::stop_token& stop = {});

/// The same for a request that nobody has identified yet. Its answer is looked up if `reuse` caches
/// answers.
Result<Served> serve(const Request& request, const Engine& engine, Reuse& reuse,
                     const GenerateOptions& options = {}, const std::stop_token& stop = {});

/// The baseline that reuse is measured against: encodes every media item, every time.
Result<Served> serve_without_reuse(const Request& request, const Engine& engine, const Clock& clock,
                                   const GenerateOptions& options = {});

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/clock.h"
#include "foundation/http/headers.h"
#include "foundation/telemetry/span_exporter.h"
#include "gateway/proxy/request_stage.h"

namespace afterimage {

using SpanAttributes = std::vector<std::pair<std::string, AttributeValue>>;

/// The trace context in a request's headers. nullopt: none, more than one, or not valid.
[[nodiscard]] std::optional<TraceContext> trace_context_of(const HttpHeaders& headers);

/// The span of one request, and those of its steps, which are sent as they end. Text of requests and
/// answers is never part of a span.
///
/// Threads  Any.
class RequestTrace {
 public:
  struct Start {
    std::optional<TraceContext> caller;  // its trace goes on; nullopt: a trace begins
    WallTime at{};                       // when the request came
    Duration clock{0};                   // the same, by the clock that times its steps
  };
  /// `exporter` outlives it.
  RequestTrace(SpanExporter& exporter, const Start& start);

  [[nodiscard]] const TraceId& trace() const { return own_.trace; }
  /// The id of a span that begins now and is added later.
  [[nodiscard]] SpanId new_span() { return exporter_.ids().span(); }
  /// For a request that `span` sends on: its context replaces the caller's.
  void pass_on(HttpHeaders& headers, const SpanId& span) const;

  struct Step {
    std::string name;
    SpanKind kind = SpanKind::kInternal;
    Duration begin{0};  // by the clock
    Duration end{0};
    SpanAttributes attributes = {};
    std::string error = {};
  };
  /// A step of the request. `id` nullopt: nobody has named it.
  void add(Step step, std::optional<SpanId> id = std::nullopt);
  /// The request itself, when it is over.
  void finish(Step request);

 private:
  [[nodiscard]] Span span_of(Step step) const;

  SpanExporter& exporter_;
  TraceContext own_;
  std::optional<SpanId> caller_;
  bool begins_here_;
  WallTime at_;
  Duration clock_;
};

/// What a stage of the state machine is called as a step; empty: it is not worth a span.
[[nodiscard]] std::string_view step_name(RequestStage stage);
/// "memory", "archive", "similarity" of a stage that looks up a cache; else empty.
[[nodiscard]] std::string_view cache_of(RequestStage stage);

}  // namespace afterimage

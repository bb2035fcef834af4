// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/request_trace.h"

namespace afterimage {
namespace {

constexpr std::string_view kTraceParent = "traceparent";
constexpr std::string_view kTraceState = "tracestate";

}  // namespace

std::optional<TraceContext> trace_context_of(const HttpHeaders& headers) {
  // Two of them are joined, and then neither is valid.
  const auto given = headers.joined(kTraceParent);
  return given.has_value() ? parse_traceparent(*given) : std::nullopt;
}

RequestTrace::RequestTrace(SpanExporter& exporter, const Start& start)
    : exporter_(exporter),
      own_{.trace = start.caller.has_value() ? start.caller->trace : exporter.ids().trace(),
           .span = exporter.ids().span(),
           .sampled = true},
      caller_(start.caller.has_value() ? std::optional(start.caller->span) : std::nullopt),
      begins_here_(!start.caller.has_value()),
      at_(start.at),
      clock_(start.clock) {}

void RequestTrace::pass_on(HttpHeaders& headers, const SpanId& span) const {
  headers.set(kTraceParent, traceparent({.trace = own_.trace, .span = span, .sampled = true}));
  // It belongs to the trace of an invalid traceparent.
  if (begins_here_) headers.remove(kTraceState);
}

Span RequestTrace::span_of(Step step) const {
  return {.trace = own_.trace,
          .id = {},
          .parent = own_.span,
          .name = std::move(step.name),
          .kind = step.kind,
          .begin = at_ + (step.begin - clock_),
          .end = at_ + (step.end - clock_),
          .attributes = std::move(step.attributes),
          .error = std::move(step.error)};
}

void RequestTrace::add(Step step, std::optional<SpanId> id) {
  Span span = span_of(std::move(step));
  span.id = id.value_or(exporter_.ids().span());
  exporter_.add(std::move(span));
}

void RequestTrace::finish(Step request) {
  Span span = span_of(std::move(request));
  span.id = own_.span;
  span.parent = caller_;
  exporter_.add(std::move(span));
}

std::string_view step_name(RequestStage stage) {
  switch (stage) {
    case RequestStage::kReading:
      return "identity";
    case RequestStage::kFetchingMedia:
      return "fetch media";
    case RequestStage::kLookingUp:
    case RequestStage::kLookingUpArchive:
    case RequestStage::kLookingUpSimilar:
      return "cache lookup";
    case RequestStage::kLeasing:
      return "wait for lease";
    case RequestStage::kWaitingForBackend:
      return "wait for response";
    case RequestStage::kReceived:
    case RequestStage::kJoining:
    case RequestStage::kResponding:
    case RequestStage::kDone:
      break;
  }
  return "";
}

std::string_view cache_of(RequestStage stage) {
  if (stage == RequestStage::kLookingUp) return "memory";
  if (stage == RequestStage::kLookingUpArchive) return "archive";
  return stage == RequestStage::kLookingUpSimilar ? "similarity" : "";
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <string>

#include "gateway/proxy/decisions.h"
#include "gateway/proxy/gateway.h"
#include "gateway/proxy/request_stage.h"
#include "gateway/proxy/request_terms.h"
#include "gateway/proxy/request_trace.h"
#include "gateway/proxy/shared_response.h"

namespace afterimage {

/// The spans of one request, by OpenTelemetry's semantic conventions for HTTP and generative AI: its stages,
/// its call of the backend, itself. Does nothing for one that is not traced.
///
/// Threads  One at a time, except that end_call() may come while stages pass.
class RequestSpans {
 public:
  /// `gateway` and `request` outlive it.
  RequestSpans(Gateway& gateway, const HttpRequest& request, Duration arrived)
      : gateway_(gateway), request_(request), arrived_(arrived), stage_since_(arrived) {}

  /// Joins the caller's trace, or begins one for this share of requests, and notes it in `decision`.
  void begin(double share, Decision& decision);
  [[nodiscard]] bool is_traced() const { return trace_ != nullptr; }
  /// The stage ends. `is_call`: it waited for the request's own call, which has a span of its own.
  void end_stage(RequestStage stage, RequestStage next, bool is_call);
  void begin_call();
  /// The call's context replaces the caller's.
  void pass_on(HttpHeaders& headers) const;
  void end_call(const RequestSubject& asked, const SharedResponse& response,
                const Result<ApiRecord>& record);
  /// The request is over.
  void end(const RequestSubject& asked, const Decision& decision);
  /// When the call began.
  [[nodiscard]] Duration call_began() const { return call_began_; }

 private:
  void add_route(const Route& route);

  Gateway& gateway_;
  const HttpRequest& request_;
  const Duration arrived_;
  std::unique_ptr<RequestTrace> trace_;  // nullptr: it is not traced
  Duration stage_since_;
  Duration call_began_{0};
  SpanId call_span_{};
};

}  // namespace afterimage

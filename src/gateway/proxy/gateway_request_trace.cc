// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// The spans of a request, by OpenTelemetry's semantic conventions for HTTP and generative AI.
#include <charconv>
#include <utility>

#include "gateway/proxy/durations.h"
#include "gateway/proxy/gateway_request.h"

namespace afterimage {
namespace {

/// gen_ai.operation.name.
std::string operation_name(ApiOperation operation) {
  switch (operation) {
    case ApiOperation::kChat:
      return "chat";
    case ApiOperation::kCompletion:
      return "text_completion";
    case ApiOperation::kEmbedding:
      break;
  }
  return "embeddings";
}

/// server.address and server.port of "http://host:port/…"; nothing of an engine's name.
void add_server(SpanAttributes& attributes, const std::string& name) {
  const auto url = parse_url(name);
  if (!url.has_value()) return;
  attributes.emplace_back("server.address", url->host);
  std::int64_t port = 0;
  std::from_chars(url->port.data(), url->port.data() + url->port.size(), port);
  attributes.emplace_back("server.port", port);
}

std::int64_t signed_of(std::uint64_t count) {
  constexpr std::uint64_t kMost = INT64_MAX;
  return static_cast<std::int64_t>(std::min(count, kMost));
}

}  // namespace

void GatewayRequest::begin_trace() {
  const auto caller = trace_context_of(request_.headers);
  if (caller.has_value()) decision_.trace_id = to_text(caller->trace);
  SpanExporter* const exporter = gateway_.parts().traces;
  if (exporter == nullptr || !responder_.has_value()) return;
  const double share = config_->settings.telemetry.sample_ratio;
  if (!(caller.has_value() ? caller->sampled : gateway_.chance(share))) return;
  trace_ = std::make_unique<RequestTrace>(
      *exporter, RequestTrace::Start{.caller = caller, .at = decision_.at, .clock = arrived_});
  decision_.trace_id = to_text(trace_->trace());
  stage_since_ = arrived_;
}

/// The stage that ends, as a span of its own.
void GatewayRequest::trace_stage(RequestStage next) {
  const Duration now = gateway_.parts().clock.now();
  const Duration since = std::exchange(stage_since_, now);
  const std::string_view name = step_name(stage_);
  // The call of the backend has a span of its own.
  if (name.empty() || (stage_ == RequestStage::kWaitingForBackend && leads_)) return;
  RequestTrace::Step step{.name = std::string(name), .begin = since, .end = now};
  if (const std::string_view cache = cache_of(stage_); !cache.empty()) {
    step.attributes.emplace_back("afterimage.cache", std::string(cache));
    step.attributes.emplace_back("afterimage.cache.hit", next == RequestStage::kResponding);
  }
  trace_->add(std::move(step));
}

SpanAttributes GatewayRequest::request_attributes() const {
  SpanAttributes attributes;
  if (!operation_.has_value()) return attributes;
  attributes.emplace_back("gen_ai.operation.name", operation_name(*operation_));
  if (api_ == nullptr) return attributes;
  attributes.emplace_back("gen_ai.request.model", api_->model);
  if (api_->max_tokens.has_value()) {
    attributes.emplace_back("gen_ai.request.max_tokens", std::int64_t{*api_->max_tokens});
  }
  if (api_->sampling.temperature.has_value() && operation_ != ApiOperation::kEmbedding) {
    attributes.emplace_back("gen_ai.request.temperature",
                            static_cast<double>(*api_->sampling.temperature));
  }
  return attributes;
}

void GatewayRequest::trace_call(const SharedResponse& response, const Result<ApiRecord>& record) {
  if (trace_ == nullptr) return;
  const Duration now = gateway_.parts().clock.now();
  Duration begin = asked_at_;
  std::string server = gateway_.parts().backend.name();
  if (const auto route = response.route(); route != nullptr) {
    trace_->add({.name = "route",
                 .begin = begin,
                 .end = begin + route->queued,
                 .attributes = {{"afterimage.replica", route->replica},
                                {"afterimage.route", std::string(route->reason)},
                                {"afterimage.attempt", std::int64_t{route->attempt}}}});
    begin += route->queued;
    server = route->replica;
  }
  RequestTrace::Step call{.name = request_.method,
                          .kind = SpanKind::kClient,
                          .begin = begin,
                          .end = now,
                          .attributes = request_attributes()};
  SpanAttributes& attributes = call.attributes;
  if (operation_.has_value()) {
    call.name = operation_name(*operation_);
    if (api_ != nullptr) call.name += " " + api_->model;
    const bool is_engine = gateway_.parts().backend.exactness().has_value();
    attributes.emplace_back("gen_ai.provider.name", is_engine ? "afterimage" : "openai");
  }
  add_server(attributes, server.contains("://") ? server : "http://" + server);
  if (response.status() != 0) {
    attributes.emplace_back("http.response.status_code", std::int64_t{response.status()});
  }
  const SharedResponse::Usage usage = response.usage();
  const auto add_tokens = [&](const char* name, std::optional<std::uint64_t> count) {
    if (count.has_value()) attributes.emplace_back(name, signed_of(*count));
  };
  add_tokens("gen_ai.usage.input_tokens", usage.prompt_tokens);
  add_tokens("gen_ai.usage.output_tokens", usage.output_tokens);
  if (record.has_value()) {
    attributes.emplace_back("gen_ai.response.model", record->model());
    attributes.emplace_back("gen_ai.response.finish_reasons",
                            std::vector<std::string>{record->finish_reason()});
  } else if (response.status() >= 400) {
    attributes.emplace_back("error.type", std::to_string(response.status()));
    call.error = "the server answered " + std::to_string(response.status());
  } else if (response.status() == 0) {
    attributes.emplace_back("error.type", std::string(to_string(record.error().code)));
    call.error = record.error().message;
  }
  trace_->add(std::move(call), call_span_);
}

void GatewayRequest::end_trace() {
  if (trace_ == nullptr) return;
  const std::string path = request_.target.substr(0, request_.target.find('?'));
  RequestTrace::Step request{.name = request_.method,
                             .kind = SpanKind::kServer,
                             .begin = arrived_,
                             .end = gateway_.parts().clock.now(),
                             .attributes = request_attributes()};
  // Other paths are anybody's: a name of a span has few values.
  if (operation_.has_value()) request.name += " " + path;
  SpanAttributes& attributes = request.attributes;
  attributes.emplace_back("http.request.method", request_.method);
  attributes.emplace_back("url.path", path);
  attributes.emplace_back("http.response.status_code", std::int64_t{decision_.status});
  attributes.emplace_back("afterimage.request_id", decision_.request_id);
  attributes.emplace_back("afterimage.tenant", decision_.tenant);
  attributes.emplace_back("afterimage.protocol", decision_.protocol);
  attributes.emplace_back("afterimage.outcome", std::string(to_string(decision_.outcome)));
  attributes.emplace_back("afterimage.reason", decision_.reason);
  attributes.emplace_back("afterimage.time_to_first_byte", seconds(decision_.first_byte));
  if (!decision_.rung.empty()) attributes.emplace_back("afterimage.rung", decision_.rung);
  if (decision_.saved > Duration(0)) {
    attributes.emplace_back("afterimage.saved_seconds", seconds(decision_.saved));
    attributes.emplace_back("afterimage.saved_input_tokens",
                            signed_of(decision_.saved_prompt_tokens));
    attributes.emplace_back("afterimage.saved_output_tokens",
                            signed_of(decision_.saved_output_tokens));
  }
  if (decision_.status >= 500) {
    attributes.emplace_back("error.type", std::to_string(decision_.status));
    request.error = decision_.reason;
  }
  trace_->finish(std::move(request));
}

}  // namespace afterimage

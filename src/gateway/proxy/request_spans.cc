// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/request_spans.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "gateway/proxy/durations.h"

namespace afterimage {
namespace {

/// gen_ai.operation.name.
std::string operation_name(ApiOperation operation) {
  if (operation == ApiOperation::kCompletion) return "text_completion";
  if (operation == ApiOperation::kEmbedding) return "embeddings";
  return std::string(to_string(operation));
}

/// server.address and server.port of "http://host:port/…"; nothing of an engine's name.
void add_server(SpanAttributes& attributes, const std::string& name) {
  const auto url = parse_url(name.contains("://") ? name : "http://" + name);
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

SpanAttributes attributes_of(const RequestSubject& asked) {
  SpanAttributes attributes;
  if (!asked.operation.has_value()) return attributes;
  attributes.emplace_back("gen_ai.operation.name", operation_name(*asked.operation));
  if (asked.api == nullptr) return attributes;
  attributes.emplace_back("gen_ai.request.model", asked.api->model);
  if (asked.api->max_tokens.has_value()) {
    attributes.emplace_back("gen_ai.request.max_tokens", std::int64_t{*asked.api->max_tokens});
  }
  const auto& temperature = asked.api->sampling.temperature;
  if (temperature.has_value() && !is_function(*asked.operation)) {
    attributes.emplace_back("gen_ai.request.temperature", static_cast<double>(*temperature));
  }
  return attributes;
}

void add_tokens(SpanAttributes& attributes, const SharedResponse::Usage& usage) {
  const auto add = [&](const char* name, std::optional<std::uint64_t> count) {
    if (count.has_value()) attributes.emplace_back(name, signed_of(*count));
  };
  add("gen_ai.usage.input_tokens", usage.prompt_tokens);
  add("gen_ai.usage.output_tokens", usage.output_tokens);
}

/// What the backend answered, or why it did not.
void add_answer(RequestTrace::Step& call, unsigned status, const Result<ApiRecord>& record) {
  SpanAttributes& attributes = call.attributes;
  if (record.has_value()) {
    attributes.emplace_back("gen_ai.response.model", record->model());
    attributes.emplace_back("gen_ai.response.finish_reasons",
                            std::vector<std::string>{record->finish_reason()});
  } else if (status >= 400) {
    attributes.emplace_back("error.type", std::to_string(status));
    call.error = "the server answered " + std::to_string(status);
  } else if (status == 0) {
    attributes.emplace_back("error.type", std::string(to_string(record.error().code)));
    call.error = record.error().message;
  }
}

void add_decision(SpanAttributes& attributes, const Decision& decision) {
  attributes.emplace_back("http.response.status_code", std::int64_t{decision.status});
  attributes.emplace_back("afterimage.request_id", decision.request_id);
  attributes.emplace_back("afterimage.tenant", decision.tenant);
  attributes.emplace_back("afterimage.protocol", decision.protocol);
  attributes.emplace_back("afterimage.outcome", std::string(to_string(decision.outcome)));
  attributes.emplace_back("afterimage.reason", std::string(to_string(decision.reason)));
  if (decision.miss.has_value()) {
    attributes.emplace_back("afterimage.miss", std::string(to_string(*decision.miss)));
  }
  attributes.emplace_back("afterimage.time_to_first_byte", seconds(decision.first_byte));
  if (!decision.level.empty()) attributes.emplace_back("afterimage.match_level", decision.level);
  if (decision.saved > Duration(0)) {
    attributes.emplace_back("afterimage.saved_seconds", seconds(decision.saved));
  }
  // A quick model's tokens are saved, too, even by a hit that took longer.
  if (decision.saved_prompt_tokens + decision.saved_output_tokens == 0) return;
  attributes.emplace_back("afterimage.saved_input_tokens", signed_of(decision.saved_prompt_tokens));
  attributes.emplace_back("afterimage.saved_output_tokens",
                          signed_of(decision.saved_output_tokens));
}

}  // namespace

void RequestSpans::begin(double share, Decision& decision) {
  const auto caller = trace_context_of(request_.headers);
  if (caller.has_value()) decision.trace_id = to_text(caller->trace);
  SpanExporter* const exporter = gateway_.parts().traces;
  if (exporter == nullptr) return;
  if (!(caller.has_value() ? caller->sampled : gateway_.chance(share))) return;
  trace_ = std::make_unique<RequestTrace>(
      *exporter, RequestTrace::Start{.caller = caller, .at = decision.at, .clock = arrived_});
  decision.trace_id = to_text(trace_->trace());
}

void RequestSpans::end_stage(RequestStage stage, RequestStage next, bool is_call) {
  if (!is_traced()) return;
  const Duration now = gateway_.parts().clock.now();
  const Duration since = std::exchange(stage_since_, now);
  const std::string_view name = step_name(stage);
  if (name.empty() || is_call) return;
  RequestTrace::Step step{.name = std::string(name), .begin = since, .end = now};
  if (const std::string_view cache = cache_of(stage); !cache.empty()) {
    step.attributes.emplace_back("afterimage.cache", std::string(cache));
    step.attributes.emplace_back("afterimage.cache.hit", next == RequestStage::kResponding);
  }
  trace_->add(std::move(step));
}

void RequestSpans::begin_call() {
  call_began_ = gateway_.parts().clock.now();
  if (is_traced()) call_span_ = trace_->new_span();
}

void RequestSpans::pass_on(HttpHeaders& headers) const {
  if (is_traced()) trace_->pass_on(headers, call_span_);
}

void RequestSpans::add_route(const Route& route) {
  trace_->add({.name = "route",
               .begin = call_began_,
               .end = call_began_ + route.queued,
               .attributes = {{"afterimage.replica", route.replica},
                              {"afterimage.route", std::string(route.reason)},
                              {"afterimage.attempt", std::int64_t{route.attempt}}}});
}

void RequestSpans::end_call(const RequestSubject& asked, const SharedResponse& response,
                            const Result<ApiRecord>& record) {
  if (!is_traced()) return;
  const Backend& backend = gateway_.parts().backend;
  const auto route = response.route();
  if (route != nullptr) add_route(*route);
  RequestTrace::Step call{.name = request_.method,
                          .kind = SpanKind::kClient,
                          .begin = call_began_ + (route == nullptr ? Duration(0) : route->queued),
                          .end = gateway_.parts().clock.now(),
                          .attributes = attributes_of(asked)};
  if (asked.operation.has_value()) {
    call.name = operation_name(*asked.operation);
    if (asked.api != nullptr) call.name += " " + asked.api->model;
    const bool is_engine = backend.exactness().has_value();
    call.attributes.emplace_back("gen_ai.provider.name", is_engine ? "afterimage" : "openai");
  }
  add_server(call.attributes, route == nullptr ? backend.name() : route->replica);
  if (response.status() != 0) {
    call.attributes.emplace_back("http.response.status_code", std::int64_t{response.status()});
  }
  add_tokens(call.attributes, response.usage());
  add_answer(call, response.status(), record);
  trace_->add(std::move(call), call_span_);
}

void RequestSpans::end(const RequestSubject& asked, const Decision& decision) {
  if (!is_traced()) return;
  const std::string path = request_.target.substr(0, request_.target.find('?'));
  RequestTrace::Step request{.name = request_.method,
                             .kind = SpanKind::kServer,
                             .begin = arrived_,
                             .end = gateway_.parts().clock.now(),
                             .attributes = attributes_of(asked)};
  // Other paths are anybody's: a name of a span has few values.
  if (asked.operation.has_value()) request.name += " " + path;
  request.attributes.emplace_back("http.request.method", request_.method);
  request.attributes.emplace_back("url.path", path);
  add_decision(request.attributes, decision);
  if (decision.status >= 500) {
    request.attributes.emplace_back("error.type", std::to_string(decision.status));
    request.error = to_string(decision.reason);
  }
  trace_->finish(std::move(request));
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/engine_backend.h"

#include <stop_token>
#include <utility>

#include "afterimage/serve.h"
#include "gateway/openai/live_events.h"
#include "gateway/openai/record.h"

namespace afterimage {
namespace {

constexpr std::size_t kQueued = 1024;
constexpr const char* kEvents = "text/event-stream";

void say(HttpListener& listener, unsigned status, std::string_view type, const std::string& body) {
  listener.on_head(status, {{"Content-Type", std::string(type)},
                            {"Content-Length", std::to_string(body.size())}});
  listener.on_bytes(body);
  listener.on_end();
}

void refuse(HttpListener& listener, unsigned status, const Error& error) {
  say(listener, status, "application/json",
      api_error(error.message, status < 500 ? "invalid_request_error" : "server_error",
                to_string(error.code)));
}

unsigned status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kCorruption:
    case ErrorCode::kUnsupported:
      return 400;
    case ErrorCode::kLimitExceeded:
      return 413;
    case ErrorCode::kNoSpace:
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled:
      return 503;
  }
  return 500;
}

}  // namespace

EngineBackend::EngineBackend(const EngineSettings& settings, const Engine& engine, Reuse& reuse,
                             IdGenerator& ids, unsigned threads)
    : settings_(settings), engine_(engine), reuse_(reuse), ids_(ids), workers_(threads, kQueued) {}

ModelIdentity EngineBackend::identity(const std::string& /*model*/) const {
  return engine_.identity();
}

BackendCall EngineBackend::ask(BackendRequest request, std::shared_ptr<BackendListener> listener) {
  if (request.method == "GET" && request.target == "/v1/models") {
    say(*listener, 200, "application/json",
        R"({"object":"list","data":[{"id":")" + settings_.model +
            R"(","object":"model","created":0,"owned_by":"afterimage"}]})");
    return {};
  }
  if (!request.operation.has_value() || *request.operation == ApiOperation::kEmbedding ||
      request.request == nullptr) {
    refuse(*listener, 400, {ErrorCode::kUnsupported, "the built-in engine does not offer that"});
    return {};
  }
  auto stop = std::make_shared<std::stop_source>();
  const bool taken = workers_.post([this, request = std::move(request), listener, stop] {
    answer(request, *listener, stop->get_token());
  });
  if (!taken) {
    refuse(*listener, 503,
           {ErrorCode::kUnavailable, "too many requests are waiting; try again soon"});
  }
  return {.cancel = [stop] { stop->request_stop(); }, .handle = {}};
}

void EngineBackend::answer(const BackendRequest& request, BackendListener& listener,
                           const std::stop_token& stop) const {
  if (stop.stop_requested()) {
    return listener.on_error({ErrorCode::kCancelled, "all clients have left"});
  }
  const ApiRequest& asked = *request.request;
  auto prompt = engine_request(asked);
  if (!prompt.has_value()) return refuse(listener, 400, prompt.error());
  prompt->tenant = request.tenant;
  GenerateOptions options{.max_tokens = TokenCount(asked.max_tokens.value_or(settings_.max_tokens)),
                          .on_text = {}};
  LiveEvents events(asked.operation, ids_.answer(asked.operation), asked.model);
  bool begun = false;
  if (asked.stream) {
    options.on_text = [&](std::string_view more) {
      if (!std::exchange(begun, true)) listener.on_recorded_head(200, {{"Content-Type", kEvents}});
      listener.on_bytes(events.text(more));
      return !stop.stop_requested();
    };
  }
  const auto served = serve(*prompt, engine_, reuse_, options, stop);
  if (!served.has_value()) {
    // A response that has begun can only break off.
    if (begun || served.error().code == ErrorCode::kCancelled) {
      return listener.on_error(served.error());
    }
    return refuse(listener, status_of(served.error().code), served.error());
  }
  const Completion& said = served->completion;
  const EngineAnswer answer{
      .text = said.text,
      .finish_reason = said.ended ? "stop" : "length",
      .model = asked.model,
      .prompt_tokens = said.prefilled + said.resumed_from,
      .output_tokens = TokenCount(static_cast<std::uint32_t>(said.tokens.size()))};
  // The record comes before the last bytes: a client that has read them finds the answer stored.
  if (!asked.stream) {
    const ApiRecord record = record_of(asked.operation, answer);
    const std::string body = record.body(ids_.answer(asked.operation));
    listener.on_recorded_head(200, {{"Content-Type", "application/json"},
                                    {"Content-Length", std::to_string(body.size())}});
    listener.on_record(record);
    listener.on_bytes(body);
    return listener.on_end();
  }
  if (!begun) listener.on_recorded_head(200, {{"Content-Type", kEvents}});
  const std::string end = events.end(answer, asked.include_usage);
  listener.on_record(events.record());
  listener.on_bytes(end);
  listener.on_end();
}

}  // namespace afterimage

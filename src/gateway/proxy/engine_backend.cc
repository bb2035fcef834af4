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

constexpr std::size_t kWaiting = 1024;
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
    : settings_(settings),
      engine_(engine),
      reuse_(reuse),
      stamps_(ids),
      workers_(threads, kWaiting) {}

ModelIdentity EngineBackend::identity(const std::string& /*model*/) const {
  return engine_.identity();
}

BackendCall EngineBackend::ask(BackendRequest asked, std::shared_ptr<HttpListener> listener) {
  if (asked.method == "GET" && asked.target == "/v1/models") {
    say(*listener, 200, "application/json",
        R"({"object":"list","data":[{"id":")" + settings_.model +
            R"(","object":"model","created":0,"owned_by":"afterimage"}]})");
    return {};
  }
  if (!asked.operation.has_value() || *asked.operation == ApiOperation::kEmbedding ||
      asked.request == nullptr) {
    refuse(*listener, 400, {ErrorCode::kUnsupported, "the built-in engine does not offer that"});
    return {};
  }
  auto stop = std::make_shared<std::stop_source>();
  const bool taken = workers_.post([this, asked = std::move(asked), listener, stop] {
    answer(asked, *listener, stop->get_token());
  });
  if (!taken) {
    refuse(*listener, 503,
           {ErrorCode::kUnavailable, "too many requests are waiting; try again soon"});
  }
  return {.cancel = [stop] { stop->request_stop(); }, .handle = {}};
}

void EngineBackend::answer(const BackendRequest& asked, HttpListener& listener,
                           const std::stop_token& stop) const {
  if (stop.stop_requested()) {
    return listener.on_error({ErrorCode::kCancelled, "nobody wants it any more"});
  }
  const ApiRequest& read = *asked.request;
  auto request = engine_request(read.operation, *asked.body, read.media);
  if (!request.has_value()) return refuse(listener, 400, request.error());
  request->tenant = asked.tenant;
  GenerateOptions options{.max_tokens = TokenCount(read.max_tokens.value_or(settings_.max_tokens)),
                          .on_text = {}};
  LiveEvents events(read.operation, stamps_.answer(read.operation), read.model);
  bool begun = false;
  if (read.stream) {
    options.on_text = [&](std::string_view more) {
      if (!std::exchange(begun, true)) listener.on_head(200, {{"Content-Type", kEvents}});
      listener.on_bytes(events.text(more));
      return !stop.stop_requested();
    };
  }
  const auto served = serve(*request, engine_, reuse_, options, stop);
  if (!served.has_value()) {
    // Who was told a part cannot be told an error any more but by the stream's sudden end.
    if (begun || served.error().code == ErrorCode::kCancelled) {
      return listener.on_error(served.error());
    }
    return refuse(listener, status_of(served.error().code), served.error());
  }
  const Completion& said = served->completion;
  const PlainAnswer answer{
      .text = said.text,
      .finish_reason = said.ended ? "stop" : "length",
      .model = read.model,
      .prompt_tokens = said.prefilled + said.resumed_from,
      .output_tokens = TokenCount(static_cast<std::uint32_t>(said.tokens.size()))};
  if (!read.stream) {
    return say(listener, 200, "application/json",
               record_of(read.operation, answer).body(stamps_.answer(read.operation)));
  }
  if (!begun) listener.on_head(200, {{"Content-Type", kEvents}});
  listener.on_bytes(events.end(answer, read.include_usage));
  listener.on_end();
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/engine_backend.h"

#include <algorithm>
#include <optional>
#include <stop_token>
#include <utility>

#include "afterimage/serve.h"
#include "gateway/openai/live_events.h"
#include "gateway/openai/record.h"
#include "gateway/proxy/engine_choice.h"
#include "gateway/proxy/engine_helpers.h"

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
  if (!request.operation.has_value()) {
    help(request, *listener);
    return {};
  }
  if (*request.operation == ApiOperation::kEmbedding || request.request == nullptr) {
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

bool EngineBackend::serves(std::string_view path) const {
  return is_engine_helper(path) || Backend::serves(path);
}

void EngineBackend::help(const BackendRequest& request, BackendListener& listener) const {
  const std::string path = request.target.substr(0, request.target.find('?'));
  const auto said = engine_helper(engine_, settings_.model, request.method, path,
                                  request.body == nullptr ? std::string() : *request.body);
  if (said.has_value()) return say(listener, 200, "application/json", *said);
  const bool is_absent = said.error().code == ErrorCode::kNotFound;
  refuse(listener, is_absent ? 404 : status_of(said.error().code), said.error());
}

void EngineBackend::answer(const BackendRequest& request, BackendListener& listener,
                           const std::stop_token& stop) const {
  if (stop.stop_requested()) {
    return listener.on_error({ErrorCode::kCancelled, "all clients have left"});
  }
  const ApiRequest& asked = *request.request;
  const std::size_t prompts = std::max<std::size_t>(asked.engine->prompts.size(), 1);
  const std::uint32_t choices = asked.engine->generation.choices;
  LiveEvents events(asked.operation, ids_.answer(asked.operation), asked.model);
  EngineAnswer answer{.model = asked.model};
  bool begun = false;
  const auto send = [&](const std::string& bytes) {
    if (!asked.stream || bytes.empty()) return;
    if (!std::exchange(begun, true)) listener.on_recorded_head(200, {{"Content-Type", kEvents}});
    listener.on_bytes(bytes);
  };
  std::optional<Request> prompt;
  for (std::uint32_t index = 0; index < prompts * choices; ++index) {
    if (index % choices == 0) {
      auto next = engine_request(asked, index / choices);
      if (!next.has_value()) return refuse(listener, 400, next.error());
      prompt = *std::move(next);
      prompt->tenant = request.tenant;
    }
    const auto written = write_choice(asked, *prompt, index, events, send, stop);
    if (!written.has_value()) {
      // A response that has begun can only break off.
      if (begun || written.error().code == ErrorCode::kCancelled) {
        return listener.on_error(written.error());
      }
      return refuse(listener, status_of(written.error().code), written.error());
    }
    if (index % choices == 0) answer.prompt_tokens += written->prefilled + written->resumed_from;
    answer.output_tokens += TokenCount(static_cast<std::uint32_t>(written->tokens.size()));
  }
  // The record comes before the last bytes: a client that has read them finds the answer stored.
  const std::string end = events.end(answer, asked.include_usage);
  const ApiRecord record = events.record();
  if (asked.stream) {
    if (!begun) listener.on_recorded_head(200, {{"Content-Type", kEvents}});
    listener.on_record(record);
    listener.on_bytes(end);
    return listener.on_end();
  }
  const std::string body = record.body(ids_.answer(asked.operation));
  listener.on_recorded_head(
      200, {{"Content-Type", "application/json"}, {"Content-Length", std::to_string(body.size())}});
  listener.on_record(record);
  listener.on_bytes(body);
  listener.on_end();
}

// Each choice is a run of its own, with a seed of its own. All but the first resume from the prompt's
// KV, which the first one committed.
Result<Completion> EngineBackend::write_choice(const ApiRequest& asked, const Request& prompt,
                                               std::uint32_t index, LiveEvents& events,
                                               const std::function<void(const std::string&)>& send,
                                               const std::stop_token& stop) const {
  EngineChoice choice(index, events, ids_);
  GenerateOptions options = generate_options(asked, defaults());
  if (options.sampling.seed.has_value()) {
    *options.sampling.seed += index % asked.engine->generation.choices;
  }
  options.on_format = [&](const auto& format) { choice.set_format(format); };
  if (options.top_logprobs.has_value()) {
    options.on_logprobs = [&](const TokenLogprobs& token) { choice.add(token); };
  }
  options.on_text = [&](std::string_view more) {
    send(choice.add(more));
    return !stop.stop_requested();
  };
  AFI_TRY(Served served, serve(prompt, engine_, reuse_, options, stop));
  send(choice.finish(served.completion));
  return std::move(served.completion);
}

GenerateOptions EngineBackend::defaults() const {
  GenerateOptions options = engine_.default_options();
  if (settings_.max_tokens.has_value()) options.max_tokens = TokenCount(*settings_.max_tokens);
  return options;
}

}  // namespace afterimage

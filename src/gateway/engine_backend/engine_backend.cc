// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/engine_backend/engine_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>

#include "afterimage/digest.h"
#include "afterimage/serve.h"
#include "foundation/crypto/sha256.h"
#include "foundation/media/probe.h"
#include "gateway/engine_backend/embeddings.h"
#include "gateway/engine_backend/engine_choice.h"
#include "gateway/engine_backend/engine_helpers.h"
#include "gateway/engine_backend/native_completion.h"
#include "gateway/openai/engine_limits.h"
#include "gateway/openai/generation_fields.h"
#include "gateway/openai/live_events.h"
#include "gateway/openai/record.h"

namespace afterimage {
namespace {

constexpr std::size_t kQueued = 1024;
constexpr const char* kEvents = "text/event-stream";
constexpr const char* kExactness = "X-Afterimage-Exactness";  // only of answers that are not exact

void say(HttpListener& listener, unsigned status, std::string_view type, const std::string& body) {
  listener.on_head(status, {{"Content-Type", std::string(type)},
                            {"Content-Length", std::to_string(body.size())}});
  listener.on_bytes(body);
  listener.on_end();
}

/// The response to a request that the engine answers. Its head comes with its first bytes, and says what is
/// known by then.
class EngineResponse {
 public:
  explicit EngineResponse(BackendListener& listener) : listener_(listener) {}

  void set_prompt_tokens(std::size_t tokens) { prompt_tokens_ = tokens; }
  /// A choice is not exact: the answer is not stored.
  void on_bounded() {
    is_bounded_ = true;
    listener_.on_bounded();
  }
  [[nodiscard]] bool has_begun() const { return has_begun_; }
  /// Events of a stream.
  void send(const std::string& events) {
    begin({{"Content-Type", kEvents}});
    listener_.on_bytes(events);
  }
  void end_stream(const ApiRecord& record, const std::string& events) {
    begin({{"Content-Type", kEvents}});
    end(record, events);
  }
  void end_whole(const ApiRecord& record, const std::string& body) {
    begin({{"Content-Type", "application/json"}, {"Content-Length", std::to_string(body.size())}});
    end(record, body);
  }

 private:
  void begin(HttpHeaders headers) {
    if (std::exchange(has_begun_, true)) return;
    if (is_bounded_) headers.add(kExactness, "bounded");
    if (prompt_tokens_.has_value()) {
      headers.add(std::string(kPromptTokens), std::to_string(*prompt_tokens_));
    }
    listener_.on_recorded_head(200, std::move(headers));
  }
  /// The record comes before the last bytes: a client that has read them finds the answer stored.
  void end(const ApiRecord& record, const std::string& bytes) {
    if (!is_bounded_) listener_.on_record(record);
    listener_.on_bytes(bytes);
    listener_.on_end();
  }

  BackendListener& listener_;
  std::optional<std::size_t> prompt_tokens_ = std::nullopt;
  bool has_begun_ = false;
  bool is_bounded_ = false;
};

using Refusal = EngineBackend::Refusal;

Refusal refusal_of(const Error& error) {
  const auto with = [&](unsigned status) {
    return Refusal{status,
                   api_error(error.message, status < 500 ? "invalid_request_error" : "server_error",
                             to_string(error.code))};
  };
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kCorruption:
    case ErrorCode::kUnsupported:
      return with(400);
    case ErrorCode::kNotFound:
      return with(404);
    case ErrorCode::kLimitExceeded:
      return with(413);
    case ErrorCode::kNoSpace:
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled:
      return with(503);
    case ErrorCode::kTimeout:
      return with(504);
  }
  return with(500);
}

/// With the engine's name in the place of kThisEngine, and of the "here" of media.
std::string with_engine(std::string text, const EngineSettings& settings) {
  const std::string engine =
      settings.file.empty() ? "the built-in engine" : "llama.cpp (" + settings.file + ")";
  if (const std::size_t at = text.find(kAreReadHere); at != std::string::npos) {
    return text.replace(at, kAreReadHere.size(), "are read by " + engine);
  }
  const std::size_t at = text.find(kThisEngine);
  return at == std::string::npos ? text : text.replace(at, kThisEngine.size(), engine);
}

/// The same of an error that was made without knowing the engine.
Refusal refusal_of(Error error, const EngineSettings& settings) {
  error.message = with_engine(std::move(error.message), settings);
  return refusal_of(error);
}

/// How OpenAI's API refuses a prompt that is too long, with llama-server's two numbers.
Refusal refusal_of_length(std::size_t tokens, std::uint64_t context) {
  const nlohmann::ordered_json error{
      {"message",
       fmt::format("the prompt ({} tokens) exceeds the available context size ({} "
                   "tokens): shorten it, or raise --context if the model has more positions",
                   tokens, context)},
      {"type", "exceed_context_size_error"},
      {"param", nullptr},
      {"code", "context_length_exceeded"},
      {"n_prompt_tokens", tokens},
      {"n_ctx", context}};
  return {400, nlohmann::ordered_json{{"error", error}}.dump()};
}

void refuse(HttpListener& listener, const Refusal& refusal) {
  say(listener, refusal.status, "application/json", refusal.body);
}

/// The same model and settings have the same one, also after a restart.
std::string fingerprint_of(const ModelIdentity& identity) {
  const std::string all = identity.model + '\0' + identity.weights_epoch + '\0' + identity.encoder +
                          '\0' + identity.adapter + '\0' + identity.chat_template;
  return "b-" + to_hex(sha256(std::as_bytes(std::span(all)))).substr(0, 12);
}

/// OpenAI's paths that llama-server also offers without "/v1". "/completions" is not one: without
/// "/v1" it has llama-server's own form.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kShortPaths{
    {{"/chat/completions", "/v1/chat/completions"}, {"/models", "/v1/models"}}};

bool is_native_completion(std::string_view path) {
  return path == "/completion" || path == "/completions";
}

/// nullptr: there is nothing to load from.
std::unique_ptr<StepPrefetcher> make_prefetcher(const Engine& engine, Reuse& reuse,
                                                const Clock& clock) {
  if (!reuse.has_tier()) return nullptr;
  return std::make_unique<StepPrefetcher>(
      StepPrefetcher::Options(),
      [&engine, &reuse](const PrefetchTarget& target) {
        return reuse.prefetch(target, engine.kv_layout());
      },
      clock);
}

/// nullopt: the client does not say which step of what it is.
std::optional<ClientStep> step_of(const BackendRequest& request) {
  const WorkflowHint& hint = request.hints.workflow;
  if (hint.workflow.empty() || hint.step.empty()) return std::nullopt;
  return ClientStep{.tenant = request.tenant.text(), .workflow = hint.workflow, .step = hint.step};
}

/// The gateway's, of every request that it could read.
Result<Namespace> space_of(const BackendRequest& request, const Engine& engine,
                           const Reuse& reuse) {
  if (request.space != nullptr) return request.space->name_space;
  return Namespace::of(engine.identity(), request.tenant, reuse.secret(), request.tenant_name);
}

/// One of the prompts of a request, for the engine.
Result<Request> engine_prompt(const BackendRequest& request, std::size_t which) {
  AFI_TRY(Request prompt, engine_request(*request.request, which));
  prompt.tenant = request.tenant;
  prompt.tenant_name = request.tenant_name;
  prompt.hints = request.hints;
  // Agents of two tenants are two agents.
  std::string& agent = prompt.hints.agent;
  if (!agent.empty()) agent = request.tenant.text() + "/" + agent;
  prompt.tags = request.tags;
  return prompt;
}

/// Knows how far the response is.
class Progress final : public BackendListener {
 public:
  explicit Progress(BackendListener& to) : to_(to) {}

  void on_head(unsigned status, HttpHeaders headers) override {
    begun_ = true;
    to_.on_head(status, std::move(headers));
  }
  void on_recorded_head(unsigned status, HttpHeaders headers) override {
    begun_ = true;
    to_.on_recorded_head(status, std::move(headers));
  }
  void on_bytes(std::string_view bytes) override { to_.on_bytes(bytes); }
  void on_record(ApiRecord record) override { to_.on_record(std::move(record)); }
  void on_bounded() override { to_.on_bounded(); }
  void on_end() override {
    ended_ = true;
    to_.on_end();
  }
  void on_error(const Error& error) override {
    ended_ = true;
    to_.on_error(error);
  }
  [[nodiscard]] bool begun() const { return begun_; }
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  BackendListener& to_;
  bool begun_ = false;
  bool ended_ = false;
};

void add_prompt(Answer& answer, TokenCount& cached, const Completion& done) {
  answer.prompt_tokens += done.prefilled + done.resumed_from + done.moved;
  cached += done.resumed_from + done.moved;
}

/// As OpenAI describes one.
nlohmann::ordered_json model_json(const std::string& model) {
  return {{"id", model}, {"object", "model"}, {"created", 0}, {"owned_by", "afterimage"}};
}

}  // namespace

struct EngineBackend::Prompt {
  Request request;
  std::optional<RequestIdentity> identity = std::nullopt;  // refers to the request
  PreparedRequest prepared = {};
};

Result<std::unique_ptr<const EngineBackend::Prompt>> EngineBackend::prompt_of(
    const BackendRequest& request, std::size_t which) const {
  AFI_TRY(Namespace space, space_of(request, engine_, reuse_));
  AFI_TRY(Request read, engine_prompt(request, which));
  auto prompt = std::make_unique<Prompt>(Prompt{.request = std::move(read)});
  AFI_TRY(prompt->identity,
          identify_inputs(prompt->request, engine_, std::move(space), &reuse_.wall_clock()));
  AFI_TRY(prompt->prepared,
          engine_.prepare_answer(prompt->request, prompt->identity->prints.contents));
  return prompt;
}

EngineBackend::EngineBackend(const EngineSettings& settings, const Engine& engine, Reuse& reuse,
                             IdGenerator& ids, const Clock& clock, unsigned threads,
                             OnComputed on_computed, Log* log)
    : settings_(settings),
      engine_(engine),
      reuse_(reuse),
      ids_(ids),
      clock_(clock),
      fingerprint_(fingerprint_of(engine.identity())),
      on_computed_(std::move(on_computed)),
      log_(log),
      prefetcher_(make_prefetcher(engine, reuse, clock)),
      // Two more than compute: their media are encoded meanwhile.
      workers_(engine.load().lanes == 0 ? threads : engine.load().lanes + 2, kQueued) {}

ModelIdentity EngineBackend::identity(const std::string& /*model*/) const {
  return engine_.identity();
}

std::string_view EngineBackend::api_path(std::string_view path) const {
  for (const auto& [sent, meant] : kShortPaths) {
    if (path == sent) return meant;
  }
  return path;
}

bool EngineBackend::serves(std::string_view path) const {
  return is_engine_helper(path) || is_native_completion(path) || api_path(path) != path ||
         Backend::serves(path);
}

BackendCall EngineBackend::ask(BackendRequest request, std::shared_ptr<BackendListener> listener) {
  const std::string_view target = request.target;
  const std::string path(api_path(target.substr(0, target.find('?'))));
  if (request.method == "GET" && path == "/v1/models") {
    say(*listener, 200, "application/json", models());
    return {};
  }
  if (constexpr std::string_view kOneModel = "/v1/models/";
      request.method == "GET" && path.starts_with(kOneModel)) {
    say_model(*listener, std::string_view(path).substr(kOneModel.size()));
    return {};
  }
  const bool is_native = is_native_completion(path) && request.method == "POST";
  if (!request.operation.has_value() && !is_native) {
    contain(request, *listener, [&](BackendListener& to) { help(request, path, to); });
    return {};
  }
  if (!is_native && request.request == nullptr) {
    refuse(*listener, refusal_of({ErrorCode::kInvalidArgument, "the body cannot be read"}));
    return {};
  }
  auto stop = std::make_shared<std::stop_source>();
  const bool taken = workers_.post([this, request = std::move(request), listener, stop] {
    contain(request, *listener,
            [&](BackendListener& to) { compute(request, to, stop->get_token()); });
  });
  if (!taken) {
    refuse(*listener,
           refusal_of({ErrorCode::kUnavailable, "too many requests are waiting; try again soon"}));
  }
  return {.cancel = [stop] { stop->request_stop(); }, .handle = {}};
}

void EngineBackend::contain(const BackendRequest& request, BackendListener& listener,
                            const std::function<void(BackendListener&)>& work) const {
  Progress progress(listener);
  std::string why;
  try {
    return work(progress);
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
    why = "an exception without a text";
  }
  if (log_ != nullptr) {
    log_->error("engine_exception",
                {{"request_id", request.headers.find("x-request-id").value_or("")}, {"why", why}});
  }
  constexpr const char* kMessage =
      "the engine failed with an exception; the gateway's log has the reason";
  if (progress.ended()) return;
  if (progress.begun()) return listener.on_error({ErrorCode::kUnavailable, kMessage});
  refuse(listener, {500, api_error(kMessage, "server_error", "engine_exception")});
}

void EngineBackend::compute(const BackendRequest& request, BackendListener& listener,
                            const std::stop_token& stop) const {
  if (stop.stop_requested()) {
    return listener.on_error({ErrorCode::kCancelled, "all clients have left"});
  }
  if (!request.operation.has_value()) return answer_native(request, listener, stop);
  if (*request.operation == ApiOperation::kEmbedding) return embed(*request.request, listener);
  answer(request, listener, stop);
}

void EngineBackend::say_model(BackendListener& listener, std::string_view id) const {
  if (id == settings_.model)
    return say(listener, 200, "application/json", model_json(settings_.model).dump());
  refuse(listener, {404, api_error("there is no model '" + std::string(id) +
                                       "'; GET /v1/models lists '" + settings_.model + "'",
                                   "invalid_request_error", "model_not_found")});
}

/// As OpenAI, and as llama-server lists what the model takes.
std::string EngineBackend::models() const {
  nlohmann::ordered_json capabilities = nlohmann::ordered_json::array({"completion"});
  if (engine_.identity().encoder != "none") capabilities.push_back("multimodal");
  const auto list = nlohmann::ordered_json::array({model_json(settings_.model)});
  const auto known = nlohmann::ordered_json::array(
      {{{"name", settings_.model}, {"model", settings_.model}, {"capabilities", capabilities}}});
  return nlohmann::ordered_json{{"object", "list"}, {"data", list}, {"models", known}}.dump();
}

void EngineBackend::help(const BackendRequest& request, const std::string& path,
                         BackendListener& listener) const {
  if (path == "/slots" && !settings_.slots) {
    const Refusal off{501, api_error("the operator has switched /slots off: engine.slots is false",
                                     "not_supported_error", "not_offered")};
    return refuse(listener, off);
  }
  const ServedEngine served{.engine = engine_, .settings = settings_, .defaults = defaults()};
  const auto said = engine_helper(served, request.method, path,
                                  request.body == nullptr ? std::string() : *request.body);
  if (said.has_value()) return say(listener, 200, "application/json", *said);
  refuse(listener, refusal_of(said.error(), settings_));
}

void EngineBackend::embed(const ApiRequest& asked, BackendListener& listener) const {
  const auto inputs = embedding_inputs(asked, engine_);
  if (!inputs.has_value()) return refuse(listener, refusal_of(inputs.error(), settings_));
  const Tokenizer* const tokenizer = engine_.tokenizer();
  for (const auto& tokens : *inputs) {
    if (tokenizer == nullptr || tokens.size() <= tokenizer->longest_embedding().value()) continue;
    return refuse(listener,
                  refusal_of_length(tokens.size(), tokenizer->longest_embedding().value()));
  }
  const auto body = answer_embeddings(asked, *inputs, engine_);
  if (!body.has_value()) return refuse(listener, refusal_of(body.error()));
  auto record = ApiRecord::of_body(ApiOperation::kEmbedding, *body);
  if (!record.has_value()) return refuse(listener, refusal_of(record.error()));
  listener.on_recorded_head(200, {{"Content-Type", "application/json"},
                                  {"Content-Length", std::to_string(body->size())}});
  listener.on_record(*std::move(record));
  listener.on_bytes(*body);
  listener.on_end();
}

void EngineBackend::answer_native(const BackendRequest& request, BackendListener& listener,
                                  const std::stop_token& stop) const {
  const auto space = space_of(request, engine_, reuse_);
  if (!space.has_value()) return refuse(listener, refusal_of(space.error()));
  const NativeCompletion completion{.engine = engine_,
                                    .reuse = reuse_,
                                    .defaults = defaults(),
                                    .model = settings_.model,
                                    .space = *space};
  bool begun = false;
  const auto send = [&](const std::string& bytes) {
    if (!std::exchange(begun, true)) listener.on_head(200, {{"Content-Type", kEvents}});
    listener.on_bytes(bytes);
  };
  const auto asked = completion.read(request.body == nullptr ? std::string() : *request.body);
  if (!asked.has_value()) return refuse(listener, refusal_of(asked.error(), settings_));
  const std::uint64_t context = engine_.tokenizer()->context().value();
  if (const std::size_t longest = asked->longest_prompt(); longest >= context) {
    return refuse(listener, refusal_of_length(longest, context));
  }
  const auto body = completion.answer(*asked, send, stop);
  if (!body.has_value()) {
    if (begun || body.error().code == ErrorCode::kCancelled) return listener.on_error(body.error());
    return refuse(listener, refusal_of(body.error()));
  }
  if (!begun) return say(listener, 200, "application/json", *body);
  listener.on_end();
}

/// The numbers of a prompt that does not fit, if that was the reason.
EngineBackend::Refusal EngineBackend::refusal(const Sequence& prompt, const Error& error) const {
  const Tokenizer* const tokenizer = engine_.tokenizer();
  if (error.code != ErrorCode::kLimitExceeded || tokenizer == nullptr) {
    return refusal_of(error, settings_);
  }
  const std::uint64_t context = tokenizer->context().value();
  if (prompt.tokens.size() < context) return refusal_of(error, settings_);
  return refusal_of_length(prompt.tokens.size(), context);
}

void EngineBackend::answer(const BackendRequest& request, BackendListener& listener,
                           const std::stop_token& stop) const {
  const ApiRequest& asked = *request.request;
  const std::size_t prompts = std::max<std::size_t>(asked.engine->prompts.size(), 1);
  const std::uint32_t choices = asked.engine->generation.choices;
  LiveEvents events(asked.operation, ids_.answer(asked.operation), asked.model, fingerprint_);
  ApiDetails wanted = asked.engine->details;
  wanted.prompt = wanted.prompt || settings_.verbose;
  AnswerDetails details(wanted, clock_);
  std::string last_members;
  Answer answer{.model = asked.model};
  TokenCount cached;
  EngineResponse response(listener);
  std::unique_ptr<const Prompt> prompt;
  const auto send = [&](const OpenEvents& added) {
    if (asked.stream && !added.is_empty()) response.send(added.text(details.so_far()));
  };
  const std::optional<ClientStep> step = step_of(request);
  if (prefetcher_ != nullptr && step.has_value()) prefetcher_->begins(*step);
  std::shared_ptr<const PrefetchTarget> used;
  for (std::uint32_t index = 0; index < prompts * choices; ++index) {
    if (index % choices == 0) {
      auto next = prompt_of(request, index / choices);
      if (!next.has_value()) return refuse(listener, refusal_of(next.error(), settings_));
      prompt = *std::move(next);
      if (prompts == 1) response.set_prompt_tokens(prompt->prepared.prompt.tokens.size());
    }
    const ChoiceListener told{.send = send, .on_bounded = [&] { response.on_bounded(); }};
    const auto written = write_choice(asked, *prompt, index, events, details, told, stop);
    if (!written.has_value()) {
      // A response that has begun can only break off.
      if (response.has_begun() || written.error().code == ErrorCode::kCancelled) {
        return listener.on_error(written.error());
      }
      return refuse(listener, refusal(prompt->prepared.prompt, written.error()));
    }
    const Completion& done = written->completion;
    if (index == 0)
      last_members = details_at_end(asked, prompt->prepared.prompt, details, *written);
    if (index == 0) used = written->target;
    // A request with several prompts has no chain of its own.
    if (index == 0 && prompts == 1 && on_computed_ && used != nullptr) on_computed_(asked, used);
    if (index % choices == 0) add_prompt(answer, cached, done);
    answer.output_tokens += TokenCount(static_cast<std::uint32_t>(done.tokens.size()));
  }
  if (prefetcher_ != nullptr && step.has_value()) {
    prefetcher_->ends(*step, request.hints.workflow.next_steps, std::move(used));
  }
  const std::string end = events.end(answer, cached, asked.include_usage, last_members);
  const ApiRecord record = events.record();
  if (asked.stream) return response.end_stream(record, end);
  response.end_whole(record, record.body(ids_.answer(asked.operation), last_members));
}

// Each choice is a run of its own, with a seed of its own. All but the first resume from the prompt's
// KV, which the first one committed.
Result<Served> EngineBackend::write_choice(const ApiRequest& asked, const Prompt& prompt,
                                           std::uint32_t index, LiveEvents& events,
                                           AnswerDetails& details, const ChoiceListener& listener,
                                           const std::stop_token& stop) const {
  EngineChoice choice(index, events, ids_);
  AFI_TRY(GenerateOptions options, generate_options(asked, defaults(), engine_.tokenizer()));
  if (options.sampling.seed.has_value()) {
    *options.sampling.seed += index % asked.engine->generation.choices;
  }
  options.on_format = [&](const auto& format) { choice.set_format(format); };
  const bool reports = options.top_logprobs.has_value();
  if (reports || details.counts_tokens()) {
    if (!reports) options.top_logprobs = 0;
    options.on_logprobs = [&, reports](const TokenLogprobs& token) {
      details.add_token();
      if (reports) choice.add(token);
    };
  }
  options.on_text = [&](std::string_view more) {
    listener.send(choice.add(more));
    return !stop.stop_requested();
  };
  options.on_bounded = listener.on_bounded;
  AFI_TRY(Served served, serve(*prompt.identity, prompt.prepared, engine_, reuse_, options, stop));
  listener.send(choice.finish(served.completion));
  log_media(prompt, served);
  return served;
}

void EngineBackend::log_media(const Prompt& prompt, const Served& served) const {
  if (log_ == nullptr || !log_->wants(LogLevel::kDebug)) return;
  for (std::size_t i = 0; i < std::min(served.sources.size(), served.prints.contents.size()); ++i) {
    log_->debug("media", {{"digest", served.prints.contents[i].hex()},
                          {"modality", to_string(served.prints.modalities[i])},
                          {"source", to_string(served.sources[i])},
                          {"agent", prompt.request.hints.agent}});
  }
}

std::string EngineBackend::details_at_end(const ApiRequest& asked, const Sequence& prompt,
                                          const AnswerDetails& details, const Served& first) const {
  const std::string text = details.shows_prompt() ? text_of_prompt(prompt) : "";
  return details.at_end(first, text,
                        generate_options(asked, defaults(), engine_.tokenizer()).value());
}

/// Its tokens, spelled; without media.
std::string EngineBackend::text_of_prompt(const Sequence& prompt) const {
  const Tokenizer* const tokenizer = engine_.tokenizer();
  std::string text;
  if (tokenizer == nullptr) return text;
  for (std::uint32_t at = 0; at < prompt.tokens.size(); ++at) {
    const bool is_media = std::ranges::any_of(prompt.spans, [at](const MediaSpan& span) {
      return span.offset <= TokenCount(at) && TokenCount(at) < span.end();
    });
    if (!is_media) text += tokenizer->bytes_of(prompt.tokens[at]).value_or("");
  }
  return text;
}

bool EngineBackend::is_default(std::string_view field, double value) const {
  const auto* const known = std::ranges::find(kSamplingNumbers, field, &SamplingNumber::name);
  return known != kSamplingNumbers.end() && known->of(engine_.default_options().sampling) == value;
}

GenerateOptions EngineBackend::defaults() const {
  GenerateOptions options = engine_.default_options();
  if (settings_.max_tokens.has_value()) options.max_tokens = TokenCount(*settings_.max_tokens);
  if (settings_.seed.has_value()) options.sampling.seed = settings_.seed;
  return options;
}

}  // namespace afterimage

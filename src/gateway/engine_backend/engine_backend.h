// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "afterimage/reuse.h"
#include "foundation/platform/workers.h"
#include "foundation/telemetry/log.h"
#include "gateway/config/settings.h"
#include "gateway/engine_backend/answer_details.h"
#include "gateway/engine_backend/step_prefetcher.h"
#include "gateway/openai/live_events.h"
#include "gateway/proxy/backend.h"
#include "gateway/proxy/id_generator.h"

namespace afterimage {

/// An engine of this process, with the caches of encoder outputs and KV: chats, completions and
/// embeddings as OpenAI's API has them, and what engine_helpers.h and native_completion.h list.
///
/// Errors   400 names what it does not do, or both numbers of a prompt that is too long; 503: more
///          requests than may wait. 500: the engine or a library threw an exception, which ends this
///          request only; the log has it (`engine_exception`).
/// Threads  Any. Answers are computed on threads of its own.
class EngineBackend final : public Backend {
 public:
  struct Refusal {
    unsigned status;
    std::string body;
  };

  /// All arguments outlive it. `threads`: for an engine that takes any number of requests at a time.
  /// Hears of each request that was computed, with its prompt's keys. On the threads that compute.
  using OnComputed = std::function<void(const ApiRequest&, std::shared_ptr<const PrefetchTarget>)>;

  EngineBackend(const EngineSettings& settings, const Engine& engine, Reuse& reuse,
                IdGenerator& ids, const Clock& clock, unsigned threads, OnComputed on_computed = {},
                Log* log = nullptr);

  [[nodiscard]] std::string_view kind() const override { return "built-in"; }
  [[nodiscard]] std::string name() const override { return settings_.model; }
  [[nodiscard]] ModelIdentity identity(const std::string& model) const override;
  [[nodiscard]] bool takes_anything() const override { return false; }
  [[nodiscard]] std::string_view api_path(std::string_view path) const override;
  [[nodiscard]] bool serves(std::string_view path) const override;
  [[nodiscard]] bool uses_reuse() const override { return true; }
  [[nodiscard]] std::optional<Exactness> exactness() const override { return engine_.exactness(); }
  [[nodiscard]] std::optional<EngineLoad> load() const override { return engine_.load(); }
  [[nodiscard]] std::optional<PrefetchCounts> prefetched() const override {
    if (prefetcher_ == nullptr) return std::nullopt;
    return prefetcher_->counts();
  }
  [[nodiscard]] std::vector<SeenStep> workflow_steps(std::size_t most) const override {
    return prefetcher_ == nullptr ? std::vector<SeenStep>{} : prefetcher_->steps(most);
  }
  [[nodiscard]] std::optional<std::uint32_t> default_max_tokens() const override {
    const TokenCount limit = defaults().max_tokens;
    if (limit == kNoTokenLimit) return std::nullopt;
    return static_cast<std::uint32_t>(limit.value());
  }
  [[nodiscard]] bool is_default(std::string_view field, double value) const override;
  [[nodiscard]] std::optional<bool> samples_by_default() const override {
    return engine_.default_options().sampling.temperature > 0;
  }
  [[nodiscard]] std::string clock_in_prompts(WallTime now) const override {
    return engine_.clock_in_prompts(now);
  }
  [[nodiscard]] std::vector<std::string> ignored(const ApiRequest& request) const override {
    if (request.engine == nullptr) return {};
    std::vector<std::string> places = request.engine->ignored;
    const auto unenforced = engine_.unenforced(request.engine->generation.rules);
    places.insert(places.end(), unenforced.begin(), unenforced.end());
    return places;
  }
  BackendCall ask(BackendRequest request, std::shared_ptr<BackendListener> listener) override;

 private:
  /// Does `work`, and answers in its place if it throws.
  void contain(const BackendRequest& request, BackendListener& listener,
               const std::function<void(BackendListener&)>& work) const;
  /// The engine's defaults with the operator's limit.
  [[nodiscard]] GenerateOptions defaults() const;
  [[nodiscard]] Refusal refusal(const Sequence& prompt, const Error& error) const;
  [[nodiscard]] std::string models() const;
  void say_model(BackendListener& listener, std::string_view id) const;
  void help(const BackendRequest& request, const std::string& path,
            BackendListener& listener) const;
  void compute(const BackendRequest& request, BackendListener& listener,
               const std::stop_token& stop) const;
  void embed(const ApiRequest& asked, BackendListener& listener) const;
  void answer_native(const BackendRequest& request, BackendListener& listener,
                     const std::stop_token& stop) const;
  void answer(const BackendRequest& request, BackendListener& listener,
              const std::stop_token& stop) const;

  /// Hears a choice while it is computed.
  struct ChoiceListener {
    std::function<void(const OpenEvents&)> send;
    std::function<void()> on_bounded;
  };
  /// A prompt, what it is found by, and its tokens: the same for each of its choices.
  struct Prompt;
  Result<std::unique_ptr<const Prompt>> prompt_of(const BackendRequest& request,
                                                  std::size_t which) const;
  Result<Served> write_choice(const ApiRequest& asked, const Prompt& prompt, std::uint32_t index,
                              LiveEvents& events, AnswerDetails& details,
                              const ChoiceListener& listener, const std::stop_token& stop) const;
  /// The members that a client asks for, of the first choice.
  /// Where the media's encoder outputs came from, in the log.
  void log_media(const Prompt& prompt, const Served& served) const;
  [[nodiscard]] std::string details_at_end(const ApiRequest& asked, const Sequence& prompt,
                                           const AnswerDetails& details, const Served& first) const;
  [[nodiscard]] std::string text_of_prompt(const Sequence& prompt) const;

  EngineSettings settings_;
  const Engine& engine_;
  Reuse& reuse_;
  IdGenerator& ids_;
  const Clock& clock_;
  std::string fingerprint_;
  OnComputed on_computed_;
  Log* log_;                                    // nullptr: nothing is logged
  std::unique_ptr<StepPrefetcher> prefetcher_;  // nullptr: the caches have no tier below
  Workers workers_;
};

}  // namespace afterimage

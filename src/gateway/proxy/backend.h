// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "afterimage/identity.h"
#include "afterimage/ids.h"
#include "foundation/http/caller.h"
#include "foundation/http/message.h"
#include "gateway/openai/record.h"
#include "gateway/openai/request.h"
#include "gateway/prompts/content_chain.h"
#include "gateway/proxy/route.h"
#include "gateway/proxy/tenant_spaces.h"

namespace afterimage {

/// One request as the backend gets it.
struct BackendRequest {
  std::string method;
  std::string target;
  HttpHeaders headers;  // the client's
  std::shared_ptr<const std::string> body;
  std::optional<ApiOperation> operation;         // nullopt: another path of the API
  std::shared_ptr<const ApiRequest> request;     // nullptr: it could not be read
  std::shared_ptr<SharedChain> chain = nullptr;  // of the request, with it
  TenantId tenant;
  std::string tenant_name = {};
  std::shared_ptr<const TenantSpace> space = nullptr;  // nullptr: the request was not identified
  RequestHints hints = {};
  std::vector<std::string> tags = {};  // of the entries that it makes
  bool resends = true;                 // as HttpCall::resends
  bool once = false;                   // it was sent before: see HttpCall::once
  /// For the prefix cache of a server that takes a `cache_salt`; empty: the prompt is sent without.
  std::string salt = {};
};

/// Of a backend that prefetches.
struct PrefetchCounts {
  std::uint64_t useful = 0;    // loaded, and the step came
  std::uint64_t useless = 0;   // loaded, and the step did not come in time
  std::uint64_t nothing = 0;   // memory had it, or the tiers did not
  std::uint64_t declined = 0;  // not loaded: too few were useful, or too many were waiting
  std::uint64_t kv_tokens = 0;
  std::uint64_t encoder_outputs = 0;
};

/// A step of a client's workflow, as its requests have shown it.
struct SeenStep {
  std::string tenant, workflow, step;
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0;  // of the last one
  bool loaded = false;              // for its next request, which has not come yet
  std::vector<std::pair<std::string, std::uint32_t>> followed_by;  // and how often
};

/// Hears a backend's response: its bytes, as any server of this API sends them, or, from a backend
/// of this process, those bytes and the record of the answer, so that they need not be parsed.
class BackendListener : public HttpListener {
 public:
  /// Instead of on_head(): on_record() comes before the last bytes.
  virtual void on_recorded_head(unsigned status, HttpHeaders headers) {
    on_head(status, std::move(headers));
  }
  virtual void on_record(ApiRecord /*record*/) {}  // NOLINT(performance-unnecessary-value-param)
  /// The answer is bounded, not exact (ReuseOptions::moved): it is never stored, and on_record() is not
  /// called. Before the head, unless only a later choice is bounded.
  virtual void on_bounded() {}
  /// Before the head or the error, from a backend of several replicas.
  virtual void on_route(const std::shared_ptr<const Route>& /*route*/) {}
};

/// A response with this header "false" is final: neither clients (the official SDKs read it) nor
/// other requests that wait for it ask again.
inline constexpr std::string_view kShouldRetry = "X-Should-Retry";

/// From a backend of this process: the tokens of the prompt, which it knows before the answer. Clients
/// do not get it.
inline constexpr std::string_view kPromptTokens = "X-Afterimage-Prompt-Tokens";

/// How a call on its way is slowed down or cancelled.
struct BackendCall {
  std::function<void()> cancel = [] {};
  HttpCallHandle handle = {};
  /// Instead of `handle`, where the call is not always the same: true stops reading.
  std::function<void(bool)> hold = {};

  void pause() const { hold ? hold(true) : handle.pause(); }
  void resume() const { hold ? hold(false) : handle.resume(); }
};

/// What computes the answers that are not in the cache: another server, or an engine of this
/// process.
/// Threads  Any.
class Backend {
 public:
  virtual ~Backend() = default;
  /// "upstream", "built-in".
  [[nodiscard]] virtual std::string_view kind() const = 0;
  /// The server's address, or the engine's model.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Everything besides content and tenant that changes the answers of the model of this name.
  [[nodiscard]] virtual ModelIdentity identity(const std::string& model) const = 0;
  /// Whether it takes requests that cannot be read, and media by address.
  [[nodiscard]] virtual bool takes_anything() const = 0;
  /// The path of OpenAI's API that the client means by this one: some leave out "/v1".
  [[nodiscard]] virtual std::string_view api_path(std::string_view path) const { return path; }
  /// Whether its server takes a `cache_salt`: it may, as far as is known; it does.
  [[nodiscard]] virtual bool may_take_salts() const { return false; }
  [[nodiscard]] virtual bool takes_salts() const { return false; }
  /// Whether it may be asked for this path.
  [[nodiscard]] virtual bool serves(std::string_view path) const {
    return path.starts_with("/v1/");
  }
  /// Whether it encodes and prefills through this process's caches.
  [[nodiscard]] virtual bool uses_reuse() const { return false; }
  /// Of the engine of this process; nullopt: another server computes.
  [[nodiscard]] virtual std::optional<Exactness> exactness() const { return std::nullopt; }
  /// Of an engine in this process.
  [[nodiscard]] virtual std::optional<EngineLoad> load() const { return std::nullopt; }
  /// Of an engine in this process whose caches have a tier below.
  [[nodiscard]] virtual std::optional<PrefetchCounts> prefetched() const { return std::nullopt; }
  /// The same: the steps that it remembers, the last used first.
  [[nodiscard]] virtual std::vector<SeenStep> workflow_steps(std::size_t /*most*/) const {
    return {};
  }
  /// The token limit of requests that name none, if it is known here: it is then part of their
  /// identity. nullopt: the model's server decides.
  [[nodiscard]] virtual std::optional<std::uint32_t> default_max_tokens() const {
    return std::nullopt;
  }
  /// Whether requests that leave this field of sampling out are answered with this value. Another server
  /// does not say: its model's files or its options may have other defaults than the API's.
  [[nodiscard]] virtual bool is_default(std::string_view /*field*/, double /*value*/) const {
    return false;
  }
  /// Whether it samples requests that name no temperature. nullopt: the model's server decides, so
  /// they are taken for sampled.
  [[nodiscard]] virtual std::optional<bool> samples_by_default() const { return std::nullopt; }
  /// As Engine::clock_in_prompts. Another server does not say: `upstream.live` does.
  [[nodiscard]] virtual std::string clock_in_prompts(WallTime /*now*/) const { return {}; }
  /// What the request asks for and the answers leave out, by name. Another server does not say.
  [[nodiscard]] virtual std::vector<std::string> ignored(const ApiRequest& /*request*/) const {
    return {};
  }
  /// Which replica would get the request, and why. nullptr: there is one server.
  [[nodiscard]] virtual std::shared_ptr<const Route> route(
      const BackendRequest& /*request*/) const {
    return nullptr;
  }
  virtual BackendCall ask(BackendRequest request, std::shared_ptr<BackendListener> listener) = 0;
};

}  // namespace afterimage

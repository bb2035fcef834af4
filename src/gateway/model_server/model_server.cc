// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/model_server/model_server.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "foundation/http/tls.h"
#include "foundation/json/json_text.h"
#include "foundation/platform/environment.h"
#include "gateway/config/replica_setting.h"

namespace afterimage {
namespace {

ServerKind kind_of_owner(std::string_view owner) {
  constexpr auto kOwners = std::to_array<std::pair<std::string_view, ServerKind>>(
      {{"vllm", ServerKind::kVllm},
       {"sglang", ServerKind::kSglang},
       {"llamacpp", ServerKind::kLlamaServer},
       {"library", ServerKind::kOllama},
       {"tensorrt_llm", ServerKind::kTensorRtLlm},
       {"organization_owner", ServerKind::kLmStudio},
       {"afterimage", ServerKind::kAfterimage}});
  const auto* const found =
      std::ranges::find(kOwners, owner, &std::pair<std::string_view, ServerKind>::first);
  return found == kOwners.end() ? ServerKind::kUnknown : found->second;
}

/// What follows the list of models.
class Asking {
 public:
  Asking(const AskServer& ask, ModelServer& info) : ask_(ask), info_(info) {}

  void run() {
    switch (info_.kind) {
      case ServerKind::kVllm:
        read_version("/version", "version");
        return read_cache_config();
      case ServerKind::kSglang:
        return read_sglang();
      case ServerKind::kLlamaServer:
        return read_props();
      case ServerKind::kOllama:
        read_version("/api/version", "version");
        return;
      case ServerKind::kTensorRtLlm:
        read_version("/version", "version");
        return;
      case ServerKind::kUnknown:
        return read_others();
      case ServerKind::kLmStudio:
      case ServerKind::kAfterimage:
        return;
    }
  }

 private:
  /// The body of a good answer.
  [[nodiscard]] std::optional<std::string> get(const std::string& path) const {
    auto answer = ask_(path);
    if (!answer.has_value() || answer->status != 200) return std::nullopt;
    return std::move(answer->body);
  }
  /// False: there is no such text.
  bool read_version(const std::string& path, std::string_view member) {
    const auto body = get(path);
    if (!body.has_value()) return false;
    JsonReader reader;
    const auto read = reader.read(*body);
    if (!read.has_value()) return false;
    info_.version = (*read)[member].text();
    return !info_.version.empty();
  }

  /// Only vLLM's metrics say whether it keeps prefixes.
  void read_cache_config() {
    const auto metrics = get("/metrics");
    if (!metrics.has_value()) return;
    constexpr std::string_view kSetting = "enable_prefix_caching=\"";
    const std::size_t begin = metrics->find(kSetting);
    if (begin == std::string::npos) return;
    const std::string_view value = std::string_view(*metrics).substr(begin + kSetting.size());
    if (value.starts_with("True")) info_.caches_prefixes = true;
    if (value.starts_with("False")) info_.caches_prefixes = false;
  }

  void read_sglang() {
    for (const char* const path : {"/server_info", "/get_server_info"}) {  // newer ones, older ones
      const auto body = get(path);
      if (!body.has_value()) continue;
      JsonReader reader;
      const auto read = reader.read(*body);
      if (!read.has_value()) continue;
      info_.version = (*read)["version"].text();
      const JsonValue off = (*read)["disable_radix_cache"];
      if (off.is(JsonKind::kTrue) || off.is(JsonKind::kFalse)) {
        info_.caches_prefixes = off.is(JsonKind::kFalse);
      }
      return;
    }
  }

  void read_props() {
    const auto body = get("/props");
    if (!body.has_value()) return;
    JsonReader reader;
    const auto read = reader.read(*body);
    if (!read.has_value()) return;
    info_.version = (*read)["build_info"].text();
    // What it takes, instead of what its model was trained for.
    const auto context = (*read)["default_generation_settings"]["n_ctx"].count();
    if (context.value_or(0) > 0) info_.context = *context;
  }

  /// Ollama without a model, or with models of its users; llama-server behind a name of its own.
  void read_others() {
    if (read_version("/api/version", "version")) {
      info_.kind = ServerKind::kOllama;
    } else if (read_version("/props", "build_info")) {
      info_.kind = ServerKind::kLlamaServer;
    }
  }

  const AskServer& ask_;
  ModelServer& info_;
};

}  // namespace

std::string_view to_string(ServerKind kind) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"a server of an unknown kind", "vLLM", "SGLang", "llama-server", "Ollama", "TensorRT-LLM",
       "LM Studio", "Afterimage's own engine"});
  static_assert(kNames.size() == kServerKinds);
  return kNames[static_cast<std::size_t>(kind)];
}

bool takes_cache_salt(ServerKind kind) {
  return kind == ServerKind::kVllm || kind == ServerKind::kSglang;
}

std::optional<ModelList> read_model_list(std::string_view body) {
  JsonReader reader;
  const auto root = reader.read(body);
  if (!root.has_value() || !(*root)["data"].is(JsonKind::kArray)) return std::nullopt;
  ModelList list;
  for (const JsonValue model : (*root)["data"]) {
    list.ids.emplace_back(model["id"].text());
    if (list.kind == ServerKind::kUnknown) list.kind = kind_of_owner(model["owned_by"].text());
    if (list.context > 0 || list.ids.size() > 1) continue;
    const JsonValue trained = model["meta"]["n_ctx_train"];  // llama-server's
    list.context = model["max_model_len"].count().value_or(trained.count().value_or(0));
  }
  return list;
}

Result<Url> server_address(std::string_view url) {
  AFI_TRY(Url address, parse_url(url));
  while (address.target.ends_with('/')) address.target.pop_back();
  if (address.target.ends_with("/v1")) address.target.resize(address.target.size() - 3);
  return address;
}

Result<ModelServer> model_server(const AskServer& ask) {
  AFI_TRY(const HttpAnswer models, ask("/v1/models"));
  ModelServer info;
  if (models.status == 401 || models.status == 403) {
    info.needs_key = true;
    return info;
  }
  if (auto list = read_model_list(models.body)) {
    info.kind = list->kind;
    info.models = std::move(list->ids);
    info.context = list->context;
  }
  Asking(ask, info).run();
  return info;
}

Result<ModelServer> model_server_of(const UpstreamSettings& upstream) {
  HttpQuestion question{.deadline = std::chrono::seconds(1), .max_answer = 16_MiB};
  if (!upstream.ca_file.empty()) {
    AFI_TRY(question.trust, TlsTrust::load(upstream.ca_file));
  }
  const std::string key =
      upstream.key_env.empty() ? "" : environment(upstream.key_env).value_or("");
  if (!key.empty()) question.headers["Authorization"] = "Bearer " + key;
  std::string url = upstream.url;
  if (url.empty()) {
    AFI_TRY(const ReplicaSetting first, parse_replica(upstream.replicas.front()));
    url = first.url;
  }
  AFI_TRY(const Url server, server_address(url));
  return model_server([&](const std::string& path) {
    question.url = server;
    question.url.target += path;
    return http_get(question);
  });
}

}  // namespace afterimage

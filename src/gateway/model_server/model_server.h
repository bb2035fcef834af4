// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "foundation/http/client.h"
#include "foundation/http/url.h"
#include "gateway/config/settings.h"

namespace afterimage {

enum class ServerKind : unsigned char {
  kUnknown,
  kVllm,
  kSglang,
  kLlamaServer,
  kOllama,
  kTensorRtLlm,
  kLmStudio,
  kAfterimage,  // its own engine; behind a gateway its server is seen
};
inline constexpr std::size_t kServerKinds = 8;
/// "vLLM", "llama-server", …; "a server of an unknown kind".
[[nodiscard]] std::string_view to_string(ServerKind kind);

/// Whether its prefix cache tells prompts apart by a `cache_salt`. Others refuse members that they do not know.
[[nodiscard]] bool takes_cache_salt(ServerKind kind);

/// The models that GET /v1/models lists.
struct ModelList {
  ServerKind kind = ServerKind::kUnknown;  // by who owns them
  std::vector<std::string> ids;
  std::uint64_t context = 0;  // tokens that the first of them takes; 0: the list does not say
};
/// nullopt: it is no such list.
[[nodiscard]] std::optional<ModelList> read_model_list(std::string_view body);

/// What a server says of itself.
struct ModelServer {
  ServerKind kind = ServerKind::kUnknown;
  std::string version;  // empty: it does not say
  std::vector<std::string> models;
  std::uint64_t context = 0;                           // as of ModelList
  std::optional<bool> caches_prefixes = std::nullopt;  // of prompts; nullopt: it does not say
  bool needs_key = false;                              // it says nothing without one
};

/// The address of a server, as people write it: with the API's version, as clients want it, or without.
///
/// Errors   Those of parse_url().
[[nodiscard]] Result<Url> server_address(std::string_view url);

/// GET of a path, such as "/v1/models".
using AskServer = std::function<Result<HttpAnswer>(const std::string& path)>;
/// Asks for the models, then at most three times for what servers of that kind say of themselves.
///
/// Errors   Those of the first question: nothing answers there. An answer that cannot be understood is no error: the
///          server is of an unknown kind then.
/// Source   The servers' own documentation and sources; tests/gateway/first_minute_test.py says what each answers.
[[nodiscard]] Result<ModelServer> model_server(const AskServer& ask);

/// The same of an upstream, or of the first of its replicas, with the upstream's key. Waits at most a second for each
/// answer.
///
/// Errors   As above; those of a settings file, an address or a file of authorities that cannot be read.
/// Threads  Any; blocks.
[[nodiscard]] Result<ModelServer> model_server_of(const UpstreamSettings& upstream);

}  // namespace afterimage

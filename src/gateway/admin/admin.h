// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "foundation/http/server.h"
#include "gateway/admin/admin_json.h"
#include "gateway/fleet/fleet_backend.h"
#include "gateway/proxy/gateway.h"

namespace afterimage {

/// What became of the settings that a reload changed.
struct Reloaded {
  std::vector<std::string> applied;
  std::vector<std::string> needs_restart;
};

/// The operator's port: the page, the metrics, and the API under both.
///
/// Errors   401 without the token, 421 for an unknown Host, 415 for content types that a form of
///          another site could send, 400 for a body that cannot be read, 404. With `demo`,
///          /admin/api/ask is a chat request of the public port, with its errors.
/// Threads  Any.
/// Source   docs/formats/admin.md.
class Admin {
 public:
  struct Dependencies {
    Gateway& gateway;
    std::function<HttpServerStats()> connections;
    std::function<Result<Reloaded>()> reload;
    std::function<void()> drain;
    std::string version;
    std::vector<NamedTier> tiers;     // they outlive it
    FleetBackend* fleet = nullptr;    // nullptr: there are no replicas
    bool demo = false;                // the page can ask the model
    std::uint64_t max_kv_tokens = 0;  // memory.max_kv_tokens; 0: bytes alone decide
  };
  explicit Admin(Dependencies dependencies);

  void handle(const HttpRequest& request, const Responder& responder);

 private:
  [[nodiscard]] HttpReply answer(const HttpRequest& request);
  /// Why a request is refused; nothing if it is not.
  [[nodiscard]] std::optional<HttpReply> refuse_host(const HttpRequest& request) const;
  [[nodiscard]] std::optional<HttpReply> refuse_token(const HttpRequest& request) const;
  [[nodiscard]] static std::optional<HttpReply> refuse_form(const HttpRequest& request);
  [[nodiscard]] std::optional<HttpReply> refuse_change(const HttpRequest& request) const;
  [[nodiscard]] HttpReply change(std::string_view path, std::string_view body);
  [[nodiscard]] HttpReply page();
  [[nodiscard]] bool knows_host(const HttpHeaders& headers) const;
  [[nodiscard]] bool has_token(const HttpHeaders& headers) const;

  Dependencies dependencies_;
  Duration started_;
};

/// The page; @NONCE@ stands for a nonce.
[[nodiscard]] std::string_view dashboard_html();

/// Adds the counters of caches, server and log to every scrape. The arguments outlive `metrics`.
void publish_stats(Metrics& metrics, Gateway& gateway, std::function<HttpServerStats()> connections,
                   const std::string& version);

class AnswerArchive;
class SharedStore;
class SpanExporter;
/// The same for the spans of requests.
void publish_traces(Metrics& metrics, SpanExporter& traces);
class KeyStore;
/// The same for the usage of API keys and listed tenants.
void publish_keys(Metrics& metrics, KeyStore& keys);
/// The same for the replicas.
void publish_fleet(Metrics& metrics, FleetBackend& fleet);
/// The same for the tiers below memory; nullptr: there is none.
void publish_tiers(Metrics& metrics, const Tier* gpu, const Tier* disk, const SharedStore* remote,
                   const AnswerArchive* archive);

}  // namespace afterimage

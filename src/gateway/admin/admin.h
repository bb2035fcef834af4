// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "foundation/http/server.h"
#include "gateway/admin/admin_json.h"
#include "gateway/proxy/gateway.h"

namespace afterimage {

/// What settings that were read again did.
struct Reloaded {
  std::vector<std::string> applied;
  std::vector<std::string> needs_restart;
};

/// The operator's port: the page, the metrics, and the API under both.
///
/// Errors   401 without the token, 421 for a Host that is not this server's, 415 for what a form of
///          another site could send, 400 for what cannot be read, 404.
/// Threads  Any.
/// Source   docs/formats/admin.md.
class Admin {
 public:
  struct Parts {
    Gateway& gateway;
    std::function<HttpServerStats()> connections;
    std::function<Result<Reloaded>()> reload;
    std::function<void()> drain;
    std::string version;
    std::vector<NamedTier> tiers;  // they outlive it
  };
  explicit Admin(Parts parts);

  void handle(const HttpRequest& request, const Responder& responder);

 private:
  [[nodiscard]] HttpReply answer(const HttpRequest& request);
  [[nodiscard]] HttpReply change(std::string_view path, std::string_view body);
  [[nodiscard]] HttpReply page();
  [[nodiscard]] bool knows_host(const HttpHeaders& headers) const;
  [[nodiscard]] bool has_token(const HttpHeaders& headers) const;

  Parts parts_;
  Duration started_;
};

/// The page, with @NONCE@ in it.
[[nodiscard]] std::string_view dashboard_html();

/// Adds what lives in the caches, the server and the log to every scrape. What it is given outlives
/// `metrics`.
void publish_stats(Metrics& metrics, Gateway& gateway, std::function<HttpServerStats()> connections,
                   const std::string& version);

class AnswerArchive;
class SharedStore;
/// The same of the tiers below memory; nullptr: there is none.
void publish_tiers(Metrics& metrics, const Tier* disk, const SharedStore* remote,
                   const AnswerArchive* archive);

}  // namespace afterimage

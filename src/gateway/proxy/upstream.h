// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>

#include "gateway/config/settings.h"
#include "gateway/proxy/backend.h"
#include "gateway/proxy/salt_support.h"

namespace afterimage {

/// Any OpenAI-compatible server. It gets the client's body, path and headers unchanged, except
/// hop-by-hop headers and X-Afterimage-*, and the request's salt as `cache_salt` if it takes one.
///
/// Errors   create: kInvalidArgument: not an http(s) URL. ask: as HttpCaller says, and kUnavailable
///          if upstream.max_connections calls are on their way.
/// Threads  Any.
class Upstream final : public Backend {
 public:
  /// `caller` and `clock` outlive it. `key` replaces the client's API key; empty: the client's is sent.
  static Result<std::unique_ptr<Upstream>> create(const UpstreamSettings& settings, std::string key,
                                                  HttpCaller& caller, const Clock& clock);

  [[nodiscard]] std::string_view kind() const override { return "upstream"; }
  [[nodiscard]] std::string name() const override { return settings_.url; }
  [[nodiscard]] ModelIdentity identity(const std::string& model) const override;
  [[nodiscard]] bool takes_anything() const override { return true; }
  [[nodiscard]] bool may_take_salts() const override { return salts_.may_take(); }
  [[nodiscard]] bool takes_salts() const override { return salts_.takes(); }
  BackendCall ask(BackendRequest request, std::shared_ptr<BackendListener> listener) override;

 private:
  Upstream(UpstreamSettings settings, Url url, std::string key, HttpCaller& caller,
           const Clock& clock)
      : settings_(std::move(settings)),
        url_(std::move(url)),
        key_(std::move(key)),
        caller_(caller),
        salts_(settings_.cache_salt, url_, caller, clock) {}
  [[nodiscard]] HttpHeaders sent_headers(HttpHeaders clients) const;

  UpstreamSettings settings_;
  Url url_;
  std::string key_;
  HttpCaller& caller_;
  SaltSupport salts_;
  std::shared_ptr<std::atomic<std::uint32_t>> on_their_way_ =
      std::make_shared<std::atomic<std::uint32_t>>(0);
};

/// Without hop-by-hop headers (RFC 9110 7.6.1), those that Connection names, and those that a proxy
/// sets anew.
[[nodiscard]] HttpHeaders end_to_end(HttpHeaders headers);

}  // namespace afterimage

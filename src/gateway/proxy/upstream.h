// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>

#include "gateway/config/settings.h"
#include "gateway/proxy/backend.h"

namespace afterimage {

/// Any OpenAI-compatible server. It gets the client's body, path and headers unchanged, except
/// hop-by-hop headers and X-Afterimage-*.
///
/// Errors   create: kInvalidArgument: not an http(s) URL. ask: as HttpCaller says, and kUnavailable
///          if upstream.max_connections calls are on their way.
/// Threads  Any.
class Upstream final : public Backend {
 public:
  /// `caller` outlives it. `key` replaces the client's API key; empty: the client's is sent.
  static Result<std::unique_ptr<Upstream>> create(const UpstreamSettings& settings, std::string key,
                                                  HttpCaller& caller);

  [[nodiscard]] std::string_view kind() const override { return "upstream"; }
  [[nodiscard]] std::string name() const override { return settings_.url; }
  [[nodiscard]] ModelIdentity identity(const std::string& model) const override;
  [[nodiscard]] bool takes_anything() const override { return true; }
  BackendCall ask(BackendRequest request, std::shared_ptr<BackendListener> listener) override;

 private:
  Upstream(UpstreamSettings settings, Url url, std::string key, HttpCaller& caller)
      : settings_(std::move(settings)),
        url_(std::move(url)),
        key_(std::move(key)),
        caller_(caller) {}

  UpstreamSettings settings_;
  Url url_;
  std::string key_;
  HttpCaller& caller_;
  std::shared_ptr<std::atomic<std::uint32_t>> on_their_way_ =
      std::make_shared<std::atomic<std::uint32_t>>(0);
};

/// Without hop-by-hop headers (RFC 9110 7.6.1), those that Connection names, and those that a proxy
/// sets anew.
[[nodiscard]] HttpHeaders end_to_end(const HttpHeaders& headers);

}  // namespace afterimage

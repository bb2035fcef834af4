// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "foundation/platform/wall_clocks.h"
#include "gateway/config/settings.h"
#include "gateway/service/service.h"
#include "testing/running_gateway.h"
#include "testing/tiny_engine.h"

namespace afterimage::testing {

/// The whole server with the built-in engine, as `afterimage serve` alone starts it.
class BuiltInGateway {
 public:
  using MakeEngine = std::function<std::unique_ptr<Engine>(const Clock&)>;
  explicit BuiltInGateway(std::string toml = "", MakeEngine make_engine = tiny_engine)
      : toml_(std::move(toml)), make_engine_(std::move(make_engine)) {
    restart();
  }

  void restart() {
    service_.reset();
    const auto read = [this] {
      return parse_settings(
          toml_ + "[listen]\nport = 0\n[admin]\nport = 0\n[log]\nlevel = \"off\"\n", "test.toml");
    };
    auto settings = read();
    ASSERT_TRUE(settings.has_value()) << settings.error().message;
    service_ = Service::start({.settings = *settings,
                               .read_settings = read,
                               .engine = make_engine_(clock_),
                               .version = "test",
                               .log = [](std::string_view) { return true; }},
                              clock_, wall_)
                   .value();
  }
  Said chat(const std::string& body, const std::string& headers = "") {
    return post("/v1/chat/completions", body, headers);
  }
  Said post(const std::string& path, const std::string& body, const std::string& headers = "") {
    return ask(service_->port(), "POST", path, body, headers);
  }
  Said get(const std::string& path) { return ask(service_->port(), "GET", path, ""); }
  json admin(const std::string& method, const std::string& path, const std::string& body = "") {
    return json::parse(
        ask(service_->admin_port(), method, path, body, "Content-Type: application/json\r\n").body);
  }
  std::string metrics() { return ask(service_->admin_port(), "GET", "/metrics", "").body; }

 private:
  std::string toml_;
  MakeEngine make_engine_;
  SystemClock clock_;
  SystemWallClock wall_;
  std::unique_ptr<Service> service_;
};

}  // namespace afterimage::testing

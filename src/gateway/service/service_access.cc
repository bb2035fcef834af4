// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Keys, certificates and traces.
#include <chrono>
#include <cstring>
#include <utility>

#include "afterimage/secret.h"
#include "foundation/http/tls.h"
#include "foundation/platform/environment.h"
#include "gateway/service/otlp_target.h"
#include "gateway/service/service_state.h"

namespace afterimage {
namespace {

/// nullptr: plain HTTP. `listener`: "listen" or "admin".
Result<std::shared_ptr<const TlsIdentity>> tls_identity(const std::string& listener,
                                                        const std::string& certificate,
                                                        const std::string& key) {
  if (certificate.empty() && key.empty()) return std::shared_ptr<const TlsIdentity>();
  if (certificate.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                listener + ".tls_key: without " + listener + ".tls_certificate it has no use");
  }
  auto identity = TlsIdentity::load(certificate, key);
  if (!identity.has_value()) {
    return fail(identity.error().code, listener + ".tls_certificate: " + identity.error().message);
  }
  return identity;
}

}  // namespace

Result<std::string> key_in(const std::string& setting, const std::string& variable) {
  if (variable.empty()) return std::string();
  auto key = environment(variable);
  if (!key.has_value() || key->empty()) {
    return fail(ErrorCode::kInvalidArgument,
                setting + ": the environment variable '" + variable + "' is not set");
  }
  return *std::move(key);
}

Result<void> Service::State::load_certificates() {
  // The files that the server was started with: other names take a restart.
  const ListenSettings& clients = options.settings.listen;
  const AdminSettings& admins = options.settings.admin;
  AFI_TRY(auto of_clients, tls_identity("listen", clients.tls_certificate, clients.tls_key));
  AFI_TRY(auto of_admins, tls_identity("admin", admins.tls_certificate, admins.tls_key));
  tls = std::move(of_clients);
  admin_tls = std::move(of_admins);
  const auto show = [&](const char* listener, const std::shared_ptr<const TlsIdentity>& identity) {
    if (identity == nullptr) return;
    const Duration expires = identity->expires().time_since_epoch();
    metrics
        .gauge("afterimage_tls_certificate_expires_timestamp_seconds",
               "When a listener's certificate expires, seconds since 1970",
               {{"listener", listener}})
        .set(std::chrono::duration<double>(expires).count());
    if (identity->expires() <= wall.now()) {
      log.warn("certificate_expired", {{"listener", listener}});
    }
  };
  show("listen", tls);
  show("admin", admin_tls);
  if (server != nullptr) server->set_tls(tls);
  if (admin_server != nullptr) admin_server->set_tls(admin_tls);
  return {};
}

Result<void> Service::State::open_keys() {
  const TenancySettings& tenancy = options.settings.tenancy;
  auto opened = KeyStore::open({.file = tenancy.keys_file, .files = &files}, wall);
  if (!opened.has_value()) {
    return fail(opened.error().code, "tenancy.keys_file: " + opened.error().message);
  }
  key_store = *std::move(opened);
  if (key_store->is_enabled()) {
    usage_saver = std::make_unique<PeriodicTask>([this] { save_usage(); }, tenancy.save_usage);
  }
  return {};
}

Result<void> Service::State::open_traces() {
  const TelemetrySettings& telemetry = options.settings.telemetry;
  if (telemetry.otlp_endpoint.empty()) return {};
  AFI_TRY(const std::string given, key_in("telemetry.headers_env", telemetry.headers_env));
  AFI_TRY(OtlpTarget target, otlp_target(telemetry.otlp_endpoint, given));
  AFI_TRY(const Secret chance, random_secret());
  SpanExporterOptions wanted{
      .service = telemetry.service_name, .version = options.version, .queue = telemetry.queue};
  std::memcpy(&wanted.seed, chance.data(), sizeof wanted.seed);
  traces = std::make_unique<SpanExporter>(
      std::move(wanted),
      [target = std::move(target)](std::string body) { return post_otlp(target, std::move(body)); },
      [this](std::string_view why) { log.warn("traces_not_sent", {{"why", std::string(why)}}); });
  return {};
}

/// Usage that cannot be saved is kept in memory, and saved as soon as that is possible.
void Service::State::save_usage() {
  const auto saved = key_store->save_usage();
  if (!saved.has_value()) log.error("usage_not_saved", {{"why", saved.error().message}});
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/admin/admin.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "afterimage/secret.h"
#include "gateway/admin/admin_actions.h"
#include "gateway/admin/admin_json.h"
#include "gateway/admin/fleet_json.h"
#include "gateway/admin/keys_json.h"

namespace afterimage {
namespace {

using nlohmann::json;

constexpr std::string_view kDecision = "/admin/api/decisions/";
constexpr std::string_view kInvalidate = "/admin/api/invalidate";
constexpr std::string_view kErase = "/admin/api/erase";
constexpr std::string_view kWrong = "/admin/api/wrong";
constexpr std::string_view kAsk = "/admin/api/ask";
constexpr std::string_view kFleet = "/admin/api/fleet";
constexpr std::string_view kKeys = "/admin/api/keys";

HttpReply json_reply(unsigned status, const json& body) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json"},
                      {"Cache-Control", "no-store"},
                      {"X-Content-Type-Options", "nosniff"}},
          .body = as_text(body)};
}

HttpReply refusal(unsigned status, std::string_view message) {
  return json_reply(status, {{"error", {{"message", message}}}});
}

HttpReply reply_of(const Result<json>& made) {
  if (made.has_value()) return json_reply(200, *made);
  switch (made.error().code) {
    case ErrorCode::kNotFound:
      return refusal(404, made.error().message);
    case ErrorCode::kLimitExceeded:
    case ErrorCode::kNoSpace:
      return refusal(409, made.error().message);
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimeout:
      return refusal(503, made.error().message);
    default:
      return refusal(400, made.error().message);
  }
}

/// The host name of a Host header, without port and brackets.
std::string_view host_name(std::string_view host) {
  if (!host.starts_with('[')) return host.substr(0, host.find(':'));
  const std::size_t end = std::min(host.find(']'), host.size() - 1);
  const std::string_view port = host.substr(end + 1);
  return port.empty() || port.starts_with(':') ? host.substr(1, end - 1) : "";
}

/// Anybody can register a name that begins like an address, such as 127.0.0.1.example.org.
bool is_loopback(std::string_view name) {
  in_addr v4{};
  if (inet_pton(AF_INET, std::string(name).c_str(), &v4) == 1)
    return ntohl(v4.s_addr) >> 24U == 127;
  return same_header(name, "localhost") || name == "::1";
}

bool same_text(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

Admin::Admin(Dependencies dependencies)
    : dependencies_(std::move(dependencies)), started_(dependencies_.gateway.parts().clock.now()) {}

bool Admin::knows_host(const HttpHeaders& headers) const {
  const std::string_view name = host_name(headers.find("host").value_or(""));
  if (is_loopback(name)) return true;
  const AdminSettings& settings = dependencies_.gateway.config()->settings.admin;
  return name == settings.address ||
         std::ranges::any_of(settings.hosts,
                             [&](const std::string& host) { return same_header(host, name); });
}

bool Admin::has_token(const HttpHeaders& headers) const {
  const auto config = dependencies_.gateway.config();
  const std::string& token = config->settings.admin.token;
  return token.empty() || same_text(headers.find("authorization").value_or(""), "Bearer " + token);
}

void Admin::handle(const HttpRequest& request, const Responder& responder) {
  if (dependencies_.demo && request.method == "POST" && request.target == kAsk) {
    if (auto refused = refuse_change(request)) return responder.reply(*std::move(refused));
    HttpRequest chat = request;
    chat.target = "/v1/chat/completions";
    return dependencies_.gateway.handle(std::move(chat), responder);
  }
  // Listing many entries takes milliseconds: not on a thread that serves other connections.
  const auto made = [this, request, responder] { responder.reply(answer(request)); };
  const bool erases = request.target.starts_with(kInvalidate) ||
                      request.target.starts_with(kErase) || request.target.starts_with(kWrong);
  Workers& workers = erases ? dependencies_.gateway.erasers() : dependencies_.gateway.readers();
  if (!workers.post(made)) responder.reply(refusal(503, "busy; try again soon"));
}

std::optional<HttpReply> Admin::refuse_host(const HttpRequest& request) const {
  if (knows_host(request.headers)) return std::nullopt;
  return refusal(
      421, "this host name is not allowed: add it to admin.hosts, or use the server's address");
}

std::optional<HttpReply> Admin::refuse_token(const HttpRequest& request) const {
  if (has_token(request.headers)) return std::nullopt;
  HttpReply reply = refusal(401, "send Authorization: Bearer with admin.token of the settings");
  reply.headers.add("WWW-Authenticate", "Bearer");
  return reply;
}

std::optional<HttpReply> Admin::refuse_form(const HttpRequest& request) {
  const auto type = request.headers.find("content-type").value_or("");
  if (same_header(type.substr(0, type.find(';')), "application/json")) return std::nullopt;
  return refusal(415, "send Content-Type: application/json");
}

std::optional<HttpReply> Admin::refuse_change(const HttpRequest& request) const {
  if (auto refused = refuse_host(request)) return refused;
  if (auto refused = refuse_token(request)) return refused;
  return refuse_form(request);
}

HttpReply Admin::answer(const HttpRequest& request) {
  if (auto refused = refuse_host(request)) return *std::move(refused);
  const std::string_view target = request.target;
  const std::string_view path = target.substr(0, target.find('?'));
  const std::string_view query = path.size() < target.size() ? target.substr(path.size() + 1) : "";
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (path == "/" && reads) return page();
  if (path == "/health" && reads) {
    return json_reply(200, {{"status", "ok"}, {"engine", engine_json(dependencies_.gateway)}});
  }
  // The public port accepts no connections while it drains, so this port answers, too.
  if (path == "/ready" && reads) {
    const bool draining = dependencies_.gateway.draining();
    return json_reply(draining ? 503 : 200, {{"status", draining ? "draining" : "ready"}});
  }
  if (auto refused = refuse_token(request)) return *std::move(refused);
  Gateway& gateway = dependencies_.gateway;
  if (request.method == "POST") {
    if (auto refused = refuse_form(request)) return *std::move(refused);
    return change(path, *request.body);
  }
  if (!reads) return refusal(405, "use GET or POST");
  gateway.settle();
  if (path == "/metrics") {
    return {.status = 200,
            .headers = {{"Content-Type", std::string(Metrics::kContentType)}},
            .body = gateway.parts().metrics.text()};
  }
  if (path == "/admin/api/stats") {
    json stats = stats_json(gateway, gateway.parts().clock.now() - started_, dependencies_.version,
                            dependencies_.tiers);
    stats["demo"] = dependencies_.demo;
    stats["memory"]["max_kv_tokens"] = dependencies_.max_kv_tokens;
    if (dependencies_.fleet != nullptr) stats["fleet"] = fleet_json(*dependencies_.fleet);
    return json_reply(200, stats);
  }
  if (path == kFleet && dependencies_.fleet != nullptr)
    return json_reply(200, fleet_json(*dependencies_.fleet));
  if (path == kKeys) return json_reply(200, keys_json(gateway));
  if (path == "/admin/api/decisions") return reply_of(decisions_json(gateway, query));
  if (path == "/admin/api/media") return reply_of(media_json(gateway, query));
  if (path == "/admin/api/entries") return reply_of(entries_json(gateway, query));
  if (path.starts_with(kDecision)) {
    std::uint64_t id = 0;
    const std::string_view text = path.substr(kDecision.size());
    const auto read = std::from_chars(text.data(), text.data() + text.size(), id);
    const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
    const auto decision = whole ? gateway.decisions().find(id) : std::nullopt;
    if (!decision.has_value()) return refusal(404, "this decision is not among the last 1,000");
    json said = decision_json(*decision);
    add_explanation(said, *decision);
    return json_reply(200, said);
  }
  return refusal(404, "there is nothing here; see docs/formats/admin.md");
}

HttpReply Admin::change(std::string_view path, std::string_view body) {
  const json asked = json::parse(body.empty() ? std::string_view("{}") : body, nullptr, false);
  if (!asked.is_object()) return refusal(400, "the body must be a JSON object");
  Gateway& gateway = dependencies_.gateway;
  if (path == kInvalidate) return reply_of(invalidate(gateway, asked));
  if (path == kErase) return reply_of(erase(gateway, asked));
  if (path == kWrong) return reply_of(report_wrong(gateway, asked));
  if (path == "/admin/api/pin") return reply_of(pin(gateway, asked));
  if (path == "/admin/api/explain") return reply_of(explain(gateway, asked, body));
  if (path == "/admin/api/drain") {
    dependencies_.drain();
    return json_reply(200, {{"draining", true}});
  }
  if (path == kKeys || path.starts_with(std::string(kKeys) + "/")) {
    return reply_of(change_keys(gateway, path.substr(kKeys.size()), asked));
  }
  if (path.starts_with(kFleet) && dependencies_.fleet != nullptr) {
    return reply_of(change_fleet(*dependencies_.fleet, path.substr(kFleet.size()), asked));
  }
  if (path == "/admin/api/reload") {
    const auto done = dependencies_.reload();
    if (!done.has_value()) return refusal(400, done.error().message);
    return json_reply(200, {{"applied", done->applied}, {"needs_restart", done->needs_restart}});
  }
  return refusal(404, "there is nothing here; see docs/formats/admin.md");
}

/// With the nonce the browser runs our script and style only, and nothing that was injected.
HttpReply Admin::page() {
  const auto chance = random_secret();
  if (!chance.has_value()) return refusal(500, chance.error().message);
  const std::string nonce = to_hex(*chance).substr(0, 32);
  std::string html(dashboard_html());
  constexpr std::string_view kMark = "@NONCE@";
  for (std::size_t at = html.find(kMark); at != std::string::npos; at = html.find(kMark, at)) {
    html.replace(at, kMark.size(), nonce);
  }
  return {.status = 200,
          .headers = {{"Content-Type", "text/html; charset=utf-8"},
                      {"Content-Security-Policy",
                       fmt::format("default-src 'none'; script-src 'nonce-{0}'; style-src "
                                   "'nonce-{0}'; img-src data:; connect-src 'self'; base-uri "
                                   "'none'; form-action 'none'; frame-ancestors 'none'",
                                   nonce)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-store"}},
          .body = std::move(html)};
}

}  // namespace afterimage

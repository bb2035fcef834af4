// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/gateway.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>

#include "afterimage/secret.h"
#include "gateway/access/cors.h"
#include "gateway/endpoints/endpoint_request.h"
#include "gateway/proxy/gateway_request.h"
#include "gateway/proxy/protocol_routes.h"
#include "gateway/proxy/retry_after.h"

namespace afterimage {
namespace {

constexpr std::size_t kQueuedBodies = 256;
constexpr unsigned kDiskWorkers = 2;
constexpr unsigned kRemoteWorkers = 16;  // as many as wait for servers at once
constexpr unsigned kErasers = 4;
constexpr std::size_t kQueuedInvalidations = 256;
constexpr std::size_t kQueuedDiskWork = 1024;
constexpr std::size_t kLeasesToReturn = 4096;

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

/// Whether the backend must read the path as we do: "..", "//" or an encoded letter may mean another
/// path to it.
bool is_plain(std::string_view path) {
  if (!path.starts_with('/') || path.contains("//") || path.contains("/../") ||
      path.contains("/./") || path.ends_with("/..") || path.ends_with("/.")) {
    return false;
  }
  return std::ranges::all_of(path, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/-._~:@!$&'()*+,;=").contains(c);
  });
}

/// Not CONNECT and TRACE, which are for proxies in between.
bool is_known(std::string_view method) {
  static constexpr auto kKnown =
      std::to_array<std::string_view>({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"});
  return std::ranges::find(kKnown, method) != kKnown.end();
}

std::optional<ApiOperation> operation_of(std::string_view path) {
  static constexpr std::array<std::pair<std::string_view, ApiOperation>, 3> kPaths{
      {{"/v1/chat/completions", ApiOperation::kChat},
       {"/v1/completions", ApiOperation::kCompletion},
       {"/v1/embeddings", ApiOperation::kEmbedding}}};
  for (const auto& [known, operation] : kPaths) {
    if (path == known) return operation;
  }
  return std::nullopt;
}

HttpReply status_reply(unsigned status, std::string_view text) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json"}},
          .body = R"({"status":")" + std::string(text) + "\"}"};
}

Result<std::shared_ptr<const ConfigSnapshot>> snapshot_of(const Settings& settings,
                                                          const GatewayDependencies& parts,
                                                          KeyStore& keys) {
  auto config = std::make_shared<ConfigSnapshot>();
  config->settings = settings;
  AFI_TRY(config->tenants, Tenants::create(settings.tenancy, parts.root, parts.clock, &keys));
  config->prices = PriceTable(settings.tenancy.prices);
  return config;
}

unsigned workers_for(const AnswerArchive* archive) {
  if (archive == nullptr) return 1;
  return archive->stats().shared ? kRemoteWorkers : kDiskWorkers;
}

/// The client gets 500, because the work is dropped with its Responder.
Workers::OnException told_by(Log& log) {
  return [&log](const char* why) { log.error("exception", {{"why", why}}); };
}

}  // namespace

DenialWords words_of(const AccessDenied& denied) {
  if (denied.code != ErrorCode::kLimitExceeded) {
    return {.status = 401, .type = "authentication_error", .code = Reason::kInvalidKey};
  }
  if (denied.is_budget) {
    return {.status = 429, .type = "insufficient_quota", .code = Reason::kBudgetSpent};
  }
  return {.status = 429, .type = "rate_limit_error", .code = Reason::kTooManyRequests};
}

Gateway::Gateway(GatewayDependencies parts, std::unique_ptr<KeyStore> own_keys,
                 std::shared_ptr<const ConfigSnapshot> config)
    : parts_(parts),
      own_keys_(std::move(own_keys)),
      config_(std::move(config)),
      counts_(parts.metrics),
      prompts_(config_.load()->settings.explain.memory, random_secret().value_or(parts.root)),
      seen_requests_(random_secret().value_or(parts.root)),
      spaces_(parts.root),
      media_(parts.caller, config_.load()->settings.media.memory, parts.clock),
      files_(config_.load()->settings.files.size, config_.load()->settings.files.ttl, parts.clock),
      stored_responses_(config_.load()->settings.responses.size,
                        config_.load()->settings.responses.ttl, parts.clock),
      readers_(parts.threads.count(), kQueuedBodies, told_by(parts.log)),
      disk_workers_(workers_for(parts.archive), kQueuedDiskWork, told_by(parts.log)),
      erasers_(kErasers, kQueuedInvalidations, told_by(parts.log)),
      lease_returners_(std::make_shared<Workers>(1, kLeasesToReturn)) {
  if (AnswerCache* const cache = parts_.reuse.answer_cache()) cache->add_observer(draws_);
}

Gateway::~Gateway() {
  if (AnswerCache* const cache = parts_.reuse.answer_cache()) cache->remove_observer(draws_);
}

FileLookup Gateway::files_of(const Tenant& tenant) {
  // A small request may name a large file a thousand times.
  const auto left = std::make_shared<std::uint64_t>(config()->settings.limits.http.body.value());
  return [this, tenant = tenant.id, left](std::string_view id) -> Result<UploadedFile> {
    AFI_TRY(UploadedFile file, files_.content(tenant, id));
    if (file.bytes->size() > *left) {
      return fail(ErrorCode::kLimitExceeded,
                  "the files of the request are larger than limits.body together");
    }
    *left -= file.bytes->size();
    return file;
  };
}

Result<std::unique_ptr<Gateway>> Gateway::create(const Settings& settings,
                                                 GatewayDependencies parts) {
  std::unique_ptr<KeyStore> own_keys;
  if (parts.keys == nullptr) {
    AFI_TRY(own_keys, KeyStore::open({}, parts.ids.clock()));
  }
  KeyStore& keys = parts.keys != nullptr ? *parts.keys : *own_keys;
  AFI_TRY(auto config, snapshot_of(settings, parts, keys));
  return std::unique_ptr<Gateway>(new Gateway(parts, std::move(own_keys), std::move(config)));
}

Result<void> Gateway::apply(const Settings& settings) {
  const MutexLock lock(applying_);
  AFI_TRY(auto config, snapshot_of(settings, parts_, keys()));
  config_.store(std::move(config));
  if (!settings.explain.keep_text) forget_examples([](std::string_view) { return true; });
  return {};
}

void Gateway::settle() {
  prompts_.settle();
  counts_.prompts().settle();
}

void Gateway::forget_examples(const std::function<bool(std::string_view)>& chosen) {
  counts_.prompts().forget_examples(chosen);
  decisions_.forget_examples(chosen);
}

Result<void> Gateway::apply_keys() {
  const MutexLock lock(applying_);
  AFI_TRY(auto config, snapshot_of(config_.load()->settings, parts_, keys()));
  config_.store(std::move(config));
  return {};
}

void Gateway::forget(const Question& answered) {
  Question question = answered;
  if (parts_.archive == nullptr) {
    parts_.reuse.answer_cache()->erase(question);
    return;
  }
  const bool posted = disk_workers_.post([this, question]() mutable {
    const auto erased = parts_.archive->erase_without_waiting(question);
    if (!erased.has_value()) parts_.log.error("not_erased", {{"why", erased.error().message}});
  });
  if (!posted) parts_.reuse.answer_cache()->erase(question);
}

bool Gateway::verify_similar(const Question& question, const SimilarLookup& lookup,
                             std::string_view answer) {
  if (parts_.similar->verify(question, lookup, answer)) return true;
  parts_.log.warn("similarity_demoted",
                  {{"why",
                    "a served answer was wrong; nothing is served to similar questions "
                    "until new evidence allows it"}});
  return false;
}

Result<std::string> Gateway::report_wrong(std::string_view request_id, std::string_view tenant) {
  const auto decision = decisions_.find(request_id, tenant);
  if (!decision.has_value() || decision->answered == nullptr) {
    return fail(ErrorCode::kNotFound,
                decision.has_value()
                    ? "no answer is stored for this request, or it was reported before, or its "
                      "text is not kept "
                      "any more: the newest 16 MiB are"
                    : "this request is not among the last 1,000; send its X-Request-Id");
  }
  const Answered& answered = *decision->answered;
  std::vector<Question> stored = answered.inputs;
  stored.emplace_back(answered.asked.scope(), answered.stored_as.value_or(answered.asked.text()));
  if (parts_.archive == nullptr) {
    for (Question& question : stored) parts_.reuse.answer_cache()->erase(question);
  } else {
    // What other gateways may still serve is waited for once.
    for (Question& question : std::span(stored).first(stored.size() - 1)) {
      AFI_TRY_VOID(parts_.archive->erase_without_waiting(question));
    }
    AFI_TRY_VOID(parts_.archive->erase(stored.back()));
  }
  if (!decisions_.take_answered(decision->id)) return decision->level;  // somebody was quicker
  if (parts_.similar != nullptr) {
    parts_.similar->reported_wrong(answered.asked, answered.similar);
  }
  counts_.reported_wrong(decision->level);
  parts_.log.warn("reported_wrong", {{"request_id", decision->request_id},
                                     {"tenant", decision->tenant},
                                     {"match_level", decision->level}});
  return decision->level;
}

void Gateway::handle_report(const HttpRequest& request, const Responder& responder) {
  const auto refuse = [](unsigned status, std::string_view message, std::string_view code) {
    return error_reply(status, message, "invalid_request_error", code);
  };
  if (request.method != "POST") {
    HttpReply reply = refuse(405, "use POST", "method_not_allowed");
    reply.headers.add("Allow", "POST");
    return responder.reply(std::move(reply));
  }
  const auto tenant = identify(*config()->tenants, request.headers, "");
  if (!tenant.has_value()) {
    const DenialWords words = words_of(tenant.error());
    HttpReply reply =
        error_reply(words.status, tenant.error().message, words.type, to_string(words.code));
    add_retry_after(reply.headers, tenant.error().retry_after);
    return responder.reply(std::move(reply));
  }
  const auto asked = nlohmann::json::parse(*request.body, nullptr, false);
  const auto id =
      asked.is_object() ? asked.value("request_id", nlohmann::json()) : nlohmann::json();
  if (!id.is_string()) {
    return responder.reply(refuse(
        400, R"(send {"request_id": "…"}: the X-Request-Id of the response)", "invalid_body"));
  }
  const bool posted =
      erasers_.post([this, id = id.get<std::string>(), refuse, tenant = tenant->name, responder] {
        const auto level = report_wrong(id, tenant);
        if (!level.has_value()) {
          const bool unknown = level.error().code == ErrorCode::kNotFound;
          return responder.reply(refuse(unknown ? 404 : 503, level.error().message,
                                        unknown ? "not_found" : "not_erased_everywhere"));
        }
        const nlohmann::json said{{"request_id", id}, {"match_level", *level}, {"erased", true}};
        responder.reply({.headers = {{"Content-Type", "application/json"}}, .body = said.dump()});
      });
  if (!posted) {
    responder.reply(error_reply(503, "too many reports are waiting; try again soon", "server_error",
                                "overloaded"));
  }
}

std::shared_ptr<Lease> Gateway::hold(std::unique_ptr<Lease> lease) {
  return {lease.release(), [workers = lease_returners_](Lease* held) {
            std::function<void()> give_back = [last = std::shared_ptr<Lease>(held)]() mutable {
              last.reset();
            };
            // If too many wait, it is given back on this thread, with `give_back`.
            static_cast<void>(workers->post(std::move(give_back)));
          }};
}

void Gateway::stop() {
  readers_.stop();
  disk_workers_.stop();
  erasers_.stop();
  lease_returners_->stop();
}

void Gateway::handle(HttpRequest request, Responder responder) {
  const std::string_view path = path_of(request.target);
  if (auto preflight = preflight_reply(config()->settings.listen.cors_origins, request)) {
    return responder.reply(*std::move(preflight));
  }
  if (path == "/health") return responder.reply(status_reply(200, "ok"));
  if (path == "/ready") {
    return responder.reply(draining_ ? status_reply(503, "draining") : status_reply(200, "ready"));
  }
  if (!is_plain(path)) {
    return responder.reply(
        error_reply(400, "the path has \"..\", \"//\" or an encoded character; send the plain path",
                    "invalid_request_error", "invalid_path"));
  }
  if (path == "/afterimage/wrong") return handle_report(request, responder);
  if (is_protocol_path(*this, path)) return handle_protocol(*this, std::move(request), responder);
  auto operation = operation_of(parts_.backend.api_path(path));
  // An engine of this process has none of the others.
  if (!operation.has_value() && parts_.backend.takes_anything()) operation = endpoint_of(path);
  if (!is_known(request.method)) {
    return responder.reply(error_reply(501, "this method is not supported", "invalid_request_error",
                                       "method_not_known"));
  }
  if (operation.has_value() && request.method != "POST") {
    HttpReply reply = error_reply(405, "use POST", "invalid_request_error", "method_not_allowed");
    reply.headers.add("Allow", "POST");
    return responder.reply(std::move(reply));
  }
  if (!operation.has_value() && !parts_.backend.serves(path)) {
    return responder.reply(
        error_reply(404, "there is nothing at " + std::string(path) + "; the API is under /v1/",
                    "invalid_request_error", "not_found"));
  }
  std::make_shared<GatewayRequest>(*this, operation, std::move(request), std::move(responder))
      ->begin();
}

Decision Gateway::explain(ApiOperation operation, std::string body, HttpHeaders headers,
                          std::shared_ptr<Translation> translation, std::string target) {
  HttpRequest request{.method = "POST",
                      .target = std::move(target),
                      .headers = std::move(headers),
                      .body = std::make_shared<const std::string>(std::move(body)),
                      .peer = ""};
  return std::make_shared<GatewayRequest>(*this, operation, std::move(request), std::nullopt,
                                          std::move(translation))
      ->explain();
}

}  // namespace afterimage

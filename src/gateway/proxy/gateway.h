// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/reuse.h"
#include "caches/answers/answer_archive.h"
#include "foundation/http/caller.h"
#include "foundation/http/server.h"
#include "foundation/platform/atomic_snapshot.h"
#include "foundation/platform/random.h"
#include "foundation/platform/workers.h"
#include "foundation/telemetry/log.h"
#include "foundation/telemetry/metrics.h"
#include "foundation/telemetry/span_exporter.h"
#include "gateway/access/tenants.h"
#include "gateway/config/settings.h"
#include "gateway/draws/draws.h"
#include "gateway/files/file_store.h"
#include "gateway/prompts/prompt_history.h"
#include "gateway/prompts/template_order.h"
#include "gateway/protocol/translation.h"
#include "gateway/proxy/answer_history.h"
#include "gateway/proxy/backend.h"
#include "gateway/proxy/counts.h"
#include "gateway/proxy/decisions.h"
#include "gateway/proxy/id_generator.h"
#include "gateway/proxy/media_fetch.h"
#include "gateway/proxy/seen_requests.h"
#include "gateway/proxy/shared_responses.h"
#include "gateway/proxy/tenant_spaces.h"
#include "gateway/responses/response_store.h"

namespace afterimage {

/// The settings of requests that begin now; those on their way keep the ones they began with.
struct ConfigSnapshot {
  Settings settings;
  std::unique_ptr<Tenants> tenants;
  PriceTable prices;
};

/// What the gateway is built from; all of it outlives the gateway.
struct GatewayDependencies {
  Backend& backend;
  Reuse& reuse;
  AnswerArchive* archive;             // nullptr: answers are kept in memory only
  SimilarAnswers* similar = nullptr;  // nullptr: no answers to similar questions
  HttpCaller& caller;
  IoThreads& threads;
  Metrics& metrics;
  Log& log;
  IdGenerator& ids;
  const Clock& clock;
  Secret root;
  KeyStore* keys = nullptr;        // nullptr: no keys can be made, and usage is counted in memory
  SpanExporter* traces = nullptr;  // nullptr: no traces
};

/// An OpenAI-compatible server that answers from its cache and asks the backend for the rest.
///
/// Each request is a GatewayRequest. Cache failures never fail a request: it goes to the backend
/// untouched, and its answer is not stored.
///
/// Errors   create: kInvalidArgument: settings that contradict each other. Requests: the bodies and
///          codes of the OpenAI API.
/// Threads  Any.
/// Source   src/gateway/proxy/DESIGN.md.
class Gateway {
 public:
  static Result<std::unique_ptr<Gateway>> create(const Settings& settings,
                                                 GatewayDependencies parts);
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  /// Of the public port.
  void handle(HttpRequest request, Responder responder);

  /// Applies to requests that begin from now on.
  Result<void> apply(const Settings& settings);
  /// The same for the keys of keys(), after they changed.
  Result<void> apply_keys();
  [[nodiscard]] std::shared_ptr<const ConfigSnapshot> config() const { return config_.load(); }

  /// What would become of the request; nothing is counted, asked or stored. Media by address are
  /// not fetched.
  /// `translation`: the body is of another protocol; the operation is then a chat.
  [[nodiscard]] Decision explain(ApiOperation operation, std::string body, HttpHeaders headers,
                                 std::shared_ptr<Translation> translation = nullptr,
                                 std::string target = "/");

  /// The answer to a request was wrong, its client or an operator says: the stored answer that it got,
  /// or that was stored for it, is erased wherever it is; its neighbours are suspected, and it is
  /// evidence against similar questions. Returns the match level that served, "" if the model answered.
  /// Waits for disks and servers. `tenant`: whose request it is; empty: anybody's.
  ///
  /// Errors  kNotFound: no such request among the last thousand, or no stored answer of it.
  Result<std::string> report_wrong(std::string_view request_id, std::string_view tenant);

  /// /ready says 503 from now on, so that load balancers send no more requests.
  void start_draining() { draining_ = true; }
  [[nodiscard]] bool draining() const { return draining_; }

  [[nodiscard]] const GatewayDependencies& parts() const { return parts_; }
  [[nodiscard]] Counts& counts() { return counts_; }
  [[nodiscard]] Decisions& decisions() { return decisions_; }
  [[nodiscard]] AnswerHistory& history() { return history_; }
  [[nodiscard]] PromptHistory& prompts() { return prompts_; }
  /// What responses did not wait for: earlier prompts and counts are as of now.
  void settle();
  [[nodiscard]] TemplateOrder& template_order() { return template_order_; }
  /// Forgets the texts that are kept of these tenants' prompts.
  void forget_examples(const std::function<bool(std::string_view tenant_id)>& chosen);
  /// How often the model's server could not be reached: it may have been started again, with an empty cache.
  [[nodiscard]] std::uint64_t server_starts() const { return server_starts_; }
  void server_is_gone() { ++server_starts_; }
  [[nodiscard]] Draws& draws() { return draws_; }
  [[nodiscard]] SharedResponses& responses() { return responses_; }
  [[nodiscard]] SharedRecords& records() { return records_; }
  /// Of the requests that bypass the cache.
  [[nodiscard]] SeenRequests& seen_requests() { return seen_requests_; }
  [[nodiscard]] TenantSpaces& spaces() { return spaces_; }
  [[nodiscard]] FileStore& files() { return files_; }
  [[nodiscard]] MediaFetcher& media() { return media_; }
  /// The files that this tenant uploaded, for one request: kLimitExceeded once those that were found
  /// are larger than limits.body together.
  [[nodiscard]] FileLookup files_of(const Tenant& tenant);
  /// The keys that operators make, and what all keys used.
  [[nodiscard]] KeyStore& keys() { return parts_.keys != nullptr ? *parts_.keys : *own_keys_; }
  [[nodiscard]] ResponseStore& stored_responses() { return stored_responses_; }
  /// For large bodies, and the admin API.
  [[nodiscard]] Workers& readers() { return readers_; }
  /// For waiting for disks and servers: however slow they are, bodies are read meanwhile.
  [[nodiscard]] Workers& disk_workers() { return disk_workers_; }
  /// For invalidations: one that holds for other processes takes seconds.
  [[nodiscard]] Workers& erasers() { return erasers_; }
  /// A lease that is given back when its last copy goes, on whatever thread: telling the servers
  /// takes time, and has a thread of its own.
  [[nodiscard]] std::shared_ptr<Lease> hold(std::unique_ptr<Lease> lease);
  /// Erases an answer that turned out to be wrong wherever it is stored. Returns at once.
  void forget(const Question& answered);
  /// The model's answer to a question that was served a similar one's. True: the same.
  bool verify_similar(const Question& question, const SimilarLookup& lookup,
                      std::string_view answer);
  /// Ends the gateway's worker threads.
  void stop();
  /// True with this probability.
  [[nodiscard]] bool chance(double share) { return Rng(chances_++).chance(share); }

 private:
  Gateway(GatewayDependencies parts, std::unique_ptr<KeyStore> own_keys,
          std::shared_ptr<const ConfigSnapshot> config);
  /// POST /afterimage/wrong.
  void handle_report(const HttpRequest& request, const Responder& responder);

  GatewayDependencies parts_;
  std::unique_ptr<KeyStore> own_keys_;  // where the parts have none
  Mutex applying_;                      // one change of config_ at a time
  AtomicSnapshot<ConfigSnapshot> config_;
  Counts counts_;
  Decisions decisions_;
  AnswerHistory history_;
  PromptHistory prompts_;
  TemplateOrder template_order_;
  std::atomic<std::uint64_t> server_starts_ = 0;
  Draws draws_;
  SharedResponses responses_;
  SharedRecords records_;
  SeenRequests seen_requests_;
  TenantSpaces spaces_;
  MediaFetcher media_;
  FileStore files_;
  ResponseStore stored_responses_;
  std::atomic<bool> draining_ = false;
  std::atomic<std::uint64_t> chances_ = 0;
  Workers readers_;
  Workers disk_workers_;
  Workers erasers_;
  std::shared_ptr<Workers> lease_returners_;  // shared with the leases that are held
};

/// An error of the gateway's own, as the API says errors.
[[nodiscard]] HttpReply error_reply(unsigned status, std::string_view message,
                                    std::string_view type, std::string_view code);

/// How an AccessDenied is said: 401, or 429 with Retry-After.
struct DenialWords {
  unsigned status;
  std::string_view type;
  Reason code;
};
[[nodiscard]] DenialWords words_of(const AccessDenied& denied);

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/answer_cache.h"
#include "gateway/access/cache_control.h"
#include "gateway/openai/record.h"
#include "gateway/openai/request.h"
#include "gateway/protocol/translation.h"
#include "gateway/proxy/gateway.h"
#include "gateway/proxy/request_stage.h"
#include "gateway/proxy/request_trace.h"
#include "storage/memory/lease_loop.h"

namespace afterimage {

/// One request through the gateway, from its headers to the last byte of its response: a state
/// machine (request_stage.h, drawn in DESIGN.md). Each stage has one handler, which says the next
/// stage or suspends; the end of the wait calls resume(). It lives until it is responded to and
/// its answer is stored.
///
/// Threads  One handler at a time, each on whatever thread the one before it ended. The client may
///          leave at any moment, on any thread.
class GatewayRequest final : public std::enable_shared_from_this<GatewayRequest> {
 public:
  /// `operation` nullopt: whatever else the API has; it is forwarded and nothing is stored.
  /// `translation`: the body is of another protocol, and so is the response; the operation is a chat.
  GatewayRequest(Gateway& gateway, std::optional<ApiOperation> operation, HttpRequest request,
                 std::optional<Responder> responder,
                 std::shared_ptr<Translation> translation = nullptr);

  void begin();
  /// Instead of begin(): what would become of the request, as far as is known without asking
  /// anybody.
  Decision explain();

 private:
  /// Nothing: the handler has arranged for resume().
  using Next = std::optional<RequestStage>;
  struct Refusal {
    unsigned status;
    std::string message;
    std::string_view type;
    std::string_view code;
    std::optional<Duration> retry_after = std::nullopt;
    bool is_final = false;  // clients are told not to ask again
  };

  // gateway_request.cc: the machine, the client, the end.
  void advance(RequestStage next);
  /// Advances, and runs handlers until one suspends.
  void resume(RequestStage next);
  [[nodiscard]] Next handle(RequestStage stage);
  Next on_received();
  Next on_reading();
  Next on_fetching_media();
  Next on_done();
  /// Who asks, and what the request says of caching.
  [[nodiscard]] std::optional<Refusal> admit(Counting counting);
  /// The body as a chat's, if it is of another protocol, with the content of the files that it names.
  /// A refusal: it cannot be one.
  [[nodiscard]] std::optional<Refusal> translate_body();
  void note_texts(std::string_view body);
  /// What the body says. An error: it cannot be read.
  [[nodiscard]] Result<std::optional<Refusal>> read_body();
  void media_fetched(Result<std::vector<ApiMedia>> fetched);
  /// On a thread of Workers: an exception fails this request only.
  void on_worker(const std::function<void()>& work);
  /// Nothing is reused: the backend gets the request as it came.
  [[nodiscard]] Next forward();
  void bypass(std::string_view reason, std::string why);
  Next refuse(const Refusal& refusal);
  /// Sends the head and the body. `lasts`: the body is yet to come, and the decision with its end.
  void reply(unsigned status, HttpHeaders headers, HttpBody body, const CacheReport& report,
             bool lasts = false);
  void record_decision();
  void client_left();
  [[nodiscard]] bool has_left();

  // gateway_request_lookup.cc: what is asked, and whether its answer is stored.
  void explain_answer();
  Next on_looking_up();
  Next on_looking_up_archive();
  Next on_looking_up_similar();
  /// False: what cannot be identified is not reused.
  bool identify_request();
  /// Whether answers may be reused, and how loosely they may match.
  void decide_eligibility();
  /// Nothing was found for these words: similar ones are looked up, or the backend is asked.
  Next look_up_failed();
  /// There is nothing to serve: the backend is asked, unless the request forbids it.
  Next nothing_to_serve();
  [[nodiscard]] bool may_use_similar() const;
  Next look_up_similar();
  /// The candidate's answer, if it fits and may be served.
  bool take_similar(const SimilarityLookup& found);
  void explain_miss();
  void explain_similar();
  void note_refresh();
  Next respond_from_cache();
  [[nodiscard]] HttpBody cached_body(const ApiRecord& record, const ResponseStamp& stamp) const;
  /// Whether neither time nor headers may tell this client what others asked.
  [[nodiscard]] bool hides_hits() const;
  /// How long a hit is delayed whose answer took `saved` to compute.
  [[nodiscard]] Duration hit_delay(Duration saved) const;
  /// Whether an answer found at this match level has all fields that the request asks for.
  [[nodiscard]] bool fits(const ApiRecord& record, MatchLevel rung) const;
  /// Moves the stored answer out of `found`, if it fits.
  bool take_found(AnswerLookup& found);

  // gateway_request_backend.cc: one call for all who ask the same.
  Next on_joining();
  Next on_waiting_for_backend();
  Next on_responding();
  void fold_ahead(Question question);
  void start_forwarding();
  [[nodiscard]] std::shared_ptr<SharedResponse> start_response(const std::string& key);
  /// The response has a head, a body or an error, or was abandoned.
  void response_is_ready();
  [[nodiscard]] bool may_retry();
  Next respond_with_failure();
  Next respond_from_backend();
  void ask_backend(const std::shared_ptr<SharedResponse>& response);
  void verify_later(const AnswerLookup& found, const ApiRecord& record);
  [[nodiscard]] std::string coalescing_key() const;
  [[nodiscard]] BackendRequest backend_request() const;
  [[nodiscard]] SharedResponse& response() const { return subscriber_->response(); }
  void subscribe(std::shared_ptr<SharedResponse::Subscriber> subscriber, bool leads);
  void unsubscribe();

  // gateway_request_leases.cc: one call for all gateways that share answers.
  Next on_leasing();
  [[nodiscard]] bool uses_leases() const;
  /// What one response serves: "whole", "stream" or "stream-usage".
  [[nodiscard]] std::string_view form() const;
  [[nodiscard]] bool post_claim();
  void claim_lease();
  void wait_for_lease_holder();
  void abandon_response();

  // gateway_request_trace.cc: its spans, if it is traced.
  /// Joins the caller's trace, or begins one.
  void begin_trace();
  void trace_stage(RequestStage next);
  void trace_call(const SharedResponse& response, const Result<ApiRecord>& record);
  void end_trace();
  [[nodiscard]] SpanAttributes request_attributes() const;

  // gateway_request_usage.cc: what the request's key used.
  /// Of a key with a budget of money: a refusal if nobody knows what the request costs.
  [[nodiscard]] std::optional<Refusal> check_price() const;
  /// What the call of the backend used, which this request led.
  void charge_call(const SharedResponse& response, const Result<ApiRecord>& record);
  /// What it did not use, because the answer was there or somebody else asked.
  void charge_saved(std::uint64_t prompt_tokens, std::uint64_t output_tokens);
  void charge_joined();
  [[nodiscard]] std::uint64_t estimated_prompt_tokens() const;

  // gateway_request_store.cc: what becomes of the answer.
  /// Stores the answer, unless something speaks against it, and says what became of it. `lease`
  /// goes when others can find what was stored, or nothing is.
  void keep(const SharedResponse& response, Result<ApiRecord> record, std::shared_ptr<Lease> lease);
  [[nodiscard]] StoreResult store(const SharedResponse& response, Result<ApiRecord> record,
                                  std::shared_ptr<Lease> lease, std::optional<Duration> ttl);
  [[nodiscard]] Question folded_question();
  [[nodiscard]] std::vector<std::string> attached_tags() const;
  [[nodiscard]] std::vector<std::string> tags_for_backend() const;
  void set_stored(StoreResult stored);
  [[nodiscard]] std::optional<Duration> ttl() const;
  [[nodiscard]] AnswerQuota quota() const;

  Gateway& gateway_;
  std::shared_ptr<const ConfigSnapshot> config_;
  std::optional<ApiOperation> operation_;
  HttpRequest request_;
  std::optional<Responder> responder_;
  std::shared_ptr<Translation> translation_;  // nullptr: the client speaks the backend's protocol
  Duration arrived_;
  std::unique_ptr<RequestTrace> trace_;  // nullptr: it is not traced
  Duration stage_since_{0};              // of a traced request
  SpanId call_span_{};                   // of its call of the backend
  RequestStage stage_ = RequestStage::kReceived;
  std::uint32_t restarts_ = 0;  // of the look-up or of the call

  Tenant tenant_;
  CacheDirectives directives_;
  std::shared_ptr<const ApiRequest> api_;
  std::vector<ContentDigest> texts_;         // of files that became texts of the chat
  std::shared_ptr<const std::string> body_;  // as it is forwarded
  std::shared_ptr<const TenantSpace> space_;
  std::optional<Question> question_;
  bool may_reuse_ = false;  // its answer serves others, and theirs serve it
  bool similarity_allowed_ = false;
  std::optional<SimilarLookup> similar_;  // looked up; compared with the backend's answer
  LookupRules rules_;

  struct Found {
    AnswerLookup lookup;
    ApiRecord record;
  };
  std::optional<Found> found_;          // to be served instead of a response
  std::uint64_t completed_before_ = 0;  // responses, when the cache was looked up
  Duration asked_at_{0};                // the backend
  bool leads_ = false;                  // the response that it subscribes to
  LeaseLoop lease_loop_;
  std::shared_ptr<Lease> lease_;     // while the backend is asked
  bool answered_elsewhere_ = false;  // another gateway was waited for
  bool retried_ = false;             // after a leader's failure
  bool recorded_ = false;            // its decision
  Decision decision_;

  Mutex mutex_;  // the client may leave, and the answer be stored, at any moment
  bool left_ AFI_GUARDED_BY(mutex_) = false;
  std::shared_ptr<SharedResponse::Subscriber> leaving_subscriber_ AFI_GUARDED_BY(mutex_);
  std::optional<StoreResult> stored_ AFI_GUARDED_BY(mutex_);
  std::uint64_t decided_as_ AFI_GUARDED_BY(mutex_) = 0;    // the decision's id; 0: not recorded yet
  std::optional<Question> folded_ AFI_GUARDED_BY(mutex_);  // question_ with its forms

  std::shared_ptr<SharedResponse::Subscriber> subscriber_;
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/answer_cache.h"
#include "gateway/access/cache_control.h"
#include "gateway/openai/record.h"
#include "gateway/openai/request.h"
#include "gateway/protocol/diagnosis.h"
#include "gateway/protocol/stabilise.h"
#include "gateway/protocol/translation.h"
#include "gateway/proxy/answer_storing.h"
#include "gateway/proxy/client_presence.h"
#include "gateway/proxy/embedding_batch.h"
#include "gateway/proxy/gateway.h"
#include "gateway/proxy/prompt_comparing.h"
#include "gateway/proxy/refusal.h"
#include "gateway/proxy/request_spans.h"
#include "gateway/proxy/request_stage.h"
#include "gateway/proxy/request_terms.h"
#include "gateway/proxy/request_usage.h"
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
  /// The request is not looked up: it is refused, or forwarded after bypass().
  struct Stop {
    std::optional<Refusal> refusal = std::nullopt;
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
  void settle_behind_reply();
  /// Who asks, and what the request says of caching.
  [[nodiscard]] std::optional<Refusal> admit(Counting counting);
  /// What the body says: nullopt: it may be looked up, once its media are here.
  [[nodiscard]] std::optional<Stop> read();
  /// The body as a chat's, if it is of another protocol, with the content of the files that it names.
  /// A refusal: it cannot be one.
  [[nodiscard]] std::optional<Refusal> translate_body();
  [[nodiscard]] Result<std::optional<std::string>> translated_body();
  /// The same before the changes of prompt.stabilise.
  [[nodiscard]] Result<std::optional<std::string>> chat_body(const Stabilising& may);
  void note_texts(std::string_view body);
  /// In the decision and the headers, if they are given: what of the request was left out, or is not
  /// enforced.
  void note_ignored(HttpHeaders* headers);
  void note_stabilised(HttpHeaders& headers) const;
  /// Tells the translation what became of the prompt since the response that the client names, and keeps
  /// the response's own id.
  void diagnose();
  [[nodiscard]] PromptDiagnosis diagnosis_since(std::string_view response_id);
  void count_stabilised();
  /// An error: it cannot be read.
  [[nodiscard]] Result<std::optional<Refusal>> read_body();
  [[nodiscard]] bool has_all_media() const;
  void media_fetched(Result<std::vector<ApiMedia>> fetched);
  /// On a thread of Workers: an exception fails this request only.
  void on_worker(const std::function<void()>& work);
  /// Nothing is reused: the backend gets the request as it came.
  [[nodiscard]] Next forward();
  Next stop(const Stop& stop);
  /// `why` empty: as explain() says.
  Stop bypass(Reason reason, std::string why = {});
  Next refuse(const Refusal& refusal);
  /// Sends the head and the body. `lasts`: the body is yet to come, and the decision with its end.
  void reply(unsigned status, HttpHeaders headers, HttpBody body, const CacheReport& report,
             bool lasts = false);
  void decide(Outcome outcome, Reason reason);
  void record_decision();
  /// Of a request that bypasses the cache for a reason that can be changed: whether an equal one came
  /// before, whose answer would have been served.
  [[nodiscard]] bool repeats_an_earlier_one();
  void log_decision();
  void client_left();

  // gateway_request_lookup.cc: whether its answer is stored.
  [[nodiscard]] std::optional<Stop> explain_request();
  void explain_lookup();
  Next on_looking_up();
  Next on_looking_up_archive();
  Next on_looking_up_similar();
  /// By which its answer is found, and how loosely. A stop: it is not to be reused.
  [[nodiscard]] std::optional<Stop> identify_request();
  /// Of a sampled request: the draw that serves it.
  Next look_up_draw();
  /// Claims a draw; erases those that too many have had.
  [[nodiscard]] DrawClaim claim_draw();
  /// nullopt: its answer is not in the cache any more, or may not be served.
  Next serve_draw();
  Next ask_for_draw(const DrawClaim& claim);
  void explain_draw();
  /// Under which its answer is stored.
  [[nodiscard]] Question stored_question() const {
    return draw_.has_value() ? question_of(*draw_, *asked_.question) : *asked_.question;
  }
  /// Nothing was found for these words: similar ones are looked up, or the backend is asked.
  Next look_up_failed();
  /// There is nothing to serve: the backend is asked, unless the request forbids it.
  Next nothing_to_serve();
  [[nodiscard]] bool may_use_similar() const;
  Next look_up_similar();
  /// The candidate's answer, if it fits and may be served.
  bool take_similar(const SimilarityLookup& found);
  void missed(MissReason reason);
  void explain_miss();
  void explain_similar();
  Next respond_from_cache();
  void know_cached_prompt();
  [[nodiscard]] HttpBody cached_body(const ApiRecord& record, const ResponseStamp& stamp) const;
  [[nodiscard]] bool hides_hits() const {
    return afterimage::hides_hits(asked_, config_->settings.answers);
  }
  /// How long a hit is delayed whose answer took `saved` to compute.
  [[nodiscard]] Duration hit_delay(Duration saved) const;
  /// Moves the stored answer out of `found`, if it fits.
  bool take_found(AnswerLookup& found);

  // gateway_request_batch.cc: the inputs of a batch of embeddings.
  [[nodiscard]] bool splits_batch() const;
  Next look_up_inputs();
  void look_up_archived_inputs();
  void note_rest();
  void find_frame();
  void take_input(std::size_t i, AnswerLookup found);
  [[nodiscard]] std::array<std::uint64_t, 4> count_erasures() const;
  [[nodiscard]] bool may_serve_inputs();
  Next respond_with_inputs();
  Next ask_for_rest();
  void make_batch_whole();
  [[nodiscard]] bool completes_batch();
  Next ask_for_whole();
  /// nullopt: the server was asked for all of it.
  [[nodiscard]] std::optional<std::string> whole_batch(HttpHeaders& headers) const;
  void explain_inputs();

  // gateway_request_backend.cc: one call for all who ask the same.
  Next on_joining();
  Next on_waiting_for_backend();
  Next on_responding();
  [[nodiscard]] JoiningKey joining_key() const;
  void start_forwarding();
  [[nodiscard]] std::shared_ptr<SharedResponse> start_response(JoiningKey key);
  [[nodiscard]] bool counts_tokens() const {
    return usage().is_counted() || spans_.is_traced() || prompt_.applies();
  }
  /// The backend's response is complete, or will not be.
  void end_call(const SharedResponse& response, Result<ApiRecord> record,
                std::shared_ptr<Lease> lease);
  /// The response has a head, a body or an error, or was abandoned.
  void response_is_ready();
  [[nodiscard]] bool may_retry();
  Next respond_with_failure();
  Next respond_from_backend();
  [[nodiscard]] CacheReport report_of_backend();
  Next stream_from_backend(HttpHeaders headers, const CacheReport& report);
  /// What needs not be done before the backend is asked.
  void work_meanwhile(std::optional<Question> unfolded);
  /// What the prompt shares with an earlier one, for the headers and the decision.
  void say_prefix(HttpHeaders& headers);
  void ask_backend(const std::shared_ptr<SharedResponse>& response);
  void verify_later(const AnswerLookup& found, const ApiRecord& record);
  [[nodiscard]] BackendRequest backend_request() const;
  [[nodiscard]] std::string cache_salt() const;
  [[nodiscard]] SharedResponse& response() const { return subscriber_->response(); }
  void subscribe(std::shared_ptr<SharedResponse::Subscriber> subscriber, bool leads);
  void unsubscribe();
  [[nodiscard]] std::function<void()> leaving() const;
  [[nodiscard]] RequestUsage usage() const {
    return {.asked = asked_, .config = *config_, .keys = gateway_.keys()};
  }
  void charge_joined() const;
  /// A request that the backend failed counts in no budget: its client sends it again.
  void uncount();

  // gateway_request_leases.cc: one call for all gateways that share answers.
  Next on_leasing();
  [[nodiscard]] bool uses_leases() const;
  [[nodiscard]] bool looks_up_with_lease() const;
  [[nodiscard]] bool post_claim();
  void claim_lease();
  void wait_for_lease_holder();
  void abandon_response();

  Gateway& gateway_;
  const std::shared_ptr<const ConfigSnapshot> config_;
  HttpRequest request_;
  std::optional<Responder> responder_;
  std::vector<std::string> left_out_;         // of a chat's body
  std::shared_ptr<Translation> translation_;  // nullptr: the client speaks the backend's protocol
  const Duration arrived_;

  // What it is, and what it may be served by:
  RequestSubject asked_;
  std::optional<ServingTerms> terms_;  // nullopt: its answer serves nobody else, and none serves it
  std::optional<Draw> draw_;  // of a sampled request: that serves it, or that its answer is

  // With a mutex each, for other threads:
  ClientPresence client_;
  AnswerStoring storing_;
  PromptComparing prompt_;

  // The handlers' alone:
  RequestStage stage_ = RequestStage::kReceived;
  std::uint32_t restarts_ = 0;  // of the look-up or of the call
  RequestSpans spans_;
  Decision decision_;
  bool recorded_ = false;  // the decision
  std::atomic_flag uncounted_;

  struct Found {
    AnswerLookup lookup;
    ApiRecord record;
  };
  std::unique_ptr<EmbeddingBatch> batch_;  // nullptr: its inputs were not looked up
  bool is_batch_asked_whole_ = false;     // they are not: the server's answer for the rest was none
  std::optional<Found> found_;            // to be served instead of a response
  std::optional<SimilarLookup> similar_;  // looked up; compared with the backend's answer
  std::uint64_t completed_before_ = 0;    // responses, when the cache was looked up

  std::shared_ptr<SharedResponse::Subscriber> subscriber_;
  bool leads_ = false;    // the response that it subscribes to
  bool retried_ = false;  // after a leader's failure
  LeaseLoop lease_loop_;
  std::shared_ptr<Lease> lease_;     // while the backend is asked
  bool answered_elsewhere_ = false;  // another gateway was waited for
  bool looked_up_archive_ = false;   // before it joined
  bool found_by_leader_ = false;     // whom it had joined
};

}  // namespace afterimage

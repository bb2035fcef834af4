// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caches/answers/answer_cache.h"
#include "gateway/access/cache_control.h"
#include "gateway/openai/record.h"
#include "gateway/openai/request.h"
#include "gateway/proxy/gateway.h"

namespace afterimage {

/// One request's way through the gateway. It lives until it is answered.
/// Threads  One step at a time, each on whatever thread the one before it ended.
class GatewayRequest final : public std::enable_shared_from_this<GatewayRequest> {
 public:
  /// `operation` nullopt: whatever else the API has; it is passed on and nothing is kept.
  GatewayRequest(Gateway& gateway, std::optional<ApiOperation> operation, HttpRequest request,
                 std::optional<Responder> responder);

  void begin();
  /// Instead of begin(): as far as it is known without asking anybody.
  Decision explain();

 private:
  /// Who asks, and what he wishes. False: it is answered.
  bool admit();
  void read();
  /// What the body says. An error: it cannot be read. It may be answered already: see over_.
  Result<void> understand();
  void fetch();
  void look();
  /// Memory has no answer; perhaps the disk has.
  void look_below();
  void ask_the_model();
  /// False: what cannot be identified is not reused.
  bool identify_request();
  void decide_limit();
  void answer_from_cache(AnswerLookup& found, const ApiRecord& record);
  /// Whether neither time nor headers may tell this client what others asked.
  [[nodiscard]] bool hides_hits() const;
  /// How long an answer is held back that took `saved` when it was made.
  [[nodiscard]] Duration held_back(Duration saved) const;
  void join_or_start();
  std::shared_ptr<SharedResponse> start(const std::string& key);
  void ask(const std::shared_ptr<SharedResponse>& broadcast);
  /// Of all gateways that may be asked the same one asks, and the others wait for its answer.
  void ask_in_turn(const std::shared_ptr<SharedResponse>& broadcast);
  [[nodiscard]] bool takes_turns() const;
  /// What one broadcast serves: "whole", "stream" or "stream-usage".
  [[nodiscard]] std::string_view form() const;
  void claim_soon(const std::shared_ptr<SharedResponse>& broadcast);
  void claim(const std::shared_ptr<SharedResponse>& broadcast);
  void coalesce_timeout(const std::shared_ptr<SharedResponse>& broadcast);
  /// False: nobody has put the answer, or it does not fit.
  bool found_elsewhere(const std::shared_ptr<SharedResponse>& broadcast);
  void call_off(SharedResponse& broadcast);
  void look_again(SharedResponse::Subscriber& seat);
  void pass_on();
  void wait_for(const std::shared_ptr<SharedResponse::Subscriber>& seat, bool leads);
  void deliver(const std::shared_ptr<SharedResponse::Subscriber>& seat);
  bool try_again(SharedResponse::Subscriber& seat);
  void client_left();
  [[nodiscard]] bool left();
  /// Stores the answer, unless something speaks against it, and says what became of it. `lease`
  /// goes when others can find what was stored, or nothing is.
  void keep(const SharedResponse& broadcast, Result<ApiRecord> record, std::shared_ptr<Lease> lease);
  [[nodiscard]] StoreResult store(const SharedResponse& broadcast, Result<ApiRecord> record,
                                  std::shared_ptr<Lease> lease, std::optional<Duration> ttl);
  void set_stored(StoreResult stored);
  [[nodiscard]] std::optional<Duration> ttl() const;
  void explain_miss();
  void compare_later(const AnswerLookup& found, const ApiRecord& record);
  /// Whether what was found on this rung holds all that was asked for.
  [[nodiscard]] bool fits(const ApiRecord& record, TextRung rung) const;
  [[nodiscard]] AnswerQuota quota() const;
  [[nodiscard]] std::string broadcast_key() const;
  [[nodiscard]] BackendRequest asked() const;

  void refresh();
  void bypass(std::string_view reason, std::string why);
  void refuse(unsigned status, std::string_view message, std::string_view type,
              std::string_view code);
  void reply(unsigned status, HttpHeaders headers, HttpBody body, const CacheReport& report);
  void over();

  Gateway& gateway_;
  std::shared_ptr<const ConfigSnapshot> config_;
  std::optional<ApiOperation> operation_;
  HttpRequest request_;
  std::optional<Responder> responder_;
  Duration arrived_;
  Tenant tenant_;
  CacheDirectives directives_;
  std::shared_ptr<const ApiRequest> api_;
  std::shared_ptr<const std::string> body_;  // as it is passed on
  std::shared_ptr<const TenantSpace> space_;
  std::optional<Question> question_;
  bool may_reuse_ = false;  // what others asked serves this one, and the other way round
  LookupRules rules_;
  std::uint64_t landed_ = 0;
  Duration asked_at_{0};
  Mutex leaving_;  // the client may leave at any moment
  bool left_ AFI_GUARDED_BY(leaving_) = false;
  std::shared_ptr<SharedResponse::Subscriber> seat_ AFI_GUARDED_BY(leaving_);
  std::optional<StoreResult> stored_ AFI_GUARDED_BY(leaving_);
  std::uint64_t decided_as_ AFI_GUARDED_BY(leaving_) = 0;  // the decision's id; 0: not over yet
  bool leads_ = false;
  /// Where the turn is while the model is asked: it goes with what is called when the answer lands.
  std::weak_ptr<std::shared_ptr<Lease>> turn_;
  std::uint32_t waits_ = 0;        // for what others ask
  bool joined_elsewhere_ = false;  // it waited, and others have answered meanwhile
  struct Elsewhere {
    AnswerLookup found;
    ApiRecord record;
  };
  std::optional<Elsewhere> elsewhere_;
  bool tried_again_ = false;
  bool over_ = false;
  Decision decision_;
};

}  // namespace afterimage

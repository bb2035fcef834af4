// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What other gateways before the same model are asking now is not asked again: whoever leads here
// takes the turn of the question, or waits until the one who has it has put the answer.
#include <algorithm>
#include <utility>

#include "gateway/proxy/gateway_request.h"

namespace afterimage {
namespace {

/// Until the next look, each time twice as long; and how often it doubles.
constexpr Duration kFirstWait = std::chrono::milliseconds(10);
constexpr std::uint32_t kDoublings = 4;

}  // namespace

/// Neither who must not learn from time what others ask, nor those whose answer others may not
/// have, or who may not have theirs: an answer is older than nothing when it comes.
bool GatewayRequest::takes_turns() const {
  const AnswerArchive* const archive = gateway_.parts().archive;
  return archive != nullptr && archive->takes_turns() &&
         config_->settings.answers.coalesce_timeout > Duration(0) && !directives_.no_cache &&
         !directives_.no_store && rules_.max_age != Duration(0) && !hides_hits();
}

std::string_view GatewayRequest::form() const {
  if (!api_->stream) return "whole";
  return api_->include_usage ? "stream-usage" : "stream";
}

void GatewayRequest::ask_in_turn(const std::shared_ptr<SharedResponse>& broadcast) {
  if (!takes_turns()) return ask(broadcast);
  waits_ = 0;
  claim_soon(broadcast);
}

/// On a thread that may wait for servers.
void GatewayRequest::claim_soon(const std::shared_ptr<SharedResponse>& broadcast) {
  const bool posted = gateway_.disk_workers().post(
      [self = shared_from_this(), broadcast] { self->claim(broadcast); });
  if (posted) return;
  gateway_.counts().asked(AskedBy::kUnknown);
  ask(broadcast);
}

void GatewayRequest::claim(const std::shared_ptr<SharedResponse>& broadcast) {
  if (!broadcast->wanted()) return call_off(*broadcast);
  if (waits_ > 0 && found_elsewhere(broadcast)) return;
  auto claim = gateway_.parts().archive->claim(*question_, form());
  switch (claim.status) {
    case LeaseStatus::kTheirs:
      return coalesce_timeout(broadcast);
    case LeaseStatus::kOurs: {
      const auto turn = gateway_.hold(std::move(claim.lease));
      // Whoever had it may have put the answer since we looked.
      if (found_elsewhere(broadcast)) return;
      gateway_.counts().asked(AskedBy::kUs);
      if (const auto place = turn_.lock()) *place = turn;
      return ask(broadcast);
    }
    case LeaseStatus::kUnknown:
      break;
  }
  gateway_.counts().asked(AskedBy::kUnknown);
  ask(broadcast);
}

void GatewayRequest::coalesce_timeout(const std::shared_ptr<SharedResponse>& broadcast) {
  const Duration until = arrived_ + config_->settings.answers.coalesce_timeout;
  const Duration left = until - gateway_.parts().clock.now();
  if (left <= Duration(0)) {
    decision_.why = "another gateway is asking the same, and takes too long";
    gateway_.counts().asked(AskedBy::kBoth);
    return ask(broadcast);
  }
  const Duration wait = kFirstWait * (1U << std::min(waits_++, kDoublings));
  IoThreads& threads = gateway_.parts().threads;
  threads.post_after(threads.here_or_next(), std::min(wait, left),
                     [self = shared_from_this(), broadcast] { self->claim_soon(broadcast); });
}

bool GatewayRequest::found_elsewhere(const std::shared_ptr<SharedResponse>& broadcast) {
  auto found = gateway_.parts().archive->restore_anew(*question_, rules_, quota());
  if (!found.has_value()) return false;
  auto record = ApiRecord::parse(found->answer->record);
  if (!record.has_value() || !fits(*record, found->steps.back().rung)) return false;
  gateway_.counts().asked(AskedBy::kOthers);
  decision_.ladder.push_back(found->steps.back());
  elsewhere_ = Elsewhere{.found = *std::move(found), .record = *std::move(record)};
  call_off(*broadcast);
  return true;
}

/// In this order: who comes too late to be told finds the answer in memory.
void GatewayRequest::call_off(SharedResponse& broadcast) {
  gateway_.broadcasts().remove(broadcast_key(), &broadcast);
  broadcast.call_off();
}

/// Each by his own rules: what serves the one who led may be too old for one who joined him.
void GatewayRequest::look_again(SharedResponse::Subscriber& seat) {
  seat.leave();
  joined_elsewhere_ = !elsewhere_.has_value() || waits_ > 0;
  if (!elsewhere_.has_value()) return look();
  Elsewhere elsewhere = *std::exchange(elsewhere_, std::nullopt);
  answer_from_cache(elsewhere.found, elsewhere.record);
}

}  // namespace afterimage

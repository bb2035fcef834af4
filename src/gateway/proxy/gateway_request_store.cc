// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What becomes of the answer to a request: whether it is stored, and for how long.
#include <algorithm>
#include <iterator>
#include <utility>

#include "gateway/proxy/gateway_request.h"

namespace afterimage {
namespace {

/// There should be one. A bounded answer has none on purpose (BackendListener::on_bounded).
bool lacks_record(const Result<ApiRecord>& record) {
  return !record.has_value() && record.error().code != ErrorCode::kUnsupported;
}

}  // namespace

AnswerQuota GatewayRequest::quota() const {
  AnswerQuota quota{.bytes = tenant_.max_bytes, .entries = {}};
  if (tenant_.max_entries.has_value()) quota.entries = EntryCount(*tenant_.max_entries);
  return quota;
}

std::optional<Duration> GatewayRequest::ttl() const {
  const AnswerSettings& settings = config_->settings.answers;
  const std::optional<Duration> ttl = directives_.ttl.has_value() ? directives_.ttl : settings.ttl;
  if (!settings.max_ttl.has_value()) return ttl;
  return std::min(ttl.value_or(*settings.max_ttl), *settings.max_ttl);
}

/// On the backend's thread, before anybody reads the end: the next request finds the answer.
void GatewayRequest::keep(const SharedResponse& response, Result<ApiRecord> record,
                          std::shared_ptr<Lease> lease) {
  Counts& counts = gateway_.counts();
  trace_call(response, record);
  charge_call(response, record);
  const bool failed = !record.has_value() && response.status() == 0;
  if (failed) {
    counts.upstream_failed(to_string(record.error().code));
  } else {
    counts.upstream_answered(response.status());
    if (lacks_record(record) && response.status() == 200) counts.upstream_failed("not_recorded");
  }
  if (!may_reuse_) return;
  const std::optional<Duration> lasts = ttl();
  const StoreResult stored = store(response, std::move(record), std::move(lease), lasts);
  AnswerHistory::Entry entry{.result = stored};
  if (lasts.has_value()) entry.expires = gateway_.parts().clock.now() + *lasts;
  gateway_.history().record(*question_, entry, /*replaces=*/!directives_.no_cache);
  set_stored(stored);
}

/// Of the bytes that the request carries besides its media, and of files that became text.
std::vector<std::string> GatewayRequest::attached_tags() const {
  std::vector<std::string> tags;
  for (const auto* digests : {&api_->attached, &texts_}) {
    for (const ContentDigest& digest : *digests) tags.push_back("media:" + digest.hex());
  }
  return tags;
}

/// With the forms that were made ahead, if they were.
Question GatewayRequest::folded_question() {
  const MutexLock lock(mutex_);
  return std::exchange(folded_, std::nullopt).value_or(*question_);
}

void GatewayRequest::set_stored(StoreResult stored) {
  if (stored != StoreResult::kStored) gateway_.counts().not_stored(stored);
  const MutexLock lock(mutex_);
  stored_ = stored;
  if (decided_as_ != 0) gateway_.decisions().set_stored(decided_as_, stored);
}

StoreResult GatewayRequest::store(const SharedResponse& response, Result<ApiRecord> record,
                                  std::shared_ptr<Lease> lease, std::optional<Duration> ttl) {
  Log& log = gateway_.parts().log;
  if (!record.has_value()) {
    const StoreResult why = result_without_record(record.error(), response.status());
    const bool unexpected = why == StoreResult::kNotRecorded && lacks_record(record);
    if (unexpected || why == StoreResult::kTooLarge) {
      log.warn("answer_not_stored", {{"request_id", decision_.request_id},
                                     {"reason", to_string(why)},
                                     {"why", record.error().message}});
    }
    return why;
  }
  if (directives_.no_store) return StoreResult::kNoStore;
  const AnswerSettings& settings = config_->settings.answers;
  const bool limit_is_known =
      api_->max_tokens.has_value() || gateway_.parts().backend.default_max_tokens().has_value();
  const StoreResult may = what_may_be_stored(*record, {.tool_calls = settings.tool_calls,
                                                       .cache_truncated = settings.cache_truncated,
                                                       .limit_is_known = limit_is_known});
  if (may != StoreResult::kStored) return may;
  AnswerFacts facts{.cost = gateway_.parts().clock.now() - asked_at_,
                    .ttl = ttl,
                    .tags = directives_.tags,
                    .owner = tenant_.cache_namespace,
                    .quota = quota(),
                    .keep_partial = true};
  facts.tags.push_back("model:" + api_->model);
  facts.tags.push_back("tenant:" + tenant_.name);
  if (tenant_.owner != tenant_.name) facts.tags.push_back("tenant:" + tenant_.owner);  // its group
  for (const DecidedMedia& media : decision_.media) facts.tags.push_back("media:" + media.digest);
  std::ranges::move(attached_tags(), std::back_inserter(facts.tags));
  const Answer answer{
      .text = {},
      .finish_reason = record->calls_tools() ? "tool_calls" : record->finish_reason(),
      .model = record->model(),
      .prompt_tokens = record->prompt_tokens(),
      .output_tokens = record->output_tokens(),
      .record = record->serialize()};
  Question question = folded_question();
  AnswerArchive* const archive = gateway_.parts().archive;
  const auto before = archive == nullptr ? AnswerArchive::ReadLease() : archive->read_lease();
  const auto kept = archive == nullptr
                        ? gateway_.parts().reuse.answer_cache()->insert(question, answer, facts)
                        : archive->insert_into_cache(question, answer, facts, before);
  if (!kept.has_value()) {
    log.debug("answer_not_stored",
              {{"request_id", decision_.request_id}, {"why", kept.error().message}});
    return result_of_insert(kept.error());
  }
  if (similar_.has_value() && may == StoreResult::kStored && !record->calls_tools() &&
      record->finish_reason() == "stop") {
    const auto learn = [similar = gateway_.parts().similar, question, lookup = *similar_,
                        said = record->text(),
                        cost = facts.cost] { similar->learn(question, lookup, said, cost); };
    if (!gateway_.parts().similar->waits()) learn();
    // What the workers have no time for is not learnt.
    else
      static_cast<void>(gateway_.disk_workers().post(learn));
  }
  if (archive != nullptr) {
    // What the disk is too slow for is kept in memory alone.
    static_cast<void>(gateway_.disk_workers().post(
        [archive, question, answer, facts, before, lease = std::move(lease)]() mutable {
          archive->keep(question, answer, facts, before);
        }));
  }
  return StoreResult::kStored;
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/answer_storing.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include "gateway/openai/record_call_ids.h"
#include "gateway/openai/vector_response.h"
#include "gateway/proxy/store_result.h"

namespace afterimage {
namespace {

Answer answer_of(const ApiRecord& record) {
  return {.text = {},
          .finish_reason = record.calls_tools() ? "tool_calls" : record.finish_reason(),
          .model = record.model(),
          .prompt_tokens = record.prompt_tokens(),
          .output_tokens = record.output_tokens(),
          .record = record.serialize()};
}

}  // namespace

bool lacks_record(const Result<ApiRecord>& record) {
  return !record.has_value() && record.error().code != ErrorCode::kUnsupported;
}

void AnswerStoring::fold(Question question) {
  for (const MatchLevel level : kMatchLevels) static_cast<void>(question.form(level));
  const MutexLock lock(mutex_);
  folded_ = std::move(question);
}

void AnswerStoring::keep(Answered answered) {
  const auto ttl = ttl_of(asked_.directives, config_.settings);
  const bool is_sampled = terms_.has_value() && terms_->draws;
  const StoreResult stored =
      is_sampled ? store_draw(answered, ttl) : store(std::move(answered), ttl);
  AnswerHistory::Entry entry{.result = stored};
  if (ttl.has_value()) entry.expires = gateway_.parts().clock.now() + *ttl;
  gateway_.history().record(*asked_.question, entry, /*replaces=*/!asked_.directives.no_cache);
  if (stored != StoreResult::kStored) gateway_.counts().not_stored(stored);
  const MutexLock lock(mutex_);
  result_ = stored;
  if (decision_ != 0) gateway_.decisions().set_stored(decision_, stored);
}

std::optional<StoreResult> AnswerStoring::result() const {
  const MutexLock lock(mutex_);
  return result_;
}

std::uint64_t AnswerStoring::record(Decision&& decision) {
  const MutexLock lock(mutex_);
  decision.stored = result_;
  decision_ = gateway_.decisions().add(std::move(decision));
  return decision_;
}

/// With the forms that were made ahead, if they were.
Question AnswerStoring::folded_question() {
  const MutexLock lock(mutex_);
  return std::exchange(folded_, std::nullopt).value_or(*asked_.question);
}

StoreResult AnswerStoring::why_without_record(const Answered& answered) const {
  const Error& error = answered.record.error();
  const StoreResult why = result_without_record(error, answered.response.status());
  const bool unexpected = why == StoreResult::kNotRecorded && lacks_record(answered.record);
  if (unexpected || why == StoreResult::kTooLarge) {
    gateway_.parts().log.warn(
        "answer_not_stored",
        {{"request_id", answered.request_id}, {"reason", to_string(why)}, {"why", error.message}});
  }
  return why;
}

AnswerFacts AnswerStoring::facts(Duration took, std::optional<Duration> ttl) const {
  const Tenant& tenant = asked_.tenant;
  AnswerFacts facts{.cost = took,
                    .ttl = ttl,
                    .tags = asked_.directives.tags,
                    .owner = tenant.cache_namespace,
                    .quota = quota_of(tenant),
                    .keep_partial = true};
  facts.tags.reserve(facts.tags.size() + 3 + asked_.api->media.size() + asked_.attached.size());
  if (!asked_.api->model.empty()) facts.tags.push_back("model:" + asked_.api->model);
  facts.tags.push_back("tenant:" + tenant.name);
  if (tenant.owner != tenant.name) facts.tags.push_back("tenant:" + tenant.owner);  // its group
  for (const ApiMedia& media : asked_.api->media) {
    facts.tags.push_back("media:" + media.digest->hex());
  }
  std::ranges::copy(asked_.attached, std::back_inserter(facts.tags));
  return facts;
}

/// That the answer to this question is the model's, beside what was found of similar ones.
void AnswerStoring::learn(const Question& question, const Answered& answered) const {
  const auto learn = [similar = gateway_.parts().similar, question, lookup = *answered.similar,
                      said = answered.record->text(),
                      cost = answered.took] { similar->learn(question, lookup, said, cost); };
  if (!gateway_.parts().similar->waits()) return learn();
  // What the workers have no time for is not learnt.
  static_cast<void>(gateway_.disk_workers().post(learn));
}

StoreResult AnswerStoring::may_store(const Answered& answered, bool is_draw) const {
  if (!answered.record.has_value()) return why_without_record(answered);
  if (asked_.directives.no_store) return StoreResult::kNoStore;
  const AnswerSettings& settings = config_.settings.answers;
  const bool limit_is_known = asked_.api->max_tokens.has_value() ||
                              gateway_.parts().backend.default_max_tokens().has_value();
  // A draw serves only conversations with the same ids.
  if (!is_draw && says_call_id(*answered.record, asked_.api->call_ids)) {
    return StoreResult::kNamesCall;
  }
  return what_may_be_stored(*answered.record, {.tool_calls = settings.tool_calls,
                                               .cache_truncated = settings.cache_truncated,
                                               .limit_is_known = limit_is_known,
                                               .is_draw = is_draw});
}

Result<void> AnswerStoring::insert(Question& question, const Answer& answer,
                                   const AnswerFacts& facts,
                                   const AnswerArchive::ReadLease& before) const {
  AnswerArchive* const archive = gateway_.parts().archive;
  return archive == nullptr ? gateway_.parts().reuse.answer_cache()->insert(question, answer, facts)
                            : archive->insert_into_cache(question, answer, facts, before);
}

StoreResult AnswerStoring::not_inserted(const Answered& answered, const Error& error) const {
  gateway_.parts().log.debug("answer_not_stored",
                             {{"request_id", answered.request_id}, {"why", error.message}});
  return result_of_insert(error);
}

/// In memory only, where who has had it is known, too.
StoreResult AnswerStoring::store_draw(const Answered& answered, std::optional<Duration> ttl) {
  Draws& draws = gateway_.draws();
  const auto stored = [&]() -> StoreResult {
    const StoreResult may = may_store(answered, /*is_draw=*/true);
    if (may != StoreResult::kStored) return may;
    if (!answered.draw.has_value()) return StoreResult::kEnoughDraws;
    const Answer answer = answer_of(*answered.record);
    // Its age and its time begin when it was asked for: when it ended depends on what it says.
    if (ttl.has_value()) ttl = std::max(Duration(0), *ttl - answered.took);
    AnswerFacts known = facts(answered.took, ttl);
    known.age = answered.took;
    known.weight = draws.weigh(Bytes(answer.record.size()), answered.took);
    known.weight->bytes += Bytes(asked_.question->text().size());
    AnswerArchive* const archive = gateway_.parts().archive;
    const auto before = archive == nullptr ? AnswerArchive::ReadLease() : archive->read_lease();
    Question question = question_of(*answered.draw, *asked_.question);
    const auto kept = insert(question, answer, known, before);
    if (!kept.has_value()) return not_inserted(answered, kept.error());
    if (draws.stored(*answered.draw)) return StoreResult::kStored;
    gateway_.parts().reuse.answer_cache()->erase(question);
    return StoreResult::kNoSpace;
  }();
  if (answered.draw.has_value() && stored != StoreResult::kStored) draws.drop(*answered.draw);
  return stored;
}

std::optional<StoreResult> AnswerStoring::store_inputs(const Answered& answered,
                                                       std::optional<Duration> ttl) {
  const std::size_t count = asked_.inputs.size();
  // Placeholders again, once it is read.
  auto response = VectorResponse::read(answered.record->body({.id = "-", .created = 1}), count);
  if (!response.has_value()) return std::nullopt;
  AnswerArchive* const archive = gateway_.parts().archive;
  const auto before = archive == nullptr ? AnswerArchive::ReadLease() : archive->read_lease();
  const AnswerFacts known = facts(answered.took / static_cast<Duration::rep>(count), ttl);
  std::vector<std::pair<Question, Answer>> entries;
  for (std::size_t i = 0; i < count; ++i) {
    // A server counts a batch as a whole: nobody knows the tokens of one input.
    const std::array<std::string, 1> alone{response->vector(i, 0)};
    auto record = ApiRecord::of_body(ApiOperation::kEmbedding,
                                     response->with(alone, VectorResponse::Usage::kNothing));
    if (!record.has_value()) return std::nullopt;
    entries.emplace_back(asked_.inputs[i], answer_of(*record));
  }
  if (asked_.frame.has_value()) {
    auto frame = ApiRecord::of_body(ApiOperation::kEmbedding, response->frame());
    if (frame.has_value()) entries.emplace_back(*asked_.frame, answer_of(*frame));
  }
  for (auto& [question, answer] : entries) {
    const auto kept = insert(question, answer, known, before);
    if (!kept.has_value()) return not_inserted(answered, kept.error());
  }
  if (archive != nullptr) {
    static_cast<void>(gateway_.disk_workers().post(
        [archive, entries = std::move(entries), known, before]() mutable {
          for (auto& [question, answer] : entries) archive->keep(question, answer, known, before);
        }));
  }
  return StoreResult::kStored;
}

StoreResult AnswerStoring::store(Answered answered, std::optional<Duration> ttl) {
  const StoreResult may = may_store(answered, /*is_draw=*/false);
  if (may != StoreResult::kStored) return may;
  if (asked_.inputs.size() > 1) {
    if (const auto stored = store_inputs(answered, ttl)) return *stored;
  }
  const ApiRecord& record = *answered.record;
  if (asked_.inputs.size() > 1 && record.size() > config_.settings.answers.max_answer)
    return StoreResult::kTooLarge;
  const AnswerFacts known = facts(answered.took, ttl);
  const Answer answer = answer_of(record);
  Question question = folded_question();
  AnswerArchive* const archive = gateway_.parts().archive;
  const auto before = archive == nullptr ? AnswerArchive::ReadLease() : archive->read_lease();
  const auto kept = insert(question, answer, known, before);
  if (!kept.has_value()) return not_inserted(answered, kept.error());
  const bool is_whole = !record.calls_tools() && record.finish_reason() == "stop";
  if (answered.similar.has_value() && is_whole) learn(question, answered);
  if (archive != nullptr) {
    // What the disk is too slow for is kept in memory alone.
    static_cast<void>(gateway_.disk_workers().post(
        [archive, question, answer, known, before, lease = std::move(answered.lease)]() mutable {
          archive->keep(question, answer, known, before);
        }));
  }
  return StoreResult::kStored;
}

}  // namespace afterimage

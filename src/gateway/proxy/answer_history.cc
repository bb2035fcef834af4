// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/answer_history.h"

#include <algorithm>
#include <array>

namespace afterimage {

std::string_view to_string(MissReason reason) {
  constexpr std::array<std::string_view, 5> kNames{"never_seen", "not_stored", "expired", "gone",
                                                   "not_servable"};
  return kNames[static_cast<std::size_t>(reason)];
}

AnswerHistory::Key AnswerHistory::key_of(const Question& question) {
  // The first two have one length each, so no two questions give the same bytes.
  const std::array<std::span<const std::byte>, 3> pieces{question.scope().space.bytes,
                                                         question.scope().key.bytes,
                                                         std::as_bytes(std::span(question.text()))};
  return Checksum::of(pieces);
}

void AnswerHistory::record(const Question& question, const Entry& entry, bool replaces) {
  const Key key = key_of(question);
  const MutexLock lock(mutex_);
  const auto [it, is_new] = entries_.try_emplace(key, entry);
  if (!is_new) {
    const bool stays = entry.result != StoreResult::kStored && !replaces &&
                       it->second.result == StoreResult::kStored;
    if (!stays) it->second = entry;
    return;
  }
  oldest_first_.push_back(key);
  if (oldest_first_.size() <= capacity_) return;
  entries_.erase(oldest_first_.front());
  oldest_first_.pop_front();
}

std::optional<AnswerHistory::Entry> AnswerHistory::find(const Question& question) const {
  const Key key = key_of(question);
  const MutexLock lock(mutex_);
  const auto it = entries_.find(key);
  return it == entries_.end() ? std::nullopt : std::optional(it->second);
}

std::size_t AnswerHistory::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

MissExplanation explain_miss(std::span<const MatchStep> steps,
                             const std::optional<AnswerHistory::Entry>& known, Duration now) {
  const auto any = [&](Verdict verdict) {
    return std::ranges::any_of(steps,
                               [&](const MatchStep& step) { return step.verdict == verdict; });
  };
  if (any(Verdict::kTooOld)) {
    return {MissReason::kNotServable,
            "an answer is stored, and the request's max-age or min-fresh wants a fresher one"};
  }
  if (any(Verdict::kNotAllowed)) {
    return {MissReason::kNotServable,
            "an answer to similar words is stored, and may not be served"};
  }
  if (any(Verdict::kExpired)) return {MissReason::kExpired, "the stored answer has expired"};
  if (!known.has_value()) {
    return {MissReason::kNeverSeen, "this gateway has not seen this question before"};
  }
  if (known->result != StoreResult::kStored) {
    return {MissReason::kNotStored, "this was asked before, and the answer was not stored: " +
                                        std::string(explain(known->result))};
  }
  if (known->expires.has_value() && *known->expires <= now) {
    return {MissReason::kExpired, "the stored answer has expired"};
  }
  return {MissReason::kGone, "the stored answer was evicted or invalidated"};
}

}  // namespace afterimage

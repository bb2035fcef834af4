// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/answer_history.h"

#include <algorithm>
#include <array>
#include <utility>

namespace afterimage {
namespace {

MissReason reason_of(std::span<const MatchStep> steps,
                     const std::optional<AnswerHistory::Entry>& known, Duration now) {
  const auto any = [&](Verdict verdict) {
    return std::ranges::any_of(steps,
                               [&](const MatchStep& step) { return step.verdict == verdict; });
  };
  if (any(Verdict::kTooOld)) return MissReason::kTooOld;
  if (any(Verdict::kNotAllowed)) return MissReason::kNotAllowed;
  if (any(Verdict::kExpired)) return MissReason::kExpired;
  if (!known.has_value()) return MissReason::kNeverSeen;
  if (known->result != StoreResult::kStored) return MissReason::kNotStored;
  const bool has_expired = known->expires.has_value() && *known->expires <= now;
  return has_expired ? MissReason::kExpired : MissReason::kGone;
}

}  // namespace

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
  const MissReason reason = reason_of(steps, known, now);
  std::string why(explain(reason));
  if (reason == MissReason::kNotStored) why += explain(known->result);
  return {reason, std::move(why)};
}

std::string differs_from_closest(const PromptReport& prompt) {
  const PromptDivergence& at = prompt.divergence;
  if (at.part.has_value()) {
    std::string how = "its prompt differs from the closest earlier one of this client at " +
                      place_of(at) + " (" + std::string(to_string(at.change));
    if (at.looks != Looks::kNone) how.append(": ").append(to_string(at.looks));
    return how + ")";
  }
  if (at.shared_bytes == 0) return "this client has asked nothing like it";
  if (at.shared_bytes < at.total_bytes)
    return "its prompt goes on behind an earlier one of this client";
  if (prompt.earlier.bytes > at.total_bytes)
    return "an earlier prompt of this client goes on behind it";
  return "its prompt is an earlier one of this client: another field of the request differs";
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/decisions.h"

#include <algorithm>
#include <array>
#include <utility>

namespace afterimage {
namespace {

constexpr std::size_t kShown = 200;

std::size_t bytes_of(const Answered* answered) {
  if (answered == nullptr) return 0;
  std::size_t bytes = answered->asked.text().size();
  if (answered->stored_as.has_value()) bytes += answered->stored_as->size();
  for (const Question& input : answered->inputs) bytes += input.text().size();
  if (answered->similar.has_value()) {
    for (const Proposal& one : answered->similar->found.proposals) bytes += one.candidate.size();
  }
  return bytes;
}

void forget_texts_of(Decision& decision) {
  decision.question = {};
  for (MatchStep& step : decision.match_levels) step.candidate = {};
  if (decision.similar.has_value()) {
    decision.similar->candidate = {};
    decision.similar->vetoes = {};
    decision.similar->verifier_error = {};
  }
  if (decision.prompt.has_value()) decision.prompt->example = nullptr;
}

}  // namespace

std::string beginning_of(std::string_view text) {
  if (text.size() <= kShown) return std::string(text);
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "…";
}

MatchStep shown(const MatchStep& step) {
  return {.level = step.level,
          .verdict = step.verdict,
          .candidate = beginning_of(step.candidate),
          .entry = step.entry,
          .age = step.age,
          .took = step.took};
}

std::vector<MatchStep> shown(std::span<const MatchStep> steps) {
  std::vector<MatchStep> all;
  all.reserve(steps.size());
  for (const MatchStep& step : steps) all.push_back(shown(step));
  return all;
}

std::string_view to_string(Outcome outcome) {
  constexpr std::array<std::string_view, kOutcomes> kNames{"hit",    "joined",  "miss",
                                                           "bypass", "refresh", "error"};
  return kNames[static_cast<std::size_t>(outcome)];
}

std::uint64_t Decisions::add(Decision&& decision) {
  const MutexLock lock(mutex_);
  decision.id = ++last_;
  answered_bytes_ += bytes_of(decision.answered.get());
  if (kept_.size() < keep_) {
    kept_.push_back(std::move(decision));
  } else {
    Decision& oldest = kept_[place_of(last_)];
    forget_answered(oldest);
    oldest = std::move(decision);
  }
  // A prompt may have a megabyte, and nobody gave these texts a budget.
  for (; answered_bytes_ > max_answered_; ++answered_from_) {
    if (Decision* const oldest = find_kept(answered_from_)) forget_answered(*oldest);
  }
  return last_;
}

void Decisions::forget_answered(Decision& decision) {
  answered_bytes_ -= bytes_of(decision.answered.get());
  decision.answered = nullptr;
}

Decision* Decisions::find_kept(std::uint64_t id) {
  const bool is_kept = id > first_kept() && id <= last_;
  return is_kept ? &kept_[place_of(id)] : nullptr;
}

void Decisions::set_stored(std::uint64_t id, StoreResult stored) {
  const MutexLock lock(mutex_);
  if (Decision* const kept = find_kept(id)) kept->stored = stored;
}

void Decisions::set_prompt(std::uint64_t id, const PromptReport& prompt) {
  const MutexLock lock(mutex_);
  if (Decision* const kept = find_kept(id)) kept->prompt = prompt;
}

void Decisions::forget_texts(const std::function<bool(const Decision&)>& chosen) {
  const MutexLock lock(mutex_);
  for (Decision& kept : kept_) {
    if (!chosen(kept)) continue;
    forget_texts_of(kept);
    forget_answered(kept);
  }
}

void Decisions::forget_examples(const std::function<bool(std::string_view)>& chosen) {
  const MutexLock lock(mutex_);
  for (Decision& kept : kept_) {
    const bool has_example = kept.prompt.has_value() && kept.prompt->example != nullptr;
    if (has_example && chosen(kept.prompt->example->tenant_id)) kept.prompt->example = nullptr;
  }
}

std::vector<Decision> Decisions::list(std::uint64_t after, std::size_t limit) const {
  const MutexLock lock(mutex_);
  const std::uint64_t enough = last_ - std::min<std::uint64_t>(limit, kept_.size());
  std::vector<Decision> all;
  const std::uint64_t from = std::clamp(after, std::max(first_kept(), enough), last_);
  for (std::uint64_t id = from + 1; id <= last_; ++id) all.push_back(kept_[place_of(id)]);
  return all;
}

std::optional<Decision> Decisions::find(std::uint64_t id) const {
  const MutexLock lock(mutex_);
  if (id <= first_kept() || id > last_) return std::nullopt;
  return kept_[place_of(id)];
}

std::optional<Decision> Decisions::find(std::string_view request_id,
                                        std::string_view tenant) const {
  const MutexLock lock(mutex_);
  for (std::uint64_t id = last_; id > first_kept(); --id) {
    const Decision& kept = kept_[place_of(id)];
    if (kept.request_id == request_id && (tenant.empty() || kept.tenant == tenant)) return kept;
  }
  return std::nullopt;
}

bool Decisions::take_answered(std::uint64_t id) {
  const MutexLock lock(mutex_);
  Decision* const kept = find_kept(id);
  if (kept == nullptr || kept->answered == nullptr) return false;
  forget_answered(*kept);
  return true;
}

std::uint64_t Decisions::last() const {
  const MutexLock lock(mutex_);
  return last_;
}

}  // namespace afterimage

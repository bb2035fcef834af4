// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <thread>
#include <utility>

#include "caches/answers/answer_archive.h"
#include "caches/identity/fields.h"

/// What an archive does that shares its list of erasures.
namespace afterimage {

bool AnswerArchive::lapsed(const ReadLease& before) const {
  return parts_.shared != nullptr && parts_.clock.now() >= before.until_;
}

bool AnswerArchive::may_give(const ReadLease& before) {
  if (!lapsed(before)) return true;
  count(&AnswerArchiveStats::lapsed);
  return false;
}

Result<void> AnswerArchive::insert_into_cache(Question& question, const Answer& answer,
                                              const AnswerFacts& facts, const ReadLease& before) {
  if (parts_.shared == nullptr) return parts_.cache.insert(question, answer, facts);
  ArchivedAnswer archived{.scope = question.scope(),
                          .question = question.text(),
                          .erasures = before.erasures_,
                          .kept_at = kept_at(facts),
                          .owner = facts.owner,
                          .tags = facts.tags,
                          .answer = {}};
  // Held while it is inserted: an erasing is learnt before that, and refuses it, or after, and
  // erases it.
  const MutexLock lock(mutex_);
  if (before.names_ == names_ && !erasures_.refuses(subject_of(archived))) {
    return parts_.cache.insert(question, answer, facts);
  }
  return fail(ErrorCode::kCancelled, "another process has erased such answers meanwhile");
}

std::optional<AnswerLookup> AnswerArchive::restore_anew(const Question& question,
                                                        const LookupRules& rules,
                                                        const AnswerQuota& quota) {
  const Duration began = parts_.clock.now();
  const ReadLease before_it = read_lease();
  if (!may_give(before_it)) return std::nullopt;
  auto archived = load(question.scope(), question.text(), TextRung::kExact, question.text(),
                       before_it, Hints::kNotBelieved);
  if (!archived.has_value()) return std::nullopt;
  auto found = admit(*std::move(archived), before_it, rules, quota);
  if (found.has_value()) found->steps.back().took = parts_.clock.now() - began;
  return found;
}

LeaseService::Claim AnswerArchive::claim(const Question& question, std::string_view form) {
  const ReadLease now = read_lease();
  if (parts_.turns == nullptr || lapsed(now)) return {};
  const ScopeId& scope = question.scope();
  FieldWriter fields("afterimage/answer-turn-key/1");
  fields.bytes("space", scope.space.bytes)
      .bytes("scope", scope.key.bytes)
      .number("loosest", static_cast<std::uint64_t>(scope.loosest))
      .text("form", form)
      .text("question", question.text());
  const TierKey turn{.entry_class = EntryClass::kAnswer,
                     .bytes = hmac_sha256(now.names_, fields.message())};
  return parts_.turns->claim(turn, key_of(now.names_, scope, TextRung::kExact, question.text()));
}

Result<void> AnswerArchive::refresh() {
  if (parts_.shared == nullptr) return {};
  const MutexLock turn(writing_);
  const Duration asked = parts_.clock.now();
  auto read = parts_.shared->read();
  if (read.has_value()) {
    learn(*std::move(read), asked);
    return {};
  }
  const MutexLock lock(mutex_);
  ++stats_.unread;
  stats_.degraded_reason = read.error().message;
  return std::unexpected(read.error());
}

/// Whoever found an answer before it is erased here has a moment whose lease is over when the
/// erasing returns, wherever that was asked for. So leases are given last.
void AnswerArchive::learn(InvalidationList next, Duration asked) {
  const auto known = [&] {
    const MutexLock lock(mutex_);
    return erasures_;
  }();
  const bool other = known.secret() != next.secret();
  if (other || known.count() != next.count()) {
    const MutexLock lock(mutex_);
    erasures_ = next;
    names_ = parts_.shared->names(next);
    written_down_ = true;
    ++changes_;
    ++(other ? stats_.begun : stats_.learnt);
    if (!other) stats_.learnt += next.count() - known.count() - 1;
  }
  if (other || next.all_before() > known.count()) {
    parts_.cache.erase(AnswerFilter{});
  } else {
    for (const Invalidation& erasure : next.erasures()) {
      if (erasure.number > known.count()) erase_here(erasure);
    }
  }
  const MutexLock lock(mutex_);
  until_ = asked + InvalidationLog::kLease;
  stats_.degraded_reason.clear();
}

void AnswerArchive::erase_here(const Invalidation& erasure) {
  if (erasure.question.has_value() && erasure.space.has_value() && erasure.scope.has_value()) {
    // How far a scope may be folded is not written down.
    for (const TextRung loosest : kTextRungs) {
      Question question({.space = *erasure.space, .key = *erasure.scope, .loosest = loosest},
                        *erasure.question);
      parts_.cache.erase(question);
    }
    return;
  }
  AnswerFilter filter{.space = erasure.space,
                      .scope = erasure.scope,
                      .tag = erasure.tag,
                      .owner = erasure.owner,
                      .words = erasure.words};
  if (erasure.kept_before.has_value()) {
    const Duration age = parts_.wall.now() - *erasure.kept_before;
    // From a clock that is ahead of ours: all is older.
    if (age >= Duration(0)) filter.older_than = age;
  }
  parts_.cache.erase(filter);
}

Result<void> AnswerArchive::share(const Invalidation& erasure) {
  const MutexLock turn(writing_);
  const Duration asked = parts_.clock.now();
  auto added = parts_.shared->add(erasure);
  if (added.has_value()) {
    learn(*std::move(added), asked);
    return {};
  }
  {
    const MutexLock lock(mutex_);
    stats_.degraded_reason = added.error().message;
  }
  if (added.error().code == ErrorCode::kLimitExceeded) return std::unexpected(added.error());
  return fail(ErrorCode::kUnavailable,
              "erased from the memory of this process alone; others may still give it, and it may "
              "come back: " +
                  added.error().message + "; erase again when the servers are well");
}

void AnswerArchive::wait_for_all() const {
  if (parts_.shared == nullptr) return;
  if (parts_.wait) return parts_.wait(InvalidationLog::kLeaseOver);
  std::this_thread::sleep_for(InvalidationLog::kLeaseOver);
}

}  // namespace afterimage

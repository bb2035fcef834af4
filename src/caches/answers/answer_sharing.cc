// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <thread>
#include <utility>

#include "caches/answers/answer_archive.h"
#include "caches/identity/fields.h"

/// AnswerArchive with a shared invalidation list.
namespace afterimage {

bool AnswerArchive::lease_expired(const ReadLease& before) const {
  return dependencies_.shared != nullptr && dependencies_.clock.now() >= before.until_;
}

bool AnswerArchive::may_serve(const ReadLease& before) {
  if (!lease_expired(before)) return true;
  count(&AnswerArchiveStats::without_lease);
  return false;
}

Result<void> AnswerArchive::insert_into_cache(Question& question, const Answer& answer,
                                              const AnswerFacts& facts, const ReadLease& before) {
  if (dependencies_.shared == nullptr) return dependencies_.cache.insert(question, answer, facts);
  ArchivedAnswer archived{.scope = question.scope(),
                          .question = question.text(),
                          .invalidations = before.invalidations_,
                          .stored_at = stored_at(facts),
                          .owner = facts.owner,
                          .tags = facts.tags,
                          .answer = {}};
  // Held during the insertion: an invalidation is applied either before, and rejects the answer, or
  // after, and erases it.
  const MutexLock lock(mutex_);
  if (before.names_ == names_ && !invalidations_.refuses(subject_of(archived))) {
    return dependencies_.cache.insert(question, answer, facts);
  }
  return fail(ErrorCode::kCancelled,
              "not cached: another process invalidated such answers meanwhile");
}

std::optional<AnswerLookup> AnswerArchive::restore_uncached(const Question& question,
                                                            const LookupRules& rules,
                                                            const AnswerQuota& quota) {
  const Duration began = dependencies_.clock.now();
  const ReadLease before_it = read_lease();
  if (!may_serve(before_it)) return std::nullopt;
  auto archived = load(question.scope(), question.text(), MatchLevel::kExact, question.text(),
                       before_it, Hints::kIgnored);
  if (!archived.has_value()) return std::nullopt;
  auto found = admit(*std::move(archived), before_it, rules, quota);
  if (found.has_value()) found->steps.back().took = dependencies_.clock.now() - began;
  return found;
}

LeaseService::Claim AnswerArchive::claim(const Question& question, std::string_view form) {
  return claim(question, form, read_lease(), {});
}

LeaseService::Claim AnswerArchive::claim(Question& question, std::string_view form,
                                         MatchLevel up_to, const ReadLease& before) {
  std::vector<TierKey> keys;
  for (const MatchLevel level : kMatchLevels) {
    if (level > question.ceiling(up_to)) break;
    const auto words = question.form(level);
    if (words.has_value()) keys.push_back(key_of(before.names_, question.scope(), level, *words));
  }
  return claim(question, form, before, keys);
}

LeaseService::Claim AnswerArchive::claim(const Question& question, std::string_view form,
                                         const ReadLease& now, std::span<const TierKey> keys) {
  if (dependencies_.turns == nullptr || lease_expired(now)) return {};
  const ScopeId& scope = question.scope();
  FieldWriter fields("afterimage/answer-turn-key/1");
  fields.bytes("space", scope.space.bytes)
      .bytes("scope", scope.key.bytes)
      .number("loosest", static_cast<std::uint64_t>(scope.loosest))
      .text("form", form)
      .text("question", question.text());
  const TierKey lease{.entry_class = EntryClass::kAnswer,
                      .bytes = hmac_sha256(now.names_, fields.message())};
  const TierKey entry = key_of(now.names_, scope, MatchLevel::kExact, question.text());
  return keys.empty()
             ? dependencies_.turns->claim(lease, entry)
             : dependencies_.turns->claim_and_prefetch(lease, entry, keys, dependencies_.transfer);
}

Result<void> AnswerArchive::refresh() {
  if (dependencies_.shared == nullptr) return {};
  const MutexLock list_lock(list_mutex_);
  const Duration read_at = dependencies_.clock.now();
  auto read = dependencies_.shared->read();
  if (read.has_value()) {
    apply(*std::move(read), read_at);
    return {};
  }
  const MutexLock lock(mutex_);
  ++stats_.read_failures;
  stats_.degraded_reason = read.error().message;
  return std::unexpected(read.error());
}

/// Renews the lease last: an answer found before it was erased here was found under an older lease,
/// which has expired by the time that erase() returns in any process.
void AnswerArchive::apply(const InvalidationList& next, Duration read_at, std::uint64_t own) {
  const auto known = [&] {
    const MutexLock lock(mutex_);
    return invalidations_;
  }();
  const bool new_generation = known.secret() != next.secret();
  if (new_generation || known.count() != next.count()) {
    const MutexLock lock(mutex_);
    invalidations_ = next;
    names_ = dependencies_.shared->names(next);
    persisted_ = true;
    ++changes_;
    ++(new_generation ? stats_.generations : stats_.applied);
    if (!new_generation) stats_.applied += next.count() - known.count() - 1;
  }
  if (new_generation || next.all_before() > known.count()) {
    dependencies_.cache.erase(AnswerFilter{});
  } else {
    for (const Invalidation& invalidation : next.entries()) {
      if (invalidation.number > known.count()) erase_from_cache(invalidation);
    }
  }
  // A new generation does not say what was announced in the one before.
  if (!new_generation) tell(next, known.count(), own);
  const MutexLock lock(mutex_);
  lease_until_ = read_at + InvalidationLog::kLease;
  stats_.degraded_reason.clear();
}

void AnswerArchive::tell(const InvalidationList& next, std::uint64_t known,
                         std::uint64_t own) const {
  if (dependencies_.on_invalidation == nullptr) return;
  if (next.all_before() > known) dependencies_.on_invalidation({});
  for (const Invalidation& invalidation : next.entries()) {
    if (invalidation.number > known && invalidation.number != own) {
      dependencies_.on_invalidation(invalidation);
    }
  }
}

Result<void> AnswerArchive::announce(std::string tag) {
  if (dependencies_.shared == nullptr) return {};
  Invalidation announced;
  announced.tag = std::move(tag);
  AFI_TRY_VOID(announced.check());
  return publish(announced);
}

void AnswerArchive::erase_from_cache(const Invalidation& invalidation) {
  if (invalidation.question.has_value() && invalidation.space.has_value() &&
      invalidation.scope.has_value()) {
    // Invalidations do not record ScopeId::loosest, so all values are erased.
    for (const MatchLevel loosest : kMatchLevels) {
      Question question(
          {.space = *invalidation.space, .key = *invalidation.scope, .loosest = loosest},
          *invalidation.question);
      dependencies_.cache.erase(question);
    }
    return;
  }
  AnswerFilter filter{.space = invalidation.space,
                      .scope = invalidation.scope,
                      .tag = invalidation.tag,
                      .owner = invalidation.owner,
                      .words = invalidation.words};
  if (invalidation.stored_before.has_value()) {
    const Duration age = dependencies_.wall.now() - *invalidation.stored_before;
    // A time in our future (the writer's clock is ahead): everything is older.
    if (age >= Duration(0)) filter.older_than = age;
  }
  dependencies_.cache.erase(filter);
}

Result<void> AnswerArchive::publish(const Invalidation& invalidation) {
  const MutexLock list_lock(list_mutex_);
  const Duration read_at = dependencies_.clock.now();
  auto added = dependencies_.shared->add(invalidation);
  if (added.has_value()) {
    const std::uint64_t own = added->count();
    apply(*std::move(added), read_at, own);
    return {};
  }
  {
    const MutexLock lock(mutex_);
    stats_.degraded_reason = added.error().message;
  }
  if (added.error().code == ErrorCode::kLimitExceeded) return std::unexpected(added.error());
  return fail(ErrorCode::kUnavailable,
              "erased from this process's memory only; other processes may still serve it, and it "
              "may be restored: " +
                  added.error().message + "; erase again when the servers can be reached");
}

void AnswerArchive::wait_out_leases() const {
  if (dependencies_.shared == nullptr) return;
  if (dependencies_.wait) return dependencies_.wait(InvalidationLog::kLeaseGuard);
  std::this_thread::sleep_for(InvalidationLog::kLeaseGuard);
}

}  // namespace afterimage

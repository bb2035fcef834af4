// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/answers/answer_archive.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "afterimage/secret.h"
#include "caches/identity/fields.h"
#include "foundation/platform/fault_points.h"

namespace afterimage {
namespace {

constexpr Bytes kMaxListBytes = 4_MiB;
constexpr std::size_t kMaxRecentlyErased = 1024;

/// `age` before `now`, and never before 1970.
WallTime before(WallTime now, Duration age) {
  const Duration since = std::max(now.time_since_epoch(), Duration(0));
  return WallTime(since - std::clamp(age, Duration(0), since));
}

Result<InvalidationList> read_list(const Files& files, const std::string& path) {
  AFI_TRY(const std::vector<std::byte> bytes, files.read(path, kMaxListBytes));
  return InvalidationList::from_bytes(bytes);
}

Invalidation invalidation_of(const Question& question) {
  Invalidation invalidation{.space = question.scope().space, .scope = question.scope().key};
  // A question too long to record: the whole scope is invalidated.
  if (question.text().size() <= InvalidationList::kMaxBytes) {
    invalidation.question = question.text();
  }
  return invalidation;
}

Invalidation invalidation_of(const AnswerFilter& filter, WallTime now) {
  Invalidation invalidation{.space = filter.space,
                            .scope = filter.scope,
                            .tag = filter.tag,
                            .owner = filter.owner,
                            .words = filter.words};
  if (filter.older_than.has_value()) invalidation.stored_before = before(now, *filter.older_than);
  return invalidation;
}

}  // namespace

AnswerArchive::AnswerArchive(AnswerArchiveDependencies dependencies, InvalidationList invalidations,
                             std::string degraded_reason)
    : dependencies_(std::move(dependencies)),
      invalidations_(std::move(invalidations)),
      names_(invalidations_.secret()) {
  stats_.degraded_reason = std::move(degraded_reason);
  if (dependencies_.shared == nullptr) return;
  // No lease before the first refresh().
  lease_until_ = Duration::min();
  persisted_ = false;
}

Result<std::unique_ptr<AnswerArchive>> AnswerArchive::open(AnswerArchiveDependencies dependencies) {
  if (dependencies.shared != nullptr) return open_shared(std::move(dependencies));
  auto known = read_list(dependencies.files, dependencies.erasures);
  if (known.has_value()) {
    return std::unique_ptr<AnswerArchive>(
        new AnswerArchive(std::move(dependencies), *std::move(known), {}));
  }
  if (known.error().code == ErrorCode::kUnavailable) return std::unexpected(known.error());
  if (known.error().code == ErrorCode::kUnsupported) {
    return fail(ErrorCode::kUnsupported,
                dependencies.erasures + ": " + known.error().message +
                    ": use another folder, or the program that wrote it; nothing was changed");
  }
  std::string degraded_reason;
  if (known.error().code != ErrorCode::kNotFound) {
    degraded_reason =
        dependencies.erasures + ": " + known.error().message + "; all archived answers are lost";
  }
  AFI_TRY(const Secret secret, random_secret());
  InvalidationList empty(secret);
  AFI_TRY_VOID(dependencies.files.replace(dependencies.erasures, empty.to_bytes()));
  return std::unique_ptr<AnswerArchive>(
      new AnswerArchive(std::move(dependencies), std::move(empty), std::move(degraded_reason)));
}

/// Resets the file: later erasures are not recorded in it, so its answers must not be found again.
Result<std::unique_ptr<AnswerArchive>> AnswerArchive::open_shared(
    AnswerArchiveDependencies dependencies) {
  AFI_TRY(const Secret none_yet, random_secret());
  InvalidationList unknown(none_yet);
  if (!dependencies.erasures.empty()) {
    AFI_TRY_VOID(dependencies.files.replace(dependencies.erasures, unknown.to_bytes()));
  }
  return std::unique_ptr<AnswerArchive>(
      new AnswerArchive(std::move(dependencies), std::move(unknown), {}));
}

TierKey AnswerArchive::key_of(const Secret& names, const ScopeId& scope, MatchLevel level,
                              std::string_view form) {
  FieldWriter fields("afterimage/archived-answer-key/1");
  fields.bytes("space", scope.space.bytes)
      .bytes("scope", scope.key.bytes)
      .number("loosest", static_cast<std::uint64_t>(scope.loosest))
      .number("rung", static_cast<std::uint64_t>(level))
      .text("form", form);
  return {.entry_class = EntryClass::kAnswer, .bytes = hmac_sha256(names, fields.message())};
}

AnswerArchive::ReadLease AnswerArchive::read_lease() const {
  const MutexLock lock(mutex_);
  ReadLease now;
  now.invalidations_ = invalidations_.count();
  now.changes_ = changes_;
  now.names_ = names_;
  now.until_ = lease_until_;
  return now;
}

bool AnswerArchive::was_erased(const TierKey& exact, const ReadLease& since) const {
  const MutexLock lock(mutex_);
  if (since.changes_ < erased_horizon_) return true;
  return std::ranges::any_of(recently_erased_, [&](const auto& one) {
    return one.first > since.changes_ && one.second == exact;
  });
}

void AnswerArchive::count(std::uint64_t AnswerArchiveStats::* counter) {
  const MutexLock lock(mutex_);
  ++(stats_.*counter);
}

WallTime AnswerArchive::stored_at(const AnswerFacts& facts) const {
  return before(dependencies_.wall.now(), facts.age);
}

void AnswerArchive::keep(Question& question, const Answer& answer, const AnswerFacts& facts,
                         const ReadLease& before_it) {
  const WallTime now = dependencies_.wall.now();
  ArchivedAnswer archived{.scope = question.scope(),
                          .question = question.text(),
                          .invalidations = before_it.invalidations_,
                          .stored_at = stored_at(facts),
                          .cost = facts.cost,
                          .owner = facts.owner,
                          .tags = facts.tags,
                          .answer = answer};
  // A wall clock before 1970 cannot overflow.
  if (facts.ttl.has_value() && (now < WallTime() || *facts.ttl < WallTime::max() - now)) {
    archived.expires = now + *facts.ttl;
  }
  const bool lasts =
      (is_whole(answer) || facts.keep_partial) && facts.ttl.value_or(Duration::max()) > Duration(0);
  const TierKey exact =
      key_of(before_it.names_, question.scope(), MatchLevel::kExact, question.text());
  const EntryMeta meta = meta_of(facts);
  const bool kept = lasts && put(question, exact, archived, meta, before_it);
  count(kept ? &AnswerArchiveStats::kept : &AnswerArchiveStats::refused);
  if (kept) return;
  // The answer that it replaced must not be restored instead.
  if (!dependencies_.tier.is_pending(exact) && !dependencies_.tier.may_contain(exact)) return;
  // Shared: other processes may serve the replaced answer from memory until it expires.
  static_cast<void>(dependencies_.shared != nullptr ? dependencies_.tier.erase(exact)
                                                    : erase_from_tier(question));
}

Mutex& AnswerArchive::put_lock(const TierKey& exact) {
  return put_locks_[std::to_integer<std::size_t>(exact.bytes.front()) % put_locks_.size()];
}

/// An answer has a label even without tags, or every erasure would erase it.
EntryMeta AnswerArchive::meta_of(const AnswerFacts& facts) const {
  EntryMeta meta{.tensors = {}, .cost = facts.cost};
  if (!dependencies_.labels.has_value()) return meta;
  meta.labels.push_back(dependencies_.labels->tag("answer"));
  meta.labels.push_back(
      dependencies_.labels->day(std::chrono::floor<std::chrono::days>(stored_at(facts))));
  for (const std::string& tag : facts.tags) meta.labels.push_back(dependencies_.labels->tag(tag));
  // Too many to say: erased with whatever is.
  if (meta.labels.size() > EntryLabels::kMax) meta.labels.clear();
  return meta;
}

/// With its forms, which hold the question: neither is written once it was erased.
bool AnswerArchive::put(Question& question, const TierKey& exact, const ArchivedAnswer& archived,
                        const EntryMeta& meta, const ReadLease& before_it) {
  const std::vector<std::byte> bytes = to_bytes(archived);
  const MutexLock ordered(put_lock(exact));
  {
    const MutexLock lock(mutex_);
    // After a restart the count it would record could be reused by another invalidation.
    if (!persisted_ || before_it.names_ != names_) return false;
    if (invalidations_.refuses(subject_of(archived))) return false;
  }
  if (was_erased(exact, before_it) || !dependencies_.tier.put(exact, meta, bytes)) return false;
  // An answer in part is found by its own words only.
  if (is_whole(archived.answer)) put_forms(question, meta, before_it);
  return true;
}

void AnswerArchive::wait_for_puts() {
  for (Mutex& puts : put_locks_) const MutexLock ended(puts);
}

void AnswerArchive::put_forms(Question& question, const EntryMeta& meta,
                              const ReadLease& before_it) {
  const std::vector<std::byte> bytes = archived_question_bytes(question.text());
  for (const MatchLevel level : kMatchLevels) {
    const auto form = question.form(level);
    if (level == MatchLevel::kExact || !form.has_value()) continue;
    // If this fails the answer is found by its exact text only.
    static_cast<void>(dependencies_.tier.put(
        key_of(before_it.names_, question.scope(), level, *form), meta, bytes));
  }
}

Result<void> AnswerArchive::insert(Question& question, const Answer& answer,
                                   const AnswerFacts& facts) {
  const ReadLease before_it = read_lease();
  AFI_TRY_VOID(insert_into_cache(question, answer, facts, before_it));
  keep(question, answer, facts, before_it);
  return {};
}

std::optional<TierEntry> AnswerArchive::read(const TierKey& key, Hints hints) {
  if (hints == Hints::kTrusted && !dependencies_.tier.may_contain(key)) return std::nullopt;
  auto entry = dependencies_.tier.get(key, dependencies_.transfer);
  if (entry.has_value() && entry->has_value()) return *std::move(entry);
  // In a shared tier a miss here is normal: only a read tells whether the entry exists.
  if (!entry.has_value() || dependencies_.shared == nullptr) count(&AnswerArchiveStats::failed);
  return std::nullopt;
}

std::optional<std::string> AnswerArchive::words_of(const Question& question, MatchLevel level,
                                                   std::string_view form, const ReadLease& before,
                                                   Hints hints) {
  if (level == MatchLevel::kExact) return question.text();
  const auto entry = read(key_of(before.names_, question.scope(), level, form), hints);
  if (!entry.has_value()) return std::nullopt;
  auto words = archived_question_from(entry->bytes);
  if (words.has_value()) return *std::move(words);
  count(&AnswerArchiveStats::failed);
  return std::nullopt;
}

std::optional<ArchivedAnswer> AnswerArchive::load(const ScopeId& scope, const std::string& words,
                                                  MatchLevel level, std::string_view form,
                                                  const ReadLease& before, Hints hints) {
  const auto entry = read(key_of(before.names_, scope, MatchLevel::kExact, words), hints);
  if (!entry.has_value()) return std::nullopt;
  auto archived = archived_answer_from(entry->bytes);
  // The forms of a whole answer outlive it when a truncated one takes its place.
  if (archived.has_value() && level != MatchLevel::kExact && !is_whole(archived->answer)) {
    return std::nullopt;
  }
  if (archived.has_value() && AFI_GUARD("answer.scope", archived->scope == scope) &&
      AFI_GUARD("answer.words", archived->question == words) &&
      AFI_GUARD("answer.form", Question(scope, words).form(level) == form)) {
    return *std::move(archived);
  }
  count(&AnswerArchiveStats::failed);
  return std::nullopt;
}

std::optional<AnswerLookup> AnswerArchive::admit(ArchivedAnswer archived,
                                                 const ReadLease& before_it,
                                                 const LookupRules& rules,
                                                 const AnswerQuota& quota) {
  const WallTime now = dependencies_.wall.now();
  const Duration age = now - archived.stored_at;
  const auto left = archived.expires.has_value() ? std::optional(*archived.expires - now)
                                                 : std::optional<Duration>();
  const bool too_old = age > rules.max_age.value_or(Duration::max()) ||
                       left.value_or(Duration::max()) < rules.min_fresh.value_or(Duration(0));
  AnswerLookup found;
  found.steps.push_back({.verdict = Verdict::kServed, .candidate = archived.question, .age = age});
  found.saved = archived.cost;
  found.left = left;
  Question kept(archived.scope, std::move(archived.question));

  const MutexLock lock(mutex_);
  archived.question = kept.text();
  if (!AFI_GUARD("answer.erased",
                 changes_ == before_it.changes_ && !invalidations_.refuses(subject_of(archived)))) {
    ++stats_.erased;
    return std::nullopt;
  }
  if (lease_expired(before_it)) {
    ++stats_.without_lease;
    return std::nullopt;
  }
  if (!AFI_GUARD("answer.not.from.later", age >= Duration(0)) ||
      !AFI_GUARD("answer.not.over", left.value_or(Duration::max()) > Duration(0))) {
    ++stats_.expired;
    return std::nullopt;
  }
  if (too_old) return std::nullopt;
  ++stats_.restored;
  static_cast<void>(dependencies_.cache.insert(kept, archived.answer,
                                               {.cost = archived.cost,
                                                .ttl = left,
                                                .tags = std::move(archived.tags),
                                                .owner = archived.owner,
                                                .quota = quota,
                                                .age = age,
                                                .keep_partial = true}));
  found.answer = std::move(archived.answer);
  return found;
}

std::optional<AnswerLookup> AnswerArchive::restore(Question& question, const LookupRules& rules,
                                                   const AnswerQuota& quota) {
  return restore_forms(question, rules, quota, Hints::kTrusted, read_lease());
}

std::optional<AnswerLookup> AnswerArchive::restore_claimed(Question& question,
                                                           const LookupRules& rules,
                                                           const AnswerQuota& quota,
                                                           const ReadLease& before) {
  return restore_forms(question, rules, quota, Hints::kIgnored, before);
}

std::optional<AnswerLookup> AnswerArchive::restore_forms(Question& question,
                                                         const LookupRules& rules,
                                                         const AnswerQuota& quota, Hints hints,
                                                         const ReadLease& before_it) {
  const Duration began = dependencies_.clock.now();
  if (!may_serve(before_it)) return std::nullopt;
  std::vector<std::string> tried;
  for (const MatchLevel level : kMatchLevels) {
    if (level > question.ceiling(rules.serve)) break;
    const auto form = question.form(level);
    if (!form.has_value()) continue;
    const auto words = words_of(question, level, *form, before_it, hints);
    if (!words.has_value() || std::ranges::count(tried, *words) > 0) continue;
    tried.push_back(*words);
    auto archived = load(question.scope(), *words, level, *form, before_it, hints);
    if (!archived.has_value()) continue;
    auto found = admit(*std::move(archived), before_it, rules, quota);
    if (!found.has_value()) continue;
    found->steps.back().level = level;
    found->steps.back().took = dependencies_.clock.now() - began;
    return found;
  }
  return std::nullopt;
}

Result<void> AnswerArchive::persist(Invalidation invalidation) {
  const MutexLock list_lock(list_mutex_);
  const auto copy = [&] {
    const MutexLock lock(mutex_);
    return invalidations_;
  };
  InvalidationList next = copy();
  AFI_TRY_VOID(next.add(std::move(invalidation)));
  auto written = dependencies_.files.replace(dependencies_.erasures, next.to_bytes());
  const MutexLock lock(mutex_);
  invalidations_ = std::move(next);
  ++changes_;
  persisted_ = written.has_value();
  stats_.degraded_reason = written.has_value() ? "" : written.error().message;
  if (written.has_value()) return {};
  return fail(ErrorCode::kUnavailable,
              "erased until the next restart only: the invalidation could not be written: " +
                  written.error().message + "; make the file writable and erase again");
}

/// changes_ is raised before and after the erasure: an answer read before it is not restored, and
/// one created before it is not archived.
Result<void> AnswerArchive::erase_from_tier(Question& question) {
  const TierKey exact =
      key_of(read_lease().names_, question.scope(), MatchLevel::kExact, question.text());
  {
    const MutexLock ordered(put_lock(exact));
    const MutexLock lock(mutex_);
    recently_erased_.emplace_back(++changes_, exact);
    if (recently_erased_.size() > kMaxRecentlyErased) {
      erased_horizon_ = recently_erased_.front().first;
      recently_erased_.pop_front();
    }
  }
  const auto erased = dependencies_.tier.erase(exact);
  if (erased.has_value()) {
    const MutexLock lock(mutex_);
    ++changes_;
    return {};
  }
  return persist(invalidation_of(question));
}

Result<AnswerCount> AnswerArchive::erase(const AnswerFilter& filter) {
  if (filter.entry.has_value()) {
    const auto entries = dependencies_.cache.entries(filter, 1);
    if (entries.empty()) return AnswerCount();
    Question question(entries.front().scope, entries.front().question);
    AFI_TRY(const bool erased, erase(question));
    return erased ? AnswerCount{.entries = EntryCount(1), .bytes = entries.front().bytes}
                  : AnswerCount();
  }
  Invalidation invalidation = invalidation_of(filter, dependencies_.wall.now());
  AFI_TRY_VOID(invalidation.check());
  if (dependencies_.shared != nullptr) {
    const AnswerCount erased = dependencies_.cache.erase(filter);
    AFI_TRY_VOID(publish(invalidation));
    wait_for_puts();
    wait_out_leases();
    return erased;
  }
  const auto written = persist(std::move(invalidation));
  wait_for_puts();
  const AnswerCount erased = dependencies_.cache.erase(filter);
  AFI_TRY_VOID(written);
  return erased;
}

Result<bool> AnswerArchive::erase(Question& question) {
  AFI_TRY(const bool erased, erase_without_waiting(question));
  wait_out_leases();
  return erased;
}

Result<bool> AnswerArchive::erase_without_waiting(Question& question) {
  if (dependencies_.shared != nullptr) {
    const bool erased = dependencies_.cache.erase(question);
    AFI_TRY_VOID(publish(invalidation_of(question)));
    // The list rejects it already; this frees its space.
    static_cast<void>(dependencies_.tier.erase(
        key_of(read_lease().names_, question.scope(), MatchLevel::kExact, question.text())));
    return erased;
  }
  const auto done = erase_from_tier(question);
  const bool erased = dependencies_.cache.erase(question);
  AFI_TRY_VOID(done);
  return erased;
}

std::uint64_t AnswerArchive::erasures() const {
  constexpr std::uint64_t kOfAGeneration = std::uint64_t{1} << 40U;
  const MutexLock lock(mutex_);
  return stats_.generations * kOfAGeneration + invalidations_.count();
}

AnswerArchiveStats AnswerArchive::stats() const {
  const ReadLease now = read_lease();
  const bool may_serve = !lease_expired(now);
  const MutexLock lock(mutex_);
  AnswerArchiveStats stats = stats_;
  stats.erasures = invalidations_.count();
  stats.shared = dependencies_.shared != nullptr;
  stats.may_serve = may_serve;
  return stats;
}

}  // namespace afterimage

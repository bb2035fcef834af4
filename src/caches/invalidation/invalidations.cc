// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/invalidation/invalidations.h"

#include <algorithm>
#include <limits>
#include <ranges>
#include <string_view>
#include <utility>

#include "caches/identity/field_reader.h"
#include "caches/identity/fields.h"
#include "foundation/platform/fault_points.h"
#include "foundation/text/ascii.h"

namespace afterimage {
namespace {

constexpr std::string_view kInvalidationsDomain = "afterimage/answer-erasures/1";
constexpr std::string_view kAnyVersion = "afterimage/answer-erasures/";
constexpr std::size_t kChecksum = kDigestBytes;

bool matches(const Invalidation& invalidation, const InvalidationSubject& subject) {
  return (!invalidation.space.has_value() || subject.space == *invalidation.space) &&
         (!invalidation.scope.has_value() || subject.scope == *invalidation.scope) &&
         (!invalidation.question.has_value() || subject.question == *invalidation.question) &&
         (!invalidation.stored_before.has_value() ||
          subject.stored_at < *invalidation.stored_before) &&
         (invalidation.owner == TenantId() || subject.owner == invalidation.owner) &&
         (invalidation.tag.empty() || std::ranges::count(subject.tags, invalidation.tag) > 0) &&
         ascii::says(subject.question, ascii::lowered(invalidation.words));
}

/// An optional field: its count (0 or 1), then the value.
template <typename Value, typename Write>
void write_optional(FieldWriter& fields, std::string_view name, const std::optional<Value>& value,
                    const Write& write) {
  fields.number(name, value.has_value() ? 1 : 0);
  if (value.has_value()) write(*value);
}

template <typename Read>
auto read_optional(FieldReader& fields, std::string_view name, const Read& read) {
  return fields.number(name, 1) == 1 ? std::optional(read()) : std::nullopt;
}

void write_invalidation(FieldWriter& fields, const Invalidation& invalidation) {
  fields.number("erasure", invalidation.number);
  write_optional(fields, "spaces", invalidation.space,
                 [&](const NamespaceId& space) { fields.bytes("space", space.bytes); });
  write_optional(fields, "scopes", invalidation.scope,
                 [&](const ScopeKey& scope) { fields.bytes("scope", scope.bytes); });
  write_optional(fields, "questions", invalidation.question,
                 [&](const std::string& question) { fields.text("question", question); });
  fields.text("tag", invalidation.tag)
      .text("owner", invalidation.owner.text())
      .text("words", invalidation.words);
  write_optional(fields, "times", invalidation.stored_before, [&](WallTime time) {
    fields.number("kept_before", static_cast<std::uint64_t>(time.time_since_epoch().count()));
  });
}

Invalidation read_invalidation(FieldReader& fields) {
  Invalidation invalidation;
  invalidation.number = fields.number("erasure");
  invalidation.space = read_optional(
      fields, "spaces", [&] { return NamespaceId{fields.bytes<kDigestBytes>("space")}; });
  invalidation.scope = read_optional(fields, "scopes",
                                     [&] { return ScopeKey{fields.bytes<kDigestBytes>("scope")}; });
  invalidation.question =
      read_optional(fields, "questions", [&] { return fields.text("question"); });
  invalidation.tag = fields.text("tag");
  invalidation.owner = TenantId(fields.text("owner"));
  invalidation.words = fields.text("words");
  invalidation.stored_before = read_optional(fields, "times", [&] {
    constexpr auto kLatest = std::numeric_limits<Duration::rep>::max();
    return WallTime(Duration(static_cast<Duration::rep>(fields.number("kept_before", kLatest))));
  });
  return invalidation;
}

}  // namespace

Result<void> Invalidation::check() const {
  const std::size_t bytes =
      question.value_or("").size() + tag.size() + owner.text().size() + words.size();
  if (bytes <= InvalidationList::kMaxBytes) return {};
  return fail(ErrorCode::kLimitExceeded,
              "the filter has " + std::to_string(bytes) + " bytes of text; the limit is " +
                  std::to_string(InvalidationList::kMaxBytes) +
                  ": select answers by scope, tag or owner, or erase all");
}

Result<void> InvalidationList::add(Invalidation invalidation) {
  AFI_TRY_VOID(invalidation.check());
  invalidation.number = ++count_;
  if (entries_.size() == kMaxEntries) merge_older_half();
  entries_.push_back(std::move(invalidation));
  return {};
}

void InvalidationList::merge_older_half() {
  const auto half = entries_.begin() + static_cast<std::ptrdiff_t>((entries_.size() + 1) / 2);
  all_before_ = std::prev(half)->number;
  entries_.erase(entries_.begin(), half);
}

void InvalidationList::shorten(std::size_t max_bytes) {
  while (!entries_.empty() && to_bytes().size() > max_bytes) merge_older_half();
}

bool InvalidationList::continues(const InvalidationList& earlier) const {
  if (secret_ != earlier.secret_ || count_ < earlier.count_ || all_before_ < earlier.all_before_) {
    return false;
  }
  // Entries that neither list has merged must be the same in both, with none missing.
  const auto in_both = [&](const Invalidation& invalidation) {
    return invalidation.number > all_before_ && invalidation.number <= earlier.count_;
  };
  return std::ranges::equal(entries_ | std::views::filter(in_both),
                            earlier.entries_ | std::views::filter(in_both));
}

bool InvalidationList::refuses(const InvalidationSubject& subject) const {
  // Below all_before_ the entries are merged; above count_ the answer saw a list ahead of this one.
  if (!AFI_GUARD("erasures.known",
                 subject.invalidations >= all_before_ && subject.invalidations <= count_)) {
    return true;
  }
  return std::ranges::any_of(entries_, [&](const Invalidation& invalidation) {
    return subject.invalidations < invalidation.number && matches(invalidation, subject);
  });
}

std::vector<std::byte> InvalidationList::to_bytes() const {
  FieldWriter fields(kInvalidationsDomain);
  fields.bytes("secret", secret_)
      .number("count", count_)
      .number("all_before", all_before_)
      .number("erasures", entries_.size());
  for (const Invalidation& invalidation : entries_) write_invalidation(fields, invalidation);
  std::vector<std::byte> bytes(fields.message().begin(), fields.message().end());
  const auto checksum = sha256(bytes);
  bytes.insert(bytes.end(), checksum.begin(), checksum.end());
  return bytes;
}

Result<InvalidationList> InvalidationList::from_bytes(std::span<const std::byte> bytes) {
  const auto damaged = [&] {
    return fail(ErrorCode::kCorruption,
                std::to_string(bytes.size()) + " bytes are no invalidation list, or a damaged one");
  };
  if (bytes.size() < kChecksum) return damaged();
  const auto message = bytes.first(bytes.size() - kChecksum);
  if (!AFI_GUARD("erasures.checksum", std::ranges::equal(sha256(message), bytes.last(kChecksum)))) {
    return damaged();
  }
  const std::string_view version = FieldReader(message).value('D', "");
  if (version != kInvalidationsDomain && version.starts_with(kAnyVersion)) {
    return fail(ErrorCode::kUnsupported, "an invalidation list of another version (" +
                                             std::string(version) + "); this program reads " +
                                             std::string(kInvalidationsDomain));
  }
  FieldReader fields(message);
  fields.domain(kInvalidationsDomain);
  InvalidationList list(fields.bytes<sizeof(Secret)>("secret"));
  list.count_ = fields.number("count");
  list.all_before_ = fields.number("all_before", list.count_);
  std::uint64_t last = list.all_before_;
  for (std::uint64_t left = fields.number("erasures", kMaxEntries); left > 0 && fields.is_whole();
       --left) {
    list.entries_.push_back(read_invalidation(fields));
    const std::uint64_t number = list.entries_.back().number;
    if (number <= last || number > list.count_) fields.ruin();
    last = number;
  }
  if (!fields.is_done()) return damaged();
  return list;
}

}  // namespace afterimage

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

constexpr std::string_view kErasuresDomain = "afterimage/answer-erasures/1";
constexpr std::size_t kChecksum = kDigestBytes;

bool matches(const Invalidation& erasure, const InvalidationSubject& subject) {
  return (!erasure.space.has_value() || subject.space == *erasure.space) &&
         (!erasure.scope.has_value() || subject.scope == *erasure.scope) &&
         (!erasure.question.has_value() || subject.question == *erasure.question) &&
         (!erasure.kept_before.has_value() || subject.kept_at < *erasure.kept_before) &&
         (erasure.owner == TenantId() || subject.owner == erasure.owner) &&
         (erasure.tag.empty() || std::ranges::count(subject.tags, erasure.tag) > 0) &&
         ascii::says(subject.question, ascii::lowered(erasure.words));
}

/// A field that is set, or its count 0.
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

void write_erasure(FieldWriter& fields, const Invalidation& erasure) {
  fields.number("erasure", erasure.number);
  write_optional(fields, "spaces", erasure.space,
                 [&](const NamespaceId& space) { fields.bytes("space", space.bytes); });
  write_optional(fields, "scopes", erasure.scope,
                 [&](const ScopeKey& scope) { fields.bytes("scope", scope.bytes); });
  write_optional(fields, "questions", erasure.question,
                 [&](const std::string& question) { fields.text("question", question); });
  fields.text("tag", erasure.tag).text("owner", erasure.owner.text()).text("words", erasure.words);
  write_optional(fields, "times", erasure.kept_before, [&](WallTime time) {
    fields.number("kept_before", static_cast<std::uint64_t>(time.time_since_epoch().count()));
  });
}

Invalidation read_erasure(FieldReader& fields) {
  Invalidation erasure;
  erasure.number = fields.number("erasure");
  erasure.space = read_optional(fields, "spaces",
                                [&] { return NamespaceId{fields.bytes<kDigestBytes>("space")}; });
  erasure.scope = read_optional(fields, "scopes",
                                [&] { return ScopeKey{fields.bytes<kDigestBytes>("scope")}; });
  erasure.question = read_optional(fields, "questions", [&] { return fields.text("question"); });
  erasure.tag = fields.text("tag");
  erasure.owner = TenantId(fields.text("owner"));
  erasure.words = fields.text("words");
  erasure.kept_before = read_optional(fields, "times", [&] {
    constexpr auto kLatest = std::numeric_limits<Duration::rep>::max();
    return WallTime(Duration(static_cast<Duration::rep>(fields.number("kept_before", kLatest))));
  });
  return erasure;
}

}  // namespace

Result<void> Invalidation::check() const {
  const std::size_t bytes =
      question.value_or("").size() + tag.size() + owner.text().size() + words.size();
  if (bytes <= InvalidationList::kMostBytes) return {};
  return fail(ErrorCode::kLimitExceeded,
              "what names the answers to be erased has " + std::to_string(bytes) +
                  " bytes, and at most " + std::to_string(InvalidationList::kMostBytes) +
                  " are remembered; name them by scope, tag or owner, or erase all");
}

Result<void> InvalidationList::add(Invalidation erasure) {
  AFI_TRY_VOID(erasure.check());
  erasure.number = ++count_;
  if (erasures_.size() == kMost) forget_the_older_half();
  erasures_.push_back(std::move(erasure));
  return {};
}

void InvalidationList::forget_the_older_half() {
  const auto half = erasures_.begin() + static_cast<std::ptrdiff_t>((erasures_.size() + 1) / 2);
  all_before_ = std::prev(half)->number;
  erasures_.erase(erasures_.begin(), half);
}

void InvalidationList::shorten(std::size_t most) {
  while (!erasures_.empty() && to_bytes().size() > most) forget_the_older_half();
}

bool InvalidationList::continues(const InvalidationList& earlier) const {
  if (secret_ != earlier.secret_ || count_ < earlier.count_ || all_before_ < earlier.all_before_) {
    return false;
  }
  // Every one that both tell apart is the same, and none is missing that should be there.
  const auto known_to_both = [&](const Invalidation& erasure) {
    return erasure.number > all_before_ && erasure.number <= earlier.count_;
  };
  return std::ranges::equal(erasures_ | std::views::filter(known_to_both),
                            earlier.erasures_ | std::views::filter(known_to_both));
}

bool InvalidationList::refuses(const InvalidationSubject& subject) const {
  // From a list that is ahead of this one: what has been erased since, nobody knows any more.
  if (!AFI_GUARD("erasures.known",
                 subject.invalidations >= all_before_ && subject.invalidations <= count_)) {
    return true;
  }
  return std::ranges::any_of(erasures_, [&](const Invalidation& erasure) {
    return subject.invalidations < erasure.number && matches(erasure, subject);
  });
}

std::vector<std::byte> InvalidationList::to_bytes() const {
  FieldWriter fields(kErasuresDomain);
  fields.bytes("secret", secret_)
      .number("count", count_)
      .number("all_before", all_before_)
      .number("erasures", erasures_.size());
  for (const Invalidation& erasure : erasures_) write_erasure(fields, erasure);
  std::vector<std::byte> bytes(fields.message().begin(), fields.message().end());
  const auto checksum = sha256(bytes);
  bytes.insert(bytes.end(), checksum.begin(), checksum.end());
  return bytes;
}

Result<InvalidationList> InvalidationList::from_bytes(std::span<const std::byte> bytes) {
  const auto damaged = [&] {
    return fail(ErrorCode::kCorruption,
                std::to_string(bytes.size()) + " bytes are not a list of what has been erased");
  };
  if (bytes.size() < kChecksum) return damaged();
  const auto message = bytes.first(bytes.size() - kChecksum);
  if (!AFI_GUARD("erasures.checksum", std::ranges::equal(sha256(message), bytes.last(kChecksum)))) {
    return damaged();
  }
  FieldReader fields(message);
  fields.domain(kErasuresDomain);
  InvalidationList list(fields.bytes<sizeof(Secret)>("secret"));
  list.count_ = fields.number("count");
  list.all_before_ = fields.number("all_before", list.count_);
  std::uint64_t last = list.all_before_;
  for (std::uint64_t left = fields.number("erasures", kMost); left > 0 && fields.is_whole();
       --left) {
    list.erasures_.push_back(read_erasure(fields));
    const std::uint64_t number = list.erasures_.back().number;
    if (number <= last || number > list.count_) fields.ruin();
    last = number;
  }
  if (!fields.is_done()) return damaged();
  return list;
}

}  // namespace afterimage

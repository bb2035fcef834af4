// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/answers/answer_forms.h"

#include <xxhash.h>

#include <algorithm>

#include "foundation/types/digest_hash.h"

namespace afterimage {
namespace {

constexpr std::size_t index_of(MatchLevel level) { return static_cast<std::size_t>(level); }

/// Calls `each` for every zero-terminated tag of an entry until it returns false.
template <typename Each>
void for_each_tag(std::string_view tags, const Each& each) {
  while (!tags.empty()) {
    const std::size_t end = tags.find('\0');
    if (!each(tags.substr(0, end))) return;
    tags.remove_prefix(end + 1);
  }
}

}  // namespace

void AnswerDraft::add(std::size_t part, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
  ends[part] = bytes.size();
}

Result<AnswerDraft> AnswerDraft::of(Question& question, const Answer& answer,
                                    const AnswerFacts& facts) {
  if (!is_whole(answer) && !facts.keep_partial) {
    return fail(ErrorCode::kInvalidArgument, "an answer that ended with \"" + answer.finish_reason +
                                                 "\" is incomplete and is not cached");
  }
  AnswerDraft draft;
  draft.exact_only = !is_whole(answer);
  const auto record = to_record(answer);
  draft.bytes.reserve(record.size() + question.text().size());
  draft.add(AnswerParts::kRecord, record);
  for (const MatchLevel level : kMatchLevels) {
    const bool listed = level == MatchLevel::kExact || !draft.exact_only;
    const auto form = listed ? question.form(level) : std::nullopt;
    const bool is_again = level != MatchLevel::kExact && form == question.text();
    draft.add(AnswerParts::form(level),
              std::as_bytes(std::span(is_again ? "" : form.value_or(""))));
  }
  std::string joined;
  for (const std::string& tag : facts.tags) {
    if (tag.contains('\0')) return fail(ErrorCode::kInvalidArgument, "a tag contains a zero byte");
    joined.append(tag).push_back('\0');
  }
  draft.add(AnswerParts::kTags, std::as_bytes(std::span(joined)));
  return draft;
}

std::string_view AnswerSlot::part(std::size_t which) const {
  const std::span<const std::byte> bytes = payload->tensors().front().bytes();
  const std::size_t begin = which == 0 ? 0 : ends[which - 1];
  return {reinterpret_cast<const char*>(bytes.data()) + begin, ends[which] - begin};
}

std::optional<Duration> AnswerSlot::left(Duration now) const {
  if (expires == kNever) return std::nullopt;
  return std::max(expires - now, Duration(0));
}

bool AnswerSlot::has_tag(std::string_view tag) const {
  bool found = false;
  for_each_tag(part(AnswerParts::kTags), [&](std::string_view one) {
    found = one == tag;
    return !found;
  });
  return found;
}

std::vector<std::string> AnswerSlot::tags() const {
  std::vector<std::string> all;
  for_each_tag(part(AnswerParts::kTags), [&](std::string_view one) {
    all.emplace_back(one);
    return true;
  });
  return all;
}

// Seeded with bytes of a MAC, so that clients cannot choose questions that collide.
AnswerFormKey AnswerFormKey::of(const ScopeId& scope, MatchLevel level, std::string_view form) {
  return {.scope = &scope,
          .level = level,
          .form = form,
          .hash = XXH3_64bits_withSeed(form.data(), form.size(),
                                       DigestHash()(scope.key) + index_of(level))};
}

bool AnswerForms::Equal::operator()(const AnswerFormKey& key, const Listing& listing) const {
  if (key.level != listing.level) return false;
  const AnswerSlot& slot = (*slots)[listing.place];
  return slot.hashes[index_of(key.level)] == key.hash && slot.scope == *key.scope &&
         slot.form(key.level) == key.form;
}

void AnswerForms::list(std::uint32_t place, const AnswerFormKey& key) {
  const std::size_t level = index_of(key.level);
  if (const auto it = index_.find(key); it != index_.end()) {
    slots_[it->place].listed[level] = false;
    index_.erase(it);
  }
  slots_[place].hashes[level] = key.hash;
  slots_[place].listed[level] = true;
  index_.insert(Listing{.place = place, .level = key.level});
}

void AnswerForms::unlist(std::uint32_t place) {
  for (const MatchLevel level : kMatchLevels) {
    if (slots_[place].listed[index_of(level)]) {
      index_.erase(Listing{.place = place, .level = level});
    }
  }
}

}  // namespace afterimage

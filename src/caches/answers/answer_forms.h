// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/answer_cache.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"

namespace afterimage {

/// The parts of an entry's bytes, in order: its record, its forms, its tags. A looser form that is the
/// question itself has no bytes of its own.
struct AnswerParts {
  static constexpr std::size_t kRecord = 0;
  static constexpr std::size_t kForms = 1;
  static constexpr std::size_t kTags = kForms + kMatchLevels.size();
  static constexpr std::size_t kCount = kTags + 1;

  static constexpr std::size_t form(MatchLevel level) {
    return kForms + static_cast<std::size_t>(level);
  }
};

/// The bytes of an entry before they are charged to a budget.
struct AnswerDraft {
  std::vector<std::byte> bytes;
  std::array<std::size_t, AnswerParts::kCount> ends{};
  bool exact_only = false;  // the answer is not whole

  /// kInvalidArgument: the answer may not be cached (see AnswerFacts::keep_partial), or a tag
  /// contains a zero byte.
  static Result<AnswerDraft> of(Question& question, const Answer& answer, const AnswerFacts& facts);

 private:
  void add(std::size_t part, std::span<const std::byte> more);
};

/// One owner's usage and eviction order. Removed with its last entry.
struct AnswerOwner {
  AnswerCount kept;
  AnswerCount pinned;  // part of kept
  /// Unpinned entries by their last use when they were queued; updated lazily, when an entry
  /// reaches the front.
  std::set<std::pair<std::uint64_t, std::uint32_t>> by_use;
};
using AnswerOwners = std::map<TenantId, AnswerOwner>;

/// One slot of an answer cache.
struct AnswerSlot {
  static constexpr Duration kNever = Duration::max();

  ScopeId scope;
  std::optional<Payload> payload;      // empty: the slot is free
  std::weak_ptr<const Answer> shared;  // the answer as hits use it now; verified when it was copied
  std::array<std::size_t, AnswerParts::kCount> ends{};
  std::array<std::uint64_t, kMatchLevels.size()> hashes{};
  std::array<bool, kMatchLevels.size()> listed{};  // the index maps this form to this slot
  bool pinned = false;
  bool exact_only = false;  // listed under its own words only
  std::uint32_t generation = 0;
  AnswerEntryId id;
  Duration stored{0};
  Duration expires = kNever;
  Duration cost{0};
  std::uint64_t uses = 0;
  std::uint64_t used = 0;    // last use, in uses of the whole cache
  std::uint64_t queued = 0;  // its key in by_use
  AnswerOwners::value_type* owner = nullptr;

  [[nodiscard]] std::string_view part(std::size_t which) const;
  /// Of a level that lists it.
  [[nodiscard]] std::string_view form(MatchLevel level) const {
    const std::string_view own = part(AnswerParts::form(level));
    return own.empty() ? question() : own;
  }
  [[nodiscard]] std::string_view question() const {
    return part(AnswerParts::form(MatchLevel::kExact));
  }
  [[nodiscard]] std::optional<Duration> left(Duration now) const;
  [[nodiscard]] bool has_tag(std::string_view tag) const;
  [[nodiscard]] std::vector<std::string> tags() const;
  [[nodiscard]] AnswerCount count() const {
    return {.entries = EntryCount(1), .bytes = payload->bytes()};
  }
};
using AnswerSlots = std::vector<AnswerSlot>;

/// An index key: one form of a question. Its scope and form must outlive it.
struct AnswerFormKey {
  const ScopeId* scope;
  MatchLevel level;
  std::string_view form;
  std::uint64_t hash;

  static AnswerFormKey of(const ScopeId& scope, MatchLevel level, std::string_view form);
  static AnswerFormKey exact(const Question& question) {
    return of(question.scope(), MatchLevel::kExact, question.text());
  }
};

/// The index from forms to slots. Scope and form are compared in full, with the slots' own bytes.
class AnswerForms {
 public:
  explicit AnswerForms(AnswerSlots& slots) : slots_(slots) {}

  [[nodiscard]] std::optional<std::uint32_t> find(const AnswerFormKey& key) const {
    const auto it = index_.find(key);
    return it == index_.end() ? std::nullopt : std::optional(it->place);
  }
  /// The newest entry takes a form over; an older one is still found by forms that only it has.
  void list(std::uint32_t place, const AnswerFormKey& key);
  void unlist(std::uint32_t place);
  [[nodiscard]] std::size_t size() const { return index_.size(); }

 private:
  struct Listing {
    std::uint32_t place = 0;
    MatchLevel level = MatchLevel::kExact;
  };
  struct Hash {
    using is_transparent = void;
    using is_avalanching = void;
    const AnswerSlots* slots;
    std::size_t operator()(const AnswerFormKey& key) const { return key.hash; }
    std::size_t operator()(const Listing& listing) const {
      return (*slots)[listing.place].hashes[static_cast<std::size_t>(listing.level)];
    }
  };
  struct Equal {
    using is_transparent = void;
    const AnswerSlots* slots;
    bool operator()(const AnswerFormKey& key, const Listing& listing) const;
    bool operator()(const Listing& listing, const AnswerFormKey& key) const {
      return (*this)(key, listing);
    }
    bool operator()(const Listing& a, const Listing& b) const {
      return a.place == b.place && a.level == b.level;
    }
  };

  AnswerSlots& slots_;
  boost::unordered_flat_set<Listing, Hash, Equal> index_{0, Hash{&slots_}, Equal{&slots_}};
};

}  // namespace afterimage

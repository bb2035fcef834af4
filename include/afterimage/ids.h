// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace afterimage {

/// A token of the model's vocabulary. An id, not a number: it has no arithmetic.
enum class TokenId : std::int32_t {};

/// An agent (a user or a workflow step) as caches account for it. The caller interns agent names.
enum class AgentId : std::uint32_t {};
inline constexpr AgentId kNoAgent = AgentId(0xFFFFFFFFU);

/// One slot of a cache's table. The generation distinguishes it from earlier uses of the same
/// index.
struct SlotId {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  auto operator<=>(const SlotId&) const = default;
};

/// A string with a type of its own, so that different kinds of names cannot be mixed up.
template <typename Tag>
class Name {
 public:
  Name() = default;
  explicit Name(std::string text) : text_(std::move(text)) {}

  [[nodiscard]] const std::string& text() const { return text_; }
  auto operator<=>(const Name&) const = default;

 private:
  std::string text_;
};

/// One request in flight, as the serving engine names it.
using RequestId = Name<struct RequestIdTag>;
/// One distinct media item as a scheduler names it (vLLM: `identifier`).
using ItemId = Name<struct ItemIdTag>;
/// The tenant that owns content and pays for it. Nothing is shared between two tenants. Empty: a
/// single-tenant deployment.
using TenantId = Name<struct TenantIdTag>;

/// Says what an entry was made from, so that it can be erased: 64 bits of a keyed hash, see
/// EntryLabels. Two names may have the same label: then too much is erased, never too little.
struct EntryLabel {
  std::uint64_t bits = 0;
  auto operator<=>(const EntryLabel&) const = default;
};

/// Which entries to erase.
struct EntryFilter {
  std::vector<EntryLabel> any_of = {};   // empty: every entry
  std::vector<EntryLabel> none_of = {};  // entries with one of these stay

  /// An entry without labels matches every filter: nothing is known about it.
  [[nodiscard]] bool matches(std::span<const EntryLabel> labels) const {
    const auto has = [labels](const std::vector<EntryLabel>& wanted) {
      return std::ranges::find_first_of(labels, wanted) != labels.end();
    };
    return labels.empty() || ((any_of.empty() || has(any_of)) && !has(none_of));
  }
};

}  // namespace afterimage

template <typename Tag>
struct std::hash<afterimage::Name<Tag>> {
  std::size_t operator()(const afterimage::Name<Tag>& name) const noexcept {
    return std::hash<std::string_view>{}(name.text());
  }
};

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace afterimage {

/// A token of the model's vocabulary. An id is not a number: no arithmetic.
enum class TokenId : std::int32_t {};

/// An agent (a user, a workflow step) as a cache counts it. Names are interned by the caller.
enum class AgentId : std::uint32_t {};
inline constexpr AgentId kNoAgent = AgentId(0xFFFFFFFFU);

/// One place in a cache's table. The generation tells a place from its earlier tenants.
struct SlotId {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  auto operator<=>(const SlotId&) const = default;
};

/// A name that cannot be mistaken for another kind of name.
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

/// One request in flight, named by the serving engine.
using RequestId = Name<struct RequestIdTag>;
/// One distinct media item as a scheduler names it (vLLM: `identifier`).
using ItemId = Name<struct ItemIdTag>;
/// Who pays and who may see: nothing is shared between two tenants. Empty: the only tenant.
using TenantId = Name<struct TenantIdTag>;

}  // namespace afterimage

template <typename Tag>
struct std::hash<afterimage::Name<Tag>> {
  std::size_t operator()(const afterimage::Name<Tag>& name) const noexcept {
    return std::hash<std::string_view>{}(name.text());
  }
};

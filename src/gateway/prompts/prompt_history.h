// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "afterimage/units.h"
#include "foundation/platform/mutex.h"
#include "gateway/prompts/content_chain.h"
#include "gateway/prompts/prompt_record.h"

namespace afterimage {

/// The last prompts of each tenant, as digests and lengths. Prompts of two tenants are never compared.
///
/// Memory   At most `capacity`, of all tenants together; then the oldest prompt of the tenant that holds the
///          most leaves. The next turn of a conversation takes the place of the one before it.
/// Cost     find_closest() and add() depend on the prompt, not on how many are kept.
/// Threads  Any.
class PromptHistory {
 public:
  using Shared = std::shared_ptr<const PromptRecord>;

  /// `capacity` 0: nothing is kept.
  explicit PromptHistory(Bytes capacity) : capacity_(capacity) {}
  [[nodiscard]] bool is_enabled() const { return capacity_ > Bytes(0); }

  /// The prompt of `tenant` that shares the most links from the beginning with this one; if none shares
  /// any, the last of the same conversation, else the last of the same operation. nullptr: none.
  [[nodiscard]] Shared find_closest(const std::string& tenant, const ContentChain& chain,
                                    const PromptOrigin& origin) const;
  /// The prompt whose answer had this id. nullptr: none of `tenant`, or it has left.
  [[nodiscard]] Shared find_response(const std::string& tenant, std::string_view response_id) const;

  void add(const std::string& tenant, Shared prompt);
  /// The answer to a prompt that was added has this id, as its client saw it.
  void name(const std::string& tenant, std::string_view response_id, const Shared& prompt);
  /// Returns how many prompts left.
  std::uint64_t erase_tenants(const std::function<bool(std::string_view tenant)>& chosen);

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] Bytes bytes() const;
  void check_invariants() const;

 private:
  const Bytes capacity_;
};

}  // namespace afterimage

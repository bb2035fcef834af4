// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/config/tenant_name.h"

#include <fmt/format.h>

#include <algorithm>

#include "foundation/text/ascii.h"

namespace afterimage {

Result<void> check_name(const std::string& name) {
  constexpr std::size_t kLongest = 64;
  const bool plain = std::ranges::all_of(name, [](char c) {
    return ascii::is_letter(c) || ascii::is_digit(c) || c == '.' || c == '_' || c == '-';
  });
  if (plain && !name.empty() && name.size() <= kLongest) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' is not a name: use 1 to 64 letters, digits, '.', '_' and '-'", name));
}

Result<void> check_tenant_name(const std::string& name) {
  AFI_TRY_VOID(check_name(name));
  if (name != "anonymous" && !name.starts_with("key-")) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' is reserved for tenants that are not listed: choose another name", name));
}

}  // namespace afterimage

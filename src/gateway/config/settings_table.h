// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <toml++/toml.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "gateway/config/settings.h"

namespace afterimage {

/// When a new value of a key takes effect.
enum class TakesEffect : unsigned char { kAtReload, kAtStart };

/// One key of the settings file. Reading, printing and comparing all use this table, so none of
/// them can miss a key.
template <typename Owner>
struct Setting {
  std::string_view key;      // "listen.port"; in a tenant's table: "name"
  std::string_view help;     // one line
  std::string_view example;  // as TOML; printed, commented out, where there is no value
  TakesEffect effect = TakesEffect::kAtReload;
  bool secret = false;
  /// kInvalidArgument: wrong type or out of range. The message does not name the key.
  std::function<Result<void>(const toml::node&, Owner&)> read;
  /// The value as TOML; nullopt: it has none.
  std::function<std::optional<std::string>(const Owner&)> print;
};

/// Every key except those of tenants, grouped by section; keys without a section come first.
[[nodiscard]] std::span<const Setting<Settings>> settings_table();
/// The keys of a [[tenancy.tenants]] table.
[[nodiscard]] std::span<const Setting<TenantSettings>> tenant_table();
inline constexpr std::string_view kTenantsKey = "tenancy.tenants";

/// "listen" of "listen.port"; "" of "secret_file".
[[nodiscard]] constexpr std::string_view section_of(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}
/// "port" of "listen.port".
[[nodiscard]] constexpr std::string_view leaf_of(std::string_view key) {
  return key.substr(key.rfind('.') + 1);
}

}  // namespace afterimage

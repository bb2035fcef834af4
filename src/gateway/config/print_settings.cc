// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <iterator>

#include "gateway/config/settings.h"
#include "gateway/config/settings_table.h"

namespace afterimage {
namespace {

constexpr std::string_view kPreface =
    "# Settings of `afterimage serve`. Every key is listed with its value, or commented out if\n"
    "# it has no value. Durations: a whole number and ns, us, ms, s, min, h or d. Sizes: a whole\n"
    "# number and B, KiB, MiB, GiB or TiB.\n\n";

template <typename Owner>
void print_setting(const Setting<Owner>& setting, const Owner& owner, std::string& out) {
  const auto to = std::back_inserter(out);
  const auto value = setting.print(owner);
  fmt::format_to(to, "# {}\n", setting.help);
  // A secret is commented out: reading the printed file must not set it to "…".
  if (setting.secret && value != R"("")") {
    fmt::format_to(to, "# Set, but not shown.\n# {} = \"…\"\n", leaf_of(setting.key));
  } else if (value.has_value()) {
    fmt::format_to(to, "{} = {}\n", leaf_of(setting.key), *value);
  } else {
    fmt::format_to(to, "# {} = {}\n", leaf_of(setting.key), setting.example);
  }
}

void print_tenant(const TenantSettings& tenant, std::string& out) {
  fmt::format_to(std::back_inserter(out), "\n[[{}]]\n", kTenantsKey);
  for (const auto& setting : tenant_table()) print_setting(setting, tenant, out);
}

/// An example of a tenant, commented out.
void print_example_tenant(std::string& out) {
  fmt::format_to(std::back_inserter(out), "\n# [[{}]]\n", kTenantsKey);
  for (const auto& setting : tenant_table()) {
    fmt::format_to(std::back_inserter(out), "# # {}\n# {} = {}\n", setting.help, setting.key,
                   setting.example);
  }
}

}  // namespace

std::string print_settings(const Settings& settings) {
  std::string out(kPreface);
  std::string_view section;
  for (const auto& setting : settings_table()) {
    if (section_of(setting.key) != section) {
      section = section_of(setting.key);
      fmt::format_to(std::back_inserter(out), "\n[{}]\n", section);
    }
    print_setting(setting, settings, out);
  }
  for (const TenantSettings& tenant : settings.tenancy.tenants) print_tenant(tenant, out);
  if (settings.tenancy.tenants.empty()) print_example_tenant(out);
  return out;
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Headers that identify a client, one per line (Authorization, api-key, namespace): a tenant or an
// error, always the same, and a listed key never belongs to another tenant.
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "afterimage/digest.h"
#include "afterimage/result.h"
#include "foundation/crypto/sha256.h"
#include "fuzz_input.h"
#include "gateway/access/tenants.h"

using namespace afterimage;

namespace {

constexpr const char* kUnguessable = "sk-9f5c1e8a47d2b06e";

std::unique_ptr<Tenants> make_tenants(const Clock& clock) {
  Secret root{};
  root.fill(std::byte{7});
  TenancySettings tenancy;
  for (const auto& [name, key] : {std::pair<std::string, std::string>("listed", kUnguessable),
                                  std::pair<std::string, std::string>("known", "sk-known")}) {
    TenantSettings tenant;
    tenant.name = name;
    tenant.key_sha256 = {to_hex(sha256(std::as_bytes(std::span(key))))};
    tenancy.tenants.push_back(tenant);
  }
  return Tenants::create(tenancy, root, clock).value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ManualClock kClock;
  static const std::unique_ptr<Tenants> kTenants = make_tenants(kClock);
  testing::FuzzInput input(data, size);
  const auto header = [&]() -> std::optional<std::string_view> {
    if (input.empty()) return std::nullopt;
    const std::string_view value = input.until('\n');
    return value == "-" ? std::nullopt : std::optional(value);
  };
  const auto authorization = header();
  const auto api_key = header();
  const std::string_view name_space = input.until('\n');
  const auto tenant = kTenants->identify(authorization, api_key, name_space);
  if (!tenant.has_value()) {
    // The error text is one of a few constants, so that logs never contain a client's secret.
    static std::set<std::string> texts;
    texts.insert(tenant.error().message);
    AFI_CHECK(texts.size() <= 3);
    return 0;
  }
  const auto again = kTenants->identify(authorization, api_key, name_space);
  AFI_CHECK(again.has_value() && again->cache_namespace == tenant->cache_namespace &&
            again->name == tenant->name);
  AFI_CHECK(tenant->name != "listed");
  if (tenant->name == "known") {
    AFI_CHECK(authorization.value_or("").contains("sk-known") ||
              api_key.value_or("").contains("sk-known"));
  }
  const auto other = kTenants->identify(authorization, api_key, std::string(name_space) + "x");
  if (other.has_value()) AFI_CHECK(other->cache_namespace != tenant->cache_namespace);
  return 0;
}

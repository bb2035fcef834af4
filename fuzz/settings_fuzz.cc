// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes give settings or an error that names the file; printing settings round-trips, except
// for secrets and an address that needs one.
#include <cstdint>
#include <string_view>

#include "afterimage/result.h"
#include "gateway/config/settings.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto settings =
      parse_settings(std::string_view(reinterpret_cast<const char*>(data), size), "file");
  if (!settings.has_value()) {
    AFI_CHECK(settings.error().message.starts_with("file:"));
    return 0;
  }
  AFI_CHECK(needs_restart(*settings, *settings).empty());
  settings->admin.token.clear();
  settings->admin.address = "127.0.0.1";
  settings->admin.port = 0;
  for (TenantSettings& tenant : settings->tenancy.tenants) tenant.line = 0;
  auto again = parse_settings(print_settings(*settings), "printed");
  AFI_CHECK(again.has_value());
  for (TenantSettings& tenant : again->tenancy.tenants) tenant.line = 0;
  AFI_CHECK(*again == *settings);
  return 0;
}

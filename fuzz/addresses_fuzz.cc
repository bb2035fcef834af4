// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// No input may name an unlisted host, an address in a private network, or a file outside the
// allowed folder.
#include <cstdint>
#include <string_view>

#include "afterimage/result.h"
#include "gateway/access/addresses.h"
#include "gateway/config/host_pattern.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  MediaSettings settings;
  settings.hosts = {"images.example.org", "*.example.net:8080", "127.0.0.1", "[2606:4700::1]"};
  settings.folders = {"/proc/self/fdinfo"};  // exists on every machine, with few files
  if (const auto url = allowed_url(text, settings); url.has_value()) {
    AFI_CHECK(url->host == "images.example.org" || url->host.ends_with(".example.net") ||
              url->host == "2606:4700::1");
    AFI_CHECK(url->port == (url->host.ends_with("net") ? "8080" : url->tls ? "443" : "80"));
    AFI_CHECK(canonical_host(url->host).value() == url->host);
    for (const char c : url->target) AFI_CHECK(c > ' ' && c < 0x7F);
  }
  if (const auto file = allowed_file(text, settings); file.has_value()) {
    AFI_CHECK(file->starts_with("/proc/") && file->contains("/fdinfo/"));
  }
  if (const auto pattern = parse_host_pattern(text); pattern.has_value()) {
    AFI_CHECK(canonical_host(pattern->host).value() == pattern->host);
  }
  if (is_public_address(text)) AFI_CHECK(is_numeric_host(text));
  return 0;
}

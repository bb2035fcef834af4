// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Header lines "Name: value" give cache directives or an error with a message. An additional
// header never permits more reuse or storage, and the response header is one line.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "gateway/access/cache_control.h"

using namespace afterimage;

namespace {

void check_stricter(const CacheDirectives& before, const CacheDirectives& after) {
  AFI_CHECK(!before.off || after.off);
  AFI_CHECK(!before.no_store || after.no_store || (before.ttl == Duration(0)));
  AFI_CHECK(!before.only_if_cached || after.only_if_cached);
  AFI_CHECK(!before.max_age.has_value() || after.max_age.value() <= *before.max_age);
  AFI_CHECK(!before.min_fresh.has_value() || after.min_fresh.value() >= *before.min_fresh);
  AFI_CHECK(!before.ceiling.has_value() || after.ceiling.value() <= *before.ceiling);
}

void check_directives(const CacheDirectives& directives) {
  for (const auto& span : {directives.max_age, directives.min_fresh, directives.ttl}) {
    AFI_CHECK(!span.has_value() || *span >= Duration(0));
  }
  AFI_CHECK(directives.name_space.size() <= 128);
  AFI_CHECK(directives.tags.size() <= 32);
}

void check_report(std::string_view detail) {
  HttpHeaders headers;
  add_cache_headers(headers, {.outcome = CacheOutcome::kHit, .detail = std::string(detail)});
  const std::string_view status = headers.find("Cache-Status").value();
  for (const char c : status) AFI_CHECK(c >= ' ' && c < 0x7F);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  check_report(text.substr(0, 256));
  HttpHeaders headers;
  CacheDirectives before;
  while (!text.empty() && headers.size() < 64) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t colon = std::min(line.find(':'), line.size());
    headers.add(std::string(line.substr(0, colon)),
                std::string(line.substr(std::min(colon + 1, line.size()))));
    const auto after = cache_directives(headers, std::nullopt);
    if (!after.has_value()) {
      AFI_CHECK(after.error().message.starts_with("X-Afterimage-"));
      return 0;
    }
    check_directives(*after);
    check_stricter(before, *after);
    before = *after;
  }
  return 0;
}

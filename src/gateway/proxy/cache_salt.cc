// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/cache_salt.h"

#include <algorithm>
#include <array>

#include "afterimage/digest.h"
#include "afterimage/identity.h"
#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"
#include "foundation/json/json_text.h"
#include "foundation/json/json_writer.h"

namespace afterimage {
namespace {

constexpr std::size_t kSaltDigits = 32;  // 128 bits; vLLM takes up to 128 characters
constexpr std::string_view kBlanks = " \t\r\n";

/// Where the body names its `cache_salt`; absent: nowhere, or it cannot be read.
std::optional<BodySplice> place_of_salt(std::string_view body) {
  if (!body.contains(R"("cache_salt")")) return std::nullopt;
  JsonReader reader;
  const auto root = reader.read(body, /*kept_levels=*/2);
  if (!root.has_value()) return std::nullopt;
  const JsonValue salt = (*root)["cache_salt"];
  if (salt.is(JsonKind::kAbsent)) return std::nullopt;
  return BodySplice{.begin = salt.begin_offset(), .end = salt.end_offset(), .text = {}};
}

}  // namespace

std::string derived_cache_salt(const Secret& root, const TenantId& tenant,
                               std::string_view clients) {
  FieldWriter fields("afterimage/cache-salt/1");
  fields.text("client", clients);
  return to_hex(hmac_sha256(tenant_salt(root, tenant), fields.message())).substr(0, kSaltDigits);
}

std::string_view cache_salt_of(const ApiRequest& request) {
  const auto found = request.scope.other.find("/cache_salt");
  return found == request.scope.other.end() ? std::string_view() : found->second;
}

bool prefills(std::string_view path) {
  static constexpr auto kPaths = std::to_array<std::string_view>(
      {"/v1/chat/completions", "/v1/chat/completions/batch", "/v1/completions", "/v1/embeddings",
       "/v1/classify", "/v1/pooling", "/v1/rerank", "/v1/score"});
  return std::ranges::find(kPaths, path) != kPaths.end();
}

std::optional<BodySplice> cache_salt_splice(std::string_view body, std::string_view salt) {
  if (auto place = place_of_salt(body)) {
    place->text = json_string(salt);
    return place;
  }
  const std::size_t close = body.find_last_not_of(kBlanks);
  if (close == std::string_view::npos || close == 0 || body[close] != '}') return std::nullopt;
  const std::size_t last = body.find_last_not_of(kBlanks, close - 1);
  const bool is_first = last == std::string_view::npos || body[last] == '{';
  return BodySplice{
      .begin = close,
      .end = close,
      .text = (is_first ? R"("cache_salt":)" : R"(,"cache_salt":)") + json_string(salt)};
}

}  // namespace afterimage

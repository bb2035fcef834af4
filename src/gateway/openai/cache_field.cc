// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/cache_field.h"

#include <string_view>
#include <utility>

#include "foundation/json/json_fields.h"

namespace afterimage {
namespace {

Result<std::optional<double>> seconds(const JsonValue& value, std::string_view field) {
  if (value.is_none()) return std::nullopt;
  const std::optional<double> number = value.number();
  if (!number.has_value() || *number < 0)
    return wrong_field(field, "must be a number of seconds, 0 or more");
  return number;
}

}  // namespace

Result<std::optional<ApiCacheDirectives>> read_cache_field(const JsonValue& cache) {
  if (cache.is_none()) return std::nullopt;
  if (!cache.is(JsonKind::kObject)) return wrong_field("cache", "must be an object");
  ApiCacheDirectives directives;
  AFI_TRY(directives.ttl_s, seconds(cache["ttl"], "cache.ttl"));
  AFI_TRY(directives.max_age_s, seconds(cache["s-maxage"], "cache.s-maxage"));
  AFI_TRY(directives.no_cache, flag_field(cache["no-cache"], "cache.no-cache"));
  AFI_TRY(directives.no_store, flag_field(cache["no-store"], "cache.no-store"));
  const JsonValue name_space = cache["namespace"];
  if (!name_space.is_none() && !name_space.is(JsonKind::kString)) {
    return wrong_field("cache.namespace", "must be a string");
  }
  directives.name_space = name_space.text();
  return directives;
}

}  // namespace afterimage

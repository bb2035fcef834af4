// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "afterimage/clock.h"
#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "foundation/crypto/sha256.h"
#include "gateway/config/settings.h"

namespace afterimage {

/// Who asks, and what holds for them.
struct Tenant {
  std::string name;   // for people and metrics: as configured, or "key-" and 8 hex digits that say
                      // nothing about the key, or "anonymous"
  TenantId keeps_in;  // whose namespace: the tenant's own, or its group's
  std::optional<Bytes> max_bytes = std::nullopt;
  std::optional<std::uint64_t> max_entries = std::nullopt;
  std::optional<TextRung> max_match = std::nullopt;
  bool shares = false;  // others keep in the same namespace
};

/// Tells tenants apart by their API keys ("Authorization: Bearer …", or "api-key", "x-api-key").
///
/// A key is compared by its SHA-256 under the installation's secret, in constant time; keys
/// themselves are not kept. Two keys never fall together: all 256 bits stand in TenantId. Of keys
/// that are not listed nothing is remembered: however many there are, memory stays the same.
///
/// Keys     What stands after "Bearer", or the whole of Authorization if its scheme is another. An
///          empty key is none.
/// Quota    requests_per_minute refills evenly; as many as come in a minute may come at once. It
///          begins full, and again so in what is made of reloaded settings.
/// Errors   create: kInvalidArgument: an environment variable that is not set, one key of two
///          tenants. identify: kInvalidArgument: no such key, where unknown ones are refused, two
///          different keys in one request, or a key with spaces (401); kLimitExceeded: more
///          requests than its quota a minute (429), the message says when to come back.
/// Threads  Any.
class Tenants {
 public:
  static Result<std::unique_ptr<Tenants>> create(const TenancySettings& settings,
                                                 const Secret& root, const Clock& clock);
  ~Tenants();

  /// `authorization` is the header's value, `api_key` that of the other two; absent: nullopt.
  /// `name_space` is within the tenant (X-Afterimage-Namespace); empty: none.
  [[nodiscard]] Result<Tenant> identify(std::optional<std::string_view> authorization,
                                        std::optional<std::string_view> api_key,
                                        std::string_view name_space);

 private:
  struct State;
  explicit Tenants(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace afterimage

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
#include "foundation/http/headers.h"
#include "gateway/config/settings.h"

namespace afterimage {

/// The tenant of a request, and its limits.
struct Tenant {
  std::string name;  // for logs and metrics: as configured, or "key-" and 8 hex digits that reveal
                     // nothing about the key, or "anonymous"
  TenantId cache_namespace;  // cache namespace: of the tenant, or of its group
  std::string owner;         // whose that is, by name, whatever the client's namespace within it
  std::string id = {};       // of the tenant alone, whatever its group and namespace; unique
  std::optional<Bytes> max_bytes = std::nullopt;
  std::optional<std::uint64_t> max_entries = std::nullopt;
  std::optional<MatchLevel> max_match = std::nullopt;
  bool similarity = true;  // answers to similar questions
  bool shares = false;     // other tenants may use the same cache namespace
};

/// Identifies tenants by their API keys ("Authorization: Bearer …", "api-key" or "x-api-key").
///
/// Keys are compared in constant time, by an HMAC of their SHA-256 under the installation's secret;
/// keys in clear are not stored. Two keys never share a TenantId, which holds all 256 bits. Nothing
/// is stored for unlisted keys, so any number of them costs no memory.
///
/// Keys     The text after "Bearer", or the whole Authorization value for any other scheme. An
///          empty key counts as no key.
/// Quota    requests_per_minute refills evenly, with a burst of one minute's requests. A quota
///          starts full, also when settings are reloaded.
/// Errors   create: kInvalidArgument: an environment variable is not set, or two tenants have the
///          same key. identify: kInvalidArgument (answered with 401): an unknown key where those
///          are refused, two different keys in one request, or a key with spaces; kLimitExceeded
///          (429): the quota is used up, and the message says when to retry.
/// Threads  Any.
class Tenants {
 public:
  static Result<std::unique_ptr<Tenants>> create(const TenancySettings& settings,
                                                 const Secret& root, const Clock& clock);
  ~Tenants();

  /// `authorization` is the value of that header, `api_key` the value of either of the other two;
  /// nullopt if absent. `name_space` is the client's namespace within the tenant
  /// (X-Afterimage-Namespace); empty: none.
  [[nodiscard]] Result<Tenant> identify(std::optional<std::string_view> authorization,
                                        std::optional<std::string_view> api_key,
                                        std::string_view name_space);

 private:
  struct State;
  explicit Tenants(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// By the headers in which clients send their keys: Authorization, X-Api-Key, Api-Key.
[[nodiscard]] Result<Tenant> identify(Tenants& tenants, const HttpHeaders& headers,
                                      std::string_view name_space);

}  // namespace afterimage

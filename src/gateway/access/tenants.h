// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "afterimage/clock.h"
#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "foundation/crypto/sha256.h"
#include "foundation/http/headers.h"
#include "gateway/config/settings.h"
#include "gateway/keys/key_store.h"

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
  std::optional<MatchLevel> match_level = std::nullopt;
  std::string sampled = {};                    // as answers.sampled; empty: as that says
  bool similarity = true;                      // answers to similar questions
  bool shares = false;                         // other tenants may use the same cache namespace
  std::shared_ptr<Account> account = nullptr;  // nullptr: not listed, and nothing is counted
  bool key_is_ours = false;  // made here: only this gateway knows it, and may know it
  std::optional<WallTime> counted_at = std::nullopt;  // against budgets
};

/// Takes back that the request was counted against budgets: its client is to send it again because
/// the model's server failed. Call it once at most.
void uncount(const Tenant& tenant);

/// The headers in which clients send their keys.
void remove_keys(HttpHeaders& headers);

/// Why a request is not let in.
struct AccessDenied {
  AccessDenied(Error error)  // NOLINT(google-explicit-constructor): an Error is one
      : code(error.code), message(std::move(error.message)) {}

  ErrorCode code;  // kInvalidArgument: the key; kLimitExceeded: a quota or a budget
  std::string message;
  std::optional<Duration> retry_after = std::nullopt;  // when a request is allowed again
  bool is_budget = false;  // of a day or a month: trying again soon does not help
};

/// Whether a request counts against quotas and budgets.
enum class Counting : unsigned char { kCounts, kDoesNotCount };

/// Identifies tenants by their API keys ("Authorization: Bearer …", "api-key" or "x-api-key").
///
/// Keys are compared in constant time, by an HMAC of their SHA-256 under the installation's secret;
/// keys in clear are not stored. Two keys never share a TenantId, which holds all 256 bits. Nothing
/// is stored for unlisted keys, so any number of them costs no memory.
///
/// Keys     The text after "Bearer", or the whole Authorization value for any other scheme. An
///          empty key counts as no key.
/// The listed tenants are those of the settings and the keys of the KeyStore, which are tenants
/// with one key.
///
/// Quota    requests_per_minute refills evenly, with a burst of one minute's requests. A quota
///          starts full, also when settings are reloaded. Budgets (Account) go on over reloads.
///          A request that failed is taken back from budgets by uncount(); the quota bounds how often
///          a client may ask, failures included.
/// Errors   create: kInvalidArgument: an environment variable is not set, or two tenants have the
///          same name or key. identify: kInvalidArgument (answered with 401): an unknown key where
///          those are refused, a disabled one, two different keys in one request, or a key with
///          spaces; kLimitExceeded (429): the quota or a budget is used up.
/// Threads  Any.
class Tenants {
 public:
  /// `keys` outlives it; nullptr: there are no keys but those of the settings, and no budgets.
  static Result<std::unique_ptr<Tenants>> create(const TenancySettings& settings,
                                                 const Secret& root, const Clock& clock,
                                                 KeyStore* keys = nullptr);
  ~Tenants();

  /// `authorization` is the value of that header, `api_key` the value of either of the other two;
  /// nullopt if absent. `name_space` is the client's namespace within the tenant
  /// (X-Afterimage-Namespace); empty: none.
  [[nodiscard]] std::expected<Tenant, AccessDenied> identify(
      std::optional<std::string_view> authorization, std::optional<std::string_view> api_key,
      std::string_view name_space, Counting counting = Counting::kCounts);

 private:
  struct State;
  explicit Tenants(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// By the headers in which clients send their keys: Authorization, X-Api-Key, Api-Key.
[[nodiscard]] std::expected<Tenant, AccessDenied> identify(Tenants& tenants,
                                                           const HttpHeaders& headers,
                                                           std::string_view name_space,
                                                           Counting counting = Counting::kCounts);

}  // namespace afterimage

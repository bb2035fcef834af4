// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/access/tenants.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "caches/identity/fields.h"
#include "foundation/platform/environment.h"
#include "foundation/text/ascii.h"

namespace afterimage {
namespace {

using KeyDigest = std::array<std::byte, kDigestBytes>;

struct KeyDigestHash {
  std::size_t operator()(const KeyDigest& digest) const {
    std::size_t hash = 0;
    std::memcpy(&hash, digest.data(), sizeof hash);
    return hash;
  }
};

// Constant time: an attacker must not learn from timing how many bytes of a digest match.
struct KeyDigestEqual {
  bool operator()(const KeyDigest& one, const KeyDigest& other) const {
    return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
  }
};

/// hmac_sha256() of digests under one secret. It prepares the secret's two blocks once and skips
/// OpenSSL's look-ups at each call, which takes a third of the time.
class KeyBlinding {
 public:
  explicit KeyBlinding(const Secret& secret) {
    inner_.fill(std::byte{0x36});
    outer_.fill(std::byte{0x5C});
    for (std::size_t i = 0; i < secret.size(); ++i) {
      inner_[i] ^= secret[i];
      outer_[i] ^= secret[i];
    }
  }
  ~KeyBlinding() {
    OPENSSL_cleanse(inner_.data(), inner_.size());
    OPENSSL_cleanse(outer_.data(), outer_.size());
  }
  KeyBlinding(const KeyBlinding&) = delete;
  KeyBlinding& operator=(const KeyBlinding&) = delete;

  [[nodiscard]] KeyDigest operator()(const KeyDigest& digest) const {
    return hash(outer_, hash(inner_, digest));
  }

 private:
  static constexpr std::size_t kBlock = 64;  // block size of SHA-256, RFC 2104
  using Block = std::array<std::byte, kBlock>;

  static KeyDigest hash(const Block& block, const KeyDigest& digest) {
    std::array<std::byte, kBlock + kDigestBytes> message{};
    std::ranges::copy(digest, std::ranges::copy(block, message.begin()).out);
    return sha256(message);
  }

  Block inner_{};
  Block outer_{};
};

/// nullopt: not 64 hex digits. Settings from a file were checked before, others may not be.
std::optional<KeyDigest> digest_of_hex(std::string_view text) {
  KeyDigest digest{};
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    unsigned value = 0;
    if (ascii::is_digit(c)) {
      value = static_cast<unsigned>(c - '0');
    } else if (const char low = static_cast<char>(c | 0x20); low >= 'a' && low <= 'f') {
      value = static_cast<unsigned>(low - 'a') + 10;
    } else {
      return std::nullopt;
    }
    digest[i / 2] = digest[i / 2] << 4 | static_cast<std::byte>(value);
  }
  return digest;
}

// Outside these limits, nanoseconds overflow or lose their meaning.
constexpr double kMinQuota = 0.001;
constexpr double kMaxQuota = 1e9;

/// A token bucket that holds one minute's requests. Its state is a single number, the time at which
/// it would be full again (GCRA), so it needs no lock.
class Quota {
 public:
  explicit Quota(double per_minute)
      : interval_(
            std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(6e10 / per_minute)))),
        tolerance_(static_cast<std::int64_t>(std::max(0.0, std::floor(per_minute) - 1)) *
                   interval_) {}

  /// Counts the request and returns nullopt, or returns how long to wait until one is allowed.
  std::optional<Duration> take(Duration now) {
    std::int64_t full_at = full_at_.load(std::memory_order_relaxed);
    while (true) {
      const std::int64_t from = std::max<std::int64_t>(full_at, now.count());
      if (from - now.count() > tolerance_) return Duration(from - now.count() - tolerance_);
      if (full_at_.compare_exchange_weak(full_at, from + interval_, std::memory_order_relaxed)) {
        return std::nullopt;
      }
    }
  }

 private:
  const std::int64_t interval_;
  const std::int64_t tolerance_;
  std::atomic<std::int64_t> full_at_{std::numeric_limits<std::int64_t>::min()};
};

/// Injective in (kind, name, name_space): the length marks where the name ends.
TenantId tenant_id(std::string_view kind, std::string_view name, std::string_view name_space) {
  // For each request: a formatting library is too slow.
  const std::string size = std::to_string(name.size());
  std::string id;
  id.reserve(kind.size() + size.size() + name.size() + name_space.size() + 3);
  id.append(kind).append(":").append(size).append(":").append(name).append(":").append(name_space);
  return TenantId(std::move(id));
}

/// What is the same for every request of a tenant.
Tenant tenant_of(const std::string& name, const std::string& group) {
  return {.name = name,
          .cache_namespace = {},
          .owner = group.empty() ? name : group,
          .id = "tenant/" + name,
          .shares = !group.empty()};
}

struct ListedTenant : Tenant {
  explicit ListedTenant(const TenantSettings& settings)
      : Tenant(tenant_of(settings.name, settings.group)) {
    max_bytes = settings.max_bytes;
    max_entries = settings.max_entries;
    match_level = settings.match_level;
    sampled = settings.sampled;
    similarity = settings.similarity;
    if (settings.requests_per_minute.has_value()) quota.emplace(*settings.requests_per_minute);
  }
  explicit ListedTenant(const ManagedKey& key)
      : Tenant(tenant_of(key.name, key.group)), disabled(key.disabled) {
    key_is_ours = true;
  }

  bool disabled = false;
  std::optional<Quota> quota;
};

/// A key of a tenant; the one before the last rotation holds for a while.
struct ListedKey {
  ListedTenant* tenant = nullptr;
  std::optional<WallTime> until = std::nullopt;
};

std::vector<Budget> budgets_of(const std::vector<std::string>& texts) {
  std::vector<Budget> budgets;
  for (const std::string& text : texts) {
    if (const auto budget = parse_budget(text); budget.has_value()) budgets.push_back(*budget);
  }
  return budgets;
}

bool is_well_formed_key(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7F; });
}

/// The text after "Bearer", or the whole value for another scheme, whose secret is part of it.
std::string_view credential_of(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer";
  const std::size_t end = std::min(authorization.find(' '), authorization.size());
  if (ascii::lowered(authorization.substr(0, end)) != kScheme) return authorization;
  authorization.remove_prefix(end);
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
  return authorization;
}

std::unexpected<Error> refuse_key(std::string_view message) {
  return fail(ErrorCode::kInvalidArgument, std::string(message));
}

/// Empty: the request has no API key.
Result<std::string_view> key_of(std::optional<std::string_view> authorization,
                                std::optional<std::string_view> api_key) {
  const std::string_view bearer = credential_of(authorization.value_or(""));
  const std::string_view other = api_key.value_or("");
  if (!bearer.empty() && !other.empty() && bearer != other) {
    return refuse_key(
        "the request has two different API keys: send Authorization or api-key, not both");
  }
  const std::string_view key = bearer.empty() ? other : bearer;
  const bool is_bearer = authorization.has_value() && bearer.size() < authorization->size();
  if ((is_bearer || bearer.empty()) && !is_well_formed_key(key)) {
    return refuse_key("the API key contains a space or a character that is not visible ASCII");
  }
  return key;
}

}  // namespace

struct Tenants::State {
  State(const Secret& root, const Clock& clock_)
      : blinding(hmac_sha256(root, FieldWriter("afterimage.api-key.1").message())), clock(clock_) {}

  Result<void> list(const KeyDigest& key_sha256, const ListedKey& key);
  Result<void> list(const TenantSettings& settings);
  Result<void> list(const ManagedKey& key);
  void open_account(ListedTenant& tenant, const std::vector<std::string>& budgets) const;
  std::optional<AccessDenied> count(ListedTenant& tenant, WallTime now) const;
  std::expected<Tenant, AccessDenied> admit(const ListedKey& key, std::string_view name_space,
                                            Counting counting) const;

  /// The HMAC that stands for a key here: it cannot be computed without the secret.
  KeyBlinding blinding;
  const TenantId anonymous = tenant_id("anonymous", "", "");  // of clients without a key
  const Clock& clock;
  KeyStore* keys = nullptr;
  bool refuse_unknown = false;
  std::deque<ListedTenant> listed;  // a deque: they are pointed to
  std::unordered_map<KeyDigest, ListedKey, KeyDigestHash, KeyDigestEqual> by_key;
};

Result<void> Tenants::State::list(const KeyDigest& key_sha256, const ListedKey& key) {
  const auto [it, is_new] = by_key.emplace(blinding(key_sha256), key);
  if (is_new) return {};
  return refuse_key(fmt::format("tenants {} and {} have the same key, or {} lists it twice",
                                it->second.tenant->name, key.tenant->name, key.tenant->name));
}

/// After all that can fail: the account is shared with the settings that hold now.
void Tenants::State::open_account(ListedTenant& tenant,
                                  const std::vector<std::string>& budgets) const {
  if (keys == nullptr) return;
  tenant.account = keys->account(tenant.name);
  tenant.account->set_budgets(budgets_of(budgets));
}

Result<void> Tenants::State::list(const ManagedKey& key) {
  const auto same = std::ranges::find(listed, key.name, &ListedTenant::name);
  if (same != listed.end()) {
    return refuse_key(fmt::format(
        "the settings list a tenant {}, and there is a key of that name in tenancy.keys_file: "
        "rename the tenant",
        key.name));
  }
  ListedTenant& tenant = listed.emplace_back(key);
  const auto digest = digest_of_hex(key.key_sha256);
  if (digest.has_value()) AFI_TRY_VOID(list(*digest, {.tenant = &tenant}));
  const auto previous = digest_of_hex(key.previous_sha256);
  if (!previous.has_value()) return {};
  const WallTime until{Duration(std::chrono::seconds(key.previous_until_s))};
  return list(*previous, {.tenant = &tenant, .until = until});
}

Result<void> Tenants::State::list(const TenantSettings& settings) {
  const double quota = settings.requests_per_minute.value_or(1);
  if (!(quota >= kMinQuota && quota <= kMaxQuota)) {
    return refuse_key(fmt::format("tenant {}: requests_per_minute is {}, not between {} and {}",
                                  settings.name, quota, kMinQuota, kMaxQuota));
  }
  ListedTenant& tenant = listed.emplace_back(settings);
  for (const std::string& hex : settings.key_sha256) {
    const auto digest = digest_of_hex(hex);
    if (!digest.has_value()) {
      return refuse_key(fmt::format("tenant {}: key_sha256 is not 64 hex digits", tenant.name));
    }
    AFI_TRY_VOID(list(*digest, ListedKey{.tenant = &tenant}));
  }
  for (const std::string& variable : settings.key_env) {
    std::string key = environment(variable).value_or("");
    const bool usable = !key.empty() && is_well_formed_key(key);
    const KeyDigest digest = sha256(std::as_bytes(std::span(key)));
    OPENSSL_cleanse(key.data(), key.size());
    if (!usable) {
      return refuse_key(
          fmt::format("tenant {}: the environment variable {} is not set to an API key of visible "
                      "ASCII characters without spaces",
                      tenant.name, variable));
    }
    AFI_TRY_VOID(list(digest, ListedKey{.tenant = &tenant}));
  }
  return {};
}

std::optional<AccessDenied> Tenants::State::count(ListedTenant& tenant, WallTime now) const {
  const auto deny = [](std::string message, Duration wait) {
    AccessDenied denied(Error{ErrorCode::kLimitExceeded, std::move(message)});
    denied.retry_after = wait;
    return denied;
  };
  // Seconds, and the date, for waits that nobody sits out.
  const auto when = [&](Duration wait) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(wait);
    std::string text = fmt::format("in {} s", seconds.count());
    if (wait <= std::chrono::minutes(1) || keys == nullptr) return text;
    const auto at = std::chrono::ceil<std::chrono::seconds>(now + wait);
    return text + ", at " + rfc3339(at).substr(0, 19) + "Z";
  };
  if (tenant.quota.has_value()) {
    if (const auto wait = tenant.quota->take(clock.now()); wait.has_value()) {
      return deny(fmt::format("tenant {} has used up its request quota; retry {}", tenant.name,
                              when(*wait)),
                  *wait);
    }
  }
  if (tenant.account == nullptr) return std::nullopt;
  const auto exceeded = tenant.account->admit(now);
  if (!exceeded.has_value()) return std::nullopt;
  AccessDenied denied =
      deny(fmt::format("the API key {} has used up its budget of {}; it is renewed {}", tenant.name,
                       to_text(exceeded->budget), when(exceeded->wait)),
           exceeded->wait);
  denied.is_budget = exceeded->budget.window != BudgetWindow::kMinute;
  return denied;
}

std::expected<Tenant, AccessDenied> Tenants::State::admit(const ListedKey& key,
                                                          std::string_view name_space,
                                                          Counting counting) const {
  ListedTenant& tenant = *key.tenant;
  if (key.until.has_value() && keys->now() >= *key.until) {
    return refuse_key("this API key was replaced by a new one");
  }
  if (tenant.disabled) return refuse_key("this API key is disabled");
  Tenant admitted = static_cast<const Tenant&>(tenant);
  if (counting == Counting::kCounts) {
    admitted.counted_at = keys == nullptr ? WallTime() : keys->now();
    if (auto denied = count(tenant, *admitted.counted_at))
      return std::unexpected(*std::move(denied));
  }
  admitted.cache_namespace =
      tenant_id(tenant.shares ? "group" : "tenant", tenant.owner, name_space);
  return admitted;
}

Tenants::Tenants(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tenants::~Tenants() = default;

Result<std::unique_ptr<Tenants>> Tenants::create(const TenancySettings& settings,
                                                 const Secret& root, const Clock& clock,
                                                 KeyStore* keys) {
  auto state = std::make_unique<State>(root, clock);
  state->keys = keys;
  state->refuse_unknown = settings.unknown_keys != "each";
  for (const TenantSettings& tenant : settings.tenants) AFI_TRY_VOID(state->list(tenant));
  const std::vector<ManagedKey> made = keys == nullptr ? std::vector<ManagedKey>() : keys->list();
  for (const ManagedKey& key : made) AFI_TRY_VOID(state->list(key));
  for (std::size_t i = 0; i < state->listed.size(); ++i) {
    const bool of_settings = i < settings.tenants.size();
    state->open_account(state->listed[i], of_settings ? settings.tenants[i].budgets
                                                      : made[i - settings.tenants.size()].budgets);
  }
  return std::unique_ptr<Tenants>(new Tenants(std::move(state)));
}

std::expected<Tenant, AccessDenied> Tenants::identify(std::optional<std::string_view> authorization,
                                                      std::optional<std::string_view> api_key,
                                                      std::string_view name_space,
                                                      Counting counting) {
  AFI_TRY(const std::string_view key, key_of(authorization, api_key));
  if (key.empty()) {
    if (state_->refuse_unknown)
      return refuse_key("this server requires an API key: send Authorization: Bearer KEY");
    return Tenant{.name = "anonymous",
                  .cache_namespace = name_space.empty() ? state_->anonymous
                                                        : tenant_id("anonymous", "", name_space),
                  .owner = "anonymous",
                  .id = "anonymous",
                  .shares = true};
  }
  const KeyDigest digest = state_->blinding(sha256(std::as_bytes(std::span(key))));
  if (const auto it = state_->by_key.find(digest); it != state_->by_key.end()) {
    return state_->admit(it->second, name_space, counting);
  }
  if (state_->refuse_unknown) return refuse_key("this API key is unknown");
  const std::string hex = to_hex(digest);
  const std::string name = "key-" + hex.substr(0, 8);
  return Tenant{.name = name,
                .cache_namespace = tenant_id("key", hex, name_space),
                .owner = name,
                .id = "key/" + hex};
}

void uncount(const Tenant& tenant) {
  if (tenant.counted_at.has_value() && tenant.account != nullptr) {
    tenant.account->uncount(*tenant.counted_at);
  }
}

void remove_keys(HttpHeaders& headers) {
  for (const std::string_view name : {"authorization", "x-api-key", "api-key"}) {
    headers.remove(name);
  }
}

std::expected<Tenant, AccessDenied> identify(Tenants& tenants, const HttpHeaders& headers,
                                             std::string_view name_space, Counting counting) {
  // Joined: of two keys, the backend may take the other one.
  auto key = headers.joined("x-api-key");
  if (const auto other = headers.joined("api-key"); other.has_value() && other != key) {
    key = key.has_value() ? *key + ", " + *other : *other;
  }
  return tenants.identify(headers.joined("authorization"), key, name_space, counting);
}

}  // namespace afterimage

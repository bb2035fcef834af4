// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/config/settings.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "foundation/text/ascii.h"
#include "foundation/text/edit_distance.h"
#include "gateway/config/budget_setting.h"
#include "gateway/config/host_pattern.h"
#include "gateway/config/replica_setting.h"
#include "gateway/config/settings_table.h"

namespace afterimage {
namespace {

constexpr Bytes kMaxFileSize = 1_MiB;
constexpr std::size_t kLongestKey = 64;  // bytes of an unknown key that are compared
constexpr double kRounding = 1e-9;       // ten shares of 0.1 are the whole

/// The likeliest correction: a typo, or a valid key in the wrong section.
std::string_view nearest_key(std::string_view key, std::span<const std::string_view> keys) {
  key = key.substr(0, kLongestKey);
  std::string_view nearest = keys.front();
  std::size_t least = kLongestKey;
  for (const std::string_view known : keys) {
    if (least == 0) break;
    const std::size_t distance =
        std::min(edit_distance(key, known, least - 1),
                 edit_distance(leaf_of(key), leaf_of(known), least - 1) + 1);
    if (distance >= least) continue;
    least = distance;
    nearest = known;
  }
  return nearest;
}

std::vector<std::string_view> known_keys() {
  std::vector<std::string_view> keys;
  for (const auto& setting : settings_table()) keys.push_back(setting.key);
  keys.push_back(kTenantsKey);
  return keys;
}

std::vector<std::string_view> known_tenant_keys() {
  std::vector<std::string_view> keys;
  for (const auto& setting : tenant_table()) keys.push_back(setting.key);
  return keys;
}

template <typename Owner>
const Setting<Owner>* find_setting(std::span<const Setting<Owner>> table, std::string_view key) {
  const auto it = std::ranges::find(table, key, &Setting<Owner>::key);
  return it == table.end() ? nullptr : &*it;
}

/// Keys of earlier versions, and what to write instead.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kReplacedKeys{
    {{"answers.max_match", "answers.match_level takes its place"},
     {"tenancy.tenants.max_match", "match_level takes its place"},
     {"answers.assume_greedy_when_unset",
      "answers.sampled takes its place: write answers.sampled = \"replay\" instead of true, and "
      "\"off\" instead of false; unset it is \"per-requester\", which serves such requests, too"}}};

struct Problem {
  std::uint64_t line = 0;  // 0: the key is not in the file
  std::string text;
};

/// Reads a parsed TOML file and remembers the line of each key.
class SettingsReader {
 public:
  void read(const toml::table& root) { read_section(root, ""); }

  /// Records a problem at the line of `key`.
  void complain(std::string_view key, std::string_view what) {
    const auto it = lines_.find(key);
    problems_.push_back({it == lines_.end() ? 0 : it->second, fmt::format("{}: {}", key, what)});
  }
  void complain_at(std::uint64_t line, std::string_view key, std::string_view what) {
    problems_.push_back({line, fmt::format("{}: {}", key, what)});
  }

  [[nodiscard]] const Settings& settings() const { return settings_; }
  /// Sorted by line.
  [[nodiscard]] std::vector<Problem> problems() const {
    std::vector<Problem> sorted = problems_;
    std::ranges::stable_sort(sorted, {}, &Problem::line);
    return sorted;
  }

 private:
  void read_section(const toml::table& section, const std::string& prefix);
  void read_key(const std::string& key, const toml::node& node, std::uint64_t line);
  void read_tenants(const toml::node& node, std::uint64_t line);
  TenantSettings read_tenant(const toml::table& table);

  Settings settings_;
  std::map<std::string, std::uint64_t, std::less<>> lines_;
  std::vector<Problem> problems_;
};

void SettingsReader::read_section(const toml::table& section, const std::string& prefix) {
  for (const auto& [name, node] : section) {
    read_key(prefix + std::string(name.str()), node, name.source().begin.line);
  }
}

void SettingsReader::read_key(const std::string& key, const toml::node& node, std::uint64_t line) {
  lines_[key] = line;
  if (key == kTenantsKey) {
    read_tenants(node, line);
    return;
  }
  if (const auto* setting = find_setting(settings_table(), key); setting != nullptr) {
    const auto read = setting->read(node, settings_);
    if (!read.has_value()) complain(key, read.error().message);
    return;
  }
  const auto* const replaced = std::ranges::find(kReplacedKeys, std::string_view(key),
                                                 [](const auto& one) { return one.first; });
  if (replaced != kReplacedKeys.end()) return complain(key, replaced->second);
  static const std::vector<std::string_view> kKeys = known_keys();
  const bool is_section = std::ranges::count(kKeys, key, section_of) != 0;
  if (is_section && node.is_table()) {
    read_section(*node.as_table(), key + ".");
  } else if (is_section) {
    complain(key, fmt::format("this is a section: write [{}], then its keys below it", key));
  } else {
    complain(key, fmt::format("unknown key; the nearest known key is {}", nearest_key(key, kKeys)));
  }
}

void SettingsReader::read_tenants(const toml::node& node, std::uint64_t line) {
  const toml::array* tenants = node.as_array();
  const auto is_tenant = [](const toml::node& item) { return item.is_table(); };
  if (tenants == nullptr || !std::all_of(tenants->begin(), tenants->end(), is_tenant)) {
    complain_at(line, kTenantsKey,
                "write [[tenancy.tenants]] for each tenant, then its keys below it");
    return;
  }
  for (const toml::node& item : *tenants) {
    settings_.tenancy.tenants.push_back(read_tenant(*item.as_table()));
  }
}

TenantSettings SettingsReader::read_tenant(const toml::table& table) {
  static const std::vector<std::string_view> kKeys = known_tenant_keys();
  TenantSettings tenant;
  tenant.line = table.source().begin.line;
  for (const auto& [name, node] : table) {
    const std::uint64_t line = name.source().begin.line;
    const std::string key = fmt::format("{}.{}", kTenantsKey, name.str());
    if (const auto* setting = find_setting(tenant_table(), name.str()); setting != nullptr) {
      const auto read = setting->read(node, tenant);
      if (!read.has_value()) complain_at(line, key, read.error().message);
    } else if (const auto* const replaced = std::ranges::find(
                   kReplacedKeys, std::string_view(key), [](const auto& one) { return one.first; });
               replaced != kReplacedKeys.end()) {
      complain_at(line, key, replaced->second);
    } else {
      complain_at(
          line, key,
          fmt::format("unknown key; the nearest known key is {}", nearest_key(name.str(), kKeys)));
    }
  }
  for (std::string& digest : tenant.key_sha256) digest = ascii::lowered(digest);
  return tenant;
}

// Conflicts between settings that are valid one by one.

bool is_loopback(std::string_view address) {
  return address == "localhost" || address == "::1" ||
         (is_numeric_host(address) && address.starts_with("127."));
}

bool is_every_network(std::string_view address) {
  return address == "0.0.0.0" || canonical_host(address).value_or("") == "::";
}

bool share_an_address(std::string_view one, std::string_view other) {
  return canonical_host(one).value_or("") == canonical_host(other).value_or("") ||
         is_every_network(one) || is_every_network(other) ||
         (is_loopback(one) && is_loopback(other));
}

bool is_own_address(const std::string& url, const ListenSettings& listen) {
  const auto upstream = canonical_url(url);
  return upstream.has_value() && upstream->port == std::to_string(listen.port) &&
         (upstream->host == listen.address || is_loopback(upstream->host)) &&
         share_an_address(upstream->host, listen.address);
}

void check_servers(SettingsReader& reader) {
  const Settings& settings = reader.settings();
  const ListenSettings& listen = settings.listen;
  const AdminSettings& admin = settings.admin;
  if (!is_loopback(admin.address) && admin.token.empty()) {
    reader.complain(
        "admin.address",
        fmt::format("'{}' is reachable from other machines: set admin.token as well, or "
                    "write 127.0.0.1",
                    admin.address));
  }
  if (listen.port != 0 && listen.port == admin.port &&
      share_an_address(listen.address, admin.address)) {
    reader.complain("admin.port", fmt::format("{} is also listen.port: clients and operators need "
                                              "different ports",
                                              admin.port));
  }
  if (is_own_address(settings.upstream.url, listen)) {
    reader.complain("upstream.url",
                    "this server itself listens at this address: name the model server");
  }
}

void check_replicas(SettingsReader& reader) {
  const UpstreamSettings& upstream = reader.settings().upstream;
  if (!upstream.url.empty() && !upstream.replicas.empty()) {
    reader.complain("upstream.replicas",
                    "upstream.url is also set: remove it, or write it as one of the replicas");
  }
  std::set<std::string> names;
  for (const std::string& text : upstream.replicas) {
    const auto replica = parse_replica(text);
    if (!replica.has_value()) continue;
    if (is_own_address(replica->url, reader.settings().listen)) {
      reader.complain("upstream.replicas", fmt::format("this server itself listens at {}: name "
                                                       "the model servers",
                                                       replica->name));
    }
    if (!names.insert(replica->name).second) {
      reader.complain("upstream.replicas",
                      fmt::format("two replicas are named {}: give one a name=", replica->name));
    }
  }
}

void check_answers(SettingsReader& reader) {
  const Settings& settings = reader.settings();
  const AnswerSettings& answers = settings.answers;
  if (answers.ttl.has_value() && answers.max_ttl.has_value() && *answers.ttl > *answers.max_ttl) {
    reader.complain("answers.ttl", "it exceeds answers.max_ttl");
  }
  if (answers.max_answer > settings.memory.budget) {
    reader.complain("answers.max_answer", "it exceeds memory.budget");
  }
  if (settings.limits.http.body > settings.limits.http.bodies) {
    reader.complain("limits.body", "it exceeds limits.bodies, the total for all requests");
  }
}

void check_similarity(SettingsReader& reader) {
  const SimilaritySettings& similarity = reader.settings().similarity;
  if (!similarity.verifier.empty()) return;
  if (similarity.verifier_overrules_vetoes) {
    reader.complain("similarity.verifier_overrules_vetoes", "it needs similarity.verifier");
  }
  for (const auto& [key, value] :
       {std::pair("similarity.verifier_model", &similarity.verifier_model),
        std::pair("similarity.verifier_key_env", &similarity.verifier_key_env)}) {
    if (!value->empty()) reader.complain(key, "it needs similarity.verifier");
  }
}

void check_moved_media(SettingsReader& reader) {
  const Settings& settings = reader.settings();
  if (settings.moved_media.mode == "off") return;
  if (settings.moved_media.certificate.empty()) {
    reader.complain("moved_media.mode",
                    "it needs moved_media.certificate: make one with `afterimage-lab certify`");
  }
  if (settings.upstream.is_set()) {
    reader.complain("moved_media.mode", "an upstream computes: its KV is not here");
  }
}

void check_tenant(SettingsReader& reader, const TenantSettings& tenant,
                  std::map<std::string, std::string>& owners) {
  const auto complain = [&](std::string_view key, const std::string& what) {
    reader.complain_at(tenant.line, fmt::format("{}.{}", kTenantsKey, key), what);
  };
  if (tenant.name.empty()) {
    complain("name", "the tenant has no name");
    return;
  }
  if (tenant.key_sha256.empty() && tenant.key_env.empty()) {
    complain("key_sha256",
             fmt::format("tenant {} has no key: set key_sha256 or key_env", tenant.name));
  }
  if (reader.settings().tenancy.prices.empty() && has_money_budget(tenant.budgets)) {
    complain("budgets", "a budget of money needs tenancy.prices");
  }
  for (const auto* keys : {&tenant.key_sha256, &tenant.key_env}) {
    for (const std::string& key : *keys) {
      const auto [owner, is_new] = owners.emplace(key, tenant.name);
      if (is_new) continue;
      complain(keys == &tenant.key_env ? "key_env" : "key_sha256",
               fmt::format("'{}' is already a key of tenant {}", key, owner->second));
    }
  }
}

void check_tenancy(SettingsReader& reader) {
  const TenancySettings& tenancy = reader.settings().tenancy;
  double shares = 0;
  std::set<std::string> names;
  std::map<std::string, std::string> owners;
  for (const TenantSettings& tenant : tenancy.tenants) {
    check_tenant(reader, tenant, owners);
    if (!tenant.name.empty() && !names.insert(tenant.name).second) {
      reader.complain_at(tenant.line, fmt::format("{}.name", kTenantsKey),
                         fmt::format("two tenants are named {}", tenant.name));
    }
    const bool fitted = shares <= 1;
    shares += tenant.memory_share.value_or(0);
    if (fitted && shares > 1 + kRounding) {
      reader.complain_at(tenant.line, fmt::format("{}.memory_share", kTenantsKey),
                         "with it, the shares of all tenants exceed 1");
    }
  }
  if (tenancy.unknown_keys == "refuse" && tenancy.tenants.empty() && tenancy.keys_file.empty()) {
    reader.complain("tenancy.unknown_keys",
                    "without [[tenancy.tenants]] and tenancy.keys_file every request would be "
                    "refused");
  }
}

std::unexpected<Error> refuse(std::string_view file, std::span<const Problem> problems) {
  std::string message;
  for (const Problem& problem : problems) {
    if (!message.empty()) message += '\n';
    message += problem.line == 0 ? fmt::format("{}: {}", file, problem.text)
                                 : fmt::format("{}:{}: {}", file, problem.line, problem.text);
  }
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<toml::table> parse_toml(std::string_view text, std::string_view file) {
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}:{}: not valid TOML: {}", file, error.source().begin.line,
                            error.description()));
  }
}

}  // namespace

Result<Settings> parse_settings(std::string_view toml, std::string_view file) {
  if (toml.size() > kMaxFileSize.value()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the file has {} bytes; the limit for settings is {}", file,
                            toml.size(), kMaxFileSize.value()));
  }
  AFI_TRY(const toml::table root, parse_toml(toml, file));
  SettingsReader reader;
  reader.read(root);
  // A rejected value leaves its default, so a conflict with it would only be misleading.
  if (reader.problems().empty()) {
    check_servers(reader);
    check_replicas(reader);
    check_answers(reader);
    check_similarity(reader);
    check_moved_media(reader);
    check_tenancy(reader);
  }
  const auto problems = reader.problems();
  if (!problems.empty()) return refuse(file, problems);
  return reader.settings();
}

std::vector<std::string> changed_settings(const Settings& now, const Settings& next) {
  std::vector<std::string> keys;
  for (const auto& setting : settings_table()) {
    if (setting.print(now) != setting.print(next)) keys.emplace_back(setting.key);
  }
  if (now.tenancy.tenants != next.tenancy.tenants) keys.emplace_back(kTenantsKey);
  return keys;
}

std::vector<std::string> needs_restart(const Settings& now, const Settings& next) {
  std::vector<std::string> keys;
  for (const auto& setting : settings_table()) {
    if (setting.effect == TakesEffect::kAtStart && setting.print(now) != setting.print(next)) {
      keys.emplace_back(setting.key);
    }
  }
  if (memory_shares(now) != memory_shares(next)) {
    keys.push_back(fmt::format("{}.memory_share", kTenantsKey));
  }
  return keys;
}

std::map<std::string, double> memory_shares(const Settings& settings) {
  std::map<std::string, double> shares;
  for (const TenantSettings& tenant : settings.tenancy.tenants) {
    if (!tenant.memory_share.has_value()) continue;
    shares[tenant.group.empty() ? tenant.name : tenant.group] += *tenant.memory_share;
  }
  return shares;
}

}  // namespace afterimage

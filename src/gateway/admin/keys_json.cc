// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/admin/keys_json.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/proxy/durations.h"

namespace afterimage {
namespace {

using nlohmann::json;

constexpr double kNanoUnits = 1e9;
constexpr double kMaxGraceSeconds = 30.0 * 24 * 3600;

std::unexpected<Error> invalid_ask(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

json usage_json(const KeyUsage& usage) {
  return {{"requests", usage.requests},
          {"prompt_tokens", usage.prompt_tokens},
          {"output_tokens", usage.output_tokens},
          {"saved_prompt_tokens", usage.saved_prompt_tokens},
          {"saved_output_tokens", usage.saved_output_tokens},
          {"cost", static_cast<double>(usage.cost_nano) / kNanoUnits},
          {"estimated", usage.estimated}};
}

json budgets_json(const std::vector<BudgetStatus>& budgets) {
  json list = json::array();
  for (const BudgetStatus& one : budgets) {
    list.push_back({{"budget", to_text(one.budget)},
                    {"limit", one.budget.limit},
                    {"used", one.used},
                    {"renewed_in_s", seconds(one.renewed_in)},
                    {"refused", one.refused}});
  }
  return list;
}

json account_json(KeyStore& keys, const std::string& name) {
  const auto account = keys.account(name);
  return {{"usage", usage_json(account->state().total)},
          {"budgets", budgets_json(account->budgets(keys.now()))}};
}

json key_json(KeyStore& keys, const ManagedKey& key) {
  json said{{"name", key.name},
            {"group", key.group},
            {"source", "made"},
            {"disabled", key.disabled},
            {"created", key.created_s},
            {"rotated", key.rotated_s == 0 ? json() : json(key.rotated_s)},
            {"previous_until", key.previous_sha256.empty() ? json() : json(key.previous_until_s)}};
  said.update(account_json(keys, key.name));
  return said;
}

Result<std::string> text_of(const json& asked, const char* member, bool needed) {
  const auto it = asked.find(member);
  if (it == asked.end() && !needed) return std::string();
  if (it == asked.end() || !it->is_string()) {
    return invalid_ask(std::string("send a text as \"") + member + '"');
  }
  return it->get<std::string>();
}

Result<std::vector<std::string>> budgets_of(const json& asked) {
  const auto it = asked.find("budgets");
  if (it == asked.end()) return std::vector<std::string>();
  const auto is_text = [](const json& item) { return item.is_string(); };
  if (!it->is_array() || !std::ranges::all_of(*it, is_text)) {
    return invalid_ask(R"("budgets" is a list of texts such as "1000 requests/day")");
  }
  return it->get<std::vector<std::string>>();
}

/// A misspelt member must not make a key without its budget.
Result<void> knows_members(const json& asked, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : asked.items()) {
    if (std::ranges::find(known, name) == known.end()) {
      return invalid_ask("\"" + name + "\" is not known here; see docs/formats/admin.md");
    }
  }
  return {};
}

/// Without prices a budget of money would never be used up.
Result<void> check_money(Gateway& gateway, const std::vector<std::string>& budgets) {
  const bool has_prices = !gateway.config()->settings.tenancy.prices.empty();
  if (has_prices || !has_money_budget(budgets)) return {};
  return invalid_ask("a budget of money needs tenancy.prices in the settings");
}

Result<json> made_json(Gateway& gateway, const NewKey& made) {
  AFI_TRY_VOID(gateway.apply_keys());
  json said = key_json(gateway.keys(), made.key);
  said["key"] = made.secret;
  return said;
}

Result<json> make_key(Gateway& gateway, const json& asked) {
  AFI_TRY_VOID(knows_members(asked, {"name", "group", "budgets"}));
  AFI_TRY(const std::string name, text_of(asked, "name", true));
  AFI_TRY(const std::string group, text_of(asked, "group", false));
  AFI_TRY(const auto budgets, budgets_of(asked));
  AFI_TRY_VOID(check_money(gateway, budgets));
  const auto config = gateway.config();
  const auto& tenants = config->settings.tenancy.tenants;
  if (std::ranges::find(tenants, name, &TenantSettings::name) != tenants.end()) {
    return invalid_ask("the settings list a tenant '" + name + "': choose another name");
  }
  AFI_TRY(const NewKey made, gateway.keys().make(name, group, budgets));
  return made_json(gateway, made);
}

Result<json> rotate_key(Gateway& gateway, const json& asked) {
  AFI_TRY_VOID(knows_members(asked, {"name", "grace_s"}));
  AFI_TRY(const std::string name, text_of(asked, "name", true));
  const json grace = asked.value("grace_s", json(0));
  const double given = grace.is_number() ? grace.get<double>() : -1;
  if (!(given >= 0 && given <= kMaxGraceSeconds)) {
    return invalid_ask("grace_s is a number of seconds from 0 to 30 days");
  }
  const auto lasts = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(given));
  AFI_TRY(const NewKey made, gateway.keys().rotate(name, lasts));
  return made_json(gateway, made);
}

Result<json> changed_json(Gateway& gateway, const ManagedKey& key) {
  AFI_TRY_VOID(gateway.apply_keys());
  return key_json(gateway.keys(), key);
}

}  // namespace

json keys_json(Gateway& gateway) {
  KeyStore& keys = gateway.keys();
  const auto config = gateway.config();
  json list = json::array();
  for (const TenantSettings& tenant : config->settings.tenancy.tenants) {
    json said{{"name", tenant.name},      {"group", tenant.group}, {"source", "settings"},
              {"disabled", false},        {"created", nullptr},    {"rotated", nullptr},
              {"previous_until", nullptr}};
    said.update(account_json(keys, tenant.name));
    list.push_back(std::move(said));
  }
  for (const ManagedKey& key : keys.list()) list.push_back(key_json(keys, key));
  return {{"enabled", keys.is_enabled()},
          {"prices", config->settings.tenancy.prices},
          {"unknown_keys", config->settings.tenancy.unknown_keys},
          {"keys", std::move(list)}};
}

Result<json> change_keys(Gateway& gateway, std::string_view action, const json& asked) {
  if (action.empty()) return make_key(gateway, asked);
  if (action == "/rotate") return rotate_key(gateway, asked);
  if (action == "/disable" || action == "/enable") {
    AFI_TRY_VOID(knows_members(asked, {"name"}));
    AFI_TRY(const std::string name, text_of(asked, "name", true));
    AFI_TRY(const ManagedKey key, gateway.keys().set_disabled(name, action == "/disable"));
    return changed_json(gateway, key);
  }
  if (action == "/budgets") {
    AFI_TRY_VOID(knows_members(asked, {"name", "budgets"}));
    AFI_TRY(const std::string name, text_of(asked, "name", true));
    if (!asked.contains("budgets")) return invalid_ask(R"(send "budgets": […]; [] removes all)");
    AFI_TRY(const auto budgets, budgets_of(asked));
    AFI_TRY_VOID(check_money(gateway, budgets));
    AFI_TRY(const ManagedKey key, gateway.keys().set_budgets(name, budgets));
    return changed_json(gateway, key);
  }
  return fail(ErrorCode::kNotFound,
              "POST /admin/api/keys, or rotate, disable, enable or budgets below it");
}

}  // namespace afterimage

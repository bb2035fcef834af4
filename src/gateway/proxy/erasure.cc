// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/erasure.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <utility>

namespace afterimage {
namespace {

constexpr std::string_view kPrefix = "erase/";
constexpr std::string_view kEverything = "everything";

void operator+=(EraseReport& sum, const EraseReport& report) {
  sum.encoder_outputs += report.encoder_outputs;
  sum.kv_tokens += report.kv_tokens;
  sum.answers += report.answers;
  sum.stored += report.stored;
  sum.unfinished += report.unfinished;
}

/// Whether an id of the stores belongs to the owner of this name: a tenant, a group of tenants, an
/// unlisted key, or nobody in particular.
bool is_owned_by(std::string_view id, std::string_view owner, const TenancySettings& tenancy) {
  if (id == "anonymous") return owner == "anonymous";
  constexpr std::string_view kKey = "key/";
  constexpr std::string_view kTenant = "tenant/";
  if (id.starts_with(kKey)) {
    return owner.starts_with("key-") && id.substr(kKey.size()).starts_with(owner.substr(4));
  }
  if (!id.starts_with(kTenant)) return false;
  id.remove_prefix(kTenant.size());
  return id == owner || std::ranges::any_of(tenancy.tenants, [&](const TenantSettings& tenant) {
           return tenant.name == id && tenant.group == owner;
         });
}

/// The same of a tenant's name, as decisions have it.
bool is_named_or_in(std::string_view name, std::string_view owner, const TenancySettings& tenancy) {
  return name == owner || std::ranges::any_of(tenancy.tenants, [&](const TenantSettings& tenant) {
           return tenant.name == name && tenant.group == owner;
         });
}

/// Decisions do not know the tags of a request: it may have any.
bool may_be_about(const Decision& decision, const EraseTarget& target,
                  const TenancySettings& tenancy) {
  if (target.tenant.has_value()) return is_named_or_in(decision.tenant, *target.tenant, tenancy);
  if (target.model.has_value()) return decision.model == *target.model;
  if (target.made_before.has_value()) return decision.at < WallTime(*target.made_before);
  if (!target.media.has_value()) return true;
  const std::string digest = target.media->hex();
  return std::ranges::any_of(decision.media,
                             [&](const DecidedMedia& item) { return item.digest == digest; });
}

void erase_stored(Gateway& gateway, const EraseTarget& target, GatewayEraseReport& report) {
  const std::shared_ptr<const ConfigSnapshot> config = gateway.config();
  if (target.media.has_value()) {
    report.files = gateway.files().erase_content(target.media->hex());
    report.responses = gateway.stored_responses().erase_with_media();
  } else if (target.tenant.has_value() || target.everything) {
    const auto chosen = [&](std::string_view id) {
      return target.everything || is_owned_by(id, *target.tenant, config->settings.tenancy);
    };
    report.files = gateway.files().erase_tenants(chosen);
    report.responses = gateway.stored_responses().erase_tenants(chosen);
    gateway.prompts().erase_tenants(chosen);
    gateway.forget_examples(chosen);
  }
  gateway.decisions().forget_texts([&](const Decision& decision) {
    return may_be_about(decision, target, config->settings.tenancy);
  });
  // Nothing says which media, model or tag the example of a cause belongs to.
  if (!target.tenant.has_value()) gateway.forget_examples([](std::string_view) { return true; });
}

/// Of the answers that it selects; empty: all.
std::string answer_tag(const EraseTarget& target) {
  if (target.media.has_value()) return "media:" + target.media->hex();
  if (target.tenant.has_value()) return "tenant:" + *target.tenant;
  if (target.model.has_value()) return "model:" + *target.model;
  return target.tag.value_or("");
}

}  // namespace

GatewayEraseReport& GatewayEraseReport::operator+=(const GatewayEraseReport& more) {
  caches += more.caches;
  files += more.files;
  responses += more.responses;
  return *this;
}

Result<GatewayEraseReport> erase_here(Gateway& gateway, EraseTarget target, Duration timeout) {
  const GatewayDependencies& parts = gateway.parts();
  GatewayEraseReport done;
  erase_stored(gateway, target, done);
  EraseReport by_alias;
  const Settings& settings = gateway.config()->settings;
  if (!settings.upstream.is_set() && target.model == settings.engine.model) {
    AFI_TRY(by_alias, parts.reuse.erase(target, timeout));
    target.model = parts.backend.identity(*target.model).model;
  }
  AFI_TRY(done.caches, parts.reuse.erase(target, timeout));
  done.caches += by_alias;
  return done;
}

AnswerFilter answer_filter(const EraseTarget& target, const WallClock& wall) {
  AnswerFilter filter;
  filter.tag = answer_tag(target);
  if (target.made_before.has_value()) filter.older_than = wall.now() - *target.made_before;
  return filter;
}

std::string announcement(const EraseTarget& target) {
  if (target.made_before.has_value()) {
    return fmt::format("{}before:{}", kPrefix, target.made_before->time_since_epoch().count());
  }
  if (target.tag.has_value()) return fmt::format("{}tag:{}", kPrefix, *target.tag);
  const std::string tag = answer_tag(target);
  return std::string(kPrefix) + (tag.empty() ? std::string(kEverything) : tag);
}

std::optional<EraseTarget> announced(std::string_view tag) {
  if (!tag.starts_with(kPrefix)) return std::nullopt;
  tag.remove_prefix(kPrefix.size());
  if (tag == kEverything) return EraseTarget{.everything = true};
  const std::size_t colon = tag.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view kind = tag.substr(0, colon);
  const std::string name(tag.substr(colon + 1));
  if (kind == "tenant") return EraseTarget{.tenant = name};
  if (kind == "model") return EraseTarget{.model = name};
  if (kind == "tag") return EraseTarget{.tag = name};
  if (kind == "before") {
    int day = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), day);
    if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
    return EraseTarget{.made_before = std::chrono::sys_days(std::chrono::days(day))};
  }
  const auto media = ContentDigest::from_hex(name);
  if (kind != "media" || !media.has_value()) return std::nullopt;
  return EraseTarget{.media = *media};
}

}  // namespace afterimage

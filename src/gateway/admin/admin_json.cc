// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/admin/admin_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "afterimage/pressure.h"
#include "afterimage/reuse_stats.h"
#include "foundation/text/percent.h"
#include "gateway/admin/fleet_json.h"
#include "gateway/proxy/durations.h"

namespace afterimage {
namespace {

using nlohmann::json;

constexpr double kUnsafeBudget = 0.01;
constexpr std::string_view kTenantTag = "tenant:";
constexpr std::string_view kModelTag = "model:";
constexpr std::size_t kListedSteps = 50;

json optional_seconds(const std::optional<Duration>& duration) {
  return duration.has_value() ? json(seconds(*duration)) : json();
}

json latency(const Spread& spread) {
  const bool any = spread.count() > 0;
  return {{"count", spread.count()},
          {"p50", any ? json(milliseconds(spread.quantile(0.5))) : json()},
          {"p99", any ? json(milliseconds(spread.quantile(0.99))) : json()}};
}

/// What the built-in engine did not do again; null with an upstream, which does it by itself.
json encoder_json(const Backend& backend, const ReuseStats& stats) {
  if (!backend.uses_reuse()) return nullptr;
  return {{"hits", stats.encoder.hits},
          {"misses", stats.encoder.misses},
          {"loaded", stats.encoder_archive.loaded},
          {"saved_seconds", seconds(stats.encoder.encode_time_saved)}};
}

json prefix_json(const Backend& backend, const ReuseStats& stats) {
  if (!backend.uses_reuse()) return nullptr;
  return {{"hits", stats.prefix.hits},
          {"misses", stats.prefix.misses},
          {"tokens_reused", stats.prefix.tokens_reused}};
}

json memory(const ReuseStats& stats) {
  const std::string mode(stats.governed.has_value() ? to_string(stats.governed->mode) : "relaxed");
  json parts = json::array();
  const auto part = [&](std::string_view kind, Bytes bytes, std::uint64_t entries) {
    parts.push_back(
        {{"tier", "host"}, {"kind", kind}, {"bytes", bytes.value()}, {"entries", entries}});
  };
  part("answers", stats.answers.resident, stats.answers.entries.value());
  part("encoder outputs", stats.encoder.resident, stats.encoder.entries.value());
  part("kv", stats.prefix.resident, stats.prefix.segments.value());
  json shares = json::array();
  for (const TenantMemory& tenant : stats.shares) {
    shares.push_back({{"tenant", tenant.tenant},
                      {"share", tenant.share.value()},
                      {"used", tenant.used.value()}});
  }
  return {{"budget", stats.budget.value()},
          {"used", stats.used.value()},
          {"peak", stats.peak.value()},
          {"mode", mode},
          {"kv_tokens", stats.prefix.tokens},
          {"parts", parts},
          {"shares", shares}};
}

/// Steps of clients' workflows, and what was loaded for them; null: nothing is loaded for any.
json workflows_json(const Backend& backend) {
  const auto counts = backend.prefetched();
  if (!counts.has_value()) return nullptr;
  json steps = json::array();
  for (const SeenStep& step : backend.workflow_steps(kListedSteps)) {
    json next = json::array();
    for (const auto& [name, times] : step.followed_by) {
      next.push_back({{"step", name}, {"times", times}});
    }
    steps.push_back({{"tenant", step.tenant},
                     {"workflow", step.workflow},
                     {"step", step.step},
                     {"requests", step.requests},
                     {"prompt_tokens", step.prompt_tokens},
                     {"loaded", step.loaded},
                     {"next", std::move(next)}});
  }
  return {{"useful", counts->useful},       {"useless", counts->useless},
          {"nothing", counts->nothing},     {"declined", counts->declined},
          {"kv_tokens", counts->kv_tokens}, {"encoder_outputs", counts->encoder_outputs},
          {"steps", std::move(steps)}};
}

json tier_json(const NamedTier& named) {
  const TierStats stats = named.tier->stats();
  return {{"tier", named.name},
          {"entries", stats.entries.value()},
          {"bytes", stats.used.value()},
          {"capacity", stats.capacity.value()},
          {"hits", stats.hits},
          {"misses", stats.misses},
          {"puts", stats.puts},
          {"refused", stats.refused},
          {"damaged", stats.damaged},
          {"failures", stats.failures},
          {"degraded_reason", stats.degraded_reason}};
}

json levels_json(const Gateway& gateway, const ReuseStats& reuse) {
  json levels = json::array();
  for (const MatchLevel level : kMatchLevels) {
    const MatchLevelStats& of = reuse.answers.levels[static_cast<std::size_t>(level)];
    levels.push_back({{"match_level", to_string(level)},
                      {"served", of.served},
                      {"matched_not_used", of.matched_not_used},
                      {"missed", of.missed}});
  }
  if (const SimilarAnswers* const similar = gateway.parts().similar; similar != nullptr) {
    const SimilarityStats of = similar->stats().level;
    levels.push_back({{"match_level", "similarity"},
                      {"served", of.served},
                      {"matched_not_used", of.not_used},
                      {"missed", of.missed}});
  }
  return levels;
}

json tenants_json(const Gateway& gateway, std::span<const TenantCounts> counts) {
  std::map<std::string, AnswerUsage> usage;
  if (AnswerCache* const cache = gateway.parts().reuse.answer_cache(); cache != nullptr) {
    for (const AnswerUsage& one : cache->owner_usages()) usage[one.owner.text()] = one;
  }
  json tenants = json::array();
  for (const TenantCounts& one : counts) {
    const auto kept = usage.find(one.cache_namespace);
    tenants.push_back({{"name", one.name},
                       {"requests", one.requests},
                       {"hits", one.hits},
                       {"bytes", kept == usage.end() ? 0 : kept->second.kept.bytes.value()},
                       {"entries", kept == usage.end() ? 0 : kept->second.kept.entries.value()},
                       {"saved_s", seconds(one.saved)}});
  }
  return tenants;
}

std::string tagged(const AnswerEntry& entry, std::string_view prefix) {
  for (const std::string& tag : entry.tags) {
    if (tag.starts_with(prefix)) return tag.substr(prefix.size());
  }
  return "";
}

json entry_json(const AnswerEntry& entry) {
  json tags = json::array();
  for (const std::string& tag : entry.tags) {
    if (!tag.starts_with(kTenantTag) && !tag.starts_with(kModelTag)) tags.push_back(tag);
  }
  return {{"id", std::to_string(entry.id.value)},
          {"tenant", tagged(entry, kTenantTag)},
          {"model", tagged(entry, kModelTag)},
          {"question", beginning_of(entry.question)},
          {"age_s", seconds(entry.age)},
          {"ttl_s", optional_seconds(entry.left)},
          {"bytes", entry.bytes.value()},
          {"uses", entry.uses},
          {"cost_s", seconds(entry.cost)},
          {"tags", tags},
          {"pinned", entry.pinned}};
}

/// One with an invalid escape is taken as it is written.
std::string decoded(std::string_view text) {
  std::string spaced(text);
  std::ranges::replace(spaced, '+', ' ');
  return percent_decoded(spaced).value_or(spaced);
}

using Query = std::map<std::string, std::string, std::less<>>;

Query parse_query(std::string_view text) {
  Query query;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    query[decoded(pair.substr(0, equals))] =
        decoded(pair.substr(std::min(equals + 1, pair.size())));
  }
  return query;
}

Result<std::uint64_t> number(const Query& query, std::string_view name, std::uint64_t otherwise) {
  const auto it = query.find(name);
  if (it == query.end() || it->second.empty()) return otherwise;
  std::uint64_t value = 0;
  const char* const end = it->second.data() + it->second.size();
  const auto read = std::from_chars(it->second.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) {
    return fail(ErrorCode::kInvalidArgument, std::string(name) + " must be a number");
  }
  return value;
}

std::string value_of(const Query& query, std::string_view name) {
  const auto it = query.find(name);
  return it == query.end() ? "" : it->second;
}

}  // namespace

std::optional<double> upper95(std::uint64_t wrong, std::uint64_t checked) {
  if (checked == 0) return std::nullopt;
  // Wilson's interval, one-sided.
  constexpr double kZ = 1.6449;
  const auto n = static_cast<double>(checked);
  const double p = static_cast<double>(wrong) / n;
  const double middle = p + (kZ * kZ / (2 * n));
  const double half = kZ * std::sqrt((p * (1 - p) / n) + (kZ * kZ / (4 * n * n)));
  return std::min(1.0, (middle + half) / (1 + (kZ * kZ / n)));
}

double unsafe_budget() { return kUnsafeBudget; }

/// The value of the tag that the gateway itself added under this prefix.
Result<AnswerCache*> answer_cache_of(Gateway& gateway) {
  AnswerCache* const cache = gateway.parts().reuse.answer_cache();
  if (cache == nullptr)
    return fail(ErrorCode::kNotFound, "answers.enabled is false: no answers are stored");
  return cache;
}

std::string as_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json engine_json(const Gateway& gateway) {
  const Backend& backend = gateway.parts().backend;
  json engine = {{"kind", backend.kind()}, {"name", backend.name()}};
  if (const auto exactness = backend.exactness(); exactness.has_value()) {
    engine["exact"] = exactness->exact;
    engine["exactness"] = exactness->basis;
  }
  return engine;
}

/// Why requests were not answered from the cache, and what would change that.
json bypasses_json(const Counts::Snapshot& counts) {
  json bypasses = json::array();
  for (const auto& [reason, requests, repeats] : counts.bypasses) {
    bypasses.push_back({{"reason", to_string(reason)},
                        {"requests", requests},
                        {"repeats", repeats},
                        {"why", explain(reason)},
                        {"remedy", remedy(reason)}});
  }
  return bypasses;
}

/// Text is shown where the operator keeps it.
json example_json(const KeptExample& example) {
  return {
      {"before", example.text.before}, {"after", example.text.after}, {"tenant", example.tenant}};
}

/// What makes servers compute prompts again, and what would change that.
json prefix_causes_json(const Counts::Snapshot& counts) {
  constexpr std::size_t kMost = 10;
  json causes = json::array();
  for (const PrefixCauses::Cost& cost :
       std::span(counts.prefix_causes).first(std::min(kMost, counts.prefix_causes.size()))) {
    const PrefixCause& cause = cost.cause;
    json one = {{"reason", to_string(cause.reason)},
                {"requests", cost.requests},
                {"lost_tokens", cost.tokens},
                {"decision", cost.decision},
                {"remedy", remedy(cause)}};
    if (cause.reason == PromptReason::kDiverges) {
      one["part"] = to_string(cause.part);
      one["change"] = to_string(cause.change);
      one["looks"] = to_string(cause.looks);
      one["place"] = cost.place;
      if (cost.example != nullptr) one["example"] = example_json(*cost.example);
    }
    causes.push_back(std::move(one));
  }
  return causes;
}

json stats_json(Gateway& gateway, Duration uptime, std::string_view version,
                std::span<const NamedTier> tiers) {
  const Counts::Snapshot counts = gateway.counts().snapshot();
  const ReuseStats reuse = gateway.parts().reuse.stats();
  json outcomes;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < kOutcomes; ++i) {
    outcomes[std::string(to_string(static_cast<Outcome>(i)))] = counts.outcomes[i];
    total += counts.outcomes[i];
  }
  json below = json::array();
  for (const NamedTier& named : tiers) below.push_back(tier_json(named));
  const auto bound = upper95(counts.wrong, counts.compared);
  return {
      {"version", version},
      {"uptime_s", seconds(uptime)},
      {"engine", engine_json(gateway)},
      {"draining", gateway.draining()},
      {"requests",
       {{"total", total},
        {"in_flight", counts.in_flight},
        {"by_outcome", outcomes},
        {"bypasses", bypasses_json(counts)},
        {"prefix_causes", prefix_causes_json(counts)}}},
      {"match_levels", levels_json(gateway, reuse)},
      {"answers",
       {{"entries", reuse.answers.entries.value()},
        {"bytes", reuse.answers.resident.value()},
        {"insertions", reuse.answers.insertions},
        {"evictions", reuse.answers.evictions},
        {"expired", reuse.answers.expired},
        {"erased", reuse.answers.erased}}},
      {"saved",
       {{"seconds", seconds(counts.saved)},
        {"prompt_tokens", counts.saved_prompt_tokens},
        {"output_tokens", counts.saved_output_tokens}}},
      {"encoder", encoder_json(gateway.parts().backend, reuse)},
      {"prefix", prefix_json(gateway.parts().backend, reuse)},
      {"latency_ms",
       {{"hit", latency(gateway.counts().hits())}, {"miss", latency(gateway.counts().misses())}}},
      {"memory", memory(reuse)},
      {"tiers", below},
      {"workflows", workflows_json(gateway.parts().backend)},
      {"unsafe",
       {{"checked", counts.compared},
        {"wrong", counts.wrong},
        {"rate", counts.compared == 0 ? json()
                                      : json(static_cast<double>(counts.wrong) /
                                             static_cast<double>(counts.compared))},
        {"upper95", bound.has_value() ? json(*bound) : json()},
        {"budget", kUnsafeBudget}}},
      {"tenants", tenants_json(gateway, counts.tenants)}};
}

json stabilised_json(const Decision& decision) {
  json parts = json::array();
  for (const StabilisedPart& part : decision.stabilised) {
    parts.push_back({{"change", part.change}, {"place", part.place}});
  }
  return parts;
}

template <typename Value>
json or_null(const std::optional<Value>& value) {
  return value.has_value() ? json(*value) : json();
}

json prefix_json(const PromptReport& report) {
  const PromptDivergence& at = report.divergence;
  const bool loses = report.reason != PromptReason::kKept && at.loses();
  json said = {{"reason", to_string(report.reason)},
               {"blame", to_string(report.blame())},
               {"shared_bytes", at.shared_bytes},
               {"bytes", at.total_bytes},
               {"part", loses ? json(to_string(*at.part)) : json()},
               {"change", loses ? json(to_string(at.change)) : json()},
               {"offset", loses ? or_null(at.offset) : json()},
               {"looks", loses ? json(to_string(at.looks)) : json()},
               {"shared_tokens", or_null(report.shared_tokens())},
               {"tokens", or_null(report.usage.prompt_tokens)},
               {"reused_tokens", or_null(report.usage.cached_tokens)},
               {"lost_by_prompt", or_null(report.lost_by_prompt())},
               {"lost_by_server", or_null(report.lost_by_server())}};
  if (report.reason == PromptReason::kOverwritten) {
    said["later_tokens"] = or_null(report.tokens_from_start(report.overwritten_bytes));
  }
  if (report.example != nullptr) said["example"] = example_json(*report.example);
  return said;
}

json decision_json(const Decision& decision) {
  const bool is_stored = decision.stored == StoreResult::kStored;
  json said = {
      {"id", decision.id},
      {"at_ms",
       std::chrono::floor<std::chrono::milliseconds>(decision.at).time_since_epoch().count()},
      {"tenant", decision.tenant},
      {"operation", decision.operation},
      {"protocol", decision.protocol},
      {"model", decision.model},
      {"outcome", to_string(decision.outcome)},
      {"match_level", decision.level},
      {"reason", to_string(decision.reason)},
      {"stored", decision.stored.has_value() ? json(is_stored) : json()},
      {"not_stored", decision.stored.has_value() && !is_stored ? to_string(*decision.stored) : ""},
      {"miss", decision.miss.has_value() ? to_string(*decision.miss) : ""},
      {"took_ms", milliseconds(decision.took)},
      {"ignored", decision.ignored},
      {"stabilised", stabilised_json(decision)},
      {"repeats", decision.repeats},
      {"saved_ms", milliseconds(decision.saved)},
      {"status", decision.status},
      {"request_id", decision.request_id},
      {"question", decision.question}};
  if (decision.route != nullptr) said["replica"] = decision.route->replica;
  if (decision.draw != 0) said["draw"] = decision.draw;
  if (decision.prompt.has_value()) said["prefix"] = prefix_json(*decision.prompt);
  return said;
}

json similar_json(const SimilarStep& step) {
  const bool found = !step.candidate.empty();
  return {
      {"match_level", "similarity"},
      {"verdict", to_string(step.verdict)},
      {"candidate", beginning_of(step.candidate)},
      {"age_s", found ? json(seconds(step.age)) : json()},
      {"took_us", seconds(step.took) * 1e6},
      {"similarity", found ? json(step.similarity) : json()},
      {"vetoes", step.vetoes},
      {"verification", step.verification},
      {"verifier_error", beginning_of(step.verifier_error)},
      {"verifier_score", step.score.has_value() ? json(*step.score) : json()},
      {"right_at_least", step.right_at_least.has_value() ? json(*step.right_at_least) : json()}};
}

void add_explanation(json& into, const Decision& decision) {
  json levels = json::array();
  for (const MatchStep& step : decision.match_levels) {
    levels.push_back(
        {{"match_level", to_string(step.level)},
         {"verdict", to_string(step.verdict)},
         {"candidate", beginning_of(step.candidate)},
         {"age_s", step.verdict == Verdict::kMissed ? json() : json(seconds(step.age))},
         {"took_us", seconds(step.took) * 1e6}});
  }
  if (decision.similar.has_value()) levels.push_back(similar_json(*decision.similar));
  json media = json::array();
  for (const DecidedMedia& item : decision.media) {
    media.push_back({{"modality", to_string(item.modality)},
                     {"digest", item.digest},
                     {"bytes", item.bytes.value()}});
  }
  if (decision.route != nullptr) into["route"] = route_json(*decision.route);
  into["match_levels"] = std::move(levels);
  into["media"] = std::move(media);
  into["scope"] = decision.scope;
  into["why"] = decision.why;
  if (decision.miss == MissReason::kNeverSeen && decision.prompt.has_value()) {
    into["why"] = decision.why + "; " + differs_from_closest(*decision.prompt);
  }
  if (decision.stored.has_value() && decision.stored != StoreResult::kStored) {
    const std::string why = into["why"];
    into["why"] = why + (why.empty() ? "" : "; ") +
                  "the answer was not stored: " + std::string(explain(*decision.stored));
  }
}

Result<json> decisions_json(Gateway& gateway, std::string_view query) {
  const Query asked = parse_query(query);
  AFI_TRY(const std::uint64_t after, number(asked, "after", 0));
  AFI_TRY(const std::uint64_t limit, number(asked, "limit", 100));
  json list = json::array();
  for (const Decision& decision :
       gateway.decisions().list(after, std::min<std::uint64_t>(limit, 500))) {
    list.push_back(decision_json(decision));
  }
  return json{{"decisions", std::move(list)}, {"last", gateway.decisions().last()}};
}

Result<json> entries_json(Gateway& gateway, std::string_view query) {
  AFI_TRY(const AnswerCache* const cache, answer_cache_of(gateway));
  const Query asked = parse_query(query);
  AFI_TRY(std::uint64_t limit, number(asked, "limit", 100));
  limit = std::clamp<std::uint64_t>(limit, 1, 500);
  AFI_TRY(const std::uint64_t after, number(asked, "after", 0));
  AnswerFilter filter;
  filter.words = value_of(asked, "q");
  const std::string tenant = value_of(asked, "tenant");
  filter.tag = value_of(asked, "tag");
  if (filter.tag.empty() && !tenant.empty()) filter.tag = std::string(kTenantTag) + tenant;
  const auto belongs = [&](const AnswerEntry& entry) {
    return tenant.empty() || tagged(entry, kTenantTag) == tenant;
  };
  json list = json::array();
  json next;
  AnswerEntryId at{after};
  while (list.size() < limit) {
    const auto page = cache->entries(filter, limit, at);
    for (const AnswerEntry& entry : page) {
      at = entry.id;
      if (belongs(entry)) list.push_back(entry_json(entry));
      if (list.size() == limit) break;
    }
    if (page.size() < limit) break;
  }
  if (!cache->entries(filter, 1, at).empty()) next = std::to_string(at.value);
  return json{{"entries", std::move(list)},
              {"next", next},
              {"total", cache->count(filter).entries.value()}};
}

namespace {

/// Of an image {"width", "height"}, of sound {"seconds"}, of a video all three; null: unknown.
json size_json(const MediaSize& size) {
  json parts;
  if (size.width > 0) parts = {{"width", size.width}, {"height", size.height}};
  if (size.length > Duration(0)) parts["seconds"] = seconds(size.length);
  return parts;
}

}  // namespace

Result<json> media_json(Gateway& gateway, std::string_view query) {
  AFI_TRY(const std::uint64_t limit, number(parse_query(query), "limit", 100));
  Reuse& reuse = gateway.parts().reuse;
  const Duration now = reuse.clock().now();
  json list = json::array();
  for (const EncoderEntryInfo& item :
       reuse.encoder().cache().most_shared(std::clamp<std::uint64_t>(limit, 1, 500))) {
    const auto& content = item.facts.content;
    list.push_back({{"digest", content.has_value() ? json(content->hex()) : json()},
                    {"modality", to_string(item.facts.modality)},
                    {"size", size_json(item.facts.size)},
                    {"age_s", seconds(now - item.facts.stored_at.value_or(now))},
                    {"outputs", item.entries},
                    {"bytes", item.bytes.value()},
                    {"encode_s", seconds(item.facts.cost)},
                    {"uses", item.access_count},
                    {"agents", item.agents},
                    {"in_use", item.pins > 0}});
  }
  const ReuseStats stats = reuse.stats();
  return json{{"media", std::move(list)},
              {"total", stats.encoder.entries.value()},
              {"agents", stats.agents}};
}

}  // namespace afterimage

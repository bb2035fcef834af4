// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/admin/admin_actions.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <map>

#include "afterimage/identity.h"
#include "foundation/json/json_text.h"
#include "foundation/text/data_url.h"
#include "gateway/admin/admin_json.h"
#include "gateway/endpoints/endpoint_request.h"
#include "gateway/proxy/erasure.h"
#include "gateway/proxy/protocol_routes.h"

namespace afterimage {
namespace {

using nlohmann::json;

constexpr std::size_t kExamples = 5;

Result<AnswerEntryId> entry_id(const json& asked) {
  const auto it = asked.find("entry");
  std::uint64_t value = 0;
  if (it != asked.end() && it->is_string()) {
    const auto& text = it->get_ref<const std::string&>();
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    if (read.ec == std::errc() && read.ptr == end) return AnswerEntryId{value};
  }
  return fail(ErrorCode::kInvalidArgument, "\"entry\" must be an entry's id, as text");
}

Result<AnswerFilter> filter_of(const json& asked) {
  AnswerFilter filter;
  int named = 0;
  const auto tag = [&](const char* name, std::string_view prefix) -> Result<void> {
    if (!asked.contains(name)) return {};
    ++named;
    if (!asked[name].is_string() || asked[name].get_ref<const std::string&>().empty()) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("\"{}\" must be text", name));
    }
    filter.tag = std::string(prefix) + asked[name].get<std::string>();
    return {};
  };
  AFI_TRY_VOID(tag("tag", ""));
  AFI_TRY_VOID(tag("tenant", "tenant:"));
  AFI_TRY_VOID(tag("model", "model:"));
  AFI_TRY_VOID(tag("media", "media:"));
  if (asked.contains("entry")) {
    ++named;
    AFI_TRY(filter.entry, entry_id(asked));
  }
  if (asked.contains("older_than_s")) {
    ++named;
    const json& age = asked["older_than_s"];
    if (!age.is_number() || age.get<double>() < 0 || age.get<double>() > 1e9) {
      return fail(ErrorCode::kInvalidArgument, "\"older_than_s\" must be a number of seconds");
    }
    filter.older_than =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(age.get<double>()));
  }
  if (asked.contains("all")) {
    ++named;
    if (asked["all"] != true) return fail(ErrorCode::kInvalidArgument, "\"all\" must be true");
  }
  if (named != 1) {
    return fail(ErrorCode::kInvalidArgument,
                "name exactly one of entry, tag, tenant, model, media, older_than_s, all");
  }
  return filter;
}

/// "older_than_days": so many days or more, by their dates.
Result<std::chrono::sys_days> first_day(const json& days, const WallClock& wall) {
  if (!days.is_number_unsigned() || days.get<std::uint64_t>() > EntryLabels::kMaxDays) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("\"older_than_days\" must be a number of days, 0 to {}",
                            EntryLabels::kMaxDays));
  }
  return first_day_kept(std::chrono::days(days.get<int>()), wall);
}

Result<EraseTarget> erase_target_of(const json& asked, const WallClock& wall) {
  EraseTarget target;
  int named = 0;
  for (const auto& [name, value] : asked.items()) {
    ++named;
    if (name == "all") {
      if (value != true) return fail(ErrorCode::kInvalidArgument, "\"all\" must be true");
      target.everything = true;
      continue;
    }
    if (name == "older_than_days") {
      AFI_TRY(target.made_before, first_day(value, wall));
      continue;
    }
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    if (text.empty()) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("\"{}\" must be text", name));
    }
    if (name == "media") {
      AFI_TRY(target.media, ContentDigest::from_hex(text));
    } else if (name == "tenant") {
      target.tenant = text;
    } else if (name == "model") {
      target.model = text;
    } else if (name == "tag") {
      target.tag = text;
    } else {
      named = 0;
      break;
    }
  }
  if (named == 1) return target;
  return fail(ErrorCode::kInvalidArgument,
              "name exactly one of media, tenant, model, tag, older_than_days, all");
}

}  // namespace

Result<json> invalidate(Gateway& gateway, const json& asked) {
  AFI_TRY(AnswerCache* const cache, answer_cache_of(gateway));
  AFI_TRY(const AnswerFilter filter, filter_of(asked));
  const json dry = asked.value("dry_run", json(true));
  if (!dry.is_boolean()) {
    return fail(ErrorCode::kInvalidArgument, "\"dry_run\" must be true or false");
  }
  json examples = json::array();
  for (const AnswerEntry& entry : cache->entries(filter, kExamples)) {
    examples.push_back(beginning_of(entry.question));
  }
  AnswerCount count;
  if (dry.get<bool>()) {
    count = cache->count(filter);
  } else if (AnswerArchive* const archive = gateway.parts().archive; archive != nullptr) {
    AFI_TRY(count, archive->erase(filter));
  } else {
    count = cache->erase(filter);
  }
  if (!dry.get<bool>()) {
    gateway.parts().log.info("invalidated", {{"filter", as_text(asked)},
                                             {"entries", count.entries.value()},
                                             {"bytes", count.bytes.value()}});
  }
  return json{{"dry_run", dry},
              {"entries", count.entries.value()},
              {"bytes", count.bytes.value()},
              {"examples", std::move(examples)}};
}

Result<json> erase(Gateway& gateway, const json& asked) {
  const GatewayDependencies& parts = gateway.parts();
  const WallClock& wall = parts.reuse.wall_clock();
  AFI_TRY(const EraseTarget target, erase_target_of(asked, wall));
  GatewayEraseReport erased;
  // Before other gateways hear of it: they erase the same from the servers, so it is counted first. An
  // error comes again below, or is over then.
  if (parts.archive != nullptr && parts.archive->stats().shared) {
    erased = erase_here(gateway, target, Duration(0)).value_or(GatewayEraseReport());
  }
  // Recorded before the rest, and for the other gateways: an answer that is restored meanwhile is
  // refused.
  if (parts.archive != nullptr) {
    AFI_TRY_VOID(parts.archive->announce(announcement(target)));
    AFI_TRY(const AnswerCount archived, parts.archive->erase(answer_filter(target, wall)));
    erased.caches.answers += archived;
  }
  AFI_TRY(const GatewayEraseReport rest, erase_here(gateway, target));
  erased += rest;
  const EraseReport& report = erased.caches;
  json done{{"answers", report.answers.entries.value()},
            {"encoder_outputs", report.encoder_outputs.value()},
            {"kv_tokens", report.kv_tokens},
            {"stored", report.stored.value()},
            {"files", erased.files},
            {"responses", erased.responses},
            {"unfinished", rest.caches.unfinished}};
  parts.log.info("erased", {{"what", as_text(asked)}, {"removed", as_text(done)}});
  return done;
}

Result<json> report_wrong(Gateway& gateway, const json& asked) {
  const json id = asked.value("request_id", json());
  if (!id.is_string()) {
    return fail(ErrorCode::kInvalidArgument, "\"request_id\" must be a text");
  }
  AFI_TRY(const std::string level, gateway.report_wrong(id.get<std::string>(), ""));
  return json{{"request_id", id}, {"match_level", level}, {"erased", true}};
}

Result<json> pin(Gateway& gateway, const json& asked) {
  AFI_TRY(AnswerCache* const cache, answer_cache_of(gateway));
  AFI_TRY(const AnswerEntryId id, entry_id(asked));
  const json pinned = asked.value("pinned", json());
  if (!pinned.is_boolean()) {
    return fail(ErrorCode::kInvalidArgument, "\"pinned\" must be true or false");
  }
  AFI_TRY(const bool there, cache->pin(id, pinned.get<bool>()));
  if (!there) return fail(ErrorCode::kNotFound, "there is no such entry");
  return json{{"entry", asked["entry"]}, {"pinned", pinned}};
}

namespace {

/// What is explained, and at which path: the forms of answers of two paths differ.
struct ExplainedOperation {
  std::string name;
  ApiOperation operation = ApiOperation::kChat;
  std::string path = "/";
};

Result<ExplainedOperation> explained_operation(const json& asked) {
  const json name = asked.value("operation", json("chat"));
  if (!name.is_string()) return fail(ErrorCode::kInvalidArgument, "\"operation\" must be a text");
  ExplainedOperation found{.name = name.get<std::string>()};
  if (found.name == "messages" || found.name == "responses") return found;
  const json path = asked.value("path", json(default_path(found.name)));
  if (path.is_string()) found.path = path.get<std::string>();
  for (std::size_t i = 0; i < kApiOperations; ++i) {
    found.operation = static_cast<ApiOperation>(i);
    if (to_string(found.operation) != found.name) continue;
    if (!is_verbatim(found.operation) || endpoint_of(found.path) == found.operation) return found;
    return fail(ErrorCode::kInvalidArgument, "\"path\" must be one of the operation's, such as " +
                                                 std::string(default_path(found.name)));
  }
  return fail(ErrorCode::kInvalidArgument,
              "\"operation\" must be chat, completion, embedding, messages, responses, "
              "transcription, translation, rerank, score, image, image-edit or speech");
}

/// As it would be sent. json would sort the members of the request.
Result<std::string> explained_body(const json& asked, std::string_view text) {
  if (asked.contains("body_base64") && asked["body_base64"].is_string()) {
    AFI_TRY(const auto bytes, decode_base64(asked["body_base64"].get<std::string>()));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  if (!asked.contains("body") || !asked["body"].is_object()) {
    return fail(ErrorCode::kInvalidArgument,
                "\"body\" must be the request, as it would be sent; of a form, \"body_base64\"");
  }
  JsonReader reader;
  AFI_TRY(const JsonValue root, reader.read(text));
  return std::string(root["body"].source());
}

}  // namespace

Result<json> explain(Gateway& gateway, const json& asked, std::string_view text) {
  AFI_TRY(const ExplainedOperation known, explained_operation(asked));
  AFI_TRY(std::string body, explained_body(asked, text));
  HttpHeaders headers;
  const json given = asked.value("headers", json::object());
  if (!given.is_object()) {
    return fail(ErrorCode::kInvalidArgument, "\"headers\" must be an object of texts");
  }
  for (const auto& [name, value] : given.items()) {
    if (!value.is_string()) {
      return fail(ErrorCode::kInvalidArgument, "\"headers\" must be an object of texts");
    }
    headers.add(name, value.get<std::string>());
  }
  const Decision decision = gateway.explain(known.operation, std::move(body), std::move(headers),
                                            translation_for(gateway, known.name), known.path);
  json said = decision_json(decision);
  for (const char* absent : {"id", "at_ms", "status", "took_ms", "saved_ms", "request_id", "stored",
                             "not_stored", "repeats"}) {
    said.erase(absent);
  }
  add_explanation(said, decision);
  return said;
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/workload/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace afterimage {
namespace {

using Json = nlohmann::json;

constexpr Bytes kMaxWorkload = 1_GiB;
constexpr std::size_t kMaxTexts = 32;  // tags, or next steps, of a request

/// The text field `name`; `where` names its owner in messages.
Result<std::string> text_field(const Json& object, const char* name, std::string_view where) {
  const auto it = object.find(name);
  if (it == object.end()) return malformed(fmt::format("{} has no \"{}\"", where, name));
  if (!it->is_string()) {
    return malformed(fmt::format("\"{}\" of {} is {}, not text", name, where, it->type_name()));
  }
  return it->get<std::string>();
}

Result<std::string> optional_text(const Json& object, const char* name, std::string_view where) {
  if (!object.contains(name) || object.at(name).is_null()) return std::string();
  return text_field(object, name, where);
}

Result<const Json*> object_field(const Json& object, const char* name, std::string_view where) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_object()) {
    return malformed(fmt::format("{} has no object \"{}\"", where, name));
  }
  return &*it;
}

Result<Role> parse_role(const std::string& text, std::string_view where) {
  static const std::map<std::string, Role> kRoles = {{"system", Role::kSystem},
                                                     {"developer", Role::kSystem},
                                                     {"user", Role::kUser},
                                                     {"assistant", Role::kAssistant},
                                                     {"tool", Role::kTool}};
  const auto it = kRoles.find(text);
  if (it != kRoles.end()) return it->second;
  return malformed(fmt::format(
      "{} has role \"{}\"; expected system, developer, user, assistant or tool", where, text));
}

/// The parts of the message that one part of the line becomes: several for a document.
Result<std::vector<ContentPart>> parse_part(const Json& part, std::string_view where,
                                            const LoadMedia& load) {
  if (!part.is_object()) return malformed(fmt::format("{} is not an object", where));
  AFI_TRY(const std::string type, text_field(part, "type", where));
  if (type == "text") {
    AFI_TRY(std::string text, text_field(part, "text", where));
    return std::vector<ContentPart>{std::move(text)};
  }
  MediaReference reference;
  if (type == "image_url" || type == "video_url") {
    reference.modality = type == "image_url" ? Modality::kImage : Modality::kVideo;
    AFI_TRY(const Json* named, object_field(part, type.c_str(), where));
    AFI_TRY(reference.name, text_field(*named, "url", where));
    if (const auto fps = named->find("fps"); fps != named->end() && fps->is_number()) {
      reference.frames_per_second = fps->get<double>();
    }
  } else if (type == "input_audio") {
    reference.modality = Modality::kAudio;
    AFI_TRY(const Json* named, object_field(part, "input_audio", where));
    AFI_TRY(reference.name, text_field(*named, "data", where));
    AFI_TRY(reference.declared_format, optional_text(*named, "format", where));
  } else if (type == "file") {
    AFI_TRY(const Json* named, object_field(part, "file", where));
    AFI_TRY(reference.name, text_field(*named, "file_data", where));
  } else {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} is of type \"{}\"; expected text, image_url, input_audio, "
                            "video_url or file",
                            where, type));
  }
  AFI_TRY(std::vector<MediaItem> items, load(reference));
  return std::vector<ContentPart>(std::make_move_iterator(items.begin()),
                                  std::make_move_iterator(items.end()));
}

Result<Message> parse_message(const Json& json, std::size_t number, const LoadMedia& load) {
  const std::string where = fmt::format("message {}", number);
  if (!json.is_object()) return malformed(where + " is not an object");
  Message message;
  AFI_TRY(const std::string role, text_field(json, "role", where));
  AFI_TRY(message.role, parse_role(role, where));
  const auto content = json.find("content");
  // An assistant message with only tool calls has no content.
  if (content == json.end() || content->is_null()) {
    if (message.role == Role::kAssistant) return message;
    return malformed(where + " has no \"content\"");
  }
  if (content->is_string()) {
    message.parts.emplace_back(content->get<std::string>());
    return message;
  }
  if (!content->is_array()) {
    return malformed(fmt::format("\"content\" of {} is {}, not text or a list of parts", where,
                                 content->type_name()));
  }
  for (std::size_t i = 0; i < content->size(); ++i) {
    AFI_TRY(std::vector<ContentPart> parts,
            parse_part((*content)[i], fmt::format("part {} of {}", i + 1, where), load));
    std::ranges::move(parts, std::back_inserter(message.parts));
  }
  return message;
}

Result<ContinuationHint> parse_hint(const std::string& text) {
  if (text.empty()) return ContinuationHint::kNone;
  for (const auto hint : {ContinuationHint::kGoesOn, ContinuationHint::kEnds}) {
    if (text == to_string(hint)) return hint;
  }
  return malformed(fmt::format("\"conversation\" is \"{}\"; expected goes_on or ends", text));
}

Result<std::vector<std::string>> optional_texts(const Json& json, const char* name) {
  std::vector<std::string> texts;
  const auto found = json.find(name);
  if (found == json.end()) return texts;
  const bool fine = found->is_array() && found->size() <= kMaxTexts &&
                    std::ranges::all_of(*found, [](const Json& text) { return text.is_string(); });
  if (!fine) {
    return malformed(fmt::format("\"{}\" is not a list of at most {} texts", name, kMaxTexts));
  }
  for (const Json& text : *found) texts.push_back(text.get<std::string>());
  return texts;
}

Result<Json> parse_json(std::string_view line) {
  try {
    return Json::parse(line);
  } catch (const Json::exception& e) {
    return malformed(fmt::format("not JSON: {}", e.what()));
  }
}

}  // namespace

Result<Request> parse_workload_line(std::string_view line, const LoadMedia& load,
                                    std::string* expected) {
  AFI_TRY(const Json json, parse_json(line));
  if (!json.is_object()) return malformed("the line is not a JSON object");
  Request request;
  AFI_TRY(const std::string id, text_field(json, "id", "the line"));
  if (id.empty()) return malformed("\"id\" is empty");
  request.id = RequestId(id);
  AFI_TRY(request.hints.agent, optional_text(json, "agent", "the line"));
  AFI_TRY(const std::string tenant, optional_text(json, "tenant", "the line"));
  request.tenant = TenantId(tenant);
  AFI_TRY(const std::string hint, optional_text(json, "conversation", "the line"));
  AFI_TRY(request.hints.conversation, parse_hint(hint));
  AFI_TRY(request.hints.workflow.workflow, optional_text(json, "workflow", "the line"));
  AFI_TRY(request.hints.workflow.step, optional_text(json, "step", "the line"));
  AFI_TRY(request.hints.workflow.next_steps, optional_texts(json, "next_steps"));
  AFI_TRY(request.tags, optional_texts(json, "tags"));
  AFI_TRY(std::string answer, optional_text(json, "expected", "the line"));
  if (expected != nullptr) *expected = std::move(answer);
  const auto messages = json.find("messages");
  if (messages == json.end() || !messages->is_array() || messages->empty()) {
    return malformed("\"messages\" is missing, empty or not a list");
  }
  for (std::size_t i = 0; i < messages->size(); ++i) {
    AFI_TRY(Message message, parse_message((*messages)[i], i + 1, load));
    request.messages.push_back(std::move(message));
  }
  return request;
}

Result<Workload> read_workload(const std::string& path, const Files& files, const LoadMedia& load) {
  AFI_TRY(const std::vector<std::byte> content, files.read(path, kMaxWorkload));
  Workload workload;
  std::map<std::string, std::size_t> seen;
  const auto take = [&](std::size_t number, std::string_view line) {
    std::string expected;
    auto request = parse_workload_line(line, load, &expected);
    if (request.has_value()) {
      const auto [it, fresh] = seen.emplace(request->id.text(), number);
      if (!fresh) {
        request = malformed(
            fmt::format("id \"{}\" is already used on line {}", request->id.text(), it->second));
      }
    }
    if (request.has_value()) {
      if (!expected.empty()) workload.expected.emplace(request->id, std::move(expected));
      workload.requests.push_back(*std::move(request));
    } else {
      workload.rejected.push_back({.number = number, .error = request.error()});
    }
  };
  for_each_line({reinterpret_cast<const char*>(content.data()), content.size()}, take);
  return workload;
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/load/load_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <unordered_map>

#include "bench/workload/trace_lines.h"
#include "foundation/json/json_text.h"
#include "foundation/text/json_lines.h"

namespace afterimage {
namespace {

constexpr std::uint64_t kLoadVersion = 1;
constexpr std::string_view kLoadHeader = "afterimage_load";
constexpr double kLongestMs = 4e9;  // about 46 days

Result<void> check_fields(const JsonValue& object, std::initializer_list<std::string_view> known) {
  for (const JsonValue member : object) {
    if (std::ranges::find(known, member.key()) == known.end()) {
      return malformed(fmt::format("unknown field \"{}\"", member.key()));
    }
  }
  return {};
}

/// A required whole number between `least` and `most`.
Result<std::uint64_t> whole(const JsonValue& object, std::string_view name, std::uint64_t least,
                            std::uint64_t most) {
  const JsonValue value = object[name];
  if (value.is(JsonKind::kAbsent)) return malformed(fmt::format("\"{}\" is missing", name));
  const std::optional<std::uint64_t> number =
      value.is(JsonKind::kNumber) ? value.count() : std::nullopt;
  if (!number || *number < least || *number > most) {
    return malformed(
        fmt::format("\"{}\" is not a whole number between {} and {}", name, least, most));
  }
  return *number;
}

Result<std::uint32_t> small(const JsonValue& object, std::string_view name, std::uint32_t least,
                            std::uint32_t most) {
  AFI_TRY(const std::uint64_t number, whole(object, name, least, most));
  return static_cast<std::uint32_t>(number);
}

/// What lines have in common, to check them against each other.
class TraceCheck {
 public:
  Result<void> add(const LoadRequest& request) {
    if (request.at < last_) return malformed("\"at_ms\" is earlier than that of the line before");
    last_ = request.at;
    const auto [session, is_new] =
        sessions_.try_emplace(request.session, Session{.system = request.system, .turns = 0});
    if (session->second.system != request.system) {
      return malformed(fmt::format("session {} has the system prompts {} and {}", request.session,
                                   session->second.system, request.system));
    }
    if (++session->second.turns > kMostTurns) {
      return malformed(
          fmt::format("session {} has more than {} turns", request.session, kMostTurns));
    }
    for (const LoadPicture& picture : request.pictures) {
      const auto [known, added] = sides_.try_emplace(picture.id, picture.side);
      if (known->second != picture.side) {
        return malformed(fmt::format("picture {} has the sides {} and {}", picture.id,
                                     known->second, picture.side));
      }
    }
    return {};
  }

 private:
  struct Session {
    std::uint32_t system = 0;
    std::size_t turns = 0;
  };
  Duration last_{0};
  std::unordered_map<std::uint32_t, Session> sessions_;
  std::unordered_map<std::uint32_t, std::uint32_t> sides_;
};

Result<LoadTrace> read_header(const JsonValue& line) {
  if (line[kLoadHeader].is(JsonKind::kAbsent)) {
    return malformed(
        "the first line is not a header like {\"afterimage_load\":1,\"seed\":1,"
        "\"system_words\":150,\"question_words\":40,\"answer_words\":60}");
  }
  AFI_TRY(const std::uint64_t version, whole(line, kLoadHeader, 0, UINT32_MAX));
  if (version != kLoadVersion) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("version {} of the load trace format; this program reads {}", version,
                            kLoadVersion));
  }
  AFI_TRY_VOID(
      check_fields(line, {kLoadHeader, "seed", "system_words", "question_words", "answer_words"}));
  LoadTrace trace;
  AFI_TRY(trace.seed, whole(line, "seed", 0, UINT64_MAX));
  AFI_TRY(trace.system_words, small(line, "system_words", 0, kMostLoadWords));
  AFI_TRY(trace.question_words, small(line, "question_words", 1, kMostLoadWords));
  AFI_TRY(trace.answer_words, small(line, "answer_words", 0, kMostLoadWords));
  return trace;
}

Result<LoadRequest> read_request(const JsonValue& line) {
  AFI_TRY_VOID(
      check_fields(line, {"at_ms", "session", "system", "text", "max_tokens", "pictures"}));
  LoadRequest request;
  const JsonValue at = line["at_ms"];
  const double ms = at.is(JsonKind::kNumber) ? at.number().value_or(-1) : -1;
  if (!(ms >= 0 && ms <= kLongestMs)) {
    return malformed(fmt::format("\"at_ms\" is not a time between 0 and {:.0e} ms", kLongestMs));
  }
  request.at = std::chrono::microseconds(std::llround(ms * 1e3));
  AFI_TRY(request.session, small(line, "session", 0, UINT32_MAX));
  AFI_TRY(request.text, small(line, "text", 0, UINT32_MAX));
  AFI_TRY(request.max_tokens, small(line, "max_tokens", 1, kMostLoadTokens));
  if (!line["system"].is(JsonKind::kAbsent)) {
    AFI_TRY(request.system, small(line, "system", 1, UINT32_MAX));
  }
  const JsonValue pictures = line["pictures"];
  if (pictures.is(JsonKind::kAbsent)) return request;
  if (!pictures.is(JsonKind::kArray)) return malformed("\"pictures\" is not a list");
  for (const JsonValue one : pictures) {
    if (!one.is(JsonKind::kObject)) return malformed("an entry of \"pictures\" is not an object");
    AFI_TRY_VOID(check_fields(one, {"id", "side"}));
    LoadPicture picture;
    AFI_TRY(picture.id, small(one, "id", 0, UINT32_MAX));
    AFI_TRY(picture.side, small(one, "side", kLeastSide, kMostSide));
    request.pictures.push_back(picture);
  }
  if (request.pictures.size() > kMostLoadPictures) {
    return malformed(fmt::format("more than {} pictures", kMostLoadPictures));
  }
  return request;
}

Result<LoadTrace> read_lines(TraceLines& lines) {
  JsonReader reader;
  LoadTrace trace;
  TraceCheck check;
  bool headed = false;
  while (true) {
    AFI_TRY(const std::optional<std::string_view> line, lines.next());
    if (!line.has_value()) break;
    AFI_TRY(const JsonValue json, reader.read(*line));
    if (!json.is(JsonKind::kObject)) return malformed("not a JSON object");
    if (!headed) {
      AFI_TRY(trace, read_header(json));
      headed = true;
      continue;
    }
    AFI_TRY(LoadRequest request, read_request(json));
    AFI_TRY_VOID(check.add(request));
    trace.requests.push_back(std::move(request));
    if (trace.requests.size() > kMostLoadRequests) {
      return malformed(fmt::format("more than {} requests", kMostLoadRequests));
    }
  }
  if (trace.requests.empty()) return malformed("there are no requests");
  return trace;
}

}  // namespace

Result<LoadTrace> parse_load_trace(std::span<const std::byte> content) {
  TraceLines lines(content);
  auto trace = read_lines(lines);
  if (!trace.has_value()) {
    return fail(trace.error().code,
                fmt::format("line {}: {}", lines.number(), trace.error().message));
  }
  return trace;
}

std::string to_text(const LoadTrace& trace) {
  std::string out = fmt::format(
      "{{\"{}\":{},\"seed\":{},\"system_words\":{},\"question_words\":{},\"answer_words\":{}}}\n",
      kLoadHeader, kLoadVersion, trace.seed, trace.system_words, trace.question_words,
      trace.answer_words);
  for (const LoadRequest& request : trace.requests) {
    const auto us = std::chrono::round<std::chrono::microseconds>(request.at).count();
    out +=
        fmt::format("{{\"at_ms\":{}.{:03},\"session\":{},", us / 1000, us % 1000, request.session);
    if (request.system != 0) out += fmt::format("\"system\":{},", request.system);
    out += fmt::format("\"text\":{},\"max_tokens\":{}", request.text, request.max_tokens);
    for (std::size_t i = 0; i < request.pictures.size(); ++i) {
      out += fmt::format("{}{{\"id\":{},\"side\":{}}}", i == 0 ? ",\"pictures\":[" : ",",
                         request.pictures[i].id, request.pictures[i].side);
    }
    out += request.pictures.empty() ? "}\n" : "]}\n";
  }
  return out;
}

}  // namespace afterimage

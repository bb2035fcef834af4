// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/workload/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "bench/workload/trace_lines.h"
#include "foundation/platform/random.h"
#include "foundation/text/json_lines.h"

namespace afterimage {
namespace {

using Json = nlohmann::json;

constexpr Bytes kMaxFile = 4_GiB;
constexpr std::size_t kMaxRejected = 1'000;
constexpr std::uint32_t kMaxBlocks = 1U << 31U;
constexpr std::uint64_t kMaxTokens = 1U << 30U;  // of one request
constexpr std::uint64_t kMaxBlockTokens = 1U << 20U;
constexpr double kMaxMilliseconds = 4e12;  // doubles represent microseconds exactly up to here
constexpr std::uint64_t kVersion = 1;
constexpr const char* kHeaderField = "afterimage_trace";

Result<std::uint64_t> count_field(const Json& object, const char* name, std::uint64_t most) {
  const auto it = object.find(name);
  if (it == object.end()) return malformed(fmt::format("\"{}\" is missing", name));
  if (!it->is_number_unsigned()) {
    return malformed(fmt::format("\"{}\" must be a whole number of at least 0", name));
  }
  const auto value = it->get<std::uint64_t>();
  if (value > most) return malformed(fmt::format("\"{}\" is {}; at most {}", name, value, most));
  return value;
}

Result<Duration> time_field(const Json& object, const char* name, double milliseconds_per_unit) {
  const auto it = object.find(name);
  if (it == object.end()) return malformed(fmt::format("\"{}\" is missing", name));
  const double value = it->is_number() ? it->get<double>() * milliseconds_per_unit : -1;
  if (!(value >= 0 && value <= kMaxMilliseconds)) {
    return malformed(
        fmt::format("\"{}\" must be a time from 0 to {:.0e} ms", name, kMaxMilliseconds));
  }
  return std::chrono::microseconds(std::llround(value * 1e3));
}

/// The enum value named by the field `name`, or the first one if the field is absent.
template <typename Enum>
Result<Enum> named_field(const Json& object, const char* name, std::span<const Enum> known) {
  const auto it = object.find(name);
  if (it == object.end() || it->is_null()) return known.front();
  if (it->is_string()) {
    const auto& text = it->template get_ref<const std::string&>();
    for (const Enum value : known) {
      if (text == to_string(value)) return value;
    }
  }
  std::string names;
  for (const Enum value : known) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", to_string(value));
  }
  return malformed(fmt::format("\"{}\" must be one of {}", name, names));
}

constexpr TurnKind kKinds[] = {TurnKind::kUnknown, TurnKind::kHuman, TurnKind::kToolResult};
constexpr StopReason kStops[] = {StopReason::kUnknown, StopReason::kEndTurn, StopReason::kToolUse,
                                 StopReason::kOther};
constexpr ContinuationHint kHints[] = {ContinuationHint::kNone, ContinuationHint::kGoesOn,
                                       ContinuationHint::kEnds};
constexpr Modality kModalities[] = {Modality::kImage, Modality::kAudio, Modality::kVideo};

/// A media item of a line, before it has an index.
struct NamedMedia {
  TraceItem item;
  std::uint32_t offset = 0;
};

/// A parsed request with the file's own ids. Validated completely before ids are assigned, so that
/// a rejected line changes no table.
struct Line {
  TraceRequest request;
  std::vector<std::uint64_t> blocks;
  std::optional<std::uint64_t> session;           // Mooncake's and ours
  std::optional<std::int64_t> chat, parent_chat;  // Qwen's
  std::vector<NamedMedia> media;
};

Result<NamedMedia> parse_media(const Json& json, std::uint32_t input_tokens) {
  if (!json.is_object()) return malformed("an entry of \"media\" is not an object");
  NamedMedia media;
  AFI_TRY(media.item.modality, named_field<Modality>(json, "modality", kModalities));
  const auto digest = json.find("digest");
  if (digest == json.end() || !digest->is_string()) {
    return malformed("an entry of \"media\" has no \"digest\"");
  }
  AFI_TRY(media.item.content, ContentDigest::from_hex(digest->get_ref<const std::string&>()));
  AFI_TRY(const std::uint64_t offset, count_field(json, "offset", input_tokens));
  AFI_TRY(const std::uint64_t tokens, count_field(json, "tokens", input_tokens - offset));
  media.offset = static_cast<std::uint32_t>(offset);
  media.item.tokens = static_cast<std::uint32_t>(tokens);
  if (json.contains("encode_ms")) {
    AFI_TRY(media.item.encode, time_field(json, "encode_ms", 1));
  }
  return media;
}

Result<std::vector<std::uint64_t>> parse_blocks(const Json& json, std::uint64_t most) {
  const auto it = json.find("hash_ids");
  if (it == json.end() || !it->is_array())
    return malformed("\"hash_ids\" is missing or not a list");
  if (it->size() > most) {
    return malformed(fmt::format("\"hash_ids\" has {} blocks; the input has {}", it->size(), most));
  }
  std::vector<std::uint64_t> blocks;
  blocks.reserve(it->size());
  for (const Json& id : *it) {
    if (!id.is_number_unsigned())
      return malformed("an entry of \"hash_ids\" is not a whole number");
    blocks.push_back(id.get<std::uint64_t>());
  }
  return blocks;
}

Result<std::int64_t> chat_field(const Json& json, const char* name) {
  const auto it = json.find(name);
  if (it == json.end() || !it->is_number_integer()) {
    return malformed(fmt::format("\"{}\" is missing or not a whole number", name));
  }
  return it->get<std::int64_t>();
}

Result<Json> parse_object(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return malformed("not JSON");
  if (!json.is_object()) return malformed("not a JSON object");
  return json;
}

Result<Line> parse_line(const Json& json, TraceFormat format, std::uint32_t block_tokens) {
  Line line;
  TraceRequest& request = line.request;
  const bool qwen = format == TraceFormat::kQwen;
  AFI_TRY(request.at, time_field(json, "timestamp", qwen ? 1e3 : 1));
  AFI_TRY(const std::uint64_t input, count_field(json, "input_length", kMaxTokens));
  if (input == 0) return malformed("\"input_length\" is 0");
  AFI_TRY(const std::uint64_t output, count_field(json, "output_length", kMaxTokens));
  request.input_tokens = static_cast<std::uint32_t>(input);
  request.output_tokens = static_cast<std::uint32_t>(output);
  AFI_TRY(line.blocks, parse_blocks(json, (input + block_tokens - 1) / block_tokens));
  if (qwen) {
    AFI_TRY(line.chat, chat_field(json, "chat_id"));
    AFI_TRY(line.parent_chat, chat_field(json, "parent_chat_id"));
    return line;
  }
  if (json.contains("session")) {
    AFI_TRY(line.session, count_field(json, "session", std::numeric_limits<std::uint64_t>::max()));
  }
  AFI_TRY(request.kind, named_field<TurnKind>(json, "kind", kKinds));
  AFI_TRY(request.stop, named_field<StopReason>(json, "stop", kStops));
  AFI_TRY(request.hint, named_field<ContinuationHint>(json, "conversation", kHints));
  const auto media = json.find("media");
  if (media == json.end()) return line;
  if (!media->is_array()) return malformed("\"media\" is not a list");
  for (const Json& entry : *media) {
    AFI_TRY(NamedMedia one, parse_media(entry, request.input_tokens));
    if (!line.media.empty() &&
        one.offset < line.media.back().offset + line.media.back().item.tokens) {
      return malformed("\"media\" overlap or are not in order of offset");
    }
    line.media.push_back(one);
  }
  return line;
}

Result<TraceFormat> format_of(const Json& json) {
  if (json.contains(kHeaderField)) return TraceFormat::kAfterimage;
  if (json.contains("chat_id")) return TraceFormat::kQwen;
  if (json.contains("hash_ids")) return TraceFormat::kMooncake;
  return malformed(
      "line 1 has an unknown format: it has none of \"afterimage_trace\", \"chat_id\", "
      "\"hash_ids\"");
}

/// Block size of our format's header line.
Result<std::uint32_t> parse_header(const Json& json) {
  if (!json.contains(kHeaderField)) {
    return malformed("line 1 is not a header like {\"afterimage_trace\":1,\"block_tokens\":512}");
  }
  AFI_TRY(const std::uint64_t version, count_field(json, kHeaderField, UINT32_MAX));
  if (version != kVersion) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("version {} of the trace format; this program reads {}", version, kVersion));
  }
  AFI_TRY(const std::uint64_t tokens, count_field(json, "block_tokens", kMaxBlockTokens));
  if (tokens == 0) return malformed("\"block_tokens\" is 0");
  return static_cast<std::uint32_t>(tokens);
}

/// Maps the file's ids to consecutive ids.
class TraceBuilder {
 public:
  explicit TraceBuilder(std::uint32_t block_tokens) { trace_.block_tokens = block_tokens; }

  Result<void> add(Line&& line) {
    TraceRequest& request = line.request;
    std::uint32_t parent = kNoParent;
    request.blocks.reserve(line.blocks.size());
    for (const std::uint64_t id : line.blocks) {
      const auto [it, fresh] = blocks_.emplace(std::pair(parent, id), trace_.distinct_blocks);
      if (fresh && ++trace_.distinct_blocks == kMaxBlocks) {
        return fail(ErrorCode::kLimitExceeded, fmt::format("more than {} blocks", kMaxBlocks));
      }
      request.blocks.push_back(parent = it->second);
    }
    if (line.session) request.session = session_of(sessions_, *line.session);
    if (line.chat) request.session = session_of_chat(*line.chat, *line.parent_chat);
    for (const NamedMedia& media : line.media) {
      request.media.push_back({.item = item_of(media.item), .offset = media.offset});
    }
    trace_.requests.push_back(std::move(request));
    return {};
  }

  Result<void> reject(std::size_t number, Error error) {
    trace_.rejected.push_back({.number = number, .error = std::move(error)});
    if (trace_.rejected.size() <= kMaxRejected) return {};
    const RejectedLine& first = trace_.rejected.front();
    return malformed(fmt::format("more than {} lines are invalid; the first is line {}: {}",
                                 kMaxRejected, first.number, first.error.message));
  }

  Result<Trace> finish() && {
    if (trace_.requests.empty()) {
      return malformed(trace_.rejected.empty()
                           ? "the file has no requests"
                           : fmt::format("the file has no requests; line {}: {}",
                                         trace_.rejected.front().number,
                                         trace_.rejected.front().error.message));
    }
    std::ranges::stable_sort(trace_.requests, {}, &TraceRequest::at);
    return std::move(trace_);
  }

 private:
  static constexpr std::uint32_t kNoParent = kMaxBlocks;
  template <typename Key>
  using Numbers = boost::unordered_flat_map<Key, std::uint32_t>;

  template <typename Key>
  std::uint32_t session_of(Numbers<Key>& numbers, Key key) {
    const auto [it, fresh] = numbers.emplace(key, trace_.sessions);
    if (fresh) ++trace_.sessions;
    return it->second;
  }

  // A turn belongs to the session of its parent; Qwen's turns have ids of their own.
  std::uint32_t session_of_chat(std::int64_t chat, std::int64_t parent) {
    const std::uint32_t session = session_of(chats_, parent < 0 ? chat : parent);
    chats_.insert_or_assign(chat, session);
    return session;
  }

  // Equal content with another number of rows was preprocessed differently: another output.
  std::uint32_t item_of(const TraceItem& item) {
    const auto [it, fresh] = items_.emplace(std::tuple(item.content, item.modality, item.tokens),
                                            static_cast<std::uint32_t>(trace_.items.size()));
    if (fresh) trace_.items.push_back(item);
    return it->second;
  }

  Trace trace_;
  Numbers<std::pair<std::uint32_t, std::uint64_t>> blocks_;  // by parent and the file's id
  Numbers<std::uint64_t> sessions_;
  Numbers<std::int64_t> chats_;
  std::map<std::tuple<ContentDigest, Modality, std::uint32_t>, std::uint32_t> items_;
};

Result<Line> parse_text(std::string_view text, TraceFormat format, std::uint32_t block_tokens) {
  AFI_TRY(const Json json, parse_object(text));
  return parse_line(json, format, block_tokens);
}

Result<Trace> parse(std::span<const std::byte> content, TraceFormat format) {
  TraceLines lines(content);
  AFI_TRY(std::optional<std::string_view> text, lines.next());
  if (!text) return malformed("the file is empty");
  if (format == TraceFormat::kAuto) {
    AFI_TRY(const Json first, parse_object(*text));
    AFI_TRY(format, format_of(first));
  }
  std::uint32_t block_tokens = format == TraceFormat::kQwen ? 16 : 512;
  if (format == TraceFormat::kAfterimage) {
    AFI_TRY(const Json header, parse_object(*text));
    AFI_TRY(block_tokens, parse_header(header));
    AFI_TRY(text, lines.next());
  }
  TraceBuilder builder(block_tokens);
  while (text) {
    auto line = parse_text(*text, format, block_tokens);
    if (line) {
      AFI_TRY_VOID(builder.add(*std::move(line)));
    } else {
      AFI_TRY_VOID(builder.reject(lines.number(), std::move(line).error()));
    }
    AFI_TRY(text, lines.next());
  }
  return std::move(builder).finish();
}

/// Milliseconds with up to three decimals, without trailing zeros.
std::string milliseconds(Duration time) {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  std::string text = fmt::format("{}.{:03}", micros / 1000, micros % 1000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

void append_media(std::string& out, const Trace& trace, const TraceRequest& request) {
  for (const TraceMedia& media : request.media) {
    const TraceItem& item = trace.items[media.item];
    out +=
        fmt::format(R"({}{{"modality":"{}","digest":"{}","offset":{},"tokens":{},"encode_ms":{}}})",
                    &media == request.media.data() ? "" : ",", to_string(item.modality),
                    item.content.hex(), media.offset, item.tokens, milliseconds(item.encode));
  }
}

void append_request(std::string& out, const Trace& trace, const TraceRequest& request) {
  out += fmt::format(R"({{"timestamp":{},"input_length":{},"output_length":{})",
                     milliseconds(request.at), request.input_tokens, request.output_tokens);
  if (request.session != kNoSession) out += fmt::format(R"(,"session":{})", request.session);
  if (request.kind != TurnKind::kUnknown) {
    out += fmt::format(R"(,"kind":"{}")", to_string(request.kind));
  }
  if (request.stop != StopReason::kUnknown) {
    out += fmt::format(R"(,"stop":"{}")", to_string(request.stop));
  }
  if (request.hint != ContinuationHint::kNone) {
    out += fmt::format(R"(,"conversation":"{}")", to_string(request.hint));
  }
  if (!request.media.empty()) {
    out += R"(,"media":[)";
    append_media(out, trace, request);
    out += "]";
  }
  out += fmt::format(R"(,"hash_ids":[{}]}})", fmt::join(request.blocks, ","));
  out += "\n";
}

}  // namespace

std::string_view to_string(TurnKind kind) {
  switch (kind) {
    case TurnKind::kUnknown:
      break;
    case TurnKind::kHuman:
      return "human";
    case TurnKind::kToolResult:
      return "tool_result";
  }
  return "unknown";
}

std::string_view to_string(StopReason stop) {
  switch (stop) {
    case StopReason::kUnknown:
      break;
    case StopReason::kEndTurn:
      return "end_turn";
    case StopReason::kToolUse:
      return "tool_use";
    case StopReason::kOther:
      return "other";
  }
  return "unknown";
}

Result<Trace> parse_trace(std::span<const std::byte> content, const std::string& name,
                          TraceFormat format) {
  auto trace = parse(content, format);
  if (!trace) {
    return fail(trace.error().code, fmt::format("trace '{}': {}", name, trace.error().message));
  }
  return trace;
}

Result<Trace> read_trace(const Files& files, const std::string& path, TraceFormat format) {
  AFI_TRY(const std::vector<std::byte> content, files.read(path, kMaxFile));
  return parse_trace(content, path, format);
}

std::string to_text(const Trace& trace) {
  std::string out = fmt::format("{{\"{}\":{},\"block_tokens\":{}}}\n", kHeaderField, kVersion,
                                trace.block_tokens);
  for (const TraceRequest& request : trace.requests) append_request(out, trace, request);
  return out;
}

std::vector<bool> continuation_hints(const Trace& trace, double error, std::uint64_t seed) {
  const std::size_t requests = trace.requests.size();
  std::vector<std::size_t> shared(requests);  // by request: first blocks that earlier ones had
  std::vector<bool> in_earlier(trace.distinct_blocks);
  for (std::size_t i = 0; i < requests; ++i) {
    const std::vector<std::uint32_t>& blocks = trace.requests[i].blocks;
    while (shared[i] < blocks.size() && in_earlier[blocks[shared[i]]]) ++shared[i];
    for (const std::uint32_t block : blocks) in_earlier[block] = true;
  }
  std::vector<bool> hints(requests);
  std::vector<bool> in_later(trace.distinct_blocks);
  for (std::size_t i = requests; i-- > 0;) {
    const TraceRequest& request = trace.requests[i];
    const std::size_t full =
        std::min<std::size_t>(request.blocks.size(), request.input_tokens / trace.block_tokens);
    hints[i] = full > 0 && in_later[request.blocks[std::min(shared[i], full - 1)]];
    for (const std::uint32_t block : request.blocks) in_later[block] = true;
  }
  Rng rng(seed);
  for (std::size_t i = 0; i < hints.size(); ++i) hints[i] = hints[i] != rng.chance(error);
  return hints;
}

}  // namespace afterimage

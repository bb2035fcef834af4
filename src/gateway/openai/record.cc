// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/record.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "afterimage/result.h"
#include "foundation/json/json_text.h"
#include "foundation/platform/made_once.h"
#include "foundation/text/ascii.h"
#include "gateway/openai/content_address.h"
#include "gateway/openai/record_format.h"
#include "gateway/openai/whole_events.h"

namespace afterimage {
namespace {

std::unexpected<Error> no_answer(std::string_view why) {
  return fail(ErrorCode::kInvalidArgument, "the response cannot be cached: " + std::string(why));
}

/// The id and creation time that replace the placeholders.
struct Filling {
  explicit Filling(const ResponseStamp& stamp) : created(std::to_string(stamp.created)) {
    append_json_string(id, stamp.id);
  }
  std::string id;
  std::string created;
};

/// By searching: there are few in a long text.
std::size_t count_of(std::string_view text, char placeholder) {
  std::size_t count = 0;
  for (std::size_t at = text.find(placeholder); at != std::string_view::npos;
       at = text.find(placeholder, at + 1)) {
    ++count;
  }
  return count;
}

void append_filled(std::string& out, std::string_view text, const Filling& filling) {
  std::size_t id = text.find(kIdPlaceholder);
  std::size_t created = text.find(kCreatedPlaceholder);
  while (id != std::string_view::npos || created != std::string_view::npos) {
    const bool is_id = id < created;
    const std::size_t gap = is_id ? id : created;
    out.append(text, 0, gap).append(is_id ? filling.id : filling.created);
    text.remove_prefix(gap + 1);
    id = is_id || id == std::string_view::npos ? std::string_view::npos : id - gap - 1;
    created =
        !is_id || created == std::string_view::npos ? std::string_view::npos : created - gap - 1;
  }
  out.append(text);
}

Result<void> read_choice(const JsonValue& choice, const RecordParts& parts) {
  if (choice["finish_reason"].text().empty()) return no_answer("a choice has no finish reason");
  if (parts.operation == ApiOperation::kChat && !choice["message"].is(JsonKind::kObject)) {
    return no_answer("a choice has no message");
  }
  if (parts.operation == ApiOperation::kCompletion && !choice["text"].is(JsonKind::kString)) {
    return no_answer("a choice has no text");
  }
  return {};
}

Result<void> read_choices(const JsonValue& choices, RecordParts& parts) {
  if (!choices.is(JsonKind::kArray) || choices.is_empty()) return no_answer("it has no choices");
  RecordFacts& facts = parts.facts;
  for (const JsonValue choice : choices) {
    AFI_TRY_VOID(read_choice(choice, parts));
    const JsonValue message = choice["message"];
    if (facts.finish_reason == "stop") facts.finish_reason = choice["finish_reason"].text();
    facts.calls_tools = facts.calls_tools || !message["tool_calls"].is_empty() ||
                        !message["function_call"].is_none();
  }
  return {};
}

Result<RecordParts> read_whole(ApiOperation operation, std::string_view json) {
  constexpr unsigned kLevelsOfVectors = 2;  // do not parse the many numbers of a vector
  const bool is_embedding = operation == ApiOperation::kEmbedding;
  JsonReader reader;
  const auto root = is_embedding ? reader.read(json, kLevelsOfVectors) : reader.read(json);
  if (!root.has_value()) return no_answer(root.error().message);
  if (!root->is(JsonKind::kObject)) return no_answer("it is not a JSON object");
  if (!(*root)["error"].is_none()) return no_answer("it reports an error");

  RecordParts parts{.operation = operation, .whole = with_placeholders(*root), .has_body = true};
  parts.facts.finish_reason = "stop";
  parts.facts.model = (*root)["model"].text();
  parts.facts.prompt_tokens = (*root)["usage"]["prompt_tokens"].count_or_zero();
  parts.facts.output_tokens = (*root)["usage"]["completion_tokens"].count_or_zero();
  if (is_embedding) {
    const JsonValue data = (*root)["data"];
    if (!data.is(JsonKind::kArray) || data.is_empty()) return no_answer("it has no data");
    return parts;
  }
  AFI_TRY_VOID(read_choices((*root)["choices"], parts));
  parts.can_be_streamed = has_event_stream(operation, *root);
  parts.can_stream_usage = parts.can_be_streamed && (*root)["usage"].is(JsonKind::kObject);
  return parts;
}

bool is_json(std::string_view content_type) {
  const std::string type = ascii::lowered(content_type.substr(0, content_type.find(';')));
  return ascii::trimmed(type) == "application/json";
}

/// A picture that lies on the server: at OpenAI for an hour.
bool names_pictures(const JsonValue& root) {
  for (const JsonValue picture : root["data"]) {
    if (is_address(picture["url"].text())) return true;
  }
  return false;
}

/// Of an answer that is kept as it came. An array is text-embeddings-inference's.
Result<void> read_json_facts(std::string_view json, RecordParts& parts) {
  RecordFacts& facts = parts.facts;
  constexpr unsigned kLevelsOfFacts = 3;
  JsonReader reader;
  const auto root = reader.read(json, kLevelsOfFacts);
  if (!root.has_value()) return no_answer(root.error().message);
  if (!root->is(JsonKind::kObject) && !root->is(JsonKind::kArray)) {
    return no_answer("it is neither a JSON object nor an array");
  }
  if (!(*root)["error"].is_none() || (*root)["object"].text() == "error") {
    return no_answer("it reports an error");
  }
  const bool has_pictures =
      parts.operation == ApiOperation::kImage || parts.operation == ApiOperation::kImageEdit;
  if (has_pictures && names_pictures(*root)) {
    return fail(ErrorCode::kUnsupported, "it names a picture by an address, where it will be gone");
  }
  facts.model = (*root)["model"].text();
  const JsonValue usage = (*root)["usage"];
  const auto count = [&](std::string_view one, std::string_view other) {
    return std::max(usage[one].count_or_zero(), usage[other].count_or_zero());
  };
  facts.prompt_tokens = count("prompt_tokens", "input_tokens");
  facts.output_tokens = count("completion_tokens", "output_tokens");
  return {};
}

std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

struct ApiRecord::Content {
  explicit Content(std::shared_ptr<const std::string> of) : bytes(std::move(of)) {}

  std::shared_ptr<const std::string> bytes;
  RecordView view;  // of the bytes

  /// How often the whole has each placeholder. It is read for that once, and not for each reader.
  struct Placeholders {
    std::size_t ids = 0;
    std::size_t created = 0;
  };
  [[nodiscard]] const Placeholders& placeholders() const {
    return in_whole.get([this] {
      return Placeholders{.ids = count_of(view.whole, kIdPlaceholder),
                          .created = count_of(view.whole, kCreatedPlaceholder)};
    });
  }

  /// What holds the events. They are made of the whole when they are first asked for: few clients that
  /// ask for a stream get the answer of one that did not. nullptr: there are none.
  [[nodiscard]] const Content* with_events() const {
    if (!view.can_be_streamed) return nullptr;
    if (view.event_count > 0) return this;
    return made.get([this] { return make_events(); }).get();
  }

 private:
  /// nullptr: the whole is not what it was when the record was made.
  [[nodiscard]] std::unique_ptr<const Content> make_events() const {
    std::string whole;
    append_filled(whole, view.whole, Filling({.id = "-", .created = 1}));  // placeholders again
    JsonReader reader;
    const auto root = reader.read(whole);
    if (!root.has_value()) return nullptr;
    RecordParts parts{.operation = view.operation};
    if (!read_choices((*root)["choices"], parts).has_value()) return nullptr;
    if (!has_event_stream(view.operation, *root)) return nullptr;
    add_events_of_whole(*root, parts);
    auto content = std::make_unique<Content>(std::make_shared<const std::string>(encode(parts)));
    content->view = decode(*content->bytes).value();
    return content;
  }

  MadeOnce<Placeholders> in_whole;
  MadeOnce<std::unique_ptr<const Content>> made;
};

Result<ApiRecord> ApiRecord::of_bytes(std::shared_ptr<const std::string> bytes) {
  auto content = std::make_shared<Content>(std::move(bytes));
  AFI_TRY(content->view, decode(*content->bytes));
  return ApiRecord(std::move(content));
}

Result<ApiRecord> ApiRecord::of_body(ApiOperation operation, std::string_view json) {
  AFI_TRY(const RecordParts parts, read_whole(operation, json));
  return of_bytes(std::make_shared<const std::string>(encode(parts)));
}

Result<ApiRecord> ApiRecord::of_response(ApiOperation operation, std::string_view content_type,
                                         std::string_view bytes) {
  AFI_CHECK(is_verbatim(operation));
  if (bytes.empty()) return no_answer("it is empty");
  if (content_type.empty()) return no_answer("it has no content type");
  RecordParts parts{.operation = operation, .whole = std::string(bytes), .has_body = true};
  parts.content_type = content_type;
  parts.facts.finish_reason = "stop";
  if (is_json(content_type)) AFI_TRY_VOID(read_json_facts(bytes, parts));
  return of_bytes(std::make_shared<const std::string>(encode(parts)));
}

Result<ApiRecord> ApiRecord::parse(std::string_view bytes) {
  return of_bytes(std::make_shared<const std::string>(bytes));
}

const std::string& ApiRecord::serialize() const { return *content_->bytes; }
Bytes ApiRecord::size() const { return Bytes(content_->bytes->size()); }

bool ApiRecord::has_body() const { return content_->view.has_body; }

bool ApiRecord::can_be_streamed(bool include_usage) const {
  const Content* const content = content_->with_events();
  return content != nullptr && (!include_usage || content->view.can_stream_usage);
}

/// The parts of what is yet to be given: of a body one with placeholders, of an event three without.
struct RecordText::State {
  State(std::shared_ptr<const ApiRecord::Content> its, const ResponseStamp& stamp)
      : content(std::move(its)), filling(stamp) {}

  void begin_body() {
    std::string_view& whole = parts[0];
    whole = content->view.whole;
    is_body = true;
    size = whole.size();
    is_as_sent = is_verbatim(content->view.operation);
    if (is_as_sent) return;
    const auto& [ids, created] = content->placeholders();
    size += ids * (filling.id.size() - 1) + created * (filling.created.size() - 1);
  }
  void begin_events(bool include_usage) {
    const RecordView& view = content->with_events()->view;
    says_usage = include_usage;
    for (const RecordView::Frame& of : view.frames) {
      Frame& frame = frames.emplace_back();
      frame.before = "data: ";
      append_filled(frame.before, of.before, filling);
      append_filled(frame.after, of.after, filling);
      frame.after.append("\n\n");
    }
    size = kEnd.size();
    events = view.events;
    left = view.event_count;
    while (next_event()) {
      for (const std::string_view part : parts) size += part.size();
    }
    events = view.events;
    left = view.event_count;
    parts = {};
  }
  /// False: there are no more; then the end of the stream is the last part.
  bool next_event() {
    while (left > 0) {
      --left;
      const EventView event = take_event(events);
      if (event.is_usage && !says_usage) continue;
      const Frame& frame = frames[event.frame];
      parts = {frame.before, event.inner, frame.after};
      return true;
    }
    return false;
  }
  /// Empty: that was all.
  std::string_view take(std::size_t most) {
    while (true) {
      for (std::string_view& part : parts) {
        if (part.empty()) continue;
        const std::string_view taken = part.substr(0, most);
        part.remove_prefix(taken.size());
        return taken;
      }
      if (is_body || (!next_event() && std::exchange(ended, true))) return {};
      if (ended) parts = {kEnd, {}, {}};
    }
  }

  static constexpr std::string_view kEnd = "data: [DONE]\n\n";
  struct Frame {
    std::string before;
    std::string after;
  };
  std::shared_ptr<const ApiRecord::Content> content;
  Filling filling;
  bool is_body = false;
  bool is_as_sent = false;  // a body without placeholders
  bool says_usage = false;
  std::vector<Frame> frames;
  std::string_view events;
  std::uint32_t left = 0;  // events
  bool ended = false;      // the last of them was taken
  std::array<std::string_view, 3> parts;
  std::size_t size = 0;
  std::size_t given = 0;
};

RecordText::RecordText(std::unique_ptr<State> state) : state_(std::move(state)) {}
RecordText::~RecordText() = default;
RecordText::RecordText(RecordText&&) noexcept = default;
RecordText& RecordText::operator=(RecordText&&) noexcept = default;

std::size_t RecordText::size() const { return state_->size; }

std::string RecordText::next(std::size_t most) {
  State& state = *state_;
  std::string text;
  text.reserve(std::min(most, state.size - state.given));
  while (text.size() < most) {
    // A placeholder is one byte, and what it stands for some tens.
    const std::string_view part = state.take(most - text.size());
    if (part.empty()) break;
    if (state.is_body && !state.is_as_sent) {
      append_filled(text, part, state.filling);
    } else {
      text.append(part);
    }
  }
  state.given += text.size();
  return text;
}

RecordText ApiRecord::body_text(const ResponseStamp& stamp) const {
  AFI_CHECK(has_body());
  auto state = std::make_unique<RecordText::State>(content_, stamp);
  state->begin_body();
  return RecordText(std::move(state));
}

RecordText ApiRecord::events_text(const ResponseStamp& stamp, bool include_usage) const {
  AFI_CHECK(can_be_streamed(include_usage));
  auto state = std::make_unique<RecordText::State>(content_, stamp);
  state->begin_events(include_usage);
  return RecordText(std::move(state));
}

std::string ApiRecord::body(const ResponseStamp& stamp, std::string_view members) const {
  RecordText text = body_text(stamp);
  std::string body = text.next(text.size());
  return members.empty() ? body : body.insert(body.size() - 1, members);  // before the last brace
}

std::string ApiRecord::events(const ResponseStamp& stamp, bool include_usage) const {
  RecordText text = events_text(stamp, include_usage);
  return text.next(text.size());
}

ApiRecord SharedRecords::share(ApiRecord record) {
  const std::string& bytes = *record.content_->bytes;
  if (bytes.size() < kLeast) return record;
  const std::size_t hash = std::hash<std::string>()(bytes);
  const MutexLock lock(mutex_);
  std::erase_if(records_, [](const auto& known) { return known.second.expired(); });
  const auto [begin, end] = records_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const auto known = it->second.lock();
    if (known != nullptr && *known->bytes == bytes) return ApiRecord(known);
  }
  records_.emplace(hash, record.content_);
  return record;
}

Result<ApiRecord> SharedRecords::parse(const std::shared_ptr<const std::string>& bytes) {
  const auto known = [&]() AFI_REQUIRES(mutex_) {
    const auto found = texts_.find(bytes.get());
    return found == texts_.end() ? nullptr : found->second.lock();
  };
  {
    const MutexLock lock(mutex_);
    if (auto content = known()) return ApiRecord(std::move(content));
  }
  AFI_TRY(ApiRecord record, ApiRecord::of_bytes(bytes));
  const MutexLock lock(mutex_);
  if (auto content = known()) return ApiRecord(std::move(content));  // somebody was quicker
  std::erase_if(texts_, [](const auto& text) { return text.second.expired(); });
  texts_[bytes.get()] = record.content_;
  return record;
}

std::string_view ApiRecord::content_type() const { return content_->view.content_type; }

std::string ApiRecord::finish_reason() const { return std::string(content_->view.finish_reason); }

bool ApiRecord::calls_tools() const { return content_->view.calls_tools; }

std::string ApiRecord::text() const {
  const RecordView& view = content_->view;
  if (view.whole.empty() || !generates_text(view.operation)) {
    return std::string(view.text);
  }
  std::string whole;
  append_filled(whole, view.whole, Filling({}));
  JsonReader reader;
  const auto root = reader.read(whole);
  if (!root.has_value()) return {};  // parse() does not check that the body is JSON
  const JsonValue choice = (*root)["choices"].front();
  return std::string(view.operation == ApiOperation::kChat ? choice["message"]["content"].text()
                                                           : choice["text"].text());
}

std::string ApiRecord::model() const { return std::string(content_->view.model); }
TokenCount ApiRecord::prompt_tokens() const { return TokenCount(content_->view.prompt_tokens); }
TokenCount ApiRecord::output_tokens() const { return TokenCount(content_->view.output_tokens); }

std::string api_error(std::string_view message, std::string_view type, std::string_view code) {
  nlohmann::ordered_json error{{"message", message}, {"type", type}, {"param", nullptr}};
  error["code"] = code.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(code);
  return dump({{"error", std::move(error)}});
}

}  // namespace afterimage

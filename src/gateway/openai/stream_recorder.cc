// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <optional>
#include <utility>

#include "foundation/json/json_text.h"
#include "gateway/openai/event_stream.h"
#include "gateway/openai/record.h"
#include "gateway/openai/record_format.h"
#include "gateway/openai/stream_fold.h"

namespace afterimage {
namespace {

constexpr std::string_view kDone = "[DONE]";

}  // namespace

struct StreamRecorder::State {
  State(ApiOperation operation, Bytes largest)
      : limit(largest.value()), events(largest.value()), fold(operation) {
    parts.operation = operation;
  }

  void hear(std::string_view name, std::string_view data) {
    if (data == kDone && is_done) return give_up("has [DONE] twice");
    if (data == kDone) {
      is_done = true;
      return;
    }
    if (failure.has_value()) return;
    if (is_done) return give_up("continues after [DONE]");
    if (!name.empty() && name != "message") {
      return give_up("has an event named '" + std::string(name.substr(0, 100)) +
                     "', which this API does not define");
    }
    if (auto recorded = record(data); !recorded.has_value()) {
      give_up(std::move(recorded).error());
    }
  }

  Result<void> record(std::string_view data) {
    if (data.size() > limit - size) return fail(ErrorCode::kLimitExceeded, too_large());
    size += data.size();
    const auto event = reader.read(data);
    if (!event.has_value()) {
      return fail(ErrorCode::kInvalidArgument,
                  "an event of the stream cannot be read: " + event.error().message);
    }
    AFI_TRY_VOID(fold.add(*event));
    const JsonValue choice = (*event)["choices"].front();
    const JsonValue usage = (*event)["usage"];
    const bool says_usage = usage.is(JsonKind::kObject);
    const bool is_chat = parts.operation == ApiOperation::kChat;
    parts.add_event(*event, choice[is_chat ? "delta" : "text"],
                    says_usage && (*event)["choices"].is_empty());
    parts.can_stream_usage = says_usage;  // only the last event counts
    return {};
  }

  void give_up(std::string_view why) {
    give_up(Error{ErrorCode::kInvalidArgument, "the stream " + std::string(why)});
  }
  void give_up(Error error) {
    if (!failure.has_value()) failure = std::move(error);
    parts.frames = {};
    parts.events = {};
  }
  std::string too_large() const {
    return "the stream is larger than " + std::to_string(limit) + " bytes, the limit for recording";
  }

  Result<RecordParts> finished() const {
    if (failure.has_value()) return std::unexpected(*failure);
    if (events.is_cut()) return fail(ErrorCode::kLimitExceeded, too_large());
    // Some servers close the connection without the empty line that ends an event.
    const std::string last = events.unfinished_data();
    if (is_done ? last == kDone : last != kDone) {
      return fail(ErrorCode::kInvalidArgument,
                  is_done ? "the stream has [DONE] twice" : "the stream ended without [DONE]");
    }
    if (parts.operation == ApiOperation::kEmbedding) {
      return fail(ErrorCode::kInvalidArgument, "embeddings are never streamed");
    }
    AFI_TRY_VOID(fold.check_finished());
    RecordParts done = parts;
    done.facts = fold.facts();
    if (auto whole = fold.whole()) {
      done.whole = *std::move(whole);
      done.has_body = true;
    }
    return done;
  }

  std::uint64_t limit;
  std::uint64_t size = 0;
  EventStreamReader events;
  JsonReader reader;
  StreamFold fold;
  RecordParts parts;
  bool is_done = false;
  std::optional<Error> failure;
};

StreamRecorder::StreamRecorder(ApiOperation operation, Bytes limit)
    : state_(std::make_unique<State>(operation, limit)) {}
StreamRecorder::~StreamRecorder() = default;
StreamRecorder::StreamRecorder(StreamRecorder&&) noexcept = default;
StreamRecorder& StreamRecorder::operator=(StreamRecorder&&) noexcept = default;

void StreamRecorder::feed(std::string_view bytes) {
  state_->events.feed(
      bytes, [this](std::string_view name, std::string_view data) { state_->hear(name, data); });
}

bool StreamRecorder::done() const { return state_->is_done; }

Result<ApiRecord> StreamRecorder::finish() {
  AFI_TRY(const RecordParts parts, state_->finished());
  return ApiRecord::of_bytes(std::make_shared<const std::string>(encode(parts)));
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <optional>
#include <utility>

#include "foundation/json/json_text.h"
#include "gateway/openai/record.h"
#include "gateway/openai/record_format.h"
#include "gateway/openai/stream_fold.h"

namespace afterimage {

struct StreamRecorder::State {
  State(ApiOperation operation, Bytes largest) : limit(largest.value()), fold(operation) {
    parts.operation = operation;
  }

  void add(ApiEvent& event) {
    if (event.is_done() && is_done) return give_up("has [DONE] twice");
    if (event.is_done()) {
      is_done = true;
      return;
    }
    if (failure.has_value()) return;
    if (is_done) return give_up("continues after [DONE]");
    if (!event.name().empty() && event.name() != "message") {
      return give_up("has an event named '" + std::string(event.name().substr(0, 100)) +
                     "', which this API does not define");
    }
    if (auto recorded = record(event); !recorded.has_value()) {
      give_up(std::move(recorded).error());
    }
  }

  Result<void> record(ApiEvent& event) {
    if (event.data().size() > limit - size) return fail(ErrorCode::kLimitExceeded, too_large());
    size += event.data().size();
    if (!event.json().has_value()) {
      return fail(ErrorCode::kInvalidArgument,
                  "an event of the stream cannot be read: " + event.json().error().message);
    }
    const JsonValue root = *event.json();
    AFI_TRY_VOID(fold.add(root));
    const JsonValue choice = root["choices"].front();
    const bool says_usage = root["usage"].is(JsonKind::kObject);
    const bool is_chat = parts.operation == ApiOperation::kChat;
    parts.add_event(root, choice[is_chat ? "delta" : "text"],
                    says_usage && root["choices"].is_empty());
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

  Result<RecordParts> finished(const EventStreamReader& stream) {
    if (failure.has_value()) return std::unexpected(*failure);
    if (stream.is_cut()) return fail(ErrorCode::kLimitExceeded, too_large());
    // Some servers close the connection without the empty line that ends an event.
    const std::string last = stream.unfinished_data();
    if (is_done == (last == "[DONE]")) {
      return fail(ErrorCode::kInvalidArgument,
                  is_done ? "the stream has [DONE] twice" : "the stream ended without [DONE]");
    }
    if (parts.operation == ApiOperation::kEmbedding) {
      return fail(ErrorCode::kInvalidArgument, "embeddings are never streamed");
    }
    AFI_TRY_VOID(fold.check_finished());
    RecordParts done = std::move(parts);
    done.facts = fold.facts();
    if (auto whole = fold.whole()) {
      done.whole = *std::move(whole);
      done.has_body = true;
    }
    return done;
  }

  std::uint64_t limit;
  std::uint64_t size = 0;
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

void StreamRecorder::add(ApiEvent& event) { state_->add(event); }

bool StreamRecorder::done() const { return state_->is_done; }

Result<ApiRecord> StreamRecorder::finish(const EventStreamReader& stream) {
  AFI_TRY(const RecordParts parts, state_->finished(stream));
  return ApiRecord::of_bytes(std::make_shared<const std::string>(encode(parts)));
}

}  // namespace afterimage

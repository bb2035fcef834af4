// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "afterimage/answer.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "foundation/platform/mutex.h"
#include "foundation/text/event_stream.h"
#include "gateway/openai/api_event.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// The fields that are new in every response: no two responses have the same id.
struct ResponseStamp {
  std::string id;            // "chatcmpl-…"
  std::int64_t created = 0;  // seconds since 1970
};

/// A response as it is made of a record, piece by piece: many readers of one large answer share the
/// record, and each holds the piece that it reads.
///
/// Threads  One at a time.
class RecordText {
 public:
  ~RecordText();
  RecordText(RecordText&&) noexcept;
  RecordText& operator=(RecordText&&) noexcept;
  /// Of the whole response.
  [[nodiscard]] std::size_t size() const;
  /// The next bytes, at most so many; empty: that was all.
  [[nodiscard]] std::string next(std::size_t most);

 private:
  friend class ApiRecord;
  struct State;
  explicit RecordText(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// An answer of a model in the form in which it is cached. A record is made from a complete
/// response or from an event stream, and either can be made from it again: roles, text, reasoning,
/// refusals, tool calls, log probabilities, finish reasons, usage and all unknown fields.
///
/// Shape    Below, "body" is a complete (non-streaming) response and "stream" its event stream:
///
///            body   → record → body    the same JSON value, except id and created
///            stream → record → stream  the same events, one for one, except id and created
///            stream → record → body    what the official clients accumulate from the stream
///            body   → record → stream  accumulates to the same body: role, content, finish
///                                      reason, usage
///
/// Threads  Any; immutable.
/// Source   docs/formats/answers.md.
class ApiRecord {
 public:
  /// Reads a complete response (status 200). kInvalidArgument: not such JSON.
  [[nodiscard]] static Result<ApiRecord> of_body(ApiOperation operation, std::string_view json);
  /// Keeps a complete response (status 200) as it came, or all events of one that ended. Of an operation
  /// whose answers are kept so: is_verbatim(). kInvalidArgument: it has no bytes or no content type, or it
  /// says that it is JSON and is none, or an error.
  [[nodiscard]] static Result<ApiRecord> of_response(ApiOperation operation,
                                                     std::string_view content_type,
                                                     std::string_view bytes);
  /// Reads the bytes that serialize() made. kCorruption: they are not a record.
  [[nodiscard]] static Result<ApiRecord> parse(std::string_view bytes);
  [[nodiscard]] const std::string& serialize() const;
  /// Of serialize().
  [[nodiscard]] Bytes size() const;

  /// Whether body() and events() are possible. Not possible, for example: the body of a stream
  /// without usage, which every complete response has, or of deltas with unknown fields that cannot
  /// be accumulated. can_be_streamed() makes the events of a complete response when it is
  /// first asked.
  [[nodiscard]] bool has_body() const;
  [[nodiscard]] bool can_be_streamed(bool include_usage) const;

  /// A complete response. `members` are added to it: ",\"timings\":{…}". Precondition: has_body().
  [[nodiscard]] std::string body(const ResponseStamp& stamp, std::string_view members = {}) const;
  /// An event stream: events "data: …\n\n", then "data: [DONE]\n\n". The last event before [DONE]
  /// is the usage if and only if `include_usage`. Precondition: can_be_streamed(include_usage).
  [[nodiscard]] std::string events(const ResponseStamp& stamp, bool include_usage) const;
  /// The same in pieces.
  [[nodiscard]] RecordText body_text(const ResponseStamp& stamp) const;
  [[nodiscard]] RecordText events_text(const ResponseStamp& stamp, bool include_usage) const;
  /// Stands for the memory that the copies and texts of this record share.
  [[nodiscard]] const void* identity() const { return content_.get(); }

  /// Of an answer that is kept as it came; else empty: JSON, or a stream of events.
  [[nodiscard]] std::string_view content_type() const;

  /// "stop" if every choice finished with it; else the first other reason ("length", "tool_calls",
  /// "content_filter", …). "stop" for embeddings.
  [[nodiscard]] std::string finish_reason() const;
  [[nodiscard]] bool calls_tools() const;
  /// Text of the first choice, for display and comparison; empty for embeddings.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string model() const;
  [[nodiscard]] TokenCount prompt_tokens() const;  // 0: unknown
  [[nodiscard]] TokenCount output_tokens() const;

 private:
  friend class RecordText;
  friend class SharedRecords;
  struct Content;
  explicit ApiRecord(std::shared_ptr<const Content> content) : content_(std::move(content)) {}
  static Result<ApiRecord> of_bytes(std::shared_ptr<const std::string> bytes);
  friend class StreamRecorder;
  friend class LiveEvents;

  std::shared_ptr<const Content> content_;
};

/// Large records that are in use: those with the same bytes become one, so that the readers of one answer
/// share it although each looked it up for itself.
///
/// Threads  Any. Cost of share(): a hash of the record, and a comparison if it is in use; of parse(): of the
///          first reader that of ApiRecord::parse() without its copy, of others nothing.
class SharedRecords {
 public:
  static constexpr std::size_t kLeast = 64UL * 1024;  // smaller ones are not worth it

  /// The record in use with these bytes, or this one.
  [[nodiscard]] ApiRecord share(ApiRecord record);
  /// The record in use of this very text, which it holds, or a new one. kCorruption: it is no record.
  [[nodiscard]] Result<ApiRecord> parse(const std::shared_ptr<const std::string>& bytes);

 private:
  Mutex mutex_;
  std::unordered_multimap<std::size_t, std::weak_ptr<const ApiRecord::Content>> records_
      AFI_GUARDED_BY(mutex_);
  /// By the place of their text, which they hold: no other text has it while a record is in use.
  std::unordered_map<const std::string*, std::weak_ptr<const ApiRecord::Content>> texts_
      AFI_GUARDED_BY(mutex_);
};

/// Hears the events of a stream while it is forwarded to the client, and makes a record of it if it
/// ended properly.
///
/// Threads  One at a time.
class StreamRecorder {
 public:
  /// A stream larger than `limit` is not recorded; it is still forwarded.
  explicit StreamRecorder(ApiOperation operation, Bytes limit = 16_MiB);
  ~StreamRecorder();
  StreamRecorder(StreamRecorder&&) noexcept;
  StreamRecorder& operator=(StreamRecorder&&) noexcept;

  /// Never fails: errors in the stream are remembered and reported by finish().
  void add(ApiEvent& event);
  /// True once "data: [DONE]" was seen.
  [[nodiscard]] bool done() const;
  /// kInvalidArgument: malformed events, an error event, events of two answers, or a stream without
  /// [DONE] or without a finish reason for every choice. kLimitExceeded: larger than the limit.
  /// `stream` is what read the events.
  [[nodiscard]] Result<ApiRecord> finish(const EventStreamReader& stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// An error body of this API: {"error":{"message":…,"type":…,"param":null,"code":…}}.
[[nodiscard]] std::string api_error(std::string_view message, std::string_view type,
                                    std::string_view code);

}  // namespace afterimage

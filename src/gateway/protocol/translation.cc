// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/protocol/translation.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "foundation/text/valid_text.h"
#include "gateway/protocol/fields.h"

namespace afterimage {
namespace {

constexpr std::size_t kShownOfError = 500;

/// The body of a chat's response, translated while it is read. The server reads a body on one thread.
class TranslatedBody final : public BodySource {
 public:
  /// `is_stream`: the inner body is an event stream; otherwise it is gathered.
  TranslatedBody(std::shared_ptr<BodySource> inner, std::shared_ptr<Translation> translation,
                 bool is_stream)
      : inner_(std::move(inner)), translation_(std::move(translation)), is_stream_(is_stream) {}

  Piece read(std::size_t from, std::function<void()> wake) override {
    while (base_ + made_.size() <= from && !over_) {
      const Piece piece = inner_->read(read_, wake);
      read_ += piece.bytes.size();
      if (is_stream_) {
        made_ += translation_->feed(piece.bytes);
      } else {
        gathered_ += piece.bytes;
      }
      if (piece.state != State::kMore) {
        over_ = true;
        made_ += is_stream_ ? translation_->end() : translation_->whole_or_failure(gathered_);
      } else if (piece.bytes.empty()) {
        return {};
      }
    }
    made_.erase(0, from - base_);
    base_ = from;
    return {.bytes = made_, .state = over_ ? State::kEnd : State::kMore};
  }
  [[nodiscard]] HeldBytes held() const override { return inner_->held(); }
  void too_slow() override { inner_->too_slow(); }
  void left() override { inner_->left(); }

 private:
  std::shared_ptr<BodySource> inner_;
  std::shared_ptr<Translation> translation_;
  bool is_stream_;
  std::string gathered_;
  std::size_t read_ = 0;  // of the inner body
  std::size_t base_ = 0;  // bytes that were read of this one
  std::string made_;      // from there on
  bool over_ = false;
};

/// A text instead of a body that nobody reads.
class ReplacedBody final : public BodySource {
 public:
  ReplacedBody(std::shared_ptr<BodySource> inner, std::string text)
      : inner_(std::move(inner)), text_(std::move(text)) {}
  Piece read(std::size_t from, std::function<void()> /*wake*/) override {
    return {.bytes = text_.substr(std::min(from, text_.size())), .state = State::kEnd};
  }
  void left() override { inner_->left(); }

 private:
  std::shared_ptr<BodySource> inner_;
  std::string text_;
};

struct SaidError {
  std::string message;
  std::string code;
};

/// What the body of an error says, whatever server wrote it.
SaidError error_in(std::string_view body, unsigned status) {
  JsonReader reader;
  const auto root = reader.read(body);
  if (root.has_value()) {
    const JsonValue error = (*root)["error"];
    const JsonValue message = error.is(JsonKind::kString) ? error : error["message"];
    const JsonValue other = (*root)["message"];  // vLLM before 0.11
    const JsonValue text = message.is(JsonKind::kString) ? message : other;
    if (text.is(JsonKind::kString) && !text.is_empty()) {
      const JsonValue code = error["code"];
      return {.message = std::string(text.text()),
              .code = code.is(JsonKind::kString) ? std::string(code.text()) : ""};
    }
  }
  return {.message = "the model's server responds with " + std::to_string(status), .code = ""};
}

/// Empty: it is still to be read.
std::string_view text_of(const HttpBody& body) {
  if (const auto* text = std::get_if<std::string>(&body)) return *text;
  const auto* shared = std::get_if<std::shared_ptr<const std::string>>(&body);
  return shared != nullptr && *shared != nullptr ? std::string_view(**shared) : std::string_view();
}

}  // namespace

Result<std::string> Translation::whole(std::string_view body) {
  AFI_TRY_VOID(reader_.read_whole(body));
  std::string events = take_events();
  AFI_TRY(const std::string last, finish());
  return events + last;
}

std::string Translation::whole_or_failure(std::string_view body) {
  auto made = whole(body);
  is_over_ = true;
  return made.has_value() ? *std::move(made) : failure_event(made.error());
}

std::string Translation::finish_or_fail() {
  is_over_ = true;
  auto last = finish();
  return last.has_value() ? *std::move(last) : failure_event(last.error());
}

std::string Translation::feed(std::string_view bytes) {
  if (is_over_) return {};
  const auto read = reader_.feed(bytes);
  std::string events = take_events();
  if (!read.has_value()) {
    is_over_ = true;
    return events + failure_event(read.error());
  }
  return reader_.is_done() ? events + finish_or_fail() : events;
}

std::string Translation::end() {
  if (is_over_) return {};
  const auto read = reader_.end();
  std::string events = take_events();
  if (read.has_value()) return events + finish_or_fail();
  is_over_ = true;
  return events + failure_event(read.error());
}

HttpReply translated(HttpReply reply, const std::shared_ptr<Translation>& translation,
                     std::string_view request_id) {
  if (!translation->id_header().empty()) {
    reply.headers.set(translation->id_header(), std::string(request_id));
  }
  append_ignored(reply.headers, translation->ignored());
  auto* const source = std::get_if<std::shared_ptr<BodySource>>(&reply.body);
  if (reply.status != 200) {
    const SaidError said = error_in(text_of(reply.body), reply.status);
    std::string body = translation->error_body(
        reply.status, valid_text(said.message, kShownOfError), said.code, request_id);
    reply.headers.set("Content-Type", "application/json");
    if (source != nullptr) {
      reply.body = std::make_shared<ReplacedBody>(std::move(*source), std::move(body));
    } else {
      reply.body = std::move(body);
    }
    return reply;
  }
  const bool is_stream = has_media_type(reply.headers, "text/event-stream");
  reply.headers.set("Content-Type", translation->streams() ? "text/event-stream; charset=utf-8"
                                                           : "application/json");
  if (source != nullptr) {
    reply.body = std::make_shared<TranslatedBody>(std::move(*source), translation, is_stream);
  } else if (is_stream) {
    std::string made = translation->feed(text_of(reply.body));
    reply.body = made + translation->end();
  } else {
    auto made = translation->whole(text_of(reply.body));
    if (!made.has_value()) {
      reply.status = 502;
      reply.headers.set("Content-Type", "application/json");
      reply.body =
          translation->error_body(502, made.error().message, "upstream_failed", request_id);
      return reply;
    }
    reply.body = *std::move(made);
  }
  return reply;
}

}  // namespace afterimage

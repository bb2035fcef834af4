// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/protocol/translation.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "foundation/json/json_writer.h"

namespace afterimage {
namespace {

using Json = nlohmann::json;

/// Says "text" for text, "(reason)" at the end, "!" and the message for a failure.
class Echo final : public Translation {
 public:
  explicit Echo(bool streams, std::vector<std::string> ignored = {})
      : streams_(streams), ignored_(std::move(ignored)) {}
  std::string_view name() const override { return "echo"; }
  Result<std::string> request(std::string_view body, const ClientContext& /*client*/) override {
    return std::string(body);
  }
  const std::vector<std::string>& ignored() const override { return ignored_; }
  bool streams() const override { return streams_; }
  std::string error_body(unsigned status, std::string_view message, std::string_view code,
                         std::string_view request_id) const override {
    return std::to_string(status) + "|" + std::string(message) + "|" + std::string(code) + "|" +
           std::string(request_id);
  }

 private:
  void on_begin(std::string_view model) override { said_ += "<" + std::string(model) + ">"; }
  void on_reasoning(std::string_view text) override { said_ += "{" + std::string(text) + "}"; }
  void on_text(std::string_view text) override { said_ += text; }
  void on_refusal(std::string_view text) override { said_ += "no:" + std::string(text); }
  Result<void> on_call(const AnswerCall& call) override {
    said_ += "[" + std::to_string(call.index) + std::string(call.name) +
             std::string(call.arguments) + "]";
    return {};
  }
  void on_finish(std::string_view reason, std::string_view stop) override {
    end_ = "(" + std::string(reason) + std::string(stop) + ")";
  }
  void on_usage(const TokenUsage& usage) override {
    end_ += std::to_string(usage.prompt) + "/" + std::to_string(usage.cached) + "/" +
            std::to_string(usage.output) + "/" + std::to_string(usage.reasoning);
  }
  std::string take_events() override { return streams_ ? std::exchange(said_, {}) : ""; }
  Result<std::string> finish() override { return said_ + end_; }
  std::string failure_event(const Error& error) override { return "!" + error.message; }

  bool streams_;
  std::vector<std::string> ignored_;
  std::string said_;
  std::string end_;
};

constexpr const char* kWhole =
    R"({"model":"m","choices":[{"message":{"content":"Hey","reasoning_content":"hm"},"finish_reason":"stop","stop_reason":"E"}],)"
    R"("usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}})";
constexpr const char* kStream =
    "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"He\"}}]}\n\n"
    ": comment\n\nevent: other\ndata: {}\n\n"
    "data: "
    "{\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"y\"},\"finish_reason\":\"stop\"}]}\n\n"
    "data: [DONE]\n\n";

/// Gives its text in pieces; between two of them there is nothing to read yet.
class Pieces final : public BodySource {
 public:
  Pieces(std::vector<std::string> pieces, State end) : pieces_(std::move(pieces)), end_(end) {}
  Piece read(std::size_t from, std::function<void()> /*wake*/) override {
    EXPECT_EQ(from, given_);
    if (std::exchange(waits_, !waits_)) return {};
    if (next_ == pieces_.size()) return {.bytes = {}, .state = end_};
    given_ += pieces_[next_].size();
    return {.bytes = pieces_[next_++]};
  }
  void left() override { ++times_left; }
  int times_left = 0;

 private:
  std::vector<std::string> pieces_;
  State end_;
  std::size_t next_ = 0;
  std::size_t given_ = 0;
  bool waits_ = false;
};

std::string read_all(BodySource& body) {
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    const auto piece = body.read(all.size(), [] {});
    all += piece.bytes;
    EXPECT_NE(piece.state, BodySource::State::kBroken);
    if (piece.state == BodySource::State::kEnd) return all;
  }
  ADD_FAILURE() << "it does not end";
  return all;
}

HttpReply reply_of(HttpBody body, const std::string& type, unsigned status = 200) {
  return {.status = status, .headers = {{"Content-Type", type}}, .body = std::move(body)};
}
constexpr const char* kEvents = "text/event-stream";
constexpr const char* kJson = "application/json";

std::string said(HttpReply reply, bool streams) {
  HttpReply made = translated(std::move(reply), std::make_shared<Echo>(streams), "id");
  if (auto* source = std::get_if<std::shared_ptr<BodySource>>(&made.body)) {
    return read_all(**source);
  }
  return std::get<std::string>(made.body);
}

TEST(Translation, AnswersWholeAndStreamed) {
  const std::string whole = "<m>{hm}Hey(stopE)9/2/4/1";
  const std::string streamed = "<m>Hey(stop)";
  for (const bool streams : {false, true}) {
    EXPECT_EQ(said(reply_of(std::string(kWhole), kJson), streams), whole);
    EXPECT_EQ(said(reply_of(std::string(kStream), kEvents), streams), streamed);
    EXPECT_EQ(said(reply_of(std::make_shared<const std::string>(kWhole), kJson), streams), whole);
  }
}

TEST(Translation, ABodyIsTranslatedWhileItIsRead) {
  const std::string text = kStream;
  for (std::size_t size = 1; size < text.size(); size += 7) {
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size(); at += size) pieces.push_back(text.substr(at, size));
    auto source = std::make_shared<Pieces>(pieces, BodySource::State::kEnd);
    HttpReply made = translated(reply_of(std::shared_ptr<BodySource>(source), kEvents),
                                std::make_shared<Echo>(true), "id");
    auto& body = *std::get<std::shared_ptr<BodySource>>(made.body);
    EXPECT_EQ(read_all(body), "<m>Hey(stop)");
    body.left();
    EXPECT_EQ(source->times_left, 1);
  }
}

TEST(Translation, ALargeAnswerThatIsNoStreamIsGathered) {
  const std::string text = kWhole;
  auto source = std::make_shared<Pieces>(
      std::vector<std::string>{text.substr(0, 20), text.substr(20)}, BodySource::State::kEnd);
  EXPECT_EQ(said(reply_of(std::shared_ptr<BodySource>(source), kJson), false),
            "<m>{hm}Hey(stopE)9/2/4/1");
}

TEST(Translation, AStreamThatBreaksOffSaysSo) {
  for (const auto end : {BodySource::State::kEnd, BodySource::State::kBroken}) {
    auto source =
        std::make_shared<Pieces>(std::vector<std::string>{std::string(kStream).substr(0, 80)}, end);
    EXPECT_EQ(said(reply_of(std::shared_ptr<BodySource>(source), kEvents), true),
              "<m>He!the answer broke off");
  }
}

TEST(Translation, NothingFollowsTheEnd) {
  EXPECT_EQ(said(reply_of(std::string(kStream) + kStream, kEvents), true), "<m>Hey(stop)");
  const std::string failed = "data: {\"error\":{\"message\":\"tired\"}}\n\n";
  EXPECT_EQ(said(reply_of(failed + kStream, kEvents), true), "!tired");
}

TEST(Translation, ErrorsKeepTheirMessage) {
  EXPECT_EQ(
      said(reply_of(std::string(R"({"error":{"message":"why","code":"c"}})"), kJson, 400), true),
      "400|why|c|id");
  EXPECT_EQ(said(reply_of(std::string(R"({"message":"why"})"), kJson, 400), true), "400|why||id");
  EXPECT_EQ(said(reply_of(std::string("<html>"), "text/html", 503), false),
            "503|the model's server responds with 503||id");
  EXPECT_EQ(said(reply_of(std::string("{}"), kJson), false),
            "502|the model's server sent an answer that cannot be read: it has no message|"
            "upstream_failed|id");
  auto source = std::make_shared<Pieces>(std::vector<std::string>{"x"}, BodySource::State::kEnd);
  HttpReply made = translated(reply_of(std::shared_ptr<BodySource>(source), kEvents, 500),
                              std::make_shared<Echo>(true), "id");
  auto& body = *std::get<std::shared_ptr<BodySource>>(made.body);
  EXPECT_EQ(read_all(body), "500|the model's server responds with 500||id");
  body.left();
  EXPECT_EQ(source->times_left, 1);
}

TEST(JsonWriter, CompactKeepsOrderAndSpelling) {
  JsonReader reader;
  const auto root =
      reader.read("{ \"b\" : [ 1.50 , 1e2, \"\\u00e9\\n\" ], \"a\" : { } , \"c\":null}");
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(canonical(*root), "{\"b\":[1.50,1e2,\"é\\n\"],\"a\":{},\"c\":null}");
  EXPECT_EQ(JsonObject()
                .add_text("a\"", "x\n")
                .add_number("n", 7)
                .add("l", JsonArray().add("1").add("2").text())
                .text(),
            "{\"a\\\"\":\"x\\n\",\"n\":7,\"l\":[1,2]}");
}

TEST(ChatContent, OneTextIsAStringAndTheRestAreParts) {
  ChatContent content;
  EXPECT_EQ(content.json(), "null");
  content.add_text("a");
  EXPECT_EQ(content.json(), "\"a\"");
  content.add_image("http://x/y.png", "low");
  EXPECT_EQ(
      Json::parse(content.json()),
      Json::parse(
          R"([{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"http://x/y.png","detail":"low"}}])"));
  const auto file = [](const char* type, const std::string& bytes) {
    return UploadedFile{.type = type, .bytes = std::make_shared<const std::string>(bytes)};
  };
  ChatContent files;
  EXPECT_TRUE(files.add_file(file("text/plain", "é"), "f").has_value());
  EXPECT_EQ(files.json(), "\"é\"");
  EXPECT_FALSE(files.add_file(file("text/plain", "\xff"), "f").has_value());
  ChatContent pdf;
  EXPECT_TRUE(pdf.add_file(file("application/pdf", "x"), "f").has_value());
  EXPECT_EQ(
      Json::parse(pdf.json()),
      Json::parse(R"([{"type":"file","file":{"file_data":"data:application/pdf;base64,eA=="}}])"));
  const auto refused = files.add_file(file("application/zip", "x"), "input[0]");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(refused.error().message.starts_with("input[0]"));
}

TEST(Translation, WhatIsLeftOutIsNamedInAHeader) {
  const auto ignored_of = [](HttpHeaders headers, std::vector<std::string> ignored) {
    HttpReply reply{.status = 200, .headers = std::move(headers), .body = std::string(kWhole)};
    const auto echo = std::make_shared<Echo>(false, std::move(ignored));
    return std::string(translated(std::move(reply), echo, "id")
                           .headers.find("x-afterimage-ignored")
                           .value_or("-"));
  };
  EXPECT_EQ(ignored_of({}, {}), "-");
  EXPECT_EQ(ignored_of({}, {"betas", "tools[1]"}), "betas, tools[1]");
  // After what the engine leaves out.
  EXPECT_EQ(ignored_of({{"X-Afterimage-Ignored", "response_format.maximum"}}, {"betas"}),
            "response_format.maximum, betas");
}

}  // namespace
}  // namespace afterimage

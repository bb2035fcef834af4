// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/shared_response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/proxy/shared_responses.h"

namespace afterimage {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kEvent =
    "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{\"role\":"
    "\"assistant\",\"content\":\"x\"},\"finish_reason\":null}]}\n\n";
constexpr const char* kLast =
    "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{},"
    "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

HttpHeaders events() { return {{"Content-Type", "text/event-stream; charset=utf-8"}}; }
HttpHeaders json() { return {{"Content-Type", "application/json"}}; }

/// Reads what there is, and says how it stands.
struct Reader {
  explicit Reader(const std::shared_ptr<SharedResponse>& broadcast)
      : body(SharedResponse::body(broadcast->join(), [this] { ++ended; })) {}
  void read() {
    while (true) {
      auto piece = body->read(text.size(), [this] { ++woken; });
      text += piece.bytes;
      state = piece.state;
      if (piece.bytes.empty() || piece.state != BodySource::State::kMore) return;
    }
  }
  std::string text;
  BodySource::State state = BodySource::State::kMore;
  int woken = 0;
  int ended = 0;
  std::shared_ptr<BodySource> body;
};

std::shared_ptr<SharedResponse> shared_broadcast(SharedResponse::Options options = {}) {
  options.shared = true;
  return std::make_shared<SharedResponse>(std::move(options));
}

TEST(SharedResponse, EveryReaderGetsTheSameFromTheBeginningWheneverHeCame) {
  const auto broadcast = shared_broadcast();
  Reader first(broadcast);
  broadcast->on_head(200, events());
  EXPECT_EQ(broadcast->state(), SharedResponse::State::kStreams);
  broadcast->on_bytes(kEvent);
  first.read();
  EXPECT_EQ(first.text, kEvent);
  Reader second(broadcast);
  broadcast->on_bytes(kLast);
  EXPECT_EQ(first.woken, 1);
  broadcast->on_end();
  first.read();
  second.read();
  Reader third(broadcast);
  third.read();
  EXPECT_EQ(first.text, std::string(kEvent) + kLast);
  EXPECT_EQ(second.text, first.text);
  EXPECT_EQ(third.text, first.text);
  EXPECT_EQ(third.state, BodySource::State::kEnd);
  EXPECT_TRUE(broadcast->complete());
}

TEST(SharedResponse, EventsAreGivenOnWhole) {
  const auto broadcast = shared_broadcast();
  Reader reader(broadcast);
  broadcast->on_head(200, events());
  for (const char c : std::string_view("data: 1\r\n\r\ndata: 2\n\ndata: 3"))
    broadcast->on_bytes({&c, 1});
  reader.read();
  EXPECT_EQ(reader.text, "data: 1\r\n\r\ndata: 2\n\n");
  broadcast->on_end();
  reader.read();
  EXPECT_THAT(reader.text, ::testing::EndsWith("data: 3")) << "the end gives what is left";
}

TEST(SharedResponse, AStreamThatBreaksOffSaysSoAndDropsTheTornEvent) {
  std::optional<Result<ApiRecord>> record;
  const auto broadcast = shared_broadcast(
      {.record = ApiOperation::kChat,
       .landed = [&](const SharedResponse&, Result<ApiRecord> made) { record = std::move(made); }});
  Reader reader(broadcast);
  broadcast->on_head(200, events());
  broadcast->on_bytes(std::string(kEvent) + "data: {\"id\":\"a\",\"cho");
  broadcast->on_error({ErrorCode::kUnavailable, "it closed \"the\" connection"});
  reader.read();
  EXPECT_THAT(reader.text, StartsWith(std::string(kEvent) + "data: {\"error\""));
  EXPECT_THAT(reader.text, HasSubstr("answer_broke_off"));
  EXPECT_EQ(reader.state, BodySource::State::kEnd);
  ASSERT_TRUE(record.has_value());
  EXPECT_FALSE(record->has_value()) << "and nothing is kept";
  EXPECT_FALSE(broadcast->complete());
}

TEST(SharedResponse, IsRecordedBeforeAnybodyReadsThatItIsDone) {
  int landed = 0;
  std::string read_before;
  std::optional<Reader> reader;
  const auto broadcast = shared_broadcast(
      {.record = ApiOperation::kChat, .landed = [&](const SharedResponse&, Result<ApiRecord> made) {
         EXPECT_TRUE(made.has_value());
         reader->read();
         read_before = reader->text;
         ++landed;
       }});
  reader.emplace(broadcast);
  broadcast->on_head(200, events());
  broadcast->on_bytes(kEvent);
  EXPECT_EQ(landed, 0);
  broadcast->on_bytes(kLast);
  EXPECT_EQ(landed, 1) << "the end of the body may be long in coming";
  EXPECT_EQ(read_before, kEvent);
  broadcast->on_end();
  EXPECT_EQ(landed, 1);
  reader->read();
  EXPECT_EQ(reader->text, std::string(kEvent) + kLast);
}

TEST(SharedResponse, AStreamWithoutItsEndIsNotRecorded) {
  std::optional<Result<ApiRecord>> record;
  const auto broadcast = shared_broadcast(
      {.record = ApiOperation::kChat,
       .landed = [&](const SharedResponse&, Result<ApiRecord> made) { record = std::move(made); }});
  broadcast->on_head(200, events());
  broadcast->on_bytes(kEvent);
  broadcast->on_end();
  EXPECT_FALSE(record->has_value());
}

TEST(SharedResponse, WholeAnswersAreGathered) {
  int ready = 0;
  bool recorded_before = false;
  const auto broadcast =
      shared_broadcast({.record = ApiOperation::kChat,
                        .landed = [&](const SharedResponse&, const Result<ApiRecord>& made) {
                          recorded_before = made.has_value() && ready == 0;
                        }});
  broadcast->when_ready([&] { ++ready; });
  broadcast->on_head(200, json());
  broadcast->on_bytes(R"({"choices":[{"index":0,"message":{"role":"assistant",)");
  broadcast->on_bytes(R"("content":"x"},"finish_reason":"stop"}],"model":"m"})");
  EXPECT_EQ(ready, 0);
  broadcast->on_end();
  EXPECT_EQ(ready, 1);
  EXPECT_TRUE(recorded_before) << "whoever asks next finds it";
  EXPECT_EQ(broadcast->state(), SharedResponse::State::kWhole);
  EXPECT_THAT(*broadcast->whole(), StartsWith(R"({"choices")"));
}

TEST(SharedResponse, FailsForAllBeforeTheFirstByte) {
  const auto broadcast = shared_broadcast();
  int ready = 0;
  broadcast->when_ready([&] { ++ready; });
  broadcast->on_head(200, json());
  broadcast->on_bytes("{");
  broadcast->on_error({ErrorCode::kUnavailable, "gone"});
  EXPECT_EQ(broadcast->state(), SharedResponse::State::kFailed);
  EXPECT_EQ(broadcast->error().message, "gone");
  broadcast->when_ready([&] { ++ready; });
  EXPECT_EQ(ready, 2);
}

TEST(SharedResponse, ABinaryAnswerThatBreaksOffIsCut) {
  const auto broadcast = shared_broadcast();
  Reader reader(broadcast);
  broadcast->on_head(200, {{"Content-Type", "audio/mpeg"}});
  broadcast->on_bytes("abc");
  broadcast->on_error({ErrorCode::kUnavailable, "gone"});
  reader.read();
  EXPECT_EQ(reader.text, "abc");
  EXPECT_EQ(reader.state, BodySource::State::kBroken);
}

TEST(SharedResponse, IsCancelledWhenTheLastOneLeavesAndNotBefore) {
  int cancelled = 0;
  const auto broadcast = shared_broadcast();
  broadcast->controlled_by({.cancel = [&] { ++cancelled; }, .handle = {}});
  const auto one = broadcast->join();
  const auto two = broadcast->join();
  one->leave();
  one->leave();
  EXPECT_EQ(cancelled, 0);
  two->leave();
  EXPECT_EQ(cancelled, 1);
}

TEST(SharedResponse, IsCancelledAlsoIfEverybodyLeftBeforeItCouldBe) {
  int cancelled = 0;
  const auto broadcast = shared_broadcast();
  broadcast->join()->leave();
  broadcast->controlled_by({.cancel = [&] { ++cancelled; }, .handle = {}});
  EXPECT_EQ(cancelled, 1);
}

TEST(SharedResponse, WhoLeavesAtTheLastEventCancelsNothing) {
  std::optional<Result<ApiRecord>> record;
  int cancelled = 0;
  const auto broadcast = shared_broadcast(
      {.record = ApiOperation::kChat,
       .landed = [&](const SharedResponse&, Result<ApiRecord> made) { record = std::move(made); }});
  broadcast->controlled_by({.cancel = [&] { ++cancelled; }, .handle = {}});
  const auto seat = broadcast->join();
  broadcast->on_head(200, events());
  broadcast->on_bytes(std::string(kEvent) + kLast);
  seat->leave();
  EXPECT_EQ(cancelled, 0);
  broadcast->on_end();
  ASSERT_TRUE(record.has_value());
  EXPECT_TRUE(record->has_value()) << "what was said to its end is kept";
}

TEST(SharedResponse, IsFinishedForTheCacheIfThatIsWanted) {
  int cancelled = 0;
  const auto broadcast = shared_broadcast({.finish_abandoned = true});
  broadcast->controlled_by({.cancel = [&] { ++cancelled; }, .handle = {}});
  broadcast->join()->leave();
  EXPECT_EQ(cancelled, 0);
}

TEST(SharedResponse, AReaderThatIsDroppedUnreadHasLeft) {
  int cancelled = 0;
  int ended = 0;
  const auto broadcast = shared_broadcast();
  broadcast->controlled_by({.cancel = [&] { ++cancelled; }, .handle = {}});
  broadcast->on_head(200, events());
  static_cast<void>(SharedResponse::body(broadcast->join(), [&] { ++ended; }));
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(ended, 1);
}

TEST(SharedResponse, WhatOnlyOneReadsIsForgottenAsItIsRead) {
  const auto broadcast = std::make_shared<SharedResponse>(SharedResponse::Options{});
  Reader reader(broadcast);
  broadcast->on_head(200, {{"Content-Type", "video/mp4"}});
  broadcast->on_bytes(std::string(700'000, 'x'));
  reader.read();
  broadcast->on_bytes(std::string(700'000, 'y'));
  reader.read();
  EXPECT_EQ(reader.text.size(), 1'400'000U);
  Reader late(broadcast);
  late.read();
  EXPECT_EQ(late.state, BodySource::State::kBroken);
}

TEST(SharedResponses, WhoAsksTheSameBoardsTheSame) {
  SharedResponses broadcasts;
  int started = 0;
  const auto start = [&] {
    ++started;
    return shared_broadcast();
  };
  const auto one = broadcasts.join_or_start("a", 0, start);
  const auto two = broadcasts.join_or_start("a", 0, start);
  const auto other = broadcasts.join_or_start("b", 0, start);
  EXPECT_TRUE(one.leads);
  EXPECT_FALSE(two.leads);
  EXPECT_EQ(&one.seat->broadcast(), &two.seat->broadcast());
  EXPECT_NE(&one.seat->broadcast(), &other.seat->broadcast());
  EXPECT_EQ(started, 2);
}

TEST(SharedResponses, WhoCameBetweenCacheAndBroadcastLooksAgain) {
  SharedResponses broadcasts;
  const std::uint64_t before = broadcasts.landed();
  const auto first = broadcasts.join_or_start("a", before, [] { return shared_broadcast(); });
  broadcasts.remove("a", &first.seat->broadcast());  // it has landed, and its answer is kept
  const auto late = broadcasts.join_or_start("a", before, [] { return shared_broadcast(); });
  EXPECT_EQ(late.seat, nullptr);
  EXPECT_TRUE(
      broadcasts.join_or_start("a", broadcasts.landed(), [] { return shared_broadcast(); }).leads);
}

TEST(SharedResponses, OnlyTheOneItselfIsRemoved) {
  SharedResponses broadcasts;
  const auto old = broadcasts.join_or_start("a", 0, [] { return shared_broadcast(); });
  broadcasts.remove("a", &old.seat->broadcast());
  const auto young = broadcasts.join_or_start("a", 1, [] { return shared_broadcast(); });
  broadcasts.remove("a", &old.seat->broadcast());
  EXPECT_EQ(broadcasts.size(), 1U);
}

TEST(SharedResponse, OneThatIsCalledOffIsNeitherKeptNorFailed) {
  int landed = 0;
  const auto broadcast =
      shared_broadcast({.landed = [&](const SharedResponse& /*broadcast*/,
                                      const Result<ApiRecord>& /*record*/) { ++landed; }});
  EXPECT_FALSE(broadcast->wanted());
  const auto seat = broadcast->join();
  EXPECT_TRUE(broadcast->wanted());
  int told = 0;
  broadcast->when_ready([&] { ++told; });
  broadcast->call_off();
  EXPECT_EQ(broadcast->state(), SharedResponse::State::kCalledOff);
  EXPECT_EQ(told, 1);
  broadcast->when_ready([&] { ++told; });
  EXPECT_EQ(told, 2) << "who comes late hears it, too";
  EXPECT_EQ(landed, 0);
}

TEST(SharedResponse, OneThatAllHaveLeftIsNotWanted) {
  const auto broadcast = shared_broadcast();
  broadcast->join()->leave();
  EXPECT_FALSE(broadcast->wanted());
  const auto late = broadcast->join();
  EXPECT_FALSE(broadcast->wanted()) << "it was cancelled";
  const auto finished = shared_broadcast({.finish_abandoned = true});
  finished->join()->leave();
  EXPECT_FALSE(finished->wanted());
  const auto joined = finished->join();
  EXPECT_TRUE(finished->wanted());
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/gateway/flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "afterimage/gateway/flights.h"

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
  explicit Reader(const std::shared_ptr<Flight>& flight)
      : body(Flight::body(flight->join(), [this] { ++ended; })) {}
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

std::shared_ptr<Flight> shared_flight(Flight::Options options = {}) {
  options.shared = true;
  return std::make_shared<Flight>(std::move(options));
}

TEST(Flight, EveryReaderGetsTheSameFromTheBeginningWheneverHeCame) {
  const auto flight = shared_flight();
  Reader first(flight);
  flight->on_head(200, events());
  EXPECT_EQ(flight->state(), Flight::State::kStreams);
  flight->on_bytes(kEvent);
  first.read();
  EXPECT_EQ(first.text, kEvent);
  Reader second(flight);
  flight->on_bytes(kLast);
  EXPECT_EQ(first.woken, 1);
  flight->on_end();
  first.read();
  second.read();
  Reader third(flight);
  third.read();
  EXPECT_EQ(first.text, std::string(kEvent) + kLast);
  EXPECT_EQ(second.text, first.text);
  EXPECT_EQ(third.text, first.text);
  EXPECT_EQ(third.state, BodySource::State::kEnd);
  EXPECT_TRUE(flight->complete());
}

TEST(Flight, EventsAreGivenOnWhole) {
  const auto flight = shared_flight();
  Reader reader(flight);
  flight->on_head(200, events());
  for (const char c : std::string_view("data: 1\r\n\r\ndata: 2\n\ndata: 3"))
    flight->on_bytes({&c, 1});
  reader.read();
  EXPECT_EQ(reader.text, "data: 1\r\n\r\ndata: 2\n\n");
  flight->on_end();
  reader.read();
  EXPECT_THAT(reader.text, ::testing::EndsWith("data: 3")) << "the end gives what is left";
}

TEST(Flight, AStreamThatBreaksOffSaysSoAndDropsTheTornEvent) {
  std::optional<Result<ApiRecord>> record;
  const auto flight = shared_flight(
      {.record = ApiOperation::kChat,
       .landed = [&](const Flight&, Result<ApiRecord> made) { record = std::move(made); }});
  Reader reader(flight);
  flight->on_head(200, events());
  flight->on_bytes(std::string(kEvent) + "data: {\"id\":\"a\",\"cho");
  flight->on_error({ErrorCode::kUnavailable, "it closed \"the\" connection"});
  reader.read();
  EXPECT_THAT(reader.text, StartsWith(std::string(kEvent) + "data: {\"error\""));
  EXPECT_THAT(reader.text, HasSubstr("answer_broke_off"));
  EXPECT_EQ(reader.state, BodySource::State::kEnd);
  ASSERT_TRUE(record.has_value());
  EXPECT_FALSE(record->has_value()) << "and nothing is kept";
  EXPECT_FALSE(flight->complete());
}

TEST(Flight, AStreamWithoutItsEndIsNotRecorded) {
  std::optional<Result<ApiRecord>> record;
  const auto flight = shared_flight(
      {.record = ApiOperation::kChat,
       .landed = [&](const Flight&, Result<ApiRecord> made) { record = std::move(made); }});
  flight->on_head(200, events());
  flight->on_bytes(kEvent);
  flight->on_end();
  EXPECT_FALSE(record->has_value());
}

TEST(Flight, WholeAnswersAreGathered) {
  int ready = 0;
  bool recorded_before = false;
  const auto flight = shared_flight(
      {.record = ApiOperation::kChat, .landed = [&](const Flight&, const Result<ApiRecord>& made) {
         recorded_before = made.has_value() && ready == 0;
       }});
  flight->when_ready([&] { ++ready; });
  flight->on_head(200, json());
  flight->on_bytes(R"({"choices":[{"index":0,"message":{"role":"assistant",)");
  flight->on_bytes(R"("content":"x"},"finish_reason":"stop"}],"model":"m"})");
  EXPECT_EQ(ready, 0);
  flight->on_end();
  EXPECT_EQ(ready, 1);
  EXPECT_TRUE(recorded_before) << "whoever asks next finds it";
  EXPECT_EQ(flight->state(), Flight::State::kWhole);
  EXPECT_THAT(*flight->whole(), StartsWith(R"({"choices")"));
}

TEST(Flight, FailsForAllBeforeTheFirstByte) {
  const auto flight = shared_flight();
  int ready = 0;
  flight->when_ready([&] { ++ready; });
  flight->on_head(200, json());
  flight->on_bytes("{");
  flight->on_error({ErrorCode::kUnavailable, "gone"});
  EXPECT_EQ(flight->state(), Flight::State::kFailed);
  EXPECT_EQ(flight->error().message, "gone");
  flight->when_ready([&] { ++ready; });
  EXPECT_EQ(ready, 2);
}

TEST(Flight, ABinaryAnswerThatBreaksOffIsCut) {
  const auto flight = shared_flight();
  Reader reader(flight);
  flight->on_head(200, {{"Content-Type", "audio/mpeg"}});
  flight->on_bytes("abc");
  flight->on_error({ErrorCode::kUnavailable, "gone"});
  reader.read();
  EXPECT_EQ(reader.text, "abc");
  EXPECT_EQ(reader.state, BodySource::State::kBroken);
}

TEST(Flight, IsCancelledWhenTheLastOneLeavesAndNotBefore) {
  int cancelled = 0;
  const auto flight = shared_flight();
  flight->controlled_by({.cancel = [&] { ++cancelled; }, .handle = {}});
  const auto one = flight->join();
  const auto two = flight->join();
  one->leave();
  one->leave();
  EXPECT_EQ(cancelled, 0);
  two->leave();
  EXPECT_EQ(cancelled, 1);
}

TEST(Flight, IsCancelledAlsoIfEverybodyLeftBeforeItCouldBe) {
  int cancelled = 0;
  const auto flight = shared_flight();
  flight->join()->leave();
  flight->controlled_by({.cancel = [&] { ++cancelled; }, .handle = {}});
  EXPECT_EQ(cancelled, 1);
}

TEST(Flight, IsFinishedForTheCacheIfThatIsWanted) {
  int cancelled = 0;
  const auto flight = shared_flight({.finish_abandoned = true});
  flight->controlled_by({.cancel = [&] { ++cancelled; }, .handle = {}});
  flight->join()->leave();
  EXPECT_EQ(cancelled, 0);
}

TEST(Flight, AReaderThatIsDroppedUnreadHasLeft) {
  int cancelled = 0;
  int ended = 0;
  const auto flight = shared_flight();
  flight->controlled_by({.cancel = [&] { ++cancelled; }, .handle = {}});
  flight->on_head(200, events());
  Flight::body(flight->join(), [&] { ++ended; });
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(ended, 1);
}

TEST(Flight, WhatOnlyOneReadsIsForgottenAsItIsRead) {
  const auto flight = std::make_shared<Flight>(Flight::Options{});
  Reader reader(flight);
  flight->on_head(200, {{"Content-Type", "video/mp4"}});
  flight->on_bytes(std::string(700'000, 'x'));
  reader.read();
  flight->on_bytes(std::string(700'000, 'y'));
  reader.read();
  EXPECT_EQ(reader.text.size(), 1'400'000U);
  Reader late(flight);
  late.read();
  EXPECT_EQ(late.state, BodySource::State::kBroken);
}

TEST(Flights, WhoAsksTheSameBoardsTheSameFlight) {
  Flights flights;
  int started = 0;
  const auto start = [&] {
    ++started;
    return shared_flight();
  };
  const auto one = flights.board("a", 0, start);
  const auto two = flights.board("a", 0, start);
  const auto other = flights.board("b", 0, start);
  EXPECT_TRUE(one.leads);
  EXPECT_FALSE(two.leads);
  EXPECT_EQ(&one.seat->flight(), &two.seat->flight());
  EXPECT_NE(&one.seat->flight(), &other.seat->flight());
  EXPECT_EQ(started, 2);
}

TEST(Flights, WhoCameBetweenCacheAndFlightLooksAgain) {
  Flights flights;
  const std::uint64_t before = flights.landed();
  const auto first = flights.board("a", before, [] { return shared_flight(); });
  flights.remove("a", &first.seat->flight());  // it has landed, and its answer is kept
  const auto late = flights.board("a", before, [] { return shared_flight(); });
  EXPECT_EQ(late.seat, nullptr);
  EXPECT_TRUE(flights.board("a", flights.landed(), [] { return shared_flight(); }).leads);
}

TEST(Flights, OnlyTheFlightItselfIsRemoved) {
  Flights flights;
  const auto old = flights.board("a", 0, [] { return shared_flight(); });
  flights.remove("a", &old.seat->flight());
  const auto young = flights.board("a", 1, [] { return shared_flight(); });
  flights.remove("a", &old.seat->flight());
  EXPECT_EQ(flights.size(), 1U);
}

}  // namespace
}  // namespace afterimage

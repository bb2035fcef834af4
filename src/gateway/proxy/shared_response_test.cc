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
  explicit Reader(const std::shared_ptr<SharedResponse>& response)
      : body(SharedResponse::body(response->join(), [this](bool) { ++ended; })) {}
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

std::shared_ptr<SharedResponse> shared_response(SharedResponse::Options options = {}) {
  options.shared = true;
  return std::make_shared<SharedResponse>(std::move(options));
}

TEST(SharedResponse, EveryReaderGetsAllOfItWheneverItSubscribed) {
  const auto response = shared_response();
  Reader first(response);
  response->on_head(200, events());
  EXPECT_EQ(response->state(), SharedResponse::State::kStreams);
  response->on_bytes(kEvent);
  first.read();
  EXPECT_EQ(first.text, kEvent);
  Reader second(response);
  response->on_bytes(kLast);
  EXPECT_EQ(first.woken, 1);
  response->on_end();
  first.read();
  second.read();
  Reader third(response);
  third.read();
  EXPECT_EQ(first.text, std::string(kEvent) + kLast);
  EXPECT_EQ(second.text, first.text);
  EXPECT_EQ(third.text, first.text);
  EXPECT_EQ(third.state, BodySource::State::kEnd);
  EXPECT_TRUE(response->complete());
}

// Regression: without a length or a type of JSON they came as a stream, and a batch some of whose vectors were
// stored could not be put together.
TEST(SharedResponse, VectorsAreGatheredWhateverTheirHeadersSay) {
  for (const std::size_t size : {10UL, 17UL << 20U}) {
    const auto response = shared_response({.record = ApiOperation::kEmbedding});
    response->on_head(200, {{"Content-Type", "text/plain"}, {"Transfer-Encoding", "chunked"}});
    response->on_bytes(std::string(size, ' '));
    EXPECT_EQ(response->state(), SharedResponse::State::kWaiting) << size;
    response->on_end();
    ASSERT_EQ(response->state(), SharedResponse::State::kWhole) << size;
    EXPECT_EQ(response->whole()->size(), size);
  }
}

TEST(SharedResponse, PassesOnWholeEventsOnly) {
  const auto response = shared_response();
  Reader reader(response);
  response->on_head(200, events());
  for (const char c : std::string_view("data: 1\r\n\r\ndata: 2\n\ndata: 3"))
    response->on_bytes({&c, 1});
  reader.read();
  EXPECT_EQ(reader.text, "data: 1\r\n\r\ndata: 2\n\n");
  response->on_end();
  reader.read();
  EXPECT_THAT(reader.text, ::testing::EndsWith("data: 3")) << "the end gives what is left";
}

TEST(SharedResponse, AStreamThatBreaksOffSaysSoAndDropsTheTornEvent) {
  std::optional<Result<ApiRecord>> record;
  const auto response =
      shared_response({.record = ApiOperation::kChat,
                       .completed = [&](const SharedResponse&, Result<ApiRecord> made) {
                         record = std::move(made);
                       }});
  Reader reader(response);
  response->on_head(200, events());
  response->on_bytes(std::string(kEvent) + "data: {\"id\":\"a\",\"cho");
  response->on_error({ErrorCode::kUnavailable, "it closed \"the\" connection"});
  reader.read();
  EXPECT_THAT(reader.text, StartsWith(std::string(kEvent) + "data: {\"error\""));
  EXPECT_THAT(reader.text, HasSubstr("answer_broke_off"));
  EXPECT_EQ(reader.state, BodySource::State::kEnd);
  ASSERT_TRUE(record.has_value());
  EXPECT_FALSE(record->has_value()) << "and nothing is kept";
  EXPECT_FALSE(response->complete());
}

TEST(SharedResponse, ADoneWithoutAFinishReasonBreaksOffHoweverItIsCut) {
  for (const std::size_t piece : {1UL, 7UL, 1000UL}) {
    for (const char* after : {"", ": still here\n\n", "data: [DONE]\n\n"}) {
      for (const bool fails : {false, true}) {
        int recorded = 0;
        const auto response = shared_response(
            {.record = ApiOperation::kChat,
             .has_end = true,
             .completed = [&](const SharedResponse&, const Result<ApiRecord>& made) {
               recorded += made.has_value() ? 1 : 0;
             }});
        Reader reader(response);
        response->on_head(200, events());
        const std::string sent = std::string(kEvent) + "data: [DONE]\n\n" + after;
        for (std::size_t at = 0; at < sent.size(); at += piece) {
          response->on_bytes(std::string_view(sent).substr(at, piece));
          reader.read();
        }
        if (fails) {
          response->on_error({ErrorCode::kUnavailable, "reset"});
        } else {
          response->on_end();
        }
        reader.read();
        EXPECT_THAT(reader.text, StartsWith(std::string(kEvent) + "data: {\"error\""));
        EXPECT_THAT(reader.text, HasSubstr("without a finish reason"));
        EXPECT_EQ(reader.text.find("data:", std::string(kEvent).size() + 5), std::string::npos)
            << "one event, and nothing after it: " << reader.text;
        EXPECT_EQ(reader.state, BodySource::State::kEnd);
        EXPECT_FALSE(response->complete());
        EXPECT_EQ(recorded, 0);
      }
    }
  }
}

// Regression: the error was on the line of the torn event, which no client could read.
TEST(SharedResponse, AStreamThatEndsInOrderWithinAnEventDropsIt) {
  const auto response = shared_response({.has_end = true});
  Reader reader(response);
  response->on_head(200, events());
  response->on_bytes(std::string(kEvent) + "data: {\"id\":\"a\",\"cho");
  response->on_end();
  reader.read();
  EXPECT_THAT(reader.text, StartsWith(std::string(kEvent) + "data: {\"error\""));
  EXPECT_THAT(reader.text, HasSubstr("before the answer was complete"));
}

TEST(SharedResponse, IsRecordedBeforeAnybodyReadsTheEnd) {
  int completed = 0;
  std::string read_before;
  std::optional<Reader> reader;
  const auto response =
      shared_response({.record = ApiOperation::kChat,
                       .completed = [&](const SharedResponse&, Result<ApiRecord> made) {
                         EXPECT_TRUE(made.has_value());
                         reader->read();
                         read_before = reader->text;
                         ++completed;
                       }});
  reader.emplace(response);
  response->on_head(200, events());
  response->on_bytes(kEvent);
  EXPECT_EQ(completed, 0);
  response->on_bytes(kLast);
  EXPECT_EQ(completed, 1) << "the end of the body may be long in coming";
  EXPECT_EQ(read_before, kEvent);
  response->on_end();
  EXPECT_EQ(completed, 1);
  reader->read();
  EXPECT_EQ(reader->text, std::string(kEvent) + kLast);
}

TEST(SharedResponse, AStreamWithoutItsEndIsNotRecorded) {
  std::optional<Result<ApiRecord>> record;
  const auto response =
      shared_response({.record = ApiOperation::kChat,
                       .completed = [&](const SharedResponse&, Result<ApiRecord> made) {
                         record = std::move(made);
                       }});
  response->on_head(200, events());
  response->on_bytes(kEvent);
  response->on_end();
  EXPECT_FALSE(record->has_value());
}

// Whatever the backend says, and at whatever moment it turns out.
TEST(SharedResponse, ABoundedAnswerIsNeverRecorded) {
  for (const bool streams : {true, false}) {
    for (const bool late : {true, false}) {
      std::optional<Result<ApiRecord>> record;
      const auto response =
          shared_response({.record = ApiOperation::kChat,
                           .completed = [&](const SharedResponse&, Result<ApiRecord> made) {
                             record = std::move(made);
                           }});
      if (!late) response->on_bounded();
      if (streams) {
        response->on_recorded_head(200, events());
        response->on_bytes(kEvent);
        if (late) response->on_bounded();
        response->on_bytes(kLast);
      } else {
        if (late) response->on_bounded();
        response->on_recorded_head(200, HttpHeaders{{"Content-Type", "application/json"}});
        response->on_bytes("{}");
      }
      response->on_end();
      ASSERT_TRUE(record.has_value());
      EXPECT_FALSE(record->has_value()) << streams << late;
    }
  }
}

TEST(SharedResponse, WholeAnswersAreGathered) {
  int ready = 0;
  bool recorded_before = false;
  const auto response =
      shared_response({.record = ApiOperation::kChat,
                       .completed = [&](const SharedResponse&, const Result<ApiRecord>& made) {
                         recorded_before = made.has_value() && ready == 0;
                       }});
  response->when_ready([&] { ++ready; });
  response->on_head(200, json());
  response->on_bytes(R"({"choices":[{"index":0,"message":{"role":"assistant",)");
  response->on_bytes(R"("content":"x"},"finish_reason":"stop"}],"model":"m"})");
  EXPECT_EQ(ready, 0);
  response->on_end();
  EXPECT_EQ(ready, 1);
  EXPECT_TRUE(recorded_before) << "the next request finds the record";
  EXPECT_EQ(response->state(), SharedResponse::State::kWhole);
  EXPECT_THAT(*response->whole(), StartsWith(R"({"choices")"));
}

TEST(SharedResponse, FailsForAllBeforeTheFirstByte) {
  const auto response = shared_response();
  int ready = 0;
  response->when_ready([&] { ++ready; });
  response->on_head(200, json());
  response->on_bytes("{");
  response->on_error({ErrorCode::kUnavailable, "gone"});
  EXPECT_EQ(response->state(), SharedResponse::State::kFailed);
  EXPECT_EQ(response->failure().error.message, "gone");
  response->when_ready([&] { ++ready; });
  EXPECT_EQ(ready, 2);
}

TEST(SharedResponse, ABinaryAnswerThatBreaksOffIsCut) {
  const auto response = shared_response();
  Reader reader(response);
  response->on_head(200, {{"Content-Type", "audio/mpeg"}});
  response->on_bytes("abc");
  response->on_error({ErrorCode::kUnavailable, "gone"});
  reader.read();
  EXPECT_EQ(reader.text, "abc");
  EXPECT_EQ(reader.state, BodySource::State::kBroken);
}

TEST(SharedResponse, IsCancelledWhenTheLastOneLeavesAndNotBefore) {
  int cancelled = 0;
  const auto response = shared_response();
  response->controlled_by({.cancel = [&] { ++cancelled; }, .handle = {}});
  const auto one = response->join();
  const auto two = response->join();
  one->leave();
  one->leave();
  EXPECT_EQ(cancelled, 0);
  two->leave();
  EXPECT_EQ(cancelled, 1);
}

TEST(SharedResponse, IsCancelledAlsoIfEverybodyLeftBeforeItCouldBe) {
  int cancelled = 0;
  const auto response = shared_response();
  response->join()->leave();
  response->controlled_by({.cancel = [&] { ++cancelled; }, .handle = {}});
  EXPECT_EQ(cancelled, 1);
}

TEST(SharedResponse, LeavingAtTheLastEventCancelsNothing) {
  std::optional<Result<ApiRecord>> record;
  int cancelled = 0;
  const auto response =
      shared_response({.record = ApiOperation::kChat,
                       .completed = [&](const SharedResponse&, Result<ApiRecord> made) {
                         record = std::move(made);
                       }});
  response->controlled_by({.cancel = [&] { ++cancelled; }, .handle = {}});
  const auto subscriber = response->join();
  response->on_head(200, events());
  response->on_bytes(std::string(kEvent) + kLast);
  subscriber->leave();
  EXPECT_EQ(cancelled, 0);
  response->on_end();
  ASSERT_TRUE(record.has_value());
  EXPECT_TRUE(record->has_value()) << "what was said to its end is kept";
}

TEST(SharedResponse, FinishAbandonedFinishesForTheCache) {
  int cancelled = 0;
  const auto response = shared_response({.finish_abandoned = true});
  response->controlled_by({.cancel = [&] { ++cancelled; }, .handle = {}});
  response->join()->leave();
  EXPECT_EQ(cancelled, 0);
}

TEST(SharedResponse, AReaderThatIsDroppedUnreadHasLeft) {
  int cancelled = 0;
  int ended = 0;
  const auto response = shared_response();
  response->controlled_by({.cancel = [&] { ++cancelled; }, .handle = {}});
  response->on_head(200, events());
  static_cast<void>(SharedResponse::body(response->join(), [&](bool) { ++ended; }));
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(ended, 1);
}

TEST(SharedResponse, AResponseForOneReaderIsFreedAsItIsRead) {
  const auto response = std::make_shared<SharedResponse>(SharedResponse::Options{});
  Reader reader(response);
  response->on_head(200, {{"Content-Type", "video/mp4"}});
  response->on_bytes(std::string(700'000, 'x'));
  reader.read();
  response->on_bytes(std::string(700'000, 'y'));
  reader.read();
  EXPECT_EQ(reader.text.size(), 1'400'000U);
  Reader late(response);
  late.read();
  EXPECT_EQ(late.state, BodySource::State::kBroken);
}

TEST(SharedResponses, TheSameKeyJoinsTheSameResponse) {
  SharedResponses responses;
  int started = 0;
  const auto start = [&] {
    ++started;
    return shared_response();
  };
  const auto one = responses.join_or_start(JoiningKey("a"), 0, start);
  const auto two = responses.join_or_start(JoiningKey("a"), 0, start);
  const auto other = responses.join_or_start(JoiningKey("b"), 0, start);
  EXPECT_TRUE(one.leads);
  EXPECT_FALSE(two.leads);
  EXPECT_EQ(&one.subscriber->response(), &two.subscriber->response());
  EXPECT_NE(&one.subscriber->response(), &other.subscriber->response());
  EXPECT_EQ(started, 2);
}

TEST(SharedResponses, NothingIsStartedIfAResponseHasJustCompleted) {
  SharedResponses responses;
  const std::uint64_t before = responses.completed();
  const auto first =
      responses.join_or_start(JoiningKey("a"), before, [] { return shared_response(); });
  responses.remove(JoiningKey("a"),
                   &first.subscriber->response());  // it has completed, and its answer is kept
  const auto late =
      responses.join_or_start(JoiningKey("a"), before, [] { return shared_response(); });
  EXPECT_EQ(late.subscriber, nullptr);
  EXPECT_TRUE(
      responses
          .join_or_start(JoiningKey("a"), responses.completed(), [] { return shared_response(); })
          .leads);
}

TEST(SharedResponses, RemovesOnlyTheResponseItself) {
  SharedResponses responses;
  const auto old = responses.join_or_start(JoiningKey("a"), 0, [] { return shared_response(); });
  responses.remove(JoiningKey("a"), &old.subscriber->response());
  const auto young = responses.join_or_start(JoiningKey("a"), 1, [] { return shared_response(); });
  responses.remove(JoiningKey("a"), &old.subscriber->response());
  EXPECT_EQ(responses.size(), 1U);
}

TEST(SharedResponse, AnAbandonedResponseIsNeitherStoredNorFailed) {
  int completed = 0;
  const auto response =
      shared_response({.completed = [&](const SharedResponse& /*response*/,
                                        const Result<ApiRecord>& /*record*/) { ++completed; }});
  EXPECT_FALSE(response->wanted());
  const auto subscriber = response->join();
  EXPECT_TRUE(response->wanted());
  int told = 0;
  response->when_ready([&] { ++told; });
  response->abandon(/*elsewhere=*/true);
  EXPECT_EQ(response->state(), SharedResponse::State::kAbandoned);
  EXPECT_EQ(told, 1);
  response->when_ready([&] { ++told; });
  EXPECT_EQ(told, 2) << "who comes late hears it, too";
  EXPECT_EQ(completed, 0);
}

TEST(SharedResponse, IsNotWantedOnceAllSubscribersHaveLeft) {
  const auto response = shared_response();
  response->join()->leave();
  EXPECT_FALSE(response->wanted());
  const auto late = response->join();
  EXPECT_FALSE(response->wanted()) << "it was cancelled";
  const auto finished = shared_response({.finish_abandoned = true});
  finished->join()->leave();
  EXPECT_FALSE(finished->wanted());
  const auto joined = finished->join();
  EXPECT_TRUE(finished->wanted());
}

}  // namespace
}  // namespace afterimage

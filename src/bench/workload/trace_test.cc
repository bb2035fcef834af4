// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/workload/trace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "testing/seeds.h"

namespace afterimage {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Ids = std::vector<std::uint32_t>;

Result<Trace> parse(const std::string& text, TraceFormat format = TraceFormat::kAuto) {
  return parse_trace(std::as_bytes(std::span(text)), "t.jsonl", format);
}

std::string gzipped(const std::string& text) {
  z_stream stream{};
  constexpr int kGzip = 16 + MAX_WBITS;
  EXPECT_EQ(::deflateInit2(&stream, 1, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string in = text;
  std::string out(::deflateBound(&stream, in.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

constexpr const char* kTwoMooncake =
    "{\"timestamp\": 0, \"input_length\": 1000, \"output_length\": 500, \"hash_ids\": [7, 9]}\n"
    "{\"timestamp\": 27, \"input_length\": 1400, \"output_length\": 4, \"hash_ids\": [7, 8, 9]}\n";

TEST(Trace, ReadsMooncake) {
  const Trace trace = parse(kTwoMooncake).value();
  EXPECT_EQ(trace.block_tokens, 512U);
  ASSERT_EQ(trace.requests.size(), 2U);
  EXPECT_EQ(trace.requests[0].input_tokens, 1000U);
  EXPECT_EQ(trace.requests[0].output_tokens, 500U);
  EXPECT_EQ(trace.requests[0].session, kNoSession);
  EXPECT_EQ(trace.requests[1].at, milliseconds(27));
  EXPECT_EQ(trace.requests[0].blocks, (Ids{0, 1}));
  EXPECT_EQ(trace.requests[1].blocks, (Ids{0, 2, 3})) << "9 after 8 is not 9 after 7";
  EXPECT_EQ(trace.distinct_blocks, 4U);
}

TEST(Trace, ReadsTurnKindsAndStopReasons) {
  const Trace trace =
      parse(R"({"timestamp":1,"session":130,"input_length":9,"output_length":2,"kind":"human",)"
            R"("stop":"tool_use","hash_ids":[0]})"
            "\n"
            R"({"timestamp":2,"session":4,"input_length":9,"output_length":2,)"
            R"("kind":"tool_result","stop":"end_turn","hash_ids":[0]})")
          .value();
  EXPECT_EQ(trace.sessions, 2U);
  EXPECT_EQ(trace.requests[0].session, 0U);
  EXPECT_EQ(trace.requests[1].session, 1U);
  EXPECT_EQ(trace.requests[0].kind, TurnKind::kHuman);
  EXPECT_EQ(trace.requests[0].stop, StopReason::kToolUse);
  EXPECT_EQ(trace.requests[1].kind, TurnKind::kToolResult);
  EXPECT_EQ(trace.requests[1].stop, StopReason::kEndTurn);
}

TEST(Trace, ReadsQwen) {
  const Trace trace =
      parse(R"({"chat_id":5,"parent_chat_id":-1,"timestamp":61.114,"input_length":30,)"
            R"("output_length":9,"type":"text","turn":1,"hash_ids":[1089,1090]})"
            "\n"
            R"({"chat_id":6,"parent_chat_id":-1,"timestamp":62,"input_length":16,)"
            R"("output_length":9,"type":"image","turn":1,"hash_ids":[1090]})"
            "\n"
            R"({"chat_id":9,"parent_chat_id":5,"timestamp":70,"input_length":40,)"
            R"("output_length":9,"type":"text","turn":2,"hash_ids":[1089,1090,3]})"
            "\n"
            R"({"chat_id":11,"parent_chat_id":9,"timestamp":80,"input_length":40,)"
            R"("output_length":9,"type":"text","turn":3,"hash_ids":[1089,1090,3]})")
          .value();
  EXPECT_EQ(trace.block_tokens, 16U);
  EXPECT_EQ(trace.requests[0].at, milliseconds(61'114));
  EXPECT_EQ(trace.requests[1].blocks, (Ids{2})) << "the same tokens at another position";
  EXPECT_EQ(trace.requests[2].blocks, (Ids{0, 1, 3}));
  EXPECT_EQ(trace.requests[0].session, trace.requests[2].session);
  EXPECT_EQ(trace.requests[0].session, trace.requests[3].session) << "through its parent";
  EXPECT_NE(trace.requests[0].session, trace.requests[1].session);
}

/// The example in docs/formats/trace.md.
const std::string kGolden =
    R"({"afterimage_trace":1,"block_tokens":64})"
    "\n"
    R"({"timestamp":0,"input_length":150,"output_length":16,"session":0,"kind":"human",)"
    R"("stop":"end_turn","conversation":"goes_on","media":[{"modality":"image","digest":)"
    R"("2ba97c5bebeeb95159325f2cecc1a9e76ccced60bf246ec2ca73886756bdf77e",)"
    R"("offset":10,"tokens":64,"encode_ms":52.125}],"hash_ids":[0,1]})"
    "\n"
    R"({"timestamp":1250.5,"input_length":200,"output_length":3,"hash_ids":[0,1,2]})"
    "\n";

TEST(Trace, OwnFormatMatchesTheDocumentation) {
  const Trace trace = parse(kGolden).value();
  EXPECT_EQ(trace.block_tokens, 64U);
  ASSERT_EQ(trace.items.size(), 1U);
  EXPECT_EQ(trace.items[0].modality, Modality::kImage);
  EXPECT_EQ(trace.items[0].content.hex().substr(0, 8), "2ba97c5b");
  EXPECT_EQ(trace.items[0].tokens, 64U);
  EXPECT_EQ(trace.items[0].encode, microseconds(52'125));
  ASSERT_EQ(trace.requests[0].media.size(), 1U);
  EXPECT_EQ(trace.requests[0].media[0].offset, 10U);
  EXPECT_EQ(trace.requests[0].hint, ContinuationHint::kGoesOn);
  EXPECT_EQ(trace.requests[1].hint, ContinuationHint::kNone);
  EXPECT_EQ(trace.requests[1].at, microseconds(1'250'500));
  EXPECT_EQ(to_text(trace), kGolden);
}

TEST(Trace, UnpacksGzipWithSeveralMembers) {
  const std::string text = kTwoMooncake;
  const std::size_t cut = text.find('\n') + 10;  // within the second line
  for (const std::string& packed :
       {gzipped(text), gzipped(text.substr(0, cut)) + gzipped(text.substr(cut))}) {
    EXPECT_EQ(to_text(parse(packed).value()), to_text(parse(text).value()));
  }
}

TEST(Trace, DamagedGzipIsAnError) {
  const std::string packed = gzipped(kTwoMooncake);
  for (std::size_t size = 2; size < packed.size(); ++size) {
    const auto trace = parse(packed.substr(0, size));
    ASSERT_FALSE(trace.has_value()) << size;
    EXPECT_EQ(trace.error().code, ErrorCode::kCorruption) << size;
  }
  std::string flipped = packed;
  flipped[packed.size() - 6] ^= 1;  // in the checksum
  EXPECT_EQ(parse(flipped).error().code, ErrorCode::kCorruption);
  EXPECT_EQ(parse(packed + "garbage").error().code, ErrorCode::kCorruption);
}

TEST(Trace, SplitsLinesAcrossBuffers) {
  std::string text;
  for (int i = 0; i < 6'000; ++i) {
    text += R"({"timestamp":)" + std::to_string(i) +
            R"(,"input_length":512,"output_length":1,"hash_ids":[)" + std::to_string(i) + "]}\n\n";
  }
  for (const Trace& trace : {parse(text).value(), parse(gzipped(text)).value()}) {
    EXPECT_EQ(trace.requests.size(), 6'000U);
    EXPECT_EQ(trace.distinct_blocks, 6'000U);
    EXPECT_TRUE(trace.rejected.empty());
  }
}

TEST(Trace, RejectsABadLineByNumberAndReadsTheOthers) {
  const struct {
    const char* name;
    const char* line;
    const char* said;
  } kCases[] = {
      {"half an object", R"({"timestamp":)", "not JSON"},
      {"another kind", "[1]", "not a JSON object"},
      {"no time", R"({"input_length":1,"output_length":1,"hash_ids":[]})", "\"timestamp\""},
      {"before the beginning",
       R"({"timestamp":-1,"input_length":1,"output_length":1,"hash_ids":[]})", "\"timestamp\""},
      {"the end of time", R"({"timestamp":1e300,"input_length":1,"output_length":1,"hash_ids":[]})",
       "\"timestamp\""},
      {"nothing asked", R"({"timestamp":0,"input_length":0,"output_length":1,"hash_ids":[]})",
       "\"input_length\" is 0"},
      {"half a token", R"({"timestamp":0,"input_length":1.5,"output_length":1,"hash_ids":[]})",
       "\"input_length\""},
      {"too many tokens",
       R"({"timestamp":0,"input_length":99999999999,"output_length":1,"hash_ids":[]})", "at most"},
      {"no blocks", R"({"timestamp":0,"input_length":1,"output_length":1})", "\"hash_ids\""},
      {"more blocks than tokens",
       R"({"timestamp":0,"input_length":512,"output_length":1,"hash_ids":[1,2]})",
       "has 2 blocks; the input has 1"},
      {"a block without a number",
       R"({"timestamp":0,"input_length":512,"output_length":1,"hash_ids":["x"]})", "whole number"},
      {"an unknown kind",
       R"({"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[],"kind":"ghost"})",
       "one of unknown, human, tool_result"},
      {"media that are no list",
       R"({"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[],"media":1})",
       "not a list"},
      {"media beyond the input",
       R"({"timestamp":0,"input_length":9,"output_length":1,"hash_ids":[],"media":[{"digest":)"
       R"("2ba97c5bebeeb95159325f2cecc1a9e76ccced60bf246ec2ca73886756bdf77e",)"
       R"("offset":5,"tokens":5}]})",
       "\"tokens\" is 5; at most 4"},
      {"media with half a digest",
       R"({"timestamp":0,"input_length":9,"output_length":1,"hash_ids":[],"media":)"
       R"([{"digest":"2ba9","offset":5,"tokens":4}]})",
       "hexadecimal"},
  };
  for (const auto& c : kCases) {
    const Trace trace =
        parse(std::string(kTwoMooncake) + "\n" + c.line + "\n" +
              R"({"timestamp":99,"input_length":1,"output_length":1,"hash_ids":[]})")
            .value();
    EXPECT_EQ(trace.requests.size(), 3U) << c.name;
    ASSERT_EQ(trace.rejected.size(), 1U) << c.name;
    EXPECT_EQ(trace.rejected[0].number, 4U) << c.name;
    EXPECT_NE(trace.rejected[0].error.message.find(c.said), std::string::npos)
        << c.name << ": " << trace.rejected[0].error.message;
    EXPECT_EQ(trace.distinct_blocks, 4U) << c.name << " left blocks behind";
  }
}

TEST(Trace, NamesAFileThatIsNotATrace) {
  std::string noise = kTwoMooncake;
  for (int i = 0; i < 1'001; ++i) noise += "{}\n";
  const struct {
    const char* name;
    std::string text;
    TraceFormat format;
    ErrorCode code;
    const char* said;
  } kCases[] = {
      {"nothing", "", TraceFormat::kAuto, ErrorCode::kInvalidArgument, "the file is empty"},
      {"blank", "\n \r\n", TraceFormat::kAuto, ErrorCode::kInvalidArgument, "the file is empty"},
      {"prose", "Dear reader,", TraceFormat::kAuto, ErrorCode::kInvalidArgument, "not JSON"},
      {"other JSON", R"({"id":1})", TraceFormat::kAuto, ErrorCode::kInvalidArgument,
       "unknown format"},
      {"only a header", R"({"afterimage_trace":1,"block_tokens":512})", TraceFormat::kAuto,
       ErrorCode::kInvalidArgument, "the file has no requests"},
      {"a later version", R"({"afterimage_trace":2,"block_tokens":512})", TraceFormat::kAuto,
       ErrorCode::kUnsupported, "version 2"},
      {"blocks of nothing", R"({"afterimage_trace":1,"block_tokens":0})", TraceFormat::kAuto,
       ErrorCode::kInvalidArgument, "\"block_tokens\" is 0"},
      {"no header", kTwoMooncake, TraceFormat::kAfterimage, ErrorCode::kInvalidArgument,
       "line 1 is not a header"},
      {"only bad lines", kTwoMooncake, TraceFormat::kQwen, ErrorCode::kInvalidArgument,
       "the file has no requests; line 1: "},
      {"mostly bad lines", noise, TraceFormat::kAuto, ErrorCode::kInvalidArgument,
       "more than 1000 lines are invalid; the first is line 3"},
  };
  for (const auto& c : kCases) {
    const auto trace = parse(c.text, c.format);
    ASSERT_FALSE(trace.has_value()) << c.name;
    EXPECT_EQ(trace.error().code, c.code) << c.name;
    EXPECT_TRUE(trace.error().message.starts_with("trace 't.jsonl': ")) << c.name;
    EXPECT_NE(trace.error().message.find(c.said), std::string::npos)
        << c.name << ": " << trace.error().message;
  }
}

TEST(Trace, RejectsDeepNestingWithoutRecursion) {
  const std::string deep = R"({"hash_ids":)" + std::string(200'000, '[');
  EXPECT_FALSE(parse(deep).has_value());
  EXPECT_FALSE(parse(deep + std::string(200'000, ']') + "}").has_value());
}

TEST(Trace, SortsRequestsByTimeAndKeepsParentsBeforeBlocks) {
  const Trace trace =
      parse(R"({"timestamp":9,"input_length":1024,"output_length":1,"hash_ids":[4,5]})"
            "\n"
            R"({"timestamp":3,"input_length":1024,"output_length":2,"hash_ids":[4,6]})"
            "\n"
            R"({"timestamp":3,"input_length":1024,"output_length":3,"hash_ids":[4,7]})")
          .value();
  EXPECT_EQ(trace.requests[0].output_tokens, 2U);
  EXPECT_EQ(trace.requests[1].output_tokens, 3U) << "requests with equal times keep their order";
  EXPECT_EQ(trace.requests[2].blocks, (Ids{0, 1}));
}

TEST(Trace, EqualContentWithTwoTokenCountsIsTwoItems) {
  const std::string media =
      R"({"digest":"2ba97c5bebeeb95159325f2cecc1a9e76ccced60bf246ec2ca73886756bdf77e",)";
  const Trace trace =
      parse(R"({"timestamp":0,"input_length":90,"output_length":1,"hash_ids":[],"media":[)" +
            media + R"("offset":0,"tokens":10},)" + media + R"("offset":10,"tokens":20},)" + media +
            R"("offset":30,"tokens":10}]})")
          .value();
  ASSERT_EQ(trace.items.size(), 2U);
  EXPECT_EQ(trace.requests[0].media[0].item, trace.requests[0].media[2].item);
  EXPECT_NE(trace.requests[0].media[0].item, trace.requests[0].media[1].item);
}

Trace random_trace(Rng& rng) {
  Trace trace{.block_tokens = static_cast<std::uint32_t>(1 + rng.below(600))};
  std::vector<Ids> chains(1);  // of the requests so far
  Duration now{0};
  for (std::uint64_t i = 1 + rng.below(40); i > 0; --i) {
    now += microseconds(rng.below(5'000'000));
    TraceRequest request{.at = now, .output_tokens = static_cast<std::uint32_t>(rng.below(900))};
    if (rng.chance(0.5)) {
      request.session = trace.sessions == 0 || rng.chance(0.3)
                            ? trace.sessions++
                            : static_cast<std::uint32_t>(rng.below(trace.sessions));
    }
    request.kind = static_cast<TurnKind>(rng.below(3));
    request.stop = static_cast<StopReason>(rng.below(4));
    request.blocks = chains[rng.below(chains.size())];
    request.blocks.resize(rng.below(request.blocks.size() + 1));
    for (std::uint64_t fresh = rng.below(5); fresh > 0; --fresh) {
      request.blocks.push_back(trace.distinct_blocks++);
    }
    chains.push_back(request.blocks);
    request.input_tokens = static_cast<std::uint32_t>(
        1 + request.blocks.size() * trace.block_tokens + rng.below(1'000));
    for (std::uint32_t offset = 0; rng.chance(0.4) && offset < request.input_tokens;) {
      const bool fresh = trace.items.empty() || rng.chance(0.5);
      if (fresh) {
        TraceItem item{.modality = static_cast<Modality>(1 + rng.below(3)),
                       .tokens = static_cast<std::uint32_t>(rng.below(50)),
                       .encode = microseconds(rng.below(1'000'000))};
        for (std::byte& byte : item.content.bytes) byte = static_cast<std::byte>(rng.below(256));
        trace.items.push_back(item);
      }
      const auto item = static_cast<std::uint32_t>(fresh ? trace.items.size() - 1
                                                         : rng.below(trace.items.size()));
      if (trace.items[item].tokens > request.input_tokens - offset) {
        if (fresh) trace.items.pop_back();
        break;
      }
      request.media.push_back({.item = item, .offset = offset});
      offset += trace.items[item].tokens + static_cast<std::uint32_t>(rng.below(9));
    }
    trace.requests.push_back(std::move(request));
  }
  return trace;
}

TEST(TraceProperty, RoundTrips) {
  testing::for_each_seed(200, [](Rng& rng) {
    const Trace trace = random_trace(rng);
    const std::string text = to_text(trace);
    const auto read = parse(rng.chance(0.2) ? gzipped(text) : text);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_TRUE(read->rejected.empty());
    EXPECT_EQ(read->sessions, trace.sessions);
    EXPECT_EQ(read->distinct_blocks, trace.distinct_blocks);
    EXPECT_EQ(read->items.size(), trace.items.size());
    EXPECT_EQ(to_text(*read), text);
  });
}

TEST(ContinuationHints, ARequestIsContinuedWhereALaterOneHasTheFirstFullBlockThatItBrought) {
  const auto request = [](int at, int tokens, std::string_view blocks) {
    return fmt::format(R"({{"timestamp":{},"input_length":{},"output_length":1,"hash_ids":{}}})"
                       "\n",
                       at, tokens, blocks);
  };
  const Trace trace = parse(request(0, 2000, "[1,2,3,4]") +  // its end was rewritten later
                            request(1, 2000, "[1,2,5,6]") +  // brought 5: nobody has it again
                            request(2, 1100, "[1,2,7]") +    // brought no full block; 2 is its last
                            request(3, 1100, "[1,2,8]") +    // as that one, but the last of all
                            request(4, 400, "[1]"))          // no full block
                          .value();
  EXPECT_EQ(continuation_hints(trace, 0, 1), (std::vector<bool>{true, false, true, false, false}));
}

TEST(ContinuationHints, AreTheFutureInvertedAtTheGivenRate) {
  // The first is continued after its one full block; the others are not.
  const Trace trace =
      parse(R"({"timestamp":0,"input_length":600,"output_length":1,"hash_ids":[1,2]})"
            "\n"
            R"({"timestamp":1,"input_length":600,"output_length":1,"hash_ids":[1,3]})"
            "\n"
            R"({"timestamp":2,"input_length":100,"output_length":1,"hash_ids":[1]})")
          .value();
  EXPECT_EQ(continuation_hints(trace, 0, 1), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(continuation_hints(trace, 1, 1), (std::vector<bool>{false, false, true}));

  Trace many;
  many.requests.resize(20'000, {.input_tokens = 1});
  const std::vector<bool> noisy = continuation_hints(many, 0.1, 7);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(noisy, true)) / 20'000, 0.1, 0.01);
  EXPECT_EQ(noisy, continuation_hints(many, 0.1, 7)) << "equal seeds give equal errors";
  EXPECT_NE(noisy, continuation_hints(many, 0.1, 8));
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/run/run.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "afterimage/tier.h"
#include "bench/run/run_report.h"
#include "engines/reference/reference_engine.h"
#include "foundation/text/quantities.h"
#include "testing/forwarding_engine.h"
#include "testing/media_files.h"
#include "testing/tiny_engine.h"

namespace afterimage {
namespace {

using FaultyEngine = testing::ForwardingEngine;

struct Fixture {
  SystemClock clock;
  std::unique_ptr<ReferenceEngine> engine = testing::tiny_engine(clock);

  static MediaItem picture(std::uint32_t seed) {
    return testing::media_item(Modality::kImage,
                               testing::make_png(testing::make_picture(40, 30, seed)),
                               "picture" + std::to_string(seed));
  }
  static Request request(const std::string& id, const std::vector<MediaItem>& items,
                         const std::string& agent = "") {
    Message message{.role = Role::kUser, .parts = {std::string("Look.")}};
    for (const MediaItem& item : items) message.parts.emplace_back(item);
    return {.id = RequestId(id), .hints = {.agent = agent}, .messages = {message}};
  }
  [[nodiscard]] RunReport run(const Workload& workload, const Engine& on,
                              const ReuseOptions& reuse = {}) const {
    return run_workload(workload, on, {.generate = {.max_tokens = TokenCount(2)}, .reuse = reuse},
                        clock)
        .value();
  }
};

TEST(Run, EncodesEachDistinctItemOnceAndChangesNothing) {
  const Fixture f;
  const Workload workload{.requests = {f.request("a", {f.picture(1), f.picture(2)}, "x"),
                                       f.request("b", {f.picture(1)}, "y"),
                                       f.request("c", {f.picture(2), f.picture(2)}, "x")}};
  const RunReport report = f.run(workload, *f.engine);
  EXPECT_TRUE(report.fine());
  EXPECT_EQ(report.media_items, 5U);
  EXPECT_EQ(report.distinct_media, 2U);
  EXPECT_EQ(report.cold.encoder_calls, 5U);
  EXPECT_EQ(report.warm.encoder_calls, 2U);
  EXPECT_EQ(report.agents, 2U);
  EXPECT_EQ(report.most_shared, "picture1");
  EXPECT_EQ(report.most_shared_by, 2U);
  EXPECT_EQ(report.requests[2].media[1].source, MediaSource::kRepeated);
}

TEST(Run, ASecondRunOnTheSameTierEncodesNothingAndReportsItsLoads) {
  const Fixture f;
  const Workload workload{
      .requests = {f.request("a", {f.picture(1), f.picture(2)}), f.request("b", {f.picture(1)})}};
  MemoryBudget memory(64_MiB);
  HostTier tier(memory);
  RunOptions options{.generate = {.max_tokens = TokenCount(2)},
                     .reuse = {.tier = &tier, .weigh_loads = false}};
  options.disk = &tier;
  const auto run = [&] { return run_workload(workload, *f.engine, options, f.clock).value(); };
  const RunReport first = run();
  EXPECT_TRUE(first.fine());
  EXPECT_EQ(first.encode_once.encoder_calls, 2U);
  EXPECT_EQ(first.warm.encoder_calls, 2U) << "the earlier pass stored nothing in the tier";
  EXPECT_EQ(first.disk_before->entries, EntryCount(0));
  EXPECT_GT(first.disk_after->entries, EntryCount(2));
  // Another run has another secret and so no hits.
  EXPECT_EQ(run().warm.encoder_calls, 2U);

  options.secret = Secret{std::byte{1}};
  EXPECT_EQ(run().warm.encoder_calls, 2U);
  const RunReport second = run();
  EXPECT_TRUE(second.fine());
  EXPECT_EQ(second.warm.encoder_calls, 0U);
  EXPECT_EQ(second.warm.prefilled, 2U) << "the last token of each prompt";
  EXPECT_NE(to_table(second).find("\ndisk: "), std::string::npos);
  const auto json = nlohmann::json::parse(to_json(second));
  EXPECT_GT(json.at("disk").at("tokens_loaded"), 0);
  EXPECT_EQ(json.at("disk").at("kv_entries_kept"), 0);
  EXPECT_TRUE(nlohmann::json::parse(to_json(f.run(workload, *f.engine))).at("disk").is_null());
}

TEST(Run, JsonReportHasTheDocumentedNames) {
  const Fixture f;
  const RunReport report = f.run({.requests = {f.request("a", {f.picture(1)})}}, *f.engine);
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json.at("requests"), 1);
  EXPECT_EQ(json.at("encoder_calls").at("cold"), 1);
  EXPECT_EQ(json.at("outputs_identical"), true);
  EXPECT_TRUE(json.at("ttft_ms").at("warm").contains("p99"));
  EXPECT_EQ(json.at("per_request")[0].at("media")[0].at("source"), "encoded");
}

// Other users take almost all memory: cache contents change, answers do not.
TEST(Run, AGovernorChangesNoAnswerAndIsReported) {
  const Fixture f;
  const Workload workload{.requests = {f.request("a", {f.picture(1), f.picture(2)}, "x"),
                                       f.request("b", {f.picture(1)}, "y"),
                                       f.request("c", {f.picture(2), f.picture(2)}, "x")}};
  int looks = 0;
  const auto gauge = std::make_shared<EngineGauge>([&]() -> Result<GaugeReading> {
    return GaugeReading{.total = 64_MiB, .used = ++looks < 3 ? 8_MiB : 64_MiB - 100_KiB};
  });
  PressureOptions pressure{.gauge = gauge, .governor = {.reserve = 64_KiB}, .own_thread = true};
  pressure.governor.tick = pressure.governor.busy_tick = std::chrono::microseconds(100);
  const RunReport report = f.run(workload, *f.engine, {.budget = 16_MiB, .pressure = pressure});
  EXPECT_TRUE(report.outputs_identical());
  ASSERT_TRUE(report.reuse.governed.has_value());
  EXPECT_NE(to_table(report).find("governor: engine of 64.0 MiB"), std::string::npos);
  const auto json = nlohmann::json::parse(to_json(report)).at("governor");
  EXPECT_EQ(json.at("memory_bytes"), (64_MiB).value());
  EXPECT_GE(json.at("ticks"), 1);
  EXPECT_EQ(json.at("given_back_bytes"), report.reuse.governed->given_back.value());
  EXPECT_LE(json.at("lowest_budget_bytes"), (16_MiB).value());
  const RunReport without = f.run(workload, *f.engine);
  EXPECT_TRUE(nlohmann::json::parse(to_json(without)).at("governor").is_null());
  EXPECT_EQ(to_table(without).find("governor"), std::string::npos);
}

TEST(Run, RecordsServedRequestsForReplay) {
  const Fixture f;
  std::vector<MediaItem> some;  // enough to fill two blocks
  for (std::uint32_t seed = 1; seed <= 12; ++seed) some.push_back(f.picture(seed));
  std::vector<MediaItem> others = some;
  others[7] = f.picture(20);
  Workload workload{.requests = {f.request("a", some, "x"),
                                 f.request("b", {testing::media_item(Modality::kImage, {})}),
                                 f.request("c", others, "x")}};
  workload.requests[2].hints.conversation = ContinuationHint::kEnds;
  const RunOptions options{.generate = {.max_tokens = TokenCount(2)}, .record = true};
  const Trace made = run_workload(workload, *f.engine, options, f.clock).value().trace;
  const std::string text = to_text(made);
  const Trace trace = parse_trace(std::as_bytes(std::span(text)), "recorded").value();
  EXPECT_EQ(to_text(trace), text);
  ASSERT_EQ(trace.requests.size(), 2U) << "unanswered requests are not recorded";
  EXPECT_EQ(trace.sessions, 1U);
  EXPECT_EQ(trace.items.size(), 13U);
  EXPECT_GT(trace.items[0].encode.count(), 0);
  const TraceRequest& first = trace.requests[0];
  const TraceRequest& second = trace.requests[1];
  EXPECT_EQ(first.kind, TurnKind::kHuman);
  EXPECT_EQ(first.output_tokens, 2U);
  EXPECT_EQ(first.hint, ContinuationHint::kNone);
  EXPECT_EQ(second.hint, ContinuationHint::kEnds);
  EXPECT_EQ(first.blocks.size(), first.input_tokens / trace.block_tokens);
  EXPECT_GT(second.at, first.at);
  ASSERT_EQ(second.media.size(), 12U);
  EXPECT_EQ(first.media[8].item, second.media[8].item);
  EXPECT_NE(first.media[7].item, second.media[7].item);
  // They share the blocks before the differing image and none from it on.
  const std::uint32_t parting = first.media[7].offset / trace.block_tokens;
  ASSERT_GT(parting, 0U);
  ASSERT_GT(first.blocks.size(), parting);
  for (std::uint32_t i = 0; i < first.blocks.size() && i < second.blocks.size(); ++i) {
    EXPECT_EQ(first.blocks[i] == second.blocks[i], i < parting) << "block " << i;
  }
}

/// Encodes an item slightly differently the second time, like a stale or mixed-up cache.
class ForgetfulEngine final : public FaultyEngine {
 public:
  using FaultyEngine::ForwardingEngine;
  Result<EncoderOutput> encode(const MediaItem& item) const override {
    AFI_TRY(EncoderOutput output, FaultyEngine::encode(item));
    output[0].bytes[0] ^= static_cast<std::byte>(++calls_ > 1 ? 1 : 0);
    return output;
  }

 private:
  mutable int calls_ = 0;
};

TEST(Run, DetectsASingleDifferentBit) {
  const Fixture f;
  const RunReport report =
      f.run({.requests = {f.request("a", {f.picture(1)})}}, ForgetfulEngine(*f.engine));
  EXPECT_FALSE(report.outputs_identical());
  EXPECT_FALSE(report.fine());
  EXPECT_NE(to_table(report).find("outputs identical: NO"), std::string::npos);
  EXPECT_NE(to_table(report).find("request a differs with reuse"), std::string::npos);
}

/// Fails only the n-th encode.
class FailingEngine final : public FaultyEngine {
 public:
  FailingEngine(const Engine& good, int nth) : ForwardingEngine(good), nth_(nth) {}
  Result<EncoderOutput> encode(const MediaItem& item) const override {
    if (++calls_ == nth_) return fail(ErrorCode::kUnavailable, "the encoder went away");
    return FaultyEngine::encode(item);
  }

 private:
  int nth_;
  mutable int calls_ = 0;
};

TEST(Run, AFailedEncodeAffectsNoOtherRequestAndLeaksNothing) {
  const Fixture f;
  const Workload workload{.requests = {f.request("a", {f.picture(1), f.picture(2)}),
                                       f.request("b", {f.picture(2)}),
                                       f.request("c", {f.picture(1)})}};
  const int cold_calls = 4;
  for (int nth = 1; nth <= cold_calls + 2; ++nth) {
    const RunReport report = f.run(workload, FailingEngine(*f.engine, nth));
    EXPECT_EQ(report.requests.size(), 2U) << "encode " << nth;
    ASSERT_EQ(report.failed.size(), 1U) << "encode " << nth;
    EXPECT_FALSE(report.failed[0].in_all_runs);
    EXPECT_FALSE(report.fine());
    EXPECT_EQ(report.reuse.used, report.reuse.encoder.resident + report.reuse.prefix.resident)
        << "no pin is left behind";
  }
}

TEST(Run, CountsFailedRestores) {
  class Refusing final : public FaultyEngine {
   public:
    using FaultyEngine::ForwardingEngine;

   protected:
    Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                           const GenerateOptions& options, const KvUse& use) const override {
      if (use.resume_from != nullptr) return fail(ErrorCode::kUnavailable, "no such context");
      return FaultyEngine::run(prompt, embeddings, options, use);
    }
  };
  const Fixture f;
  const Workload workload{.requests = {f.request("a", {f.picture(1)}),
                                       f.request("b", {f.picture(1)}),
                                       f.request("c", {f.picture(1)})}};
  const RunReport refused = f.run(workload, Refusing(*f.engine));
  EXPECT_TRUE(refused.fine()) << "the answers are still right";
  EXPECT_EQ(refused.restore_failures, 2U);
  EXPECT_EQ(nlohmann::json::parse(to_json(refused)).at("restore_failures"), 2);
  EXPECT_NE(to_table(refused).find("cached KV could not be restored for 2 requests"),
            std::string::npos);

  const RunReport smooth = f.run(workload, *f.engine);
  EXPECT_EQ(nlohmann::json::parse(to_json(smooth)).at("restore_failures"), 0);
  EXPECT_EQ(to_table(smooth).find("could not be restored"), std::string::npos);
}

TEST(Run, NothingAnsweredMeansNotIdentical) {
  const Fixture f;
  const MediaItem damaged = testing::media_item(Modality::kImage, {});
  const RunReport report = f.run({.requests = {f.request("a", {damaged})}}, *f.engine);
  EXPECT_FALSE(report.outputs_identical());
  EXPECT_NE(to_table(report).find("nothing was answered"), std::string::npos) << to_table(report);
}

TEST(Run, RejectsAnEngineWithoutAnIdentity) {
  class Nameless final : public FaultyEngine {
   public:
    using FaultyEngine::ForwardingEngine;
    [[nodiscard]] const ModelIdentity& identity() const override { return none_; }

   private:
    ModelIdentity none_;
  };
  const Fixture f;
  const auto report = run_workload({}, Nameless(*f.engine), {}, f.clock);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
}

TEST(PassReport, PercentilesAreNearestRank) {
  PassReport pass;
  EXPECT_EQ(pass.ttft_percentile(50), Duration(0));
  for (int ms = 100; ms >= 1; --ms) pass.ttft.emplace_back(ms);
  EXPECT_EQ(pass.ttft_percentile(50), Duration(50));
  EXPECT_EQ(pass.ttft_percentile(99), Duration(99));
  EXPECT_EQ(pass.ttft_percentile(100), Duration(100));
  EXPECT_EQ(pass.ttft_percentile(0), Duration(1));
}

TEST(Readable, SizesHaveOneDecimalAndBinaryUnits) {
  EXPECT_EQ(readable(640_B), "640 B");
  EXPECT_EQ(readable(Bytes(1536)), "1.5 KiB");
  EXPECT_EQ(readable(4_GiB), "4.0 GiB");
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/scheduling/parallel_advice.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <limits>

#include "caches/scheduling/testing/parallel_rules.h"

namespace afterimage {
namespace {

using testing::parallel_advice_regret;
using testing::ParallelRuleScore;
using testing::seed_rule;

constexpr EncoderFacts kSmallEncoder{
    .parameter_share = 0.002, .depth = 27, .weight_bytes = 800_MiB};
constexpr EncoderFacts kLargeEncoder{.parameter_share = 0.02, .depth = 45, .weight_bytes = 8_GiB};
constexpr EncoderDeployment kEightDevices{.tensor_parallel_size = 8, .headroom = 16_GiB};

EncoderParallelMode mode(const EncoderFacts& facts, const EncoderWorkload& workload) {
  return advise_encoder_parallelism(facts, workload, kEightDevices).mode;
}

TEST(SeedRule, AnswersAsTheSeedDid) {
  const struct {
    const char* name;
    std::uint32_t images, width, height, depth;
    bool expected;
  } kCases[] = {
      {"nothing", 0, 0, 0, 0, false},
      {"one small image, shallow", 1, 256, 256, 27, false},
      {"one image at the seed's defaults", 1, 512, 512, 27, true},
      {"one long narrow image", 1, 4096, 400, 27, false},
      {"one below 512", 1, 511, 512, 27, false},
      {"one below deep", 1, 256, 256, 44, false},
      {"deep", 1, 256, 256, 45, true},
      {"two images", 2, 1, 1, 1, true},
      {"nine small images", 9, 256, 256, 27, true},
      {"ten small images", 10, 256, 256, 27, false},
      {"ten small images, deep", 10, 256, 256, 63, false},
      {"ten images, one pixel wider", 10, 257, 256, 27, true},
      {"ten images, one pixel higher", 10, 256, 257, 27, true},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(seed_rule(c.images, c.width, c.height, c.depth), c.expected) << c.name;
  }
}

TEST(ParallelAdvice, DataModeUnlessASmallEncoderSeesManyModestImages) {
  const struct {
    const char* name;
    EncoderFacts facts;
    EncoderWorkload workload;
    EncoderParallelMode expected;
  } kCases[] = {
      {"small encoder, ten at 512", kSmallEncoder, {10, 512, 512}, EncoderParallelMode::kWeights},
      {"nine of them", kSmallEncoder, {9, 512, 512}, EncoderParallelMode::kData},
      {"one column more", kSmallEncoder, {10, 513, 512}, EncoderParallelMode::kData},
      {"long narrow images are not modest",
       kSmallEncoder,
       {10, 4096, 400},
       EncoderParallelMode::kData},
      {"large encoder, ten at 256", kLargeEncoder, {10, 256, 256}, EncoderParallelMode::kData},
      {"exactly 1 % is not small",
       {.parameter_share = 0.01, .depth = 1},
       {10, 256, 256},
       EncoderParallelMode::kData},
      {"an unknown share is not small",
       {.parameter_share = std::numeric_limits<double>::quiet_NaN(), .depth = 1},
       {10, 256, 256},
       EncoderParallelMode::kData},
      {"largest images",
       kSmallEncoder,
       {4'294'967'295U, 4'294'967'295U, 4'294'967'295U},
       EncoderParallelMode::kData},
  };
  for (const auto& c : kCases) EXPECT_EQ(mode(c.facts, c.workload), c.expected) << c.name;
}

TEST(ParallelAdvice, ExplainsWhyDataModeIsNotPossible) {
  const EncoderWorkload photos{.images = 3, .width = 1024, .height = 1024};
  EncoderFacts unsupported = kLargeEncoder;
  unsupported.supports_data_mode = false;
  const struct {
    const char* reason;
    EncoderFacts facts;
    EncoderWorkload workload;
    EncoderDeployment deployment;
  } kCases[] = {
      {"one device", kLargeEncoder, photos, {.tensor_parallel_size = 1, .headroom = 16_GiB}},
      {"one device", kLargeEncoder, photos, {.tensor_parallel_size = 0, .headroom = 16_GiB}},
      {"no images", kLargeEncoder, {.images = 0, .width = 9, .height = 9}, kEightDevices},
      {"no images", kLargeEncoder, {.images = 3, .width = 0, .height = 9}, kEightDevices},
      {"no data mode", unsupported, photos, kEightDevices},
      {"more bytes on each device",
       kLargeEncoder,
       photos,
       {.tensor_parallel_size = 8, .headroom = 7_GiB - 1_B}},
  };
  for (const auto& c : kCases) {
    const ParallelAdvice advice = advise_encoder_parallelism(c.facts, c.workload, c.deployment);
    EXPECT_EQ(advice.mode, EncoderParallelMode::kWeights) << c.reason;
    EXPECT_NE(advice.reason.find(c.reason), std::string::npos) << advice.reason;
  }
  const EncoderDeployment exactly{.tensor_parallel_size = 8, .headroom = 7_GiB};
  EXPECT_EQ(advise_encoder_parallelism(kLargeEncoder, photos, exactly).mode,
            EncoderParallelMode::kData);
}

TEST(ParallelAdvice, ReplicatedWeightsAreThePartADeviceLacks) {
  EXPECT_EQ(replicated_weight_bytes(kLargeEncoder, {.tensor_parallel_size = 0}), 0_B);
  EXPECT_EQ(replicated_weight_bytes(kLargeEncoder, {.tensor_parallel_size = 1}), 0_B);
  EXPECT_EQ(replicated_weight_bytes(kLargeEncoder, {.tensor_parallel_size = 2}), 4_GiB);
  EXPECT_EQ(replicated_weight_bytes(kLargeEncoder, kEightDevices), 7_GiB);
}

TEST(ParallelAdvice, ExpectsWhatWasMeasuredOnSimilarWorkloads) {
  const auto gain = [](const EncoderFacts& facts, const EncoderWorkload& workload) {
    return advise_encoder_parallelism(facts, workload, kEightDevices).expected_gain;
  };
  EXPECT_EQ(gain(kSmallEncoder, {10, 256, 256}), (GainInterval{-1.5, 0.1}));
  EXPECT_EQ(gain(kSmallEncoder, {1, 256, 256}), (GainInterval{-1.0, 19.2}));
  EXPECT_EQ(gain(kLargeEncoder, {1, 256, 256}), (GainInterval{-0.3, 44.9}));
  EXPECT_EQ(advise_encoder_parallelism(kLargeEncoder, {1, 256, 256}, {}).expected_gain,
            GainInterval{});
}

TEST(ParallelAdvice, AdviceNamesLaunchFlagsAndReasons) {
  const ParallelAdvice advice =
      advise_encoder_parallelism(kLargeEncoder, {3, 1024, 1024}, kEightDevices);
  EXPECT_EQ(to_string(advice.mode), "data");
  EXPECT_NE(advice.reason.find("90 all-reduces"), std::string::npos) << advice.reason;
  ASSERT_FALSE(advice.prerequisites.empty());
  EXPECT_NE(advice.prerequisites[0].find("--mm-encoder-tp-mode data"), std::string::npos);
}

TEST(ParallelAdvice, dp27_RegretsLessThanAlwaysAndAlwaysLessThanTheSeed) {
  const ParallelRuleScore advised = parallel_advice_regret([](const ParallelMeasurement& cell) {
    const EncoderFacts facts{.parameter_share = cell.parameter_share, .depth = cell.depth};
    return mode(facts, {cell.images, cell.side, cell.side}) == EncoderParallelMode::kData;
  });
  const ParallelRuleScore always =
      parallel_advice_regret([](const ParallelMeasurement&) { return true; });
  const ParallelRuleScore seed = parallel_advice_regret([](const ParallelMeasurement& cell) {
    return seed_rule(cell.images, cell.side, cell.side, cell.depth);
  });
  const ParallelRuleScore never =
      parallel_advice_regret([](const ParallelMeasurement&) { return false; });
  const struct {
    const char* name;
    ParallelRuleScore score;
    std::size_t right;
    double gain, regret;
  } kRules[] = {
      {"advice", advised, 24, 13.011, 0.052},
      {"always", always, 24, 12.959, 0.104},
      {"seed", seed, 20, 12.030, 1.033},
      {"never", never, 3, 0.000, 13.063},
  };
  for (const auto& r : kRules) {
    std::printf("%-6s right %2zu of %zu, gain %6.3f %%, regret %6.3f points\n", r.name,
                r.score.right, r.score.workloads, r.score.gain, r.score.regret);
    EXPECT_EQ(r.score.workloads, 27U);
    EXPECT_EQ(r.score.right, r.right) << r.name;
    EXPECT_NEAR(r.score.gain, r.gain, 0.0005) << r.name;
    EXPECT_NEAR(r.score.regret, r.regret, 0.0005) << r.name;
  }
  EXPECT_LT(advised.regret, always.regret);
  EXPECT_LT(always.regret, seed.regret);
}

}  // namespace
}  // namespace afterimage

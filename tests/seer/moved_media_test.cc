// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/workload/media_loader.h"
#include "bench/workload/workload.h"
#include "engines/llama/llama_engine.h"
#include "foundation/platform/files.h"
#include "lab/certify/certify.h"
#include "runtime/engine_api/key_rotation.h"
#include "testing/forwarding_engine.h"

/// What trained weights lose if they use the KV of images at other positions, and what certify says of a
/// wrong rotation.
namespace afterimage {
namespace {

const LlamaEngine& moving_seer() {
  static const auto engine = [] {
    LlamaOptions options;
    options.model = AFTERIMAGE_SEER;
    options.mmproj = std::string(AFTERIMAGE_SEER)
                         .replace(std::string(AFTERIMAGE_SEER).rfind(".gguf"), 5, ".mmproj.gguf");
    options.context = TokenCount(512);
    options.threads = 1;  // other tests run beside it
    return LlamaEngine::create(std::move(options)).value();
  }();
  return *engine;
}

/// The first questions of each agent, about one picture and about two.
Workload some_scenes(std::size_t count) {
  const SystemFiles files;
  MediaLoader loader =
      MediaLoader::open({.workload = AFTERIMAGE_SCENES, .images_folder = "", .limits = {}}, files)
          .value();
  Workload all = read_workload(AFTERIMAGE_SCENES, files, [&](const MediaReference& reference) {
                   return loader.load_parts(reference);
                 }).value();
  all.requests.resize(std::min(count, all.requests.size()));
  return all;
}

CertifyReport certified(const Engine& engine, std::size_t requests,
                        std::vector<std::uint32_t> recomputed) {
  CertifyOptions options{.recomputed = std::move(recomputed), .max_tokens = TokenCount(8)};
  options.limits = {.tokens = 1, .divergence = 1e6, .single_hop = 1, .multi_hop = 1};
  const auto report = certify(engine, some_scenes(requests), options);
  EXPECT_TRUE(report.has_value()) << to_string(report.error());
  return report.value_or(CertifyReport{});
}

TEST(SeerMovedMedia, TurnedKeysAreThoseOfTheFirstLayerThere) {
  const CertifyReport report = certified(moving_seer(), 16, {0, 4});
  EXPECT_EQ(report.rotation, "M-RoPE");
  EXPECT_LT(report.key_difference, 2e-3) << "f16 rounds by a two-thousandth";
  ASSERT_EQ(report.columns.size(), 4U);
  EXPECT_EQ(report.columns[0].tokens.other, 0U);
  EXPECT_EQ(report.columns[2].computed, 0U);
  EXPECT_GT(report.columns[3].computed, 0U);
  EXPECT_LT(report.columns[3].computed * 9, report.columns[3].image_tokens);
  // Turning is nearer to the truth than not turning.
  EXPECT_LT(report.columns[2].tokens.divergence, report.columns[1].tokens.divergence)
      << to_text(report);
  EXPECT_TRUE(report.certificate.has_value()) << report.verdict;
}

class WrongDeclaration final : public testing::ForwardingEngine {
 public:
  WrongDeclaration(const Engine& good, KeyRotation wrong, std::int32_t off = 0)
      : ForwardingEngine(good), wrong_(std::move(wrong)), off_(off) {}
  [[nodiscard]] const KeyRotation* key_rotation() const override { return &wrong_; }
  [[nodiscard]] TokenPlace place_of(const Sequence& prompt, TokenCount at) const override {
    TokenPlace place = ForwardingEngine::place_of(prompt, at);
    if (!prompt.spans.empty() && at == prompt.spans.front().offset) place[0] += off_;
    return place;
  }

 private:
  KeyRotation wrong_;
  std::int32_t off_;
};

// Whatever loss is allowed. Swapped axes are not among them: an image's first token is at one number along
// all axes, so an image moves as far along each. They are found at load (rotation_check_test).
TEST(SeerMovedMedia, CertifyFindsEachWrongRotation) {
  const KeyRotation good = *moving_seer().key_rotation();
  const std::vector<std::pair<std::string, std::function<void(KeyRotation&)>>> kMutations{
      {"sign", [](auto& r) { std::ranges::for_each(r.radians, [](float& x) { x = -x; }); }},
      {"pairs", [](auto& r) { r.pairs = KeyRotation::Pairs::kNeighbours; }},
      {"order", [](auto& r) { std::ranges::reverse(r.radians); }},
      {"a pair that does not turn", [](auto& r) { r.radians[0] = 0; }},
  };
  const auto expect_refused = [](const Engine& engine, const std::string& name) {
    const CertifyReport report = certified(engine, 4, {0});
    EXPECT_FALSE(report.certificate.has_value()) << name;
    EXPECT_NE(report.verdict.find("rotation is wrong"), std::string::npos)
        << name << report.verdict;
  };
  EXPECT_TRUE(certified(WrongDeclaration(moving_seer(), good), 4, {0}).certificate.has_value());
  for (const auto& [name, change] : kMutations) {
    KeyRotation wrong = good;
    change(wrong);
    expect_refused(WrongDeclaration(moving_seer(), wrong), name);
  }
  expect_refused(WrongDeclaration(moving_seer(), good, 1), "off by one");
}

}  // namespace
}  // namespace afterimage

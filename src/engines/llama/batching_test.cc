// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engines/llama/llama_engine.h"
#include "foundation/platform/random.h"
#include "testing/demo_models.h"

namespace afterimage {
namespace {

using testing::demo_options;

constexpr std::uint32_t kLanes = 4;

const LlamaEngine& engine_with_lanes(const std::string& name) {
  static std::map<std::string, std::unique_ptr<LlamaEngine>> engines;
  auto& engine = engines[name];
  if (engine == nullptr) {
    LlamaOptions options = demo_options(name);
    options.lanes = kLanes;
    engine = LlamaEngine::create(std::move(options)).value();
  }
  return *engine;
}

struct Asked {
  Sequence prompt;
  GenerateOptions options;
};

Asked random_request(Rng& rng) {
  Asked asked;
  const int length = 1 + static_cast<int>(rng.uniform() * 150);
  for (int i = 0; i < length; ++i) {
    asked.prompt.tokens.push_back(TokenId(static_cast<std::int32_t>(rng.uniform() * 400)));
  }
  asked.options.max_tokens = TokenCount(1 + static_cast<std::uint32_t>(rng.uniform() * 30));
  return asked;
}

class Batching : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Llama, Batching,
                         ::testing::Values("plain", "dense", "sliding", "hybrid", "shortconv"),
                         [](const auto& name) { return name.param; });

TEST_P(Batching, AnAnswerDoesNotDependOnOthersInItsBatch) {
  const LlamaEngine& engine = engine_with_lanes(GetParam());
  ASSERT_TRUE(engine.exactness().exact) << engine.description();
  Rng rng(17);
  std::vector<Asked> asked;
  for (int i = 0; i < 24; ++i) asked.push_back(random_request(rng));
  std::vector<Completion> alone;
  for (const Asked& one : asked) {
    alone.push_back(engine.generate(one.prompt, {}, one.options).value());
  }
  const auto before = engine.load();
  EXPECT_EQ(before.generated, before.batches) << "one request at a time";

  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> clients;
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    clients.emplace_back([&] {
      for (std::size_t one = next++; one < asked.size(); one = next++) {
        const auto made = engine.generate(asked[one].prompt, {}, asked[one].options);
        ASSERT_TRUE(made.has_value()) << to_string(made.error());
        EXPECT_EQ(made->tokens, alone[one].tokens) << "request " << one;
        EXPECT_EQ(made->logits, alone[one].logits) << "request " << one;
      }
    });
  }
  clients.clear();
  const auto after = engine.load();
  EXPECT_GT(after.generated - before.generated, (after.batches - before.batches) * 3 / 2)
      << "batches were not shared";
}

TEST_P(Batching, ClientsThatLeaveChangeNothingAndFreeTheirLanes) {
  const LlamaEngine& engine = engine_with_lanes(GetParam());
  Rng rng(18);
  Asked stays = random_request(rng);
  stays.options.max_tokens = TokenCount(40);
  const auto alone = engine.generate(stays.prompt, {}, stays.options).value();
  std::atomic<bool> over = false;
  std::atomic<int> left = 0;
  std::vector<std::jthread> leaving;
  for (std::uint32_t i = 0; i < 2 * kLanes; ++i) {
    leaving.emplace_back([&, i] {
      Rng own(100 + i);
      while (!over) {
        Asked asked = random_request(own);
        asked.options.max_tokens = TokenCount(200);
        std::stop_source client;
        asked.options.cancel = client.get_token();
        int pieces = 1 + static_cast<int>(own.uniform() * 5);
        asked.options.on_text = [&](std::string_view) {
          if (--pieces == 0) client.request_stop();
          return true;
        };
        const auto made = engine.generate(asked.prompt, {}, asked.options);
        if (!made.has_value() && made.error().code == ErrorCode::kCancelled) ++left;
      }
    });
  }
  while (left < 50) {
    const auto made = engine.generate(stays.prompt, {}, stays.options);
    ASSERT_TRUE(made.has_value()) << to_string(made.error());
    EXPECT_EQ(made->logits, alone.logits);
  }
  over = true;
  leaving.clear();
  EXPECT_EQ(engine.generate(stays.prompt, {}, stays.options)->logits, alone.logits);
}

TEST(BatchingOfOneLane, AStoppedRequestDoesNotPrefill) {
  LlamaOptions options = demo_options("plain");
  options.lanes = 1;
  const auto engine = LlamaEngine::create(std::move(options)).value();
  Rng rng(19);
  Asked asked = random_request(rng);
  std::stop_source client;
  client.request_stop();
  asked.options.cancel = client.get_token();
  const auto made = engine->generate(asked.prompt, {}, asked.options);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace afterimage

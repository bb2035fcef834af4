// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Every turn of a conversation resumes after the last answer: no token is computed twice.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "afterimage/serve.h"
#include "afterimage/tier.h"
#include "engines/llama/llama_engine.h"
#include "testing/demo_models.h"

namespace afterimage {
namespace {

constexpr std::uint64_t kTurns = 20;

/// Tokens of one conversation.
struct Counts {
  std::uint64_t prefilled = 0;
  std::uint64_t generated = 0;  // and fed back
  std::uint64_t covered = 0;    // the last prompt, and its answer as far as it was fed back
};

class Conversation : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] static std::unique_ptr<LlamaEngine> load(const std::string& name) {
    return LlamaEngine::create(name == "gemma3" ? testing::trained_options()
                                                : testing::demo_options(name))
        .value();
  }

  /// One conversation; before each turn `restart` may replace the caches. Compares every answer
  /// with that of a run without reuse.
  Counts hold(const std::function<void(std::uint64_t turn)>& restart) {
    Request request{.id = RequestId("r")};
    request.messages.push_back({.role = Role::kUser, .parts = {"the river and the stone"}});
    const GenerateOptions options{.max_tokens = TokenCount(6), .on_text = {}};
    Counts counts;
    for (std::uint64_t turn = 0; turn < kTurns; ++turn) {
      restart(turn);
      const Served served = serve(request, *engine, *reuse, options).value();
      const Served cold = serve_without_reuse(request, *engine, clock, options).value();
      EXPECT_EQ(served.completion.tokens, cold.completion.tokens) << turn;
      EXPECT_EQ(served.completion.logits, cold.completion.logits) << turn;
      const std::uint64_t fed_back = served.completion.tokens.size() - 1;
      counts.prefilled += served.completion.prefilled.value();
      counts.generated += fed_back;
      counts.covered = cold.completion.prefilled.value() + fed_back;
      request.messages.push_back({.role = Role::kAssistant, .parts = {served.completion.text}});
      request.messages.push_back({.role = Role::kUser, .parts = {"more of the garden"}});
    }
    std::printf("%s: %llu turns, %llu tokens: %llu prefilled, %llu generated\n", GetParam().c_str(),
                static_cast<unsigned long long>(kTurns),
                static_cast<unsigned long long>(counts.covered),
                static_cast<unsigned long long>(counts.prefilled),
                static_cast<unsigned long long>(counts.generated));
    return counts;
  }

  static void expect_each_token_once(const Counts& counts) {
    // These templates trim answers, and those of demo models begin with a space: they are prefilled.
    if (GetParam() == "sliding" || GetParam() == "plain") {
      EXPECT_LE(counts.prefilled, counts.covered + kTurns);
      return;
    }
    EXPECT_EQ(counts.prefilled + counts.generated, counts.covered);
  }

  SystemClock clock;
  std::unique_ptr<LlamaEngine> engine = load(GetParam());
  std::unique_ptr<Reuse> reuse = Reuse::create({}, Secret{}, clock).value();
};

TEST_P(Conversation, ComputesEveryTokenOnce) {
  expect_each_token_once(hold([](std::uint64_t) {}));
}

TEST_P(Conversation, ComputesEveryTokenOnceAlsoAfterRestarts) {
  MemoryBudget budget{1_GiB};
  HostTier tier{budget};
  expect_each_token_once(hold([&](std::uint64_t turn) {
    if (turn % 4 != 0) return;
    reuse = Reuse::create({.tier = &tier, .weigh_loads = false}, Secret{}, clock).value();
  }));
}

// A template may leave thoughts of earlier turns out, or a client may trim an answer.
TEST_P(Conversation, AnAnswerThatIsSentBackOtherwiseIsResumedUpToThere) {
  Request request{.id = RequestId("r")};
  request.messages.push_back({.role = Role::kUser, .parts = {"the river and the stone"}});
  const GenerateOptions options{.max_tokens = TokenCount(8), .on_text = {}};
  const Served first = serve(request, *engine, *reuse, options).value();
  request.messages.push_back({.role = Role::kAssistant, .parts = {"of all that was"}});
  request.messages.push_back({.role = Role::kUser, .parts = {"more of the garden"}});
  const Served next = serve(request, *engine, *reuse, options).value();
  const Served cold = serve_without_reuse(request, *engine, clock, options).value();
  EXPECT_EQ(next.completion.logits, cold.completion.logits);
  EXPECT_GE(next.completion.resumed_from.value(), first.completion.prefilled.value() - 1);
}

std::string instructions(int sentences) {
  std::string text;
  for (int i = 0; i < sentences; ++i) text += "answer in short words and be kind ";
  return text;
}
const std::string kInstructions = instructions(40);

// Models whose layers look at a window or keep a state cannot go back to any place: the second question
// about the same used to compute everything, and only the third resumed.
TEST_P(Conversation, AnotherQuestionAboutTheSameResumesBeforeTheQuestion) {
  const GenerateOptions options{.max_tokens = TokenCount(4), .on_text = {}};
  const auto asks = [&](const std::string& question) {
    Request request{.id = RequestId("r")};
    request.messages.push_back({.role = Role::kSystem, .parts = {kInstructions}});
    request.messages.push_back({.role = Role::kUser, .parts = {question}});
    return request;
  };
  static_cast<void>(serve(asks("the river and the stone"), *engine, *reuse, options).value());
  const Request second = asks("more of the garden");
  const Served served = serve(second, *engine, *reuse, options).value();
  const Served cold = serve_without_reuse(second, *engine, clock, options).value();
  EXPECT_EQ(served.completion.logits, cold.completion.logits);
  const double all = static_cast<double>(cold.completion.prefilled.value());
  EXPECT_GE(served.completion.resumed_from.value(), 0.75 * all);
}

// As Qwen3.5 does where it does not think: findings/a_next_turn_rewrites_the_last_answer.sh.
TEST_P(Conversation, ATurnWhoseEmptyThoughtIsLeftOutResumesBehindTheQuestion) {
  if (GetParam() == "gemma3") GTEST_SKIP() << "the same code";
  LlamaOptions with = testing::demo_options(GetParam());
  with.chat_template =
      "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
      "assistant: <think></think>";
  engine = LlamaEngine::create(std::move(with)).value();
  const GenerateOptions options{.max_tokens = TokenCount(4), .on_text = {}};
  Request request{.id = RequestId("r")};
  request.messages.push_back({.role = Role::kUser, .parts = {kInstructions}});
  const Served first = serve(request, *engine, *reuse, options).value();
  request.messages.push_back({.role = Role::kAssistant, .parts = {first.completion.text}});
  request.messages.push_back({.role = Role::kUser, .parts = {"more of the garden"}});
  const Served served = serve(request, *engine, *reuse, options).value();
  const Served cold = serve_without_reuse(request, *engine, clock, options).value();
  EXPECT_EQ(served.completion.logits, cold.completion.logits);
  EXPECT_GE(served.completion.resumed_from.value() + 40, first.completion.prefilled.value());
}

std::vector<std::string> models() {
  std::vector<std::string> names = {"plain", "dense", "sliding", "hybrid", "shortconv"};
  if (testing::has_trained_model()) names.emplace_back("gemma3");
  return names;
}
INSTANTIATE_TEST_SUITE_P(Llama, Conversation, ::testing::ValuesIn(models()),
                         [](const auto& info) { return info.param; });

// Trained weights, whose sums round; two at a time, so that batches mix requests that are resumed with
// others that are not. The prompt is longer than the ring of a sliding layer.
class SharedPrompt : public Conversation {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SharedPrompt);

TEST_P(SharedPrompt, TwoHundredQuestionsHaveTheBitsOfColdRuns) {
  LlamaOptions options = testing::trained_options();
  options.context = TokenCount(2'048);
  engine = LlamaEngine::create(std::move(options)).value();
  constexpr std::uint32_t kQuestions = 200;
  const std::string system = instructions(170);
  const GenerateOptions generate{.max_tokens = TokenCount(2), .on_text = {}};
  std::atomic<std::uint32_t> next = 0;
  std::atomic<std::uint32_t> equal = 0;
  std::atomic<std::uint32_t> resumed = 0;
  const auto ask = [&] {
    for (std::uint32_t i = next++; i < kQuestions; i = next++) {
      Request request{.id = RequestId("r" + std::to_string(i))};
      request.messages.push_back({.role = Role::kSystem, .parts = {system}});
      request.messages.push_back(
          {.role = Role::kUser, .parts = {"what is " + std::to_string(i * 37) + " to you"}});
      const Served served = serve(request, *engine, *reuse, generate).value();
      const Served cold = serve_without_reuse(request, *engine, clock, generate).value();
      equal += served.completion.logits == cold.completion.logits ? 1 : 0;
      resumed += served.completion.resumed_from > TokenCount(1'024) ? 1 : 0;
    }
  };
  {
    const std::jthread other(ask);
    ask();
  }
  EXPECT_EQ(equal, kQuestions);
  EXPECT_GE(resumed, kQuestions - 4);
}

std::vector<std::string> trained_models() {
  return testing::has_trained_model() ? std::vector<std::string>{"gemma3"}
                                      : std::vector<std::string>{};
}
INSTANTIATE_TEST_SUITE_P(Trained, SharedPrompt, ::testing::ValuesIn(trained_models()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What does a miss cost that is compared with the tenant's earlier prompts? By the length of the prompt, and with as
// many earlier ones as 16 MiB hold: the next turn of a conversation, a prompt whose first line has changed, and
// prompts that share nothing, each kept in the place of the oldest; of these also what a reply waits for.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "gateway/prompts/content_chain.h"
#include "gateway/prompts/prompt_history.h"

namespace afterimage {
namespace {

std::string words(std::size_t bytes, std::size_t seed) {
  std::string text;
  while (text.size() < bytes) text += "word" + std::to_string(seed++ % 997) + " and then ";
  text.resize(bytes);
  return text;
}

ApiRequest turn(std::size_t bytes, const std::string& stamp, std::size_t conversation,
                const std::string& question) {
  const std::string body = R"({"model":"m","messages":[{"role":"system","content":"Request )" +
                           stamp + ". " + words(bytes / 2, 1) + R"("},{"role":"user","content":")" +
                           words(bytes / 2, conversation) + R"("},{"role":"user","content":")" +
                           question + R"("}]})";
  return read_api_request(ApiOperation::kChat, body, ApiReader::kOtherServer).value();
}

std::unique_ptr<PromptHistory> full_history(std::size_t bytes) {
  auto history = std::make_unique<PromptHistory>(16_MiB, Secret{std::byte{1}});
  for (std::size_t i = 0; i < 500; ++i) {
    const ApiRequest request = turn(bytes, "1", i, "First?");
    history->add("a", history->compare_with_closest("a", request, {}).now);
  }
  return history;
}

void compare(benchmark::State& state, const std::string& stamp) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto history = full_history(bytes);
  const ApiRequest request = turn(bytes, stamp, 499, "Second?");
  for (auto _ : state) {
    benchmark::DoNotOptimize(history->compare_with_closest("a", request, {}));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void BM_ChainAlone(benchmark::State& state) {
  const ApiRequest request = turn(static_cast<std::size_t>(state.range(0)), "1", 1, "First?");
  for (auto _ : state) benchmark::DoNotOptimize(content_chain(request));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
void BM_NextTurn(benchmark::State& state) { compare(state, "1"); }
void BM_ChangedFirstLine(benchmark::State& state) { compare(state, "2"); }

/// Words of two to nine letters, other ones each time.
void renew(std::string& text, std::uint64_t& chance) {
  std::size_t left = 0;  // of this word
  for (char& c : text) {
    chance = chance * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t drawn = chance >> 33U;
    if (left == 0) {
      left = 2 + drawn % 8;
      c = ' ';
    } else {
      --left;
      c = static_cast<char>('a' + drawn % 26);
    }
  }
}

/// Prompts that share nothing, one after the other.
class OfOthers {
 public:
  explicit OfOthers(std::size_t bytes) {
    request_.scope.messages.erase(request_.scope.messages.begin(),
                                  request_.scope.messages.end() - 1);
    request_.question.resize(bytes);
    std::size_t before = 0;
    do {  // until the history is full
      before = history_.size();
      for (int i = 0; i < 100; ++i) miss();
    } while (history_.size() > before);
  }
  void ask() { renew(request_.question, chance_); }
  void compare() {
    const auto made = history_.compare_with_closest("a", request_, {});
    history_.add("a", made.now);
    history_.counted("a", made.now, 100);
  }
  void miss() {
    ask();
    compare();
    history_.settle();
  }
  void settle() { history_.settle(); }
  [[nodiscard]] std::size_t kept() { return history_.size(); }

 private:
  PromptHistory history_{16_MiB, Secret{std::byte{1}}};
  ApiRequest request_ = turn(16, "1", 1, "?");
  std::uint64_t chance_ = 1;
};

void BM_OfOthers(benchmark::State& state) {
  OfOthers others(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) others.miss();
  state.counters["kept"] = static_cast<double>(others.kept());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void BM_OfOthersBeforeTheReply(benchmark::State& state) {
  OfOthers others(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    others.ask();
    const auto begin = std::chrono::steady_clock::now();
    others.compare();
    const auto end = std::chrono::steady_clock::now();
    state.SetIterationTime(std::chrono::duration<double>(end - begin).count());
    others.settle();
  }
}

BENCHMARK(BM_ChainAlone)->RangeMultiplier(8)->Range(1 << 10, 1 << 19);
BENCHMARK(BM_NextTurn)->RangeMultiplier(8)->Range(1 << 10, 1 << 19);
BENCHMARK(BM_OfOthers)->RangeMultiplier(8)->Range(1 << 9, 1 << 15);
BENCHMARK(BM_OfOthersBeforeTheReply)->RangeMultiplier(8)->Range(1 << 9, 1 << 15)->UseManualTime();
BENCHMARK(BM_ChangedFirstLine)->RangeMultiplier(8)->Range(1 << 10, 1 << 19);

}  // namespace
}  // namespace afterimage

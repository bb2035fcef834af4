// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "afterimage/result.h"
#include "engines/llama/sequence_rows.h"
#include "engines/llama_library/loaded_model.h"

namespace afterimage {
namespace {

constexpr std::uint32_t kNewTokens = 64;  // an answer

/// A model with full attention only, and a sequence that grows.
class Conversation {
 public:
  Conversation() {
    const char* const chosen = std::getenv("AFTERIMAGE_BENCH_MODEL");
    LlamaOptions options;
    options.model = chosen != nullptr ? chosen : AFTERIMAGE_DEMO_MODELS "/plain.gguf";
    options.context = TokenCount(16'384);
    options.lanes = 1;
    model_ = LoadedModel::load(options).value();
    grow(3);
    constexpr std::array kFull{KvKind::kFull};
    rows_ = SequenceRows::learn(model_->save(0, false).value(), TokenCount(3), kFull, {});
  }
  void grow(std::uint32_t tokens) {
    const auto had = static_cast<std::uint32_t>(after_.size());
    if (tokens <= had) return;
    std::vector<TokenId> more(tokens - had, TokenId(7));
    AFI_CHECK(model_->append({.tokens = more, .at = static_cast<std::int32_t>(had)}).has_value());
    after_.resize(tokens);
    std::iota(after_.begin(), after_.end(), 1);
  }
  [[nodiscard]] const LoadedModel& model() const { return *model_; }
  /// Captures the last tokens.
  [[nodiscard]] Result<void> capture(StatePieces written) const {
    KvBuffers buffers;
    const TokenCount end(static_cast<std::uint32_t>(after_.size()));
    const auto captured = rows_->rows(written, end - TokenCount(kNewTokens), end, after_, buffers);
    AFI_CHECK(captured.has_value());
    benchmark::DoNotOptimize(captured->front().front().bytes.data());
    return {};
  }

 private:
  std::unique_ptr<const LoadedModel> model_;
  std::vector<std::int32_t> after_;
  Result<SequenceRows> rows_ = fail(ErrorCode::kUnsupported, "not learned");
};

Conversation& conversation(std::int64_t tokens) {
  static Conversation the;
  the.grow(static_cast<std::uint32_t>(tokens));
  return the;
}

// What does the KV of an answer of 64 tokens cost after so long a conversation?
void BM_CaptureAnswer(benchmark::State& state) {
  const Conversation& now = conversation(state.range(0));
  for (auto _ : state) {
    AFI_CHECK(
        now.model().read(0, false, [&](StatePieces all) { return now.capture(all); }).has_value());
  }
}
// And through the library's public call, which copies the whole sequence?
void BM_CaptureAnswerThroughOneBuffer(benchmark::State& state) {
  const Conversation& now = conversation(state.range(0));
  for (auto _ : state) {
    const auto saved = now.model().save(0, false).value();
    const std::span<const std::byte> whole = saved;
    AFI_CHECK(now.capture({&whole, 1}).has_value());
  }
}
// One after the other: the sequence only grows. CPU time of all threads, because the model's own
// thread reads the state.
BENCHMARK(BM_CaptureAnswer)->Arg(256)->MeasureProcessCPUTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_CaptureAnswerThroughOneBuffer)
    ->Arg(256)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_CaptureAnswer)->Arg(1'024)->MeasureProcessCPUTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_CaptureAnswerThroughOneBuffer)
    ->Arg(1'024)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_CaptureAnswer)->Arg(4'096)->MeasureProcessCPUTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_CaptureAnswerThroughOneBuffer)
    ->Arg(4'096)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_CaptureAnswer)->Arg(16'000)->MeasureProcessCPUTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_CaptureAnswerThroughOneBuffer)
    ->Arg(16'000)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <benchmark/benchmark.h>

#include <vector>

#include "engines/reference/audio_encoder.h"
#include "engines/reference/kernel.h"
#include "engines/reference/matrix.h"
#include "engines/reference/media_plan.h"
#include "engines/reference/reference_engine.h"
#include "engines/reference/vision_encoder.h"
#include "foundation/media/decode.h"

namespace afterimage {
namespace {

const ReferenceEngine& small_engine() {
  static const auto kEngine = ReferenceEngine::create(ReferenceOptions::small()).value();
  return *kEngine;
}

// How close are matrix products to the machine's peak, at the shapes of the small model?
void BM_KernelProduct(benchmark::State& state) {
  const auto which = static_cast<std::size_t>(state.range(0));
  if (which >= supported_kernels().size()) return state.SkipWithError("not on this machine");
  const Kernels& kernels = *supported_kernels()[which];
  const auto rows = static_cast<std::size_t>(state.range(1));
  const auto inner = static_cast<std::size_t>(state.range(2));
  const auto columns = static_cast<std::size_t>(state.range(3));
  Rng rng(1);
  const PackedWeights weights = PackedWeights::random(inner, columns, rng);
  const Matrix input(rows, inner);
  for (auto _ : state) benchmark::DoNotOptimize(weights.times(input, kernels));
  state.SetLabel(kernels.name);
  const double flops = 2.0 * static_cast<double>(rows * inner * columns);
  state.counters["GFLOP/s"] = benchmark::Counter(
      flops * static_cast<double>(state.iterations()) / 1e9, benchmark::Counter::kIsRate);
}
BENCHMARK(BM_KernelProduct)
    ->ArgNames({"kernels", "rows", "inner", "columns"})
    ->ArgsProduct({{0, 1, 2}, {1, 128, 432}, {256}, {1024}})
    ->ArgsProduct({{0, 1, 2}, {432}, {1024}, {256}});

// What does a hit on an image of one megapixel save, besides reading the file?
void BM_EncodeMegapixel(benchmark::State& state) {
  const ReferenceOptions options = ReferenceOptions::small();
  const VisionEncoder encoder(options.vision, options.decoder.hidden, *supported_kernels().front(),
                              Rng(1));
  Image image{.width = 1152, .height = 864, .rgb = std::vector<std::uint8_t>(3 * 1152 * 864)};
  Rng rng(2);
  for (auto& byte : image.rgb) byte = static_cast<std::uint8_t>(rng.below(256));
  const CellGrid grid =
      cell_grid(image.width, image.height, encoder.pixels(1), options.vision.max_cells);
  for (auto _ : state) {
    const Image fitted = resize(image, encoder.pixels(grid.columns), encoder.pixels(grid.rows));
    benchmark::DoNotOptimize(encoder.encode(fitted, grid));
  }
}
BENCHMARK(BM_EncodeMegapixel)->Unit(benchmark::kMillisecond);

// And on ten seconds of audio?
void BM_EncodeTenSecondsOfSound(benchmark::State& state) {
  const ReferenceOptions options = ReferenceOptions::small();
  const AudioEncoder encoder(options.audio, options.decoder.hidden, *supported_kernels().front(),
                             Rng(1));
  const Samples samples{.sample_rate_hz = 16'000, .mono = std::vector<float>(160'000, 0.1F)};
  for (auto _ : state) benchmark::DoNotOptimize(encoder.encode(samples, 125));
}
BENCHMARK(BM_EncodeTenSecondsOfSound)->Unit(benchmark::kMillisecond);

// What does a prefix of that many tokens save?
void BM_Prefill(benchmark::State& state) {
  const Sequence prompt{
      .tokens = std::vector<TokenId>(static_cast<std::size_t>(state.range(0)), TokenId('a')),
      .spans = {}};
  const GenerateOptions prefill_only{.max_tokens = TokenCount(0)};
  for (auto _ : state) {
    benchmark::DoNotOptimize(small_engine().generate(prompt, {}, prefill_only).value());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Prefill)->Arg(64)->Arg(512)->Arg(4096)->Unit(benchmark::kMillisecond);

// What does one more token of an answer cost?
void BM_Decode(benchmark::State& state) {
  const Sequence prompt{.tokens = std::vector<TokenId>(512, TokenId('a')), .spans = {}};
  std::int64_t tokens = 0;
  for (auto _ : state) {
    tokens += static_cast<std::int64_t>(
        small_engine().generate(prompt, {}, {.max_tokens = TokenCount(64)})->tokens.size());
  }
  state.SetItemsProcessed(tokens);
}
BENCHMARK(BM_Decode)->Unit(benchmark::kMillisecond);

// How long does loading the weights take?
void BM_CreateSmall(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(ReferenceEngine::create(ReferenceOptions::small()).value());
  }
}
BENCHMARK(BM_CreateSmall)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace afterimage

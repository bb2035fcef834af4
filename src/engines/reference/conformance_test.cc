// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <map>
#include <memory>
#include <set>

#include "afterimage/reference_engine.h"
#include "conformance/engine_conformance.h"
#include "testing/forwarding_engine.h"

namespace afterimage::testing {
namespace {

constexpr FullAttention kFull{};
constexpr Recurrence kRecurrent{};
constexpr SlidingAttention sliding(std::uint32_t window) { return {.window = window}; }
constexpr SharedAttention shared(std::uint32_t with) { return {.with = with}; }

// The smallest possible model, so that thousands of prompts take seconds.
std::unique_ptr<ReferenceEngine> small_engine(std::vector<LayerKind> layers,
                                              std::uint64_t weights_seed) {
  ReferenceOptions options = ReferenceOptions::tiny();
  options.weights_seed = weights_seed;
  options.decoder.heads = 1;
  options.decoder.mlp = 32;
  options.decoder.layers = std::move(layers);
  return ReferenceEngine::create(std::move(options)).value();
}

// Engines live as long as the program: every case of a suite uses the same one.
const Engine& engine_with(const std::string& name, const std::vector<LayerKind>& layers,
                          std::uint64_t weights_seed = 1) {
  static std::map<std::string, std::unique_ptr<ReferenceEngine>> engines;
  auto& engine = engines[name + "/" + std::to_string(weights_seed)];
  if (engine == nullptr) engine = small_engine(layers, weights_seed);
  return *engine;
}

EngineUnderTest reference(const std::string& name, const std::vector<LayerKind>& layers) {
  return {.name = name,
          .engine = [=]() -> const Engine& { return engine_with(name, layers); },
          .strangers =
              [=] {
                const std::vector<LayerKind> other{sliding(5), kFull, kRecurrent};
                return std::vector{&engine_with(name, layers, 2), &engine_with("other", other)};
              }};
}

INSTANTIATE_TEST_SUITE_P(ReferenceAlone, EngineConformance,
                         ::testing::Values(reference("full", {kFull}),
                                           reference("sliding_1", {sliding(1)}),
                                           reference("sliding_31", {sliding(31)}),
                                           reference("sliding_32", {sliding(32)}),
                                           reference("recurrent", {kRecurrent}),
                                           reference("full_shared", {kFull, shared(0)}),
                                           reference("sliding_shared", {sliding(8), shared(0)})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(
    ReferenceHybrid, EngineConformance,
    ::testing::Values(reference("all", ReferenceOptions::tiny().decoder.layers),
                      reference("all_twice", {sliding(5), kFull, kRecurrent, sliding(40), shared(0),
                                              shared(3), kRecurrent, shared(1), kFull})),
    name_of);

/// The built-in engine with a fault in restore or capture.
class FaultyEngine final : public ForwardingEngine {
 public:
  using SpoilState = std::function<void(KvSlice&, KvBuffers& buffers)>;
  using SpoilKv = std::function<void(KvSlice&)>;

  FaultyEngine(SpoilState on_restore, SpoilKv on_capture)
      : ForwardingEngine(engine_with("all", ReferenceOptions::tiny().decoder.layers)),
        on_restore_(std::move(on_restore)),
        on_capture_(std::move(on_capture)) {}

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    KvUse spoiled = use;
    KvSlice slice;
    KvBuffers buffers;
    if (use.resume_from != nullptr) {
      slice = *use.resume_from;
      on_restore_(slice, buffers);
      spoiled.resume_from = &slice;
    }
    auto generation = ForwardingEngine::run(prompt, embeddings, options, spoiled);
    if (generation.has_value()) on_capture_(generation->kv);
    return generation;
  }

 private:
  SpoilState on_restore_;
  SpoilKv on_capture_;
};

enum Group : std::size_t { kFullGroup, kSlidingGroup, kRecurrentGroup };  // of the hybrid

// The group's pieces, replaced by one writable copy of them.
std::span<std::byte> owned(std::vector<KvRows>& pieces, KvBuffers& buffers) {
  const std::vector<std::byte> all = bytes_of(pieces);
  const std::span<std::byte> copy = buffers.add(all.size());
  std::ranges::copy(all, copy.begin());
  TokenCount count;
  for (const KvRows& piece : pieces) count += piece.count;
  pieces = {{.first = pieces.front().first, .count = count, .bytes = copy}};
  return copy;
}

std::size_t row_bytes(const std::vector<KvRows>& pieces) {
  return pieces.front().bytes.size() / pieces.front().count.value();
}

void zero(std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte(0)); }

void nothing(KvSlice& /*slice*/, KvBuffers& /*buffers*/) {}

struct Fault {
  const char* name;
  FaultyEngine::SpoilState on_restore = nothing;
  FaultyEngine::SpoilKv on_capture = [](KvSlice&) {};
};

std::vector<Fault> faults() {
  return {
      {.name = "loses one row",
       .on_restore =
           [](KvSlice& slice, KvBuffers& buffers) {
             auto& pieces = slice.rows[kFullGroup];
             const std::size_t row = row_bytes(pieces);
             zero(owned(pieces, buffers).subspan((slice.end.value() - 1) / 2 * row, row));
           }},
      {.name = "restores the window one short",
       .on_restore =
           [](KvSlice& slice, KvBuffers& buffers) {
             if (slice.end < TokenCount(8)) return;  // shorter prefixes have no window edge
             auto& pieces = slice.snapshots.back().groups[kSlidingGroup];
             const std::size_t row = row_bytes(pieces);
             zero(owned(pieces, buffers).first(row));
           }},
      {.name = "forgets the tail of the recurrence",
       .on_restore =
           [](KvSlice& slice, KvBuffers& buffers) {
             const std::span<std::byte> bytes =
                 owned(slice.snapshots.back().groups[kRecurrentGroup], buffers);
             zero(bytes.subspan(bytes.size() / 4));
           }},
      {.name = "restores rows one place off",
       .on_restore =
           [](KvSlice& slice, KvBuffers& buffers) {
             auto& pieces = slice.rows[kFullGroup];
             const auto row = static_cast<std::ptrdiff_t>(row_bytes(pieces));
             const std::span<std::byte> bytes = owned(pieces, buffers);
             std::ranges::rotate(bytes, bytes.begin() + row);
           }},
      {.name = "gives one state as another",
       .on_capture =
           [](KvSlice& kv) {
             if (kv.snapshots.size() < 2) return;
             std::swap(kv.snapshots[0].groups[kRecurrentGroup],
                       kv.snapshots[1].groups[kRecurrentGroup]);
           }},
      {.name = "gives one row less",
       .on_capture =
           [](KvSlice& kv) {
             if (kv.begin == kv.end) return;
             auto& pieces = kv.rows[kFullGroup];
             pieces = rows_between(pieces, kv.begin, kv.end - TokenCount(1));
           }},
      {.name = "gives one byte less",
       .on_capture =
           [](KvSlice& kv) {
             if (kv.begin == kv.end) return;
             std::span<const std::byte>& bytes = kv.rows[kFullGroup].back().bytes;
             bytes = bytes.first(bytes.size() - 1);
           }},
  };
}

TEST(EngineConformanceKit, OffersMediaOfEveryKind) {
  const PromptMaker prompts(engine_with("full", {kFull}));
  std::set<Modality> modalities;
  for (const MediaSpan& span : prompts.everything().sequence.spans) {
    modalities.insert(span.modality);
  }
  EXPECT_EQ(modalities.size(), 3U);
}

TEST(EngineConformanceKit, DetectsEveryFault) {
  for (const Fault& fault : faults()) {
    const FaultyEngine engine(fault.on_restore, fault.on_capture);
    const PromptMaker prompts(engine);
    const EnginePrompt prompt = prompts.everything();
    Rng rng(1);
    const std::string found =
        first_difference(engine, prompt, legal_points(*engine.kv_layout(), prompt.sequence), rng);
    EXPECT_NE(found, "") << fault.name;
    RecordProperty(fault.name, found);
  }
}

TEST(EngineConformanceKit, AcceptsTheEngineWithoutFaults) {
  const FaultyEngine engine(nothing, [](KvSlice&) {});
  const PromptMaker prompts(engine);
  const EnginePrompt prompt = prompts.everything();
  Rng rng(1);
  EXPECT_EQ(
      first_difference(engine, prompt, legal_points(*engine.kv_layout(), prompt.sequence), rng),
      "");
}

}  // namespace
}  // namespace afterimage::testing

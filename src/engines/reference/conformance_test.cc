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
  using SpoilState = std::function<void(KvState&, std::vector<Tensor>& room)>;
  using SpoilKv = std::function<void(KvCapture&)>;

  FaultyEngine(SpoilState on_restore, SpoilKv on_capture)
      : ForwardingEngine(engine_with("all", ReferenceOptions::tiny().decoder.layers)),
        on_restore_(std::move(on_restore)),
        on_capture_(std::move(on_capture)) {}

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    KvUse spoiled = use;
    KvState state;
    std::vector<Tensor> room;
    if (use.resume_from != nullptr) {
      state = *use.resume_from;
      on_restore_(state, room);
      spoiled.resume_from = &state;
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

// The group copied into one writable piece.
std::span<std::byte> owned(KvState& state, std::size_t group, std::vector<Tensor>& room) {
  Tensor all{.dtype = DType::kU8, .shape = {}, .bytes = {}};
  const std::uint64_t size = state.groups[group].front().shape()[1];
  for (const TensorView& slice : state.groups[group]) {
    all.bytes.insert(all.bytes.end(), slice.bytes().begin(), slice.bytes().end());
  }
  all.shape = {all.bytes.size() / size, size};
  room.push_back(std::move(all));
  state.groups[group] = {room.back().view().value()};
  return room.back().bytes;
}

std::size_t row_bytes(const KvState& state, std::size_t group) {
  return state.groups[group].front().shape()[1];
}

void zero(std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte(0)); }

void nothing(KvState& /*state*/, std::vector<Tensor>& /*room*/) {}

struct Fault {
  const char* name;
  FaultyEngine::SpoilState on_restore = nothing;
  FaultyEngine::SpoilKv on_capture = [](KvCapture&) {};
};

std::vector<Fault> faults() {
  return {
      {.name = "loses one row",
       .on_restore =
           [](KvState& state, std::vector<Tensor>& room) {
             const std::size_t row = row_bytes(state, kFullGroup);
             zero(owned(state, kFullGroup, room)
                      .subspan((state.covered.value() - 1) / 2 * row, row));
           }},
      {.name = "restores the window one short",
       .on_restore =
           [](KvState& state, std::vector<Tensor>& room) {
             if (state.covered < TokenCount(8)) return;  // shorter prefixes have no window edge
             const std::size_t row = row_bytes(state, kSlidingGroup);
             zero(owned(state, kSlidingGroup, room).first(row));
           }},
      {.name = "forgets the tail of the recurrence",
       .on_restore =
           [](KvState& state, std::vector<Tensor>& room) {
             const std::span<std::byte> bytes = owned(state, kRecurrentGroup, room);
             zero(bytes.subspan(bytes.size() / 4));
           }},
      {.name = "restores rows one place off",
       .on_restore =
           [](KvState& state, std::vector<Tensor>& room) {
             const std::span<std::byte> bytes = owned(state, kFullGroup, room);
             std::ranges::rotate(bytes,
                                 bytes.begin() + std::ptrdiff_t(row_bytes(state, kFullGroup)));
           }},
      {.name = "gives one state as another",
       .on_capture =
           [](KvCapture& kv) {
             if (kv.snapshots.size() < 2) return;
             std::swap(kv.snapshots[0].groups[kRecurrentGroup],
                       kv.snapshots[1].groups[kRecurrentGroup]);
           }},
      {.name = "gives one row less",
       .on_capture =
           [](KvCapture& kv) {
             Tensor& rows = kv.rows[kFullGroup];
             if (rows.shape[0] == 0) return;
             rows = {.dtype = DType::kU8,
                     .shape = {rows.shape[0] - 1, rows.shape[1]},
                     .bytes = std::vector<std::byte>((rows.shape[0] - 1) * rows.shape[1])};
           }},
      {.name = "gives one byte less",
       .on_capture =
           [](KvCapture& kv) {
             if (!kv.rows[kFullGroup].bytes.empty()) kv.rows[kFullGroup].bytes.pop_back();
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
  const FaultyEngine engine(nothing, [](KvCapture&) {});
  const PromptMaker prompts(engine);
  const EnginePrompt prompt = prompts.everything();
  Rng rng(1);
  EXPECT_EQ(
      first_difference(engine, prompt, legal_points(*engine.kv_layout(), prompt.sequence), rng),
      "");
}

}  // namespace
}  // namespace afterimage::testing

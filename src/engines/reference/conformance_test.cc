// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <map>
#include <memory>
#include <set>

#include "conformance/engine_conformance.h"
#include "engines/reference/reference_engine.h"
#include "engines/reference/testing/tiny_options.h"
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

const Engine& tiled_engine() {
  static const auto kEngine = ReferenceEngine::create(testing::tiny_tiled()).value();
  return *kEngine;
}

/// The built-in engine with a fault in its parts.
class CheatingEngine final : public ForwardingEngine {
 public:
  using Spoil = std::function<void(std::span<const PartToEncode>, std::size_t, EncoderOutput&)>;
  using SpoilParts = std::function<void(std::vector<MediaPart>&)>;

  CheatingEngine(Spoil spoil, SpoilParts spoil_parts, bool in_the_whole = false,
                 const Engine& honest = engine_with("all", ReferenceOptions::tiny().decoder.layers))
      : ForwardingEngine(honest),
        spoil_(std::move(spoil)),
        spoil_parts_(std::move(spoil_parts)),
        in_the_whole_(in_the_whole) {}

  Result<EncoderOutput> encode(const MediaItem& item) const override {
    if (!in_the_whole_) return ForwardingEngine::encode(item);
    AFI_TRY(const auto split, CheatingEngine::split(item));
    if (split == nullptr) return ForwardingEngine::encode(item);
    std::vector<PartToEncode> parts;
    for (std::size_t i = 0; i < split->parts().size(); ++i) {
      parts.push_back({.item = split.get(), .part = i});
    }
    std::vector<EncoderOutput> outputs;
    EXPECT_EQ(encode_together(*this, parts, outputs), "");
    std::vector<TensorViews> views;
    for (const EncoderOutput& output : outputs) views.push_back(views_of(output).value());
    return join_parts(views);
  }

  [[nodiscard]] Result<std::shared_ptr<const SplitMedia>> split(
      const MediaItem& item) const override {
    AFI_TRY(auto split, ForwardingEngine::split(item));
    if (split == nullptr) return split;
    auto changed = std::make_shared<Split>();
    changed->inner = std::move(split);
    changed->declared.assign(changed->inner->parts().begin(), changed->inner->parts().end());
    spoil_parts_(changed->declared);
    return std::shared_ptr<const SplitMedia>(std::move(changed));
  }
  void encode_parts(std::span<const PartToEncode> parts,
                    const std::function<void(std::vector<Encoded>)>& on_encoded) const override {
    std::vector<PartToEncode> inner;
    for (const PartToEncode& part : parts) {
      inner.push_back(
          {.item = dynamic_cast<const Split*>(part.item)->inner.get(), .part = part.part});
    }
    ForwardingEngine::encode_parts(inner, [&](std::vector<Encoded> some) {
      for (Encoded& one : some) spoil_(parts, one.item, *one.output);
      on_encoded(std::move(some));
    });
  }

 private:
  struct Split final : SplitMedia {
    [[nodiscard]] std::span<const MediaPart> parts() const override { return declared; }
    std::shared_ptr<const SplitMedia> inner;
    std::vector<MediaPart> declared;
  };
  Spoil spoil_;
  SpoilParts spoil_parts_;
  bool in_the_whole_;
};

void no_parts(std::vector<MediaPart>& /*parts*/) {}
void no_output(std::span<const PartToEncode> /*parts*/, std::size_t /*at*/,
               EncoderOutput& /*output*/) {}
void flip(EncoderOutput& output) { output[0].bytes.back() ^= std::byte(1); }

struct Cheat {
  const char* name;
  CheatingEngine::Spoil spoil = no_output;
  CheatingEngine::SpoilParts spoil_parts = no_parts;
  bool in_the_whole = false;
};

const std::vector<Cheat>& cheats() {
  static const std::vector<Cheat> kCheats{
      {"a part that is not the whole's", [](auto, std::size_t, auto& out) { flip(out); }},
      {"outputs that depend on the batch",
       [](auto parts, std::size_t, auto& out) {
         if (parts.size() > 15) flip(out);
       }},
      {"outputs that depend on the order",
       [](auto parts, std::size_t at, auto& out) {
         if (at == 0 && parts.size() > 1 && parts[1].item != parts[0].item) flip(out);
       }},
      {"outputs that depend on the place in the item",
       [](auto parts, std::size_t at, auto& out) {
         if (parts[at].part == 1) flip(out);
       },
       no_parts, true},
      {"an input that does not name everything", no_output,
       [](auto& parts) {
         for (MediaPart& part : parts) part.input = {};
       }},
      {"an input of the first part only", no_output,
       [](auto& parts) {
         for (MediaPart& part : parts) part.input = parts.front().input;
       }},
      {"wrong rows", no_output, [](auto& parts) { parts.back().rows += TokenCount(1); }},
      {"a part too few", no_output,
       [](auto& parts) {
         if (parts.size() > 1) parts.pop_back();
       }},
      {"no parts", no_output, [](auto& parts) { parts.clear(); }},
      {"a tensor too many", [](auto, std::size_t, auto& out) { out.push_back(out.front()); }},
  };
  return kCheats;
}

TEST(PartsCheck, AcceptsTheReferenceEngineAndFindsThatItSplitsVideos) {
  const Engine& engine = engine_with("all", ReferenceOptions::tiny().decoder.layers);
  Rng rng(1);
  std::size_t split = 0;
  const std::vector<MediaItem> videos = overlapping_videos();
  EXPECT_EQ(parts_difference(engine, videos, rng, &split), "");
  EXPECT_EQ(split, videos.size());
}

TEST(PartsCheck, AcceptsTheReferenceEngineAndFindsThatItSplitsImagesIntoTiles) {
  const Engine& engine = tiled_engine();
  Rng rng(1);
  std::size_t split = 0;
  std::vector<MediaItem> items = overlapping_pictures();
  EXPECT_EQ(parts_difference(engine, items, rng, &split), "");
  EXPECT_EQ(split, items.size());
  std::set<std::string> inputs;
  std::size_t parts = 0;
  for (const MediaItem& item : items) {
    const auto tiles = engine.split(item).value();
    for (const MediaPart& part : tiles->parts()) {
      ++parts;
      inputs.insert(part.input.hex());
    }
  }
  // Of the first nine items: tiles of one picture in four orders, three changed tiles, and wholes.
  EXPECT_LT(inputs.size(), parts - 20) << "tiles are the same wherever they are";
}

TEST(PartsCheck, AcceptsTheReferenceEngineAndFindsThatItSplitsAudioIntoWindows) {
  const Engine& engine = tiled_engine();
  Rng rng(1);
  std::size_t split = 0;
  const std::vector<MediaItem> items = overlapping_sounds();
  EXPECT_EQ(parts_difference(engine, items, rng, &split), "");
  EXPECT_EQ(split, items.size());
  const auto inputs_of = [&](std::size_t item) {
    std::vector<std::string> inputs;
    const auto windows = engine.split(items.at(item)).value();
    for (const MediaPart& part : windows->parts()) inputs.push_back(part.input.hex());
    return inputs;
  };
  const std::vector<std::string> first = inputs_of(0);
  ASSERT_EQ(first.size(), 4U);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 4U);
  EXPECT_EQ(inputs_of(1), first) << "the same samples in another container";
  EXPECT_EQ(inputs_of(3), std::vector(first.begin() + 1, first.end())) << "from the second window";
  EXPECT_TRUE(std::ranges::none_of(inputs_of(4), [&](const std::string& input) {
    return std::ranges::find(first, input) != first.end();
  })) << "from within a window";
}

TEST(PartsCheck, RefusesEveryCheat) {
  for (const Cheat& cheat : cheats()) {
    const CheatingEngine engine(cheat.spoil, cheat.spoil_parts, cheat.in_the_whole);
    Rng rng(1);
    const std::string found = parts_difference(engine, overlapping_videos(), rng);
    EXPECT_NE(found, "") << cheat.name;
    const CheatingEngine with_tiles(cheat.spoil, cheat.spoil_parts, cheat.in_the_whole,
                                    tiled_engine());
    EXPECT_NE(parts_difference(with_tiles, overlapping_pictures(), rng), "") << cheat.name;
    EXPECT_NE(parts_difference(with_tiles, overlapping_sounds(), rng), "") << cheat.name;
  }
}

}  // namespace
}  // namespace afterimage::testing

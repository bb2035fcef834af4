// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/identity.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engines/reference/kernel.h"
#include "testing/tiny_engine.h"

namespace afterimage {
namespace {

using testing::tiny_with;

// Everything that becomes part of a key.
struct Facts {
  ModelIdentity identity;
  PreprocessRecipe image;
  PreprocessRecipe audio;
  PreprocessRecipe video;
  bool operator==(const Facts&) const = default;
};

Facts facts_of(const ReferenceOptions& options) {
  return {.identity = identity_of(options, *kernels_named(options.kernels).value()),
          .image = recipe_of(Modality::kImage, options),
          .audio = recipe_of(Modality::kAudio, options),
          .video = recipe_of(Modality::kVideo, options)};
}

TEST(Identity, EveryOptionThatChangesTheResultIsInIdentityOrRecipe) {
  const struct {
    const char* name;
    std::function<void(ReferenceOptions&)> change;
  } kCases[] = {
      {"name", [](auto& o) { o.name = "other"; }},
      {"seed", [](auto& o) { o.weights_seed = 2; }},
      {"hidden", [](auto& o) { o.decoder.hidden = 64; }},
      {"heads", [](auto& o) { o.decoder.heads = 4; }},
      {"kv_heads", [](auto& o) { o.decoder.kv_heads = 2; }},
      {"head_dim", [](auto& o) { o.decoder.head_dim = 64; }},
      {"mlp", [](auto& o) { o.decoder.mlp = 96; }},
      {"window", [](auto& o) { o.decoder.layers[1] = SlidingAttention{.window = 9}; }},
      {"kind", [](auto& o) { o.decoder.layers[2] = FullAttention{}; }},
      {"with", [](auto& o) { o.decoder.layers[3] = SharedAttention{.with = 1}; }},
      {"depth", [](auto& o) { o.decoder.layers.push_back(FullAttention{}); }},
      {"vision layers", [](auto& o) { o.vision.stack.layers = 3; }},
      {"vision width", [](auto& o) { o.vision.stack.width = 64; }},
      {"vision heads", [](auto& o) { o.vision.stack.width = 64, o.vision.stack.heads = 2; }},
      {"vision mlp", [](auto& o) { o.vision.stack.mlp = 96; }},
      {"patch", [](auto& o) { o.vision.patch = 5; }},
      {"max_cells", [](auto& o) { o.vision.max_cells = 5; }},
      {"max_tiles", [](auto& o) { o.vision.max_tiles = 4; }},
      {"more tiles", [](auto& o) { o.vision.max_tiles = 5; }},
      {"max_frame_cells", [](auto& o) { o.vision.max_frame_cells = 3; }},
      {"max_frames", [](auto& o) { o.vision.max_frames = 5; }},
      {"frame rate", [](auto& o) { o.vision.frame_rate_mhz = 2'000; }},
      {"planes", [](auto& o) { o.vision.deepstack_planes = 1; }},
      {"audio layers", [](auto& o) { o.audio.stack.layers = 2; }},
      {"audio width", [](auto& o) { o.audio.stack.width = 64; }},
      {"audio heads", [](auto& o) { o.audio.stack.width = 64, o.audio.stack.heads = 2; }},
      {"audio mlp", [](auto& o) { o.audio.stack.mlp = 96; }},
      {"max_embeddings", [](auto& o) { o.audio.max_embeddings = 17; }},
      {"window_embeddings", [](auto& o) { o.audio.window_embeddings = 3; }},
      {"rounding", [](auto& o) { o.kernels = "baseline"; }},
  };
  std::vector<Facts> all{facts_of(ReferenceOptions::tiny())};
  for (const auto& c : kCases) {
    if (std::string(c.name) == "rounding" && !supported_kernels().front()->fused) continue;
    const ReferenceOptions changed = tiny_with(c.change);
    EXPECT_TRUE(check_options(changed).has_value()) << c.name;
    const Facts mine = facts_of(changed);
    for (const Facts& other : all) EXPECT_FALSE(mine == other) << c.name;
    all.push_back(mine);
  }
}

TEST(Identity, ExecutionOptionsAreNotPartOfIt) {
  const ManualClock clock;
  const std::function<void(ReferenceOptions&)> kChanges[] = {
      [](auto& o) { o.prefill_chunk = TokenCount(7); },
      [](auto& o) { o.max_context = TokenCount(200); },
      [](auto& o) { o.limits.max_side = 1000; },
      [&clock](auto& o) { o.clock = &clock; },
  };
  for (const auto& change : kChanges) {
    EXPECT_EQ(facts_of(tiny_with(change)), facts_of(ReferenceOptions::tiny()));
  }
}

TEST(Identity, FusedKernelsShareOneIdentity) {
  for (const Kernels* kernels : supported_kernels()) {
    if (!kernels->fused) continue;
    EXPECT_EQ(identity_of(ReferenceOptions::tiny(), *kernels),
              identity_of(ReferenceOptions::tiny(), *supported_kernels().front()));
  }
}

TEST(Identity, TheEncoderIdentityDependsOnlyOnTheDecodersWidth) {
  const auto encoder = [](const std::function<void(ReferenceOptions&)>& change) {
    return facts_of(tiny_with(change)).identity.encoder;
  };
  EXPECT_EQ(encoder([](auto&) {}), encoder([](auto& o) { o.decoder.mlp = 96; }));
  EXPECT_NE(encoder([](auto&) {}), encoder([](auto& o) { o.decoder.hidden = 64; }));
}

// Another decoder may give other samples of the same file.
TEST(Identity, RecipesNameTheDecodersOfLossyMedia) {
  const ReferenceOptions tiny = ReferenceOptions::tiny();
  EXPECT_TRUE(recipe_of(Modality::kAudio, tiny).options.at("decoder").starts_with("mpg123 "));
  EXPECT_TRUE(recipe_of(Modality::kAudio, tiny).options.at("decoder").contains("; "));
  EXPECT_FALSE(recipe_of(Modality::kVideo, tiny).options.at("decoder").empty());
}

TEST(Identity, OfTheSmallModelIsGolden) {
  const ReferenceOptions small = ReferenceOptions::small();
  for (const Kernels* kernels : supported_kernels()) {
    const std::string rounding = kernels->fused ? "-fused" : "-separate";
    const ModelIdentity identity = identity_of(small, *kernels);
    EXPECT_EQ(identity.model,
              "afterimage-reference-small-2-w256-h8-kv4-d32-m768-full-sliding(128)-recurrent-"
              "shared(0)-full-sliding(128)-recurrent-shared(5)" +
                  rounding);
    EXPECT_EQ(identity.encoder,
              "vit-p14-l8-w256-h8-m1024-planes0+tones-l4-w256-h8-m1024-to-w256-2" + rounding);
    EXPECT_EQ(identity.weights_epoch, "seed-1");
    EXPECT_EQ(identity.chat_template, "afterimage-chat-1");
  }
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <functional>

#include "engines/reference/reference_engine.h"
#include "engines/reference/testing/tiny_options.h"

namespace afterimage {
namespace {

TEST(ReferenceOptions, PresetsAreValid) {
  EXPECT_TRUE(check_options(ReferenceOptions::tiny()).has_value());
  EXPECT_TRUE(check_options(ReferenceOptions::small()).has_value());
  EXPECT_TRUE(check_options(testing::tiny_tiled()).has_value());
  EXPECT_TRUE(check_options(ReferenceOptions::tiled()).has_value());
  EXPECT_EQ(describe_decoder(ReferenceOptions::tiny().decoder),
            "w32-h2-kv1-d32-m64-full-sliding(8)-recurrent-shared(0)");
}

TEST(ReferenceOptions, RejectsInvalidOptionsByName) {
  const struct {
    const char* named;
    std::function<void(ReferenceOptions&)> spoil;
  } kCases[] = {
      {"decoder.hidden", [](auto& o) { o.decoder.hidden = 48; }},
      {"decoder.hidden", [](auto& o) { o.decoder.hidden = 0; }},
      {"decoder.heads", [](auto& o) { o.decoder.heads = 0; }},
      {"decoder.kv_heads", [](auto& o) { o.decoder.kv_heads = 0; }},
      {"decoder.kv_heads", [](auto& o) { o.decoder.heads = 3, o.decoder.kv_heads = 2; }},
      {"decoder.head_dim", [](auto& o) { o.decoder.head_dim = 16; }},
      {"decoder.mlp", [](auto& o) { o.decoder.mlp = 1; }},
      {"decoder.layers", [](auto& o) { o.decoder.layers.clear(); }},
      {"layers[1].window", [](auto& o) { o.decoder.layers[1] = SlidingAttention{.window = 0}; }},
      {"layers[0].with", [](auto& o) { o.decoder.layers[0] = SharedAttention{.with = 0}; }},
      {"layers[1].with", [](auto& o) { o.decoder.layers[1] = SharedAttention{.with = 2}; }},
      {"layers[3].with", [](auto& o) { o.decoder.layers[3] = SharedAttention{.with = 2}; }},
      {"layers[4].with", [](auto& o) { o.decoder.layers.push_back(SharedAttention{.with = 3}); }},
      {"vision.stack.width", [](auto& o) { o.vision.stack.heads = 2; }},
      {"vision.stack.layers", [](auto& o) { o.vision.stack.layers = 0; }},
      {"vision.patch", [](auto& o) { o.vision.patch = 0; }},
      {"vision.max_cells", [](auto& o) { o.vision.max_cells = 0; }},
      {"vision.max_tiles", [](auto& o) { o.vision.max_tiles = 65; }},
      {"vision.max_frame_cells", [](auto& o) { o.vision.max_frame_cells = 0; }},
      {"vision.max_frames", [](auto& o) { o.vision.max_frames = 0; }},
      {"deepstack_planes", [](auto& o) { o.vision.deepstack_planes = 5; }},
      {"deepstack_planes", [](auto& o) { o.vision.deepstack_planes = 2; }},
      {"audio.stack.mlp", [](auto& o) { o.audio.stack.mlp = 33; }},
      {"audio.max_embeddings", [](auto& o) { o.audio.max_embeddings = 0; }},
      {"prefill_chunk", [](auto& o) { o.prefill_chunk = TokenCount(0); }},
      {"max_context", [](auto& o) { o.max_context = TokenCount(0); }},
  };
  for (const auto& c : kCases) {
    ReferenceOptions options = ReferenceOptions::tiny();
    c.spoil(options);
    const auto checked = check_options(options);
    ASSERT_FALSE(checked.has_value()) << c.named;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(checked.error().message.find(c.named), std::string::npos) << checked.error().message;
  }
}

}  // namespace
}  // namespace afterimage

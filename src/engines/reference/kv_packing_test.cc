// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/kv_packing.h"

#include <gtest/gtest.h>

#include "engines/reference/decoder.h"
#include "engines/reference/kernel.h"
#include "engines/reference/tokenizer.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using testing::for_each_seed;

DecoderOptions options_with(std::vector<LayerKind> layers) {
  DecoderOptions options = ReferenceOptions::tiny().decoder;
  options.layers = std::move(layers);
  return options;
}

TEST(KvPacking, LayersOfOneKindAndWindowAreOneGroup) {
  const KvPacking packing(ReferenceOptions::small().decoder);
  const Bytes row(2ULL * 2 * 4 * 32 * sizeof(float));  // two layers, keys and values, 4 heads of 32
  const KvLayout expected{
      .groups = {
          {.kind = KvKind::kFull, .layers = 2, .row_bytes = row},
          {.kind = KvKind::kSliding, .layers = 2, .window = TokenCount(128), .row_bytes = row},
          {.kind = KvKind::kRecurrent,
           .layers = 2,
           .state_bytes = Bytes(2ULL * 4 * 256 * sizeof(float))},
          {.kind = KvKind::kShared, .layers = 1, .owner = 0},
          {.kind = KvKind::kShared, .layers = 1, .owner = 1}}};
  EXPECT_EQ(packing.layout(), expected);
}

TEST(KvPacking, LayersWithDifferentWindowsAreDifferentGroups) {
  const SlidingAttention near{.window = 4};
  const SlidingAttention far{.window = 40};
  const SharedAttention shared{.with = 1};
  const KvLayout layout = KvPacking(options_with({near, far, near, shared, shared})).layout();
  ASSERT_EQ(layout.groups.size(), 3U);
  EXPECT_EQ(layout.groups[0].layers, 2U);
  EXPECT_EQ(layout.groups[1].layers, 1U);
  EXPECT_EQ(layout.groups[2], (LayerGroup{.kind = KvKind::kShared, .layers = 2, .owner = 1}));
}

KvState state_of(const KvSnapshot& snapshot, const std::vector<Tensor>& rows) {
  KvState state{.origin = {}, .covered = snapshot.at, .groups = {}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TensorViews& slices = state.groups.emplace_back();
    if (!rows[i].bytes.empty()) slices.push_back(rows[i].view().value());
    if (!snapshot.groups[i].bytes.empty()) slices.push_back(snapshot.groups[i].view().value());
  }
  return state;
}

// Restored state packs to the same bytes, wherever blocks began and whatever their unread rows
// hold.
TEST(KvPackingProperty, RestoredStateIsCapturedUnchanged) {
  const DecoderOptions options =
      options_with({SlidingAttention{.window = 5}, FullAttention{}, Recurrence{}, FullAttention{},
                    SlidingAttention{.window = 40}, SharedAttention{.with = 0}, Recurrence{}});
  const Decoder decoder(options, kVocabulary, *supported_kernels().front(), Rng(7));
  const KvPacking packing(options);
  for_each_seed(25, [&](Rng& rng) {
    std::vector<InputRow> inputs(1 + rng.below(120));
    for (InputRow& row : inputs) row.token = TokenId(static_cast<std::int32_t>(rng.below(256)));
    DecoderState state = decoder.start();
    static_cast<void>(decoder.forward(state, inputs));
    const KvSnapshot snapshot = packing.snapshot(state);
    const std::vector<Tensor> rows = packing.rows(state, 0, inputs.size());

    DecoderState restored = decoder.start();
    packing.restore(state_of(snapshot, rows), restored);
    ASSERT_EQ(restored.covered, inputs.size());
    const KvSnapshot again = packing.snapshot(restored);
    const std::vector<Tensor> rows_again = packing.rows(restored, 0, inputs.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(rows[i].bytes, rows_again[i].bytes) << "group " << i;
      ASSERT_EQ(snapshot.groups[i].bytes, again.groups[i].bytes) << "group " << i;
    }
  });
}

}  // namespace
}  // namespace afterimage

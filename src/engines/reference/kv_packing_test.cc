// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/kv_packing.h"

#include <gtest/gtest.h>

#include "conformance/resume_check.h"
#include "engines/reference/decoder.h"
#include "engines/reference/kernel.h"
#include "engines/reference/tokenizer.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using testing::bytes_of;
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

KvSlice captured(const KvPacking& packing, const DecoderState& state, KvBuffers& buffers) {
  KvSlice slice{.end = TokenCount(static_cast<std::uint32_t>(state.covered)),
                .rows = packing.rows(state, 0, state.covered, buffers),
                .snapshots = {packing.snapshot(state, buffers)}};
  EXPECT_TRUE(check_slice(slice, packing.layout()).has_value());
  return slice;
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
    KvBuffers buffers;
    const KvSlice slice = captured(packing, state, buffers);

    DecoderState restored = decoder.start();
    packing.restore(slice, restored);
    ASSERT_EQ(restored.covered, inputs.size());
    const KvSlice again = captured(packing, restored, buffers);
    for (std::size_t i = 0; i < packing.layout().groups.size(); ++i) {
      ASSERT_EQ(bytes_of(rows_to_restore(slice, packing.layout(), i)),
                bytes_of(rows_to_restore(again, packing.layout(), i)))
          << "group " << i;
    }
  });
}

}  // namespace
}  // namespace afterimage

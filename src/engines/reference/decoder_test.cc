// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "engines/reference/kernel.h"
#include "engines/reference/testing/same_bits.h"
#include "engines/reference/tokenizer.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using testing::for_each_seed;

Decoder decoder_of(std::vector<LayerKind> layers,
                   const Kernels& kernels = *supported_kernels().front()) {
  DecoderOptions options = ReferenceOptions::tiny().decoder;
  options.layers = std::move(layers);
  return {options, kVocabulary, kernels, Rng(7)};
}

// Everything in one layer that the next token can attend to, in plain order.
std::vector<float> seen_of(const Decoder& decoder, const DecoderState& state, std::size_t layer) {
  if (const auto* rows = std::get_if<LayerRows>(&state.layers[layer])) {
    return rows->rows(decoder.needed_from(layer, state.covered), state.covered);
  }
  std::vector<float> seen;
  if (const auto* recurrent = std::get_if<RecurrentState>(&state.layers[layer])) {
    seen = recurrent->hidden;
    seen.insert(seen.end(), recurrent->tail.all().begin(), recurrent->tail.all().end());
  }
  return seen;
}

// A random prompt: byte tokens, and runs of media rows with a deepstack plane.
class Prompt {
 public:
  Prompt(std::size_t length, Rng& rng) : media_(random_floats(2 * length * kHidden, -1, 1, rng)) {
    bool in_media = false;
    for (std::size_t i = 0; i < length; ++i) {
      if (rng.chance(0.15)) in_media = !in_media;
      InputRow row{.token = TokenId(static_cast<std::int32_t>(rng.below(256)))};
      if (in_media) {
        row.media = media_.data() + 2 * i * kHidden;
        row.planes[0] = row.media + kHidden;
      }
      rows_.push_back(row);
    }
  }
  [[nodiscard]] std::span<const InputRow> rows() const { return rows_; }
  void set_token(std::size_t at, TokenId token) { rows_[at] = {.token = token}; }

 private:
  static constexpr std::size_t kHidden = 32;
  Floats media_;
  std::vector<InputRow> rows_;
};

struct Outcome {
  DecoderState state;
  std::vector<float> logits;  // of every position
};

Outcome run_in_chunks(const Decoder& decoder, std::span<const InputRow> rows,
                      const std::function<std::size_t(std::size_t remaining)>& next_chunk) {
  Outcome outcome{.state = decoder.start(), .logits = {}};
  for (std::size_t first = 0; first < rows.size();) {
    const std::size_t count = next_chunk(rows.size() - first);
    const Matrix logits =
        decoder.logits(decoder.forward(outcome.state, rows.subspan(first, count)));
    outcome.logits.insert(outcome.logits.end(), logits.all().begin(), logits.all().end());
    first += count;
  }
  return outcome;
}

Outcome run_whole(const Decoder& decoder, std::span<const InputRow> rows) {
  return run_in_chunks(decoder, rows, [](std::size_t remaining) { return remaining; });
}

void expect_same(const Decoder& decoder, const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(same_bits(a.logits, b.logits));
  EXPECT_EQ(a.state.covered, b.state.covered);
  for (std::size_t layer = 0; layer < a.state.layers.size(); ++layer) {
    EXPECT_TRUE(same_bits(seen_of(decoder, a.state, layer), seen_of(decoder, b.state, layer)))
        << "state of layer " << layer;
  }
}

// The visible rows, preceded by NaNs where rows are no longer visible.
LayerRows rebuilt(const LayerRows& original, std::size_t from, std::span<const float> seen) {
  const std::size_t size = original.row_size();
  const std::vector<float> rubbish(size, std::numeric_limits<float>::quiet_NaN());
  LayerRows rows(1, size);
  for (std::size_t i = 0; i < from; ++i) rows.append(rubbish, rubbish);
  for (; !seen.empty(); seen = seen.subspan(2 * size)) {
    rows.append(seen.first(size), seen.subspan(size, size));
  }
  return rows;
}

constexpr FullAttention kFull{};
constexpr Recurrence kRecurrent{};
constexpr SlidingAttention sliding(std::uint32_t window) { return {.window = window}; }
constexpr SharedAttention shared(std::uint32_t with) { return {.with = with}; }

class DecoderKinds : public ::testing::TestWithParam<std::vector<LayerKind>> {};

TEST_P(DecoderKinds, SplittingAPromptChangesNoBit) {
  const Decoder decoder = decoder_of(GetParam());
  for_each_seed(12, [&decoder](Rng& rng) {
    const Prompt prompt(1 + rng.below(140), rng);
    const Outcome whole = run_whole(decoder, prompt.rows());
    const std::size_t largest = 1 + rng.below(prompt.rows().size());
    expect_same(decoder, whole, run_in_chunks(decoder, prompt.rows(), [&](std::size_t remaining) {
                  return 1 + rng.below(std::min(largest, remaining));
                }));
    expect_same(decoder, whole,
                run_in_chunks(decoder, prompt.rows(), [](std::size_t) { return std::size_t{1}; }));
  });
}

std::string name_of(const ::testing::TestParamInfo<std::vector<LayerKind>>& info) {
  std::string name;
  for (const LayerKind& kind : info.param) name += (name.empty() ? "" : "_") + to_string(kind);
  std::erase_if(name, [](char c) { return c == '(' || c == ')'; });
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Alone, DecoderKinds,
    ::testing::Values(std::vector<LayerKind>{kFull}, std::vector<LayerKind>{sliding(1)},
                      std::vector<LayerKind>{sliding(31)}, std::vector<LayerKind>{sliding(32)},
                      std::vector<LayerKind>{sliding(33)}, std::vector<LayerKind>{kRecurrent},
                      std::vector<LayerKind>{kFull, shared(0)},
                      std::vector<LayerKind>{sliding(8), shared(0)}),
    name_of);
INSTANTIATE_TEST_SUITE_P(Hybrid, DecoderKinds,
                         ::testing::Values(ReferenceOptions::tiny().decoder.layers,
                                           std::vector<LayerKind>{sliding(5), kFull, kRecurrent,
                                                                  sliding(40), shared(0), shared(3),
                                                                  kRecurrent, shared(1)}),
                         name_of);

// Logits of the last position of a prompt whose token at `changed` was replaced.
std::vector<float> last_logits(const Decoder& decoder, std::size_t length, std::size_t changed) {
  Rng rng(5);
  Prompt prompt(length, rng);
  for (std::size_t i = 0; i < length; ++i) prompt.set_token(i, TokenId('a'));
  if (changed < length) prompt.set_token(changed, TokenId('b'));
  DecoderState state = decoder.start();
  const Matrix hidden = decoder.forward(state, prompt.rows());
  Matrix last(1, decoder.hidden());
  std::copy_n(hidden.row(length - 1), decoder.hidden(), last.row(0));
  const Matrix logits = decoder.logits(last);
  return {logits.all().begin(), logits.all().end()};
}

TEST(Decoder, ASlidingLayerSeesExactlyItsWindow) {
  for (const std::uint32_t window : {1U, 8U, 31U, 32U, 33U}) {
    for (const auto& layers : {std::vector<LayerKind>{sliding(window)},
                               std::vector<LayerKind>{sliding(window), shared(0)}}) {
      const Decoder decoder = decoder_of(layers);
      // Each layer extends the reach by one window.
      const std::size_t reach = window * layers.size();
      const std::size_t length = 100;
      const auto plain = last_logits(decoder, length, length);
      EXPECT_NE(last_logits(decoder, length, length - 1 - window), plain) << window;
      EXPECT_EQ(last_logits(decoder, length, length - 2 - reach), plain) << window;
    }
  }
}

TEST(Decoder, FullAndRecurrentLayersSeeTheBeginning) {
  for (const LayerKind kind : {LayerKind{kFull}, LayerKind{kRecurrent}}) {
    const Decoder decoder = decoder_of({kind});
    EXPECT_NE(last_logits(decoder, 40, 0), last_logits(decoder, 40, 40)) << to_string(kind);
  }
}

TEST(Decoder, TheOrderOfTokensMatters) {
  for (const LayerKind kind : {LayerKind{kFull}, LayerKind{sliding(16)}, LayerKind{kRecurrent}}) {
    const Decoder decoder = decoder_of({kind});
    EXPECT_NE(last_logits(decoder, 12, 3), last_logits(decoder, 12, 4)) << to_string(kind);
  }
}

TEST(Decoder, ASharedLayerHasNoStateOfItsOwn) {
  const Decoder decoder = decoder_of({kFull, shared(0)});
  const DecoderState state = decoder.start();
  EXPECT_TRUE(std::holds_alternative<LayerRows>(state.layers[0]));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(state.layers[1]));
}

TEST(Decoder, ASlidingLayerHoldsItsWindowAndAtMostOneBlockMore) {
  const Decoder decoder = decoder_of({sliding(40), kFull});
  Rng rng(1);
  const Prompt prompt(300, rng);
  DecoderState state = decoder.start();
  for (std::size_t i = 0; i < 300; ++i) {
    static_cast<void>(decoder.forward(state, prompt.rows().subspan(i, 1)));
    const auto& rows = std::get<LayerRows>(state.layers[0]);
    ASSERT_EQ(rows.end(), i + 1);
    ASSERT_LE(rows.begin(), decoder.needed_from(0, state.covered));
    ASSERT_LT(rows.end() - rows.begin(), 40 + kPanelColumns);
  }
  EXPECT_EQ(decoder.needed_from(0, 300), 260U);
  EXPECT_EQ(decoder.needed_from(0, 40), 0U);
  EXPECT_EQ(decoder.needed_from(1, 300), 0U);
}

TEST(Decoder, CopiesOfAStateAreIndependent) {
  const Decoder decoder = decoder_of(ReferenceOptions::tiny().decoder.layers);
  Rng rng(2);
  const Prompt prompt(60, rng);
  DecoderState trunk = decoder.start();
  static_cast<void>(decoder.forward(trunk, prompt.rows().first(40)));
  DecoderState branch = trunk;
  const InputRow other{.token = TokenId('z')};
  static_cast<void>(decoder.forward(branch, {&other, 1}));

  const Matrix rest = decoder.logits(decoder.forward(trunk, prompt.rows().subspan(40)));
  const Outcome whole = run_whole(decoder, prompt.rows());
  EXPECT_TRUE(same_bits(rest.all(), std::span(whole.logits).last(20 * kVocabulary)));
}

TEST(Decoder, APlaneIsAddedAfterItsLayer) {
  const Decoder decoder = decoder_of({kFull, kFull});
  Rng rng(3);
  const Floats floats = random_floats(64, -1, 1, rng);
  InputRow row{.token = {}, .media = floats.data(), .planes = {}};
  const auto logits = [&decoder, &row] {
    DecoderState state = decoder.start();
    const Matrix result = decoder.logits(decoder.forward(state, {&row, 1}));
    return std::vector<float>(result.all().begin(), result.all().end());
  };
  const auto without = logits();
  row.planes[0] = floats.data() + 32;
  const auto after_first = logits();
  row.planes = {nullptr, floats.data() + 32};
  const auto after_second = logits();
  EXPECT_NE(without, after_first);
  EXPECT_NE(without, after_second);
  EXPECT_NE(after_first, after_second);
}

TEST(Decoder, AllFusedKernelsGiveTheSameBits) {
  Rng rng(4);
  const Prompt prompt(90, rng);
  std::vector<Outcome> outcomes;
  for (const Kernels* kernels : supported_kernels()) {
    if (!kernels->fused) continue;
    const Decoder decoder = decoder_of(ReferenceOptions::tiny().decoder.layers, *kernels);
    outcomes.push_back(run_whole(decoder, prompt.rows()));
    expect_same(decoder, outcomes.front(), outcomes.back());
  }
}

// Resumed equals cold because rows outside the window are never read.
TEST(Decoder, RowsOutsideTheWindowAreNeverRead) {
  const Decoder decoder = decoder_of({sliding(5), kFull, kRecurrent, sliding(40), shared(0)});
  for_each_seed(12, [&decoder](Rng& rng) {
    const Prompt prompt(2 + rng.below(140), rng);
    const std::size_t cut = 1 + rng.below(prompt.rows().size() - 1);
    DecoderState state = decoder.start();
    static_cast<void>(decoder.forward(state, prompt.rows().first(cut)));
    for (std::size_t layer = 0; layer < state.layers.size(); ++layer) {
      auto* rows = std::get_if<LayerRows>(&state.layers[layer]);
      if (rows == nullptr) continue;
      const auto seen = seen_of(decoder, state, layer);
      *rows = rebuilt(*rows, decoder.needed_from(layer, cut), seen);
    }
    const Matrix rest = decoder.logits(decoder.forward(state, prompt.rows().subspan(cut)));
    const Outcome whole = run_whole(decoder, prompt.rows());
    EXPECT_TRUE(same_bits(rest.all(), std::span(whole.logits).last(rest.all().size())));
  });
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// A state from an archive or another engine, for a layout of any kind: an accepted state has
// exactly the layout's rows, so that copying them never reads out of bounds.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "afterimage/check.h"
#include "afterimage/engine.h"
#include "fuzz_input.h"

using namespace afterimage;

namespace {

KvLayout layout_of(testing::FuzzInput& input) {
  KvLayout layout{.alignment = TokenCount(input.u8() % 5)};
  for (std::uint8_t left = input.u8() % 5; left > 0; --left) {
    layout.groups.push_back({.kind = static_cast<KvKind>(1 + input.u8() % 4),
                             .layers = input.u8() % 3U,
                             .window = TokenCount(input.u8() % 9),
                             .owner = input.u8() % 4U,
                             .row_bytes = Bytes(input.u8() % 4),
                             .state_bytes = Bytes(input.u8() % 4)});
  }
  return layout;
}

Sequence prompt_of(testing::FuzzInput& input) {
  Sequence prompt{.tokens = std::vector<TokenId>(input.u8() % 24)};
  for (std::uint8_t left = input.u8() % 3; left > 0; --left) {
    prompt.spans.push_back({.offset = TokenCount(input.u8()),
                            .length = TokenCount(input.u8()),
                            .splittable = input.u8() % 2 == 0});
  }
  return prompt;
}

std::uint64_t extent_of(testing::FuzzInput& input) {
  const std::uint8_t n = input.u8();
  return n < 250 ? n % 12U : input.u64();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  testing::FuzzInput input(data, size);
  const KvLayout layout = layout_of(input);
  const Sequence prompt = prompt_of(input);
  if (!check_layout(layout).has_value() || !check_sequence(prompt).has_value()) return 0;

  static const std::vector<std::byte> kBytes(4096);
  const KvOrigin origin{};
  KvState state{.origin = origin, .covered = TokenCount(input.u8() % 24)};
  while (!input.empty() && state.groups.size() < 6) {
    TensorViews& slices = state.groups.emplace_back();
    for (std::uint8_t left = input.u8() % 4; left > 0; --left) {
      const std::uint64_t rows = extent_of(input);
      const std::uint64_t row = extent_of(input);
      const auto shape = Shape::of(std::array{rows, row});
      const auto dtype = input.u8() % 8 == 0 ? DType::kF32 : DType::kU8;
      if (!shape.has_value()) continue;
      const auto bytes = tensor_bytes(dtype, *shape);
      if (!bytes.has_value() || bytes->value() > kBytes.size()) continue;
      slices.push_back(
          TensorView::over(dtype, *shape, std::span(kBytes).first(bytes->value())).value());
    }
  }
  const auto good = check_state(state, layout, origin, prompt);
  if (!good.has_value()) {
    AFI_CHECK(!good.error().message.empty());
    return 0;
  }
  AFI_CHECK(state.groups.size() == layout.groups.size());
  AFI_CHECK(state.covered.value() % layout.alignment.value() == 0);
  AFI_CHECK(state.covered.value() < prompt.tokens.size());
  for (const MediaSpan& span : prompt.spans) {
    AFI_CHECK(span.splittable || state.covered <= span.offset || state.covered >= span.end());
  }
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    std::uint64_t held = 0;
    for (const TensorView& slice : state.groups[i]) held += slice.bytes().size();
    AFI_CHECK(held ==
              rows_at(layout.groups[i], state.covered) * row_size(layout.groups[i]).value());
  }
  AFI_CHECK(!check_state(state, layout, KvOrigin{.bytes = {std::byte{1}}}, prompt).has_value());
  return 0;
}

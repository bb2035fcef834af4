// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/rotation_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "runtime/engine_api/key_rotation.h"

namespace afterimage {
namespace {

constexpr std::int32_t kCheckedColumns = 3;
constexpr std::int32_t kCheckedTokens = 2 * kCheckedColumns;
/// Another distance along each axis, so that no two can be mistaken for each other; far enough that
/// slow pairs turn, too.
constexpr TokenPlace kFar{211, 97, 53};
/// Of a key's length. Rounding grows from layer to layer, most with weights of few bits; another
/// rotation makes keys differ by about their length.
constexpr double kMostDifference = 0.1;

/// Numbers between -1 and 1 that look random.
std::vector<float> embeddings(std::uint32_t width) {
  std::vector<float> rows;
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < std::size_t{kCheckedTokens} * width; ++i) {
    state = state * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;  // Knuth's MMIX
    rows.push_back(static_cast<float>(state >> 40U) / static_cast<float>(1U << 23U) - 1);
  }
  return rows;
}

/// An image of two rows of tokens, its first one at `first`; or as many tokens of text.
std::vector<LoadedModel::Place> places(bool in_grid, const TokenPlace& first) {
  std::vector<LoadedModel::Place> all;
  for (std::int32_t i = 0; i < kCheckedTokens; ++i) {
    all.push_back(in_grid ? TokenPlace{first[0], first[1] + i / kCheckedColumns,
                                       first[2] + i % kCheckedColumns}
                          : TokenPlace{first[0] + i, first[0] + i, first[0] + i});
  }
  return all;
}

using Groups = std::vector<std::vector<std::byte>>;  // rows of each group

Result<Groups> kv_at(const LoadedModel& model, const SequenceRows& rows, const TokenPlace& first) {
  const ModelFacts& facts = model.facts();
  const auto at = places(facts.uses_mrope, first);
  auto done = model.append_rows(0, embeddings(facts.row_width), at);
  Groups groups;
  if (done.has_value()) {
    done = model.read(0, false, [&](StatePieces written) -> Result<void> {
      KvBuffers buffers;
      const std::vector<std::int32_t> after(kCheckedTokens, at.back()[0] + 1);
      AFI_TRY(const auto all,
              rows.rows(written, TokenCount(0), TokenCount(kCheckedTokens), after, buffers));
      for (const auto& pieces : all) {
        auto& bytes = groups.emplace_back();
        for (const KvRows& piece : pieces) {
          bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
        }
      }
      return {};
    });
  }
  model.clear(0);
  if (!done.has_value()) return std::unexpected(done.error());
  return groups;
}

}  // namespace

Result<void> check_keys_turn(const LoadedModel& model, const SequenceRows& rows,
                             const KeyRotation& rotation) {
  AFI_TRY(Groups turned, kv_at(model, rows, {0, 0, 0}));
  AFI_TRY(const Groups there, kv_at(model, rows, kFar));
  const auto& groups = rows.layout().groups;
  for (std::size_t group = 0; group < turned.size(); ++group) {
    const std::size_t row = groups[group].row_bytes.value();
    for (std::size_t at = 0; at < turned[group].size(); at += row) {
      rotate_keys(rotation, group, kFar, std::span(turned[group]).subspan(at, row));
    }
  }
  for (std::size_t layer = 0; layer < rotation.keys.size(); ++layer) {
    const std::size_t group = rotation.keys[layer].group;
    const std::size_t row = groups[group].row_bytes.value();
    double most = 0;
    for (std::size_t at = 0; at < turned[group].size(); at += row) {
      most =
          std::max(most, key_difference(rotation, layer, std::span(turned[group]).subspan(at, row),
                                        std::span(there[group]).subspan(at, row)));
    }
    if (most <= kMostDifference) continue;
    return fail(ErrorCode::kUnsupported,
                fmt::format("the keys of its layer {} do not turn as its file says: they differ by "
                            "{:.0f} % from those that the model computes",
                            layer, 100 * most));
  }
  return {};
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What goes wrong with KV that comes back: it is refused or computed anew, and the answer is right.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "afterimage/conformance/resume_check.h"
#include "afterimage/llama/llama_engine.h"
#include "afterimage/testing/demo_models.h"

namespace afterimage {
namespace {

using namespace testing;  // NOLINT: the conformance kit's words

const std::vector<std::string> kModels = {"plain", "dense", "sliding", "hybrid", "shortconv"};

std::unique_ptr<LlamaEngine> load(LlamaOptions options) {
  return LlamaEngine::create(std::move(options)).value();
}

/// A state whose bytes may be changed.
struct OwnState {
  explicit OwnState(const KvState& from) : origin(from.origin), covered(from.covered) {
    for (const TensorViews& slices : from.groups) {
      auto& own = groups.emplace_back();
      for (const TensorView& slice : slices) {
        own.insert(own.end(), slice.bytes().begin(), slice.bytes().end());
      }
    }
  }
  [[nodiscard]] KvState state(const KvLayout& layout) const {
    KvState state{.origin = origin, .covered = covered, .groups = {}};
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const std::uint64_t row = row_size(layout.groups[i]).value();
      state.groups.push_back(
          {TensorView::over(DType::kU8, {groups[i].size() / row, row}, groups[i]).value()});
    }
    return state;
  }
  KvOrigin origin;
  TokenCount covered;
  std::vector<std::vector<std::byte>> groups;
};

/// Bytes that say where a row stands or what a state is of; behind them is what it remembers.
std::size_t numbers_of(const std::string& model, const LayerGroup& group) {
  constexpr std::size_t kOwnPosition = 4;
  if (group.kind == KvKind::kRecurrent) return kOwnPosition + 32;
  const bool places_in_pictures = model == "dense" || model == "hybrid";
  return kOwnPosition + (places_in_pictures ? 16 : 4);
}

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kNumbers[] = {-1,      0,       1,         7,     1'000,
                                     1 << 20, 1 << 30, kMost - 1, kMost, -kMost - 1};

// Whoever stores bytes checks them. Should that fail, the answer may be wrong; but the process
// lives, and the next answer is right. (Once, a cell at the last position there is stayed for
// ever.)
TEST(LlamaRestore, ChangedNumbersInRowsAndStatesAreNeverACrashAndChangeNothingThatFollows) {
  for (const std::string& name : kModels) {
    SCOPED_TRACE(name);
    LlamaOptions options = demo_options(name);
    options.lanes = 1;
    const auto engine = load(options);
    const KvLayout& layout = *engine->kv_layout();
    const PromptMaker prompts(*engine);
    const EnginePrompt prompt = prompts.everything(60);
    const TokenCount at = legal_points(layout, prompt.sequence).back();
    const auto cold = ColdRun::of(*engine, prompt, {at});
    ASSERT_TRUE(cold.has_value()) << to_string(cold.error());
    OwnState damaged(cold->shelf.state(at));
    std::size_t refused = 0;
    for (std::size_t group = 0; group < damaged.groups.size(); ++group) {
      auto& bytes = damaged.groups[group];
      const std::uint64_t row = row_size(layout.groups[group]).value();
      const std::uint64_t rows = bytes.size() / row;
      for (const std::uint64_t i : std::set{std::uint64_t{0}, rows / 2, rows - 1}) {
        for (std::size_t offset = 0; offset < numbers_of(name, layout.groups[group]); offset += 4) {
          for (const std::int32_t number : kNumbers) {
            std::byte* const here = bytes.data() + i * row + offset;
            std::int32_t kept = 0;
            std::memcpy(&kept, here, sizeof kept);
            std::memcpy(here, &number, sizeof number);
            const KvState state = damaged.state(layout);
            if (!run(*engine, prompt, {.resume_from = &state}).has_value()) ++refused;
            std::memcpy(here, &kept, sizeof kept);
          }
        }
      }
    }
    EXPECT_GT(refused, 10U);
    const KvState good = damaged.state(layout);
    const auto resumed = run(*engine, prompt, {.resume_from = &good});
    ASSERT_TRUE(resumed.has_value()) << to_string(resumed.error());
    EXPECT_EQ(difference(cold->completion, resumed->completion), "");
    const auto again = run(*engine, prompt);
    ASSERT_TRUE(again.has_value()) << to_string(again.error());
    EXPECT_EQ(difference(cold->completion, again->completion), "");
  }
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "afterimage/engine.h"
#include "afterimage/memory_budget.h"
#include "afterimage/prefix_cache.h"
#include "caches/prefix/prefix_draft.h"
#include "conformance/kv_damage.h"
#include "conformance/parts_check.h"
#include "conformance/resume_check.h"
#include "testing/seeds.h"

/// What every Engine that exposes its KV guarantees: cold = resumed, bit for bit, and a foreign
/// slice is refused without effect. To run the suite on your own engine (link
/// afterimage_testing_media):
///
///   INSTANTIATE_TEST_SUITE_P(Mine, EngineConformance, ::testing::Values(EngineUnderTest{"mine",
///   …}));
namespace afterimage::testing {

struct EngineUnderTest {
  std::string name;
  std::function<const Engine&()> engine;                  // the same one every time
  std::function<std::vector<const Engine*>()> strangers;  // other weights, adapters, layouts
  std::uint64_t random_prompts = 200;                     // eight cases each
  std::size_t point_stride = 1;  // of a slow engine, try only every n-th resume point, and the last
};

inline void PrintTo(const EngineUnderTest& tested, std::ostream* out) { *out << tested.name; }
inline std::string name_of(const ::testing::TestParamInfo<EngineUnderTest>& info) {
  return info.param.name;
}

class EngineConformance : public ::testing::TestWithParam<EngineUnderTest> {
 protected:
  void SetUp() override { ASSERT_NE(engine.kv_layout(), nullptr); }

  [[nodiscard]] const KvLayout& layout() const { return *engine.kv_layout(); }
  [[nodiscard]] std::vector<TokenCount> points_of(const EnginePrompt& prompt) const {
    const std::vector<TokenCount> all = legal_points(layout(), prompt.sequence);
    std::vector<TokenCount> tried;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i % GetParam().point_stride == 0 || i + 1 == all.size()) tried.push_back(all[i]);
    }
    return tried;
  }
  /// Long enough to exceed the widest window.
  [[nodiscard]] EnginePrompt long_prompt() const {
    std::uint32_t window = 0;
    for (const LayerGroup& group : layout().groups) {
      window = std::max(window, group.window.value());
    }
    return prompts.everything(window + 8U);
  }
  [[nodiscard]] Completion cold(const EnginePrompt& prompt) const {
    return engine.generate(prompt.sequence, prompt.embeddings, kFewTokens).value();
  }
  void expect_refused(const std::string& what, const EnginePrompt& prompt, const KvUse& use) const {
    const auto refused = run(engine, prompt, use);
    ASSERT_FALSE(refused.has_value()) << what;
    const ErrorCode code = refused.error().code;
    EXPECT_TRUE(code == ErrorCode::kInvalidArgument || code == ErrorCode::kCorruption)
        << what << ": " << to_string(refused.error());
  }

  const Engine& engine = GetParam().engine();
  PromptMaker prompts{engine};
  Rng rng{1};
};

TEST_P(EngineConformance, TheLayoutIsValid) {
  const auto checked = check_layout(layout());
  EXPECT_TRUE(checked.has_value()) << to_string(checked.error());
  EXPECT_EQ(engine.kv_layout(), engine.kv_layout());
}

// Segment boundaries, window edges, both edges of every span, len - 1: no point is skipped.
TEST_P(EngineConformance, ResumesAtEveryPoint) {
  const EnginePrompt prompt = long_prompt();
  EXPECT_EQ(first_difference(engine, prompt, points_of(prompt), rng), "");
}

TEST_P(EngineConformance, ResumesAtEveryPointAroundUnsplittableMedia) {
  EnginePrompt prompt = long_prompt();
  for (MediaSpan& span : prompt.sequence.spans) span.splittable = false;
  EXPECT_EQ(first_difference(engine, prompt, points_of(prompt), rng), "");
}

// One before, at and one after both edges of every image, audio clip and video. A named subset of
// the above.
TEST_P(EngineConformance, ResumesAroundBothEdgesOfEveryMediaItem) {
  const EnginePrompt prompt = long_prompt();
  const auto legal = points_of(prompt);
  std::vector<TokenCount> edges;
  for (const MediaSpan& span : prompt.sequence.spans) {
    for (const TokenCount edge : {span.offset, span.end()}) {
      for (const TokenCount at : {edge - TokenCount(1), edge, edge + TokenCount(1)}) {
        if (std::ranges::binary_search(legal, at)) edges.push_back(at);
      }
    }
  }
  std::ranges::sort(edges);
  const auto repeated = std::ranges::unique(edges);
  edges.erase(repeated.begin(), repeated.end());
  ASSERT_TRUE(layout().alignment > TokenCount(1) || GetParam().point_stride > 1 ||
              edges.size() >= 3 * prompts.media());
  EXPECT_EQ(first_difference(engine, prompt, edges, rng), "");
}

TEST_P(EngineConformance, HiddenStatesAreOfTheTextAndTheMediaBeforeIt) {
  const auto state_of = [&](const std::vector<PromptMaker::Part>& parts) {
    const EnginePrompt prompt = prompts.of(parts);
    return engine.hidden_state(prompt.sequence, prompt.embeddings);
  };
  const auto state = state_of({std::string("What is it?")});
  if (!state.has_value() && state.error().code == ErrorCode::kUnsupported) {
    GTEST_SKIP() << "the engine does not expose them";
  }
  ASSERT_TRUE(state.has_value()) << to_string(state.error());
  double squares = 0;
  for (const float x : *state) squares += double{x} * double{x};
  EXPECT_NEAR(squares, 1, 1e-4);
  EXPECT_NE(*state_of({std::string("Where is it?")}), *state);
  EXPECT_EQ(*state_of({std::string("What is it?")}), *state) << "nothing is left of a prompt";
  std::vector<std::vector<float>> seen{*state};
  for (std::size_t i = 0; i < prompts.media(); ++i) {
    seen.push_back(state_of({i, std::string("What is it?")}).value());
    EXPECT_EQ(std::ranges::count(seen, seen.back()), 1) << "media item " << i;
  }
}

TEST_P(EngineConformance, ShortPromptsResumeToo) {
  const EnginePrompt prompt = prompts.of({"x"});
  EXPECT_EQ(first_difference(engine, prompt, points_of(prompt), rng), "");
}

TEST_P(EngineConformance, AnExactRepeatComputesOnlyTheTokensAfterTheLastPoint) {
  const EnginePrompt prompt = long_prompt();
  const TokenCount last = points_of(prompt).back();
  const auto first = ColdRun::of(engine, prompt, {last});
  ASSERT_TRUE(first.has_value()) << to_string(first.error());
  const KvSlice slice = first->shelf.slice(last);
  const auto again = run(engine, without_covered_embeddings(prompt, last), {.resume_from = &slice});
  ASSERT_TRUE(again.has_value()) << to_string(again.error());
  EXPECT_EQ(difference(first->completion, again->completion), "");
  EXPECT_EQ(again->completion.resumed_from, last);
  EXPECT_EQ(again->completion.prefilled, prompt.size() - last);
  EXPECT_EQ(first->completion.resumed_from, TokenCount(0));
  EXPECT_EQ(first->completion.prefilled, prompt.size());
}

TEST_P(EngineConformance, SegmentsOfDifferentRunsFitTogether) {
  const EnginePrompt prompt = long_prompt();
  const auto points = points_of(prompt);
  const Completion expected = cold(prompt);
  for (std::size_t border = 1; border + 1 < points.size(); border += 7) {
    KvShelf shelf;
    const std::vector<TokenCount> around(points.begin() + static_cast<std::ptrdiff_t>(border) - 1,
                                         points.begin() + static_cast<std::ptrdiff_t>(border) + 2);
    KvWanted wanted{.rows_from = {}, .rows_to = points[border], .snapshots = around};
    shelf.add(run(engine, prompt, {.wanted = wanted}).value().kv);
    wanted = {.rows_from = points[border], .rows_to = prompt.size(), .snapshots = {}};
    shelf.add(run(engine, prompt, {.wanted = wanted}).value().kv);
    for (const TokenCount at : around) {
      const KvSlice slice = shelf.slice(at);
      const auto resumed = run(engine, prompt, {.resume_from = &slice});
      ASSERT_TRUE(resumed.has_value()) << to_string(resumed.error());
      ASSERT_EQ(difference(expected, resumed->completion), "") << at.value();
    }
  }
}

TEST_P(EngineConformance, AConversationResumesFromEveryTurn) {
  EnginePrompt prompt = long_prompt();
  KvUse use{.resume_from = nullptr, .wanted = all_of({points_of(prompt).back()})};
  KvShelf shelf;
  KvSlice slice;
  for (int turn = 0; turn < 7; ++turn) {
    auto now = run(engine, without_covered_embeddings(prompt, use.wanted.rows_from), use);
    ASSERT_TRUE(now.has_value()) << "turn " << turn << ": " << to_string(now.error());
    ASSERT_EQ(difference(cold(prompt), now->completion), "") << "turn " << turn;

    const EnginePrompt next = prompts.random(rng);
    EnginePrompt longer = continued(prompt, now->completion.tokens, next);
    TokenCount at = now->kv.snapshots.back().at;
    // Random weights may generate text that no prompt may contain; the answer is then left out of
    // the next prompt.
    if (!engine.generate(longer.sequence, longer.embeddings, kFewTokens).has_value()) {
      longer = continued(prompt, {}, next);
      at = now->kv.snapshots.front().at;
    }
    prompt = std::move(longer);
    shelf.add(std::move(now->kv));
    slice = shelf.slice(at);
    use = {.resume_from = &slice, .wanted = all_of({points_of(prompt).back()})};
    use.wanted.rows_from = at;
  }
}

TEST_P(EngineConformance, ForksShareNothing) {
  const EnginePrompt trunk = long_prompt();
  const TokenCount at = points_of(trunk).back();
  const auto captured = ColdRun::of(engine, trunk, {at});
  ASSERT_TRUE(captured.has_value()) << to_string(captured.error());
  const KvSlice slice = captured->shelf.slice(at);
  std::vector<EnginePrompt> forks;
  std::vector<Completion> expected;
  for (int i = 0; i < 4; ++i) {
    forks.push_back(continued(trunk, {}, prompts.random(rng)));
    expected.push_back(cold(forks.back()));
  }
  std::vector<std::string> found(forks.size(), "not run");
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < forks.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto resumed = run(engine, forks[i], {.resume_from = &slice});
      found[i] = resumed.has_value() ? difference(expected[i], resumed->completion)
                                     : to_string(resumed.error());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, std::vector<std::string>(forks.size()));
  EXPECT_EQ(
      difference(captured->completion, run(engine, trunk, {.resume_from = &slice})->completion),
      "");
}

/// A prefix cache with one prompt, and a snapshot at `at` if the layout needs one.
struct KnownPrompt {
  KnownPrompt(const Engine& engine, const EnginePrompt& prompt, TokenCount at) {
    const KvLayout& layout = *engine.kv_layout();
    KvWanted wanted{.rows_to = prompt.size(), .snapshots = {}};
    if (needs_snapshots(layout)) wanted.snapshots = {at};
    const auto made = run(engine, prompt, {.wanted = wanted});
    EXPECT_TRUE(made.has_value());
    EXPECT_TRUE(cache->insert(space, layout, prompt.sequence, made->kv).has_value());
  }

  NamespaceId space;
  MemoryBudget budget{1_GiB};
  std::unique_ptr<PrefixCache> cache = PrefixCache::create({}, budget).value();
};

// A plan pins its entries, so the engine finds them despite evictions in between.
TEST_P(EngineConformance, AnEvictionBetweenMatchAndRestore) {
  const EnginePrompt prompt = long_prompt();
  const Completion expected = cold(prompt);
  const auto points = points_of(prompt);
  for (const std::size_t p : {points.size() - 1, points.size() / 2, points.size() / 4}) {
    KnownPrompt known(engine, prompt, points[p]);
    {
      const PrefixMatch held = known.cache->match(known.space, prompt.sequence).value();
      ASSERT_GE(held.resume(), points[p]);
      known.cache->evict_bytes(known.budget.capacity());
      known.cache->erase(known.space);
      EXPECT_FALSE(known.cache->match(known.space, prompt.sequence)->holds())
          << "it is erased from the index";
      KvSlice cached = known.cache->kv(held);
      cached.origin = kv_origin(engine.identity(), layout());
      const auto resumed =
          run(engine, without_covered_embeddings(prompt, held.resume()), {.resume_from = &cached});
      ASSERT_TRUE(resumed.has_value()) << to_string(resumed.error());
      ASSERT_EQ(difference(expected, resumed->completion), "");
    }
    EXPECT_EQ(known.budget.used(), Bytes(0)) << "the last pin was released";
    known.cache->check_invariants();
  }
}

// An unpinned entry is a miss after an eviction, never half a hit.
TEST_P(EngineConformance, AnEvictedUnpinnedEntryIsAMiss) {
  const EnginePrompt prompt = long_prompt();
  KnownPrompt known(engine, prompt, points_of(prompt).back());
  ASSERT_TRUE(known.cache->match(known.space, prompt.sequence)->holds());  // unpinned at once
  known.cache->evict_bytes(known.budget.capacity());
  const PrefixMatch match = known.cache->match(known.space, prompt.sequence).value();
  EXPECT_FALSE(match.holds());
  EXPECT_EQ(match.resume(), TokenCount(0));
  EXPECT_EQ(known.budget.used(), Bytes(0));
}

TEST_P(EngineConformance, OnCapturedRunsOnceWithTheFinalCapture) {
  const EnginePrompt prompt = long_prompt();
  const KvWanted wanted{.rows_to = prompt.size(), .snapshots = {points_of(prompt).back()}};
  int times = 0;
  KvSlice early;
  const auto made = run(engine, prompt, {.wanted = wanted, .on_captured = [&](KvSlice kv) {
                                           ++times;
                                           early = std::move(kv);
                                         }});
  ASSERT_TRUE(made.has_value()) << to_string(made.error());
  EXPECT_EQ(times, 1);
  EXPECT_EQ(early.origin, made->kv.origin);
  EXPECT_EQ(difference(made->kv, early, TokenCount(0)), "");
  EXPECT_EQ(difference(made->completion, cold(prompt)), "");
}

// The next turn of a conversation prefills none of the generated tokens.
TEST_P(EngineConformance, GeneratedTokensAreResumedFrom) {
  const EnginePrompt prompt = long_prompt();
  std::vector<TokenId> fed_back;
  KvShelf shelf;
  KvUse use;
  use.on_captured = [&](KvSlice kv) { shelf.add(std::move(kv)); };
  use.on_end = [&](KvSlice kv, std::span<const TokenId> tokens) {
    fed_back.assign(tokens.begin(), tokens.end());
    shelf.add(std::move(kv));
  };
  use.end_from = prompt.size();
  use.wanted = {.rows_from = {}, .rows_to = prompt.size(), .snapshots = {points_of(prompt).back()}};
  const auto first = run(engine, prompt, use);
  ASSERT_TRUE(first.has_value()) << to_string(first.error());
  EXPECT_EQ(difference(first->completion, cold(prompt)), "");
  if (fed_back.empty()) GTEST_SKIP() << "the answer has one token";
  ASSERT_EQ(first->covered.value(), prompt.size().value() + fed_back.size());
  const EnginePrompt next = continued(prompt, fed_back, prompts.random(rng));
  const auto expected = engine.generate(next.sequence, next.embeddings, kFewTokens);
  if (!expected.has_value()) GTEST_SKIP() << "no prompt may contain this answer";
  const TokenCount at = shelf.last_snapshot();
  const KvSlice slice = shelf.slice(at);
  const auto resumed =
      run(engine, without_covered_embeddings(next, at), {.resume_from = &slice, .wanted = {}});
  ASSERT_TRUE(resumed.has_value()) << to_string(resumed.error());
  EXPECT_EQ(difference(*expected, resumed->completion), "");
  EXPECT_EQ(resumed->completion.prefilled, next.size() - at);
  if (layout().alignment == TokenCount(1)) EXPECT_EQ(at, first->covered);
}

TEST_P(EngineConformance, StreamedTextGrowsToTheFullAnswer) {
  const EnginePrompt prompt = prompts.everything();
  std::string told;
  GenerateOptions options{.max_tokens = TokenCount(12), .on_text = [&](std::string_view more) {
                            told += more;
                            return true;
                          }};
  const auto made = engine.generate(prompt.sequence, prompt.embeddings, options);
  ASSERT_TRUE(made.has_value()) << to_string(made.error());
  EXPECT_EQ(told, made->text);
  options.on_text = {};
  EXPECT_EQ(difference(engine.generate(prompt.sequence, prompt.embeddings, options).value(), *made),
            "");
}

TEST_P(EngineConformance, CancellingEndsOnlyThatRun) {
  const EnginePrompt prompt = long_prompt();
  const Completion expected = cold(prompt);
  const TokenCount at = points_of(prompt).back();
  KvShelf shelf;
  const KvUse use{.wanted = {.rows_to = prompt.size(), .snapshots = {at}},
                  .on_captured = [&](KvSlice kv) { shelf.add(std::move(kv)); }};
  const GenerateOptions options{.max_tokens = TokenCount(500),
                                .on_text = [](std::string_view) { return false; }};
  const auto cut_short = engine.generate_from(prompt.sequence, prompt.embeddings, options, use);
  ASSERT_FALSE(cut_short.has_value());
  EXPECT_EQ(cut_short.error().code, ErrorCode::kCancelled);
  const KvSlice slice = shelf.slice(at);
  const auto resumed = run(engine, prompt, {.resume_from = &slice});
  ASSERT_TRUE(resumed.has_value()) << to_string(resumed.error());
  EXPECT_EQ(difference(expected, resumed->completion), "");
}

TEST_P(EngineConformance, MissingEmbeddingsAreRefused) {
  if (prompts.media() == 0) GTEST_SKIP() << "this engine supports no media";
  const EnginePrompt prompt = prompts.everything();
  const auto cold_run = ColdRun::of(engine, prompt, points_of(prompt));
  ASSERT_TRUE(cold_run.has_value()) << to_string(cold_run.error());
  for (const MediaSpan& span : prompt.sequence.spans) {
    for (const TokenCount at : points_of(prompt)) {
      if (at < span.offset || at >= span.end()) continue;
      const KvSlice slice = cold_run->shelf.slice(at);
      expect_refused("at " + std::to_string(at.value()),
                     without_covered_embeddings(prompt, span.end()), {.resume_from = &slice});
    }
  }
}

TEST_P(EngineConformance, ImpossibleCaptureRequestsAreRefused) {
  EnginePrompt prompt = prompts.everything();
  for (MediaSpan& span : prompt.sequence.spans) span.splittable = false;
  const auto points = points_of(prompt);
  const TokenCount length = prompt.size();
  const TokenCount one(1);
  std::vector<std::pair<std::string, KvWanted>> cases = {
      {"rows that end before they start", {.rows_from = length, .rows_to = one}},
      {"rows beyond the prompt", {.rows_to = length + one}},
      {"rows that start beyond the prompt", {.rows_from = length + one, .rows_to = kEndOfRun}},
      {"a snapshot of nothing", {.snapshots = {TokenCount(0)}}},
      {"a snapshot beyond the prompt", {.snapshots = {length + one}}},
      {"one snapshot twice", {.snapshots = {points[0], points[0]}}},
      {"snapshots out of order", {.snapshots = {points[1], points[0]}}},
      {"a snapshot after the end", {.snapshots = {kEndOfRun, points[0]}}}};
  for (const MediaSpan& span : prompt.sequence.spans) {
    if (span.length > one) cases.push_back({"inside", {.snapshots = {span.offset + one}}});
  }
  for (const auto& [what, wanted] : cases) expect_refused(what, prompt, {.wanted = wanted});

  const auto cold_run = ColdRun::of(engine, prompt, {points[1]});
  ASSERT_TRUE(cold_run.has_value()) << to_string(cold_run.error());
  const KvSlice slice = cold_run->shelf.slice(points[1]);
  expect_refused("a snapshot before the resume point", prompt,
                 {.resume_from = &slice, .wanted = {.snapshots = {points[0]}}});
}

TEST_P(EngineConformance, AForeignStateIsRefused) {
  const EnginePrompt prompt = prompts.of({"whose is this?"});
  const TokenCount at = points_of(prompt).back();
  const auto mine = ColdRun::of(engine, prompt, {at});
  ASSERT_TRUE(mine.has_value()) << to_string(mine.error());
  KvSlice slice = mine->shelf.slice(at);
  EXPECT_EQ(slice.origin, kv_origin(engine.identity(), layout()));
  ModelIdentity adapted = engine.identity();
  adapted.adapter += "another adapter";
  slice.origin = kv_origin(adapted, layout());
  expect_refused("another adapter's", prompt, {.resume_from = &slice});

  for (const Engine* stranger : GetParam().strangers()) {
    // In their own tokens: their vocabulary may be another.
    const EnginePrompt same_words = PromptMaker(*stranger).of({"whose is this?"});
    const TokenCount their_end = legal_points(*stranger->kv_layout(), same_words.sequence).back();
    const auto theirs = ColdRun::of(*stranger, same_words, {their_end});
    ASSERT_TRUE(theirs.has_value()) << to_string(theirs.error());
    slice = theirs->shelf.slice(their_end);
    expect_refused("a stranger's", prompt, {.resume_from = &slice});
  }
  EXPECT_EQ(difference(mine->completion, cold(prompt)), "") << "the refusal had an effect";
}

TEST_P(EngineConformance, ADamagedStateIsRefusedWithoutEffect) {
  const EnginePrompt prompt = long_prompt();
  const TokenCount at = points_of(prompt).back();
  const auto cold_run = ColdRun::of(engine, prompt, {at});
  ASSERT_TRUE(cold_run.has_value()) << to_string(cold_run.error());
  const KvSlice good = cold_run->shelf.slice(at);
  for (const Damage& damage : damages()) {
    for (std::size_t group = 0; group < layout().groups.size(); ++group) {
      KvSlice bad = good;
      std::vector<KvRows>& pieces = pieces_of(bad, layout(), group);
      if (pieces.empty()) continue;
      damage.apply(bad, pieces);
      expect_refused(damage.name + (" in group " + std::to_string(group)), prompt,
                     {.resume_from = &bad});
      const auto resumed = run(engine, prompt, {.resume_from = &good});
      ASSERT_TRUE(resumed.has_value()) << to_string(resumed.error());
      ASSERT_EQ(difference(cold_run->completion, resumed->completion), "") << damage.name;
    }
  }
  EXPECT_EQ(difference(cold_run->completion, cold(prompt)), "");
}

TEST_P(EngineConformance, AStateThatEndsBeyondThePromptOrInsideMediaIsRefused) {
  EnginePrompt prompt = prompts.everything();
  const auto points = points_of(prompt);
  const auto cold_run = ColdRun::of(engine, prompt, points);
  ASSERT_TRUE(cold_run.has_value()) << to_string(cold_run.error());
  for (MediaSpan& span : prompt.sequence.spans) span.splittable = false;
  for (const TokenCount at : points) {
    const KvSlice slice = cold_run->shelf.slice(at);
    EnginePrompt too_short = prompts.of({"x"});
    too_short.sequence.tokens.resize(std::min<std::size_t>(too_short.size().value(), at.value()));
    expect_refused("for a prompt that is not longer", too_short, {.resume_from = &slice});
    if (std::ranges::count(points_of(prompt), at) != 0) continue;
    expect_refused("inside media", prompt, {.resume_from = &slice});
  }
}

// The promise of Engine::split(). An engine that splits nothing keeps it.
TEST_P(EngineConformance, PartsTogetherAreTheWhole) {
  std::vector<MediaItem> items = overlapping_videos();
  for (const MediaItem& item : prompts.items()) items.push_back(item);
  std::vector<MediaItem> supported;
  for (MediaItem& item : items) {
    if (engine.encode(item).has_value()) supported.push_back(std::move(item));
  }
  std::size_t split = 0;
  EXPECT_EQ(parts_difference(engine, supported, rng, &split), "");
  RecordProperty("split", std::to_string(split));
}

TEST_P(EngineConformance, RandomCases) {
  constexpr std::size_t kPoints = 8;
  std::size_t cases = 0;
  for_each_seed(GetParam().random_prompts, [&](Rng& seeded) {
    const EnginePrompt prompt = prompts.random(seeded);
    std::vector<TokenCount> points = points_of(prompt);
    while (points.size() > kPoints) {
      points.erase(points.begin() + static_cast<std::ptrdiff_t>(seeded.below(points.size())));
    }
    ASSERT_EQ(first_difference(engine, prompt, points, seeded), "");
    cases += points.size();
  });
  RecordProperty("cases", std::to_string(cases));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EngineConformance);

}  // namespace afterimage::testing

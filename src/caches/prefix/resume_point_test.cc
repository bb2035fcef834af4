// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/prefix/resume_point.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "testing/seeds.h"

namespace afterimage {
namespace {

TokenCount t(std::uint64_t n) { return TokenCount(static_cast<std::uint32_t>(n)); }

LayerGroup full() { return {.kind = KvKind::kFull, .row_bytes = 1_B}; }
LayerGroup sliding(std::uint32_t window) {
  return {.kind = KvKind::kSliding, .window = TokenCount(window), .row_bytes = 1_B};
}
LayerGroup recurrent() { return {.kind = KvKind::kRecurrent, .state_bytes = 1_B}; }
LayerGroup shared(std::uint32_t owner) { return {.kind = KvKind::kShared, .owner = owner}; }

/// A table row: one query and the expected resume point.
struct Case {
  const char* name;
  KvLayout layout;
  std::vector<RowRange> rows;
  std::vector<TokenCount> states;
  std::uint32_t covered;
  std::uint32_t length;
  std::uint32_t matched;
  std::vector<MediaSpan> spans;
  std::uint32_t expected;
  ResumeLimit limit;
};

ResumePoint answer(const Case& c) {
  const std::vector<GroupAvailability> available(
      c.layout.groups.size(), {.covered = t(c.covered), .rows = c.rows, .states = c.states});
  const ResumeQuery query{.length = t(c.length), .matched = t(c.matched), .spans = c.spans};
  const ResumePoint point = resume_point(c.layout, available, query);
  EXPECT_EQ(point.length, resume_length(c.layout, available, query)) << c.name;
  return point;
}

MediaSpan span(std::uint32_t offset, std::uint32_t length, bool splittable) {
  return {.offset = t(offset), .length = t(length), .splittable = splittable};
}

TEST(ResumePoint, FollowsTheRuleOfEachKind) {
  const Case kCases[] = {
      {"an empty prompt", {{full()}}, {}, {}, 0, 0, 0, {}, 0, ResumeLimit::kPromptEnd},
      {"one token", {{full()}}, {}, {}, 1, 1, 1, {}, 0, ResumeLimit::kPromptEnd},
      {"an exact repeat leaves one token",
       {{full()}},
       {},
       {},
       10,
       10,
       10,
       {},
       9,
       ResumeLimit::kPromptEnd},
      {"a cached sequence's prefix", {{full()}}, {}, {}, 10, 6, 6, {}, 5, ResumeLimit::kPromptEnd},
      {"an extension", {{full()}}, {}, {}, 9, 20, 9, {}, 9, ResumeLimit::kMatched},
      {"rows end before the match", {{full()}}, {}, {}, 7, 20, 10, {}, 7, ResumeLimit::kCovered},
      {"no partial blocks", {{full()}, t(4)}, {}, {}, 11, 20, 11, {}, 8, ResumeLimit::kAlignment},
      {"exact repeat in blocks", {{full()}, t(4)}, {}, {}, 8, 8, 8, {}, 4, ResumeLimit::kAlignment},
      {"before an unsplittable span",
       {{full()}},
       {},
       {},
       9,
       20,
       9,
       {span(5, 6, false)},
       5,
       ResumeLimit::kMediaSpan},
      {"inside a splittable span",
       {{full()}},
       {},
       {},
       9,
       20,
       9,
       {span(5, 6, true)},
       9,
       ResumeLimit::kMatched},
      {"at the end of an unsplittable span",
       {{full()}},
       {},
       {},
       11,
       20,
       11,
       {span(5, 6, false)},
       11,
       ResumeLimit::kMatched},
      {"an exact repeat that ends in an image",
       {{full()}},
       {},
       {},
       11,
       11,
       11,
       {span(5, 6, false)},
       5,
       ResumeLimit::kMediaSpan},
      {"back to the span's start, then to the block's",
       {{full()}, t(4)},
       {},
       {},
       9,
       20,
       9,
       {span(6, 6, false)},
       4,
       ResumeLimit::kMediaSpan},
      {"a rolled window serves its end",
       {{sliding(4)}},
       {{t(6), t(10)}},
       {},
       0,
       20,
       12,
       {},
       10,
       ResumeLimit::kWindow},
      {"a rolled window serves nothing before its end",
       {{sliding(4)}},
       {{t(6), t(10)}},
       {},
       0,
       20,
       9,
       {},
       0,
       ResumeLimit::kWindow},
      {"extra rows serve a few shorter lengths",
       {{sliding(4)}},
       {{t(3), t(10)}},
       {},
       0,
       20,
       8,
       {},
       8,
       ResumeLimit::kMatched},
      {"a window that has not rolled serves every length",
       {{sliding(4)}},
       {{t(0), t(10)}},
       {},
       0,
       20,
       2,
       {},
       2,
       ResumeLimit::kMatched},
      {"a state serves only its own length",
       {{recurrent()}},
       {},
       {t(3), t(8)},
       0,
       20,
       7,
       {},
       3,
       ResumeLimit::kState},
      {"a state exactly at the match",
       {{recurrent()}},
       {},
       {t(3), t(8)},
       0,
       20,
       8,
       {},
       8,
       ResumeLimit::kMatched},
      {"an exact repeat of a recurrent model",
       {{recurrent()}},
       {},
       {t(3), t(8)},
       0,
       8,
       8,
       {},
       3,
       ResumeLimit::kState},
      {"a shared group follows its owner",
       {{full(), shared(0)}},
       {},
       {},
       6,
       20,
       9,
       {},
       6,
       ResumeLimit::kCovered},
      {"all kinds together",
       {{full(), sliding(4), recurrent(), shared(1)}},
       {{t(0), t(5)}, {t(6), t(10)}},
       {t(5), t(10), t(12)},
       15,
       20,
       14,
       {},
       10,
       ResumeLimit::kWindow},
  };
  for (const Case& c : kCases) {
    const ResumePoint point = answer(c);
    EXPECT_EQ(point.length, t(c.expected)) << c.name;
    EXPECT_EQ(point.limit, c.limit) << c.name << ": " << to_string(point.limit);
  }
}

TEST(ResumePoint, ReportsTheLengthASnapshotWouldAllow) {
  const ResumePoint point =
      answer({"", {{full(), recurrent()}}, {}, {t(3)}, 9, 20, 8, {}, 3, ResumeLimit::kState});
  EXPECT_EQ(point.with_snapshot, t(8));
  EXPECT_EQ(point.group, 1U);
  EXPECT_EQ(point.groups[0], (GroupVerdict{t(8), ResumeLimit::kMatched}));
  EXPECT_EQ(point.groups[1], (GroupVerdict{t(3), ResumeLimit::kState}));
}

TEST(ResumePoint, ASnapshotCannotReachBeyondTheRows) {
  const ResumePoint point =
      answer({"", {{full(), recurrent()}}, {}, {t(3)}, 3, 20, 8, {}, 3, ResumeLimit::kCovered});
  EXPECT_EQ(point.with_snapshot, std::nullopt);
}

TEST(MediaToEncode, SelectsSpansByPosition) {
  const std::vector<MediaSpan> spans = {span(2, 3, false), span(5, 3, true), span(9, 2, false)};
  EXPECT_EQ(media_to_encode(spans, t(0)).size(), 3U);
  EXPECT_EQ(media_to_encode(spans, t(4)).size(), 3U);
  EXPECT_EQ(media_to_encode(spans, t(5)).size(), 2U);
  EXPECT_EQ(media_to_encode(spans, t(6)).size(), 2U) << "half an item still needs the encoder";
  EXPECT_EQ(media_to_encode(spans, t(8)).front().offset, t(9));
  EXPECT_EQ(media_to_encode(spans, t(11)).size(), 0U);
}

/// A small random layout and prompt, and a brute-force check of every length.
struct World {
  KvLayout layout;
  std::vector<TokenCount> covered;
  std::vector<std::vector<RowRange>> rows;
  std::vector<std::vector<TokenCount>> states;
  ResumeQuery query;
  std::vector<MediaSpan> spans;

  explicit World(Rng& rng) {
    layout.alignment = t(1 + (rng.chance(0.5) ? 0 : rng.below(4)));
    const std::uint64_t groups = 1 + rng.below(4);
    for (std::uint64_t g = 0; g < groups; ++g) {
      switch (rng.below(4)) {
        case 0:
          layout.groups.push_back(sliding(static_cast<std::uint32_t>(1 + rng.below(5))));
          break;
        case 1:
          layout.groups.push_back(recurrent());
          break;
        case 2:
          if (g > 0 && layout.groups[0].kind != KvKind::kRecurrent) {
            layout.groups.push_back(shared(0));
            break;
          }
          [[fallthrough]];
        default:
          layout.groups.push_back(full());
      }
      covered.push_back(t(rng.below(20)));
      auto& ranges = rows.emplace_back();
      for (std::uint64_t n = rng.below(5); n > 0; --n) {
        const std::uint64_t first = rng.chance(0.3) ? 0 : rng.below(15);
        ranges.push_back({t(first), t(first + rng.below(10))});
      }
      auto& cached = states.emplace_back();
      for (std::uint64_t at = 1; at < 20; ++at) {
        if (rng.chance(0.4)) cached.push_back(t(at));
      }
    }
    for (std::uint64_t at = rng.below(6); at < 18; at += 1 + rng.below(6)) {
      const std::uint64_t length = 1 + rng.below(6);
      spans.push_back({.offset = t(at), .length = t(length), .splittable = rng.chance(0.4)});
      at += length - 1;
    }
    query = {.length = t(rng.below(24)), .matched = {}, .spans = spans};
    query.matched = t(rng.below(query.length.value() + 1));
  }

  [[nodiscard]] std::vector<GroupAvailability> availability() const {
    std::vector<GroupAvailability> all;
    for (std::size_t g = 0; g < layout.groups.size(); ++g) {
      all.push_back({.covered = covered[g], .rows = rows[g], .states = states[g]});
    }
    return all;
  }

  [[nodiscard]] bool group_allows(std::size_t g, std::uint32_t r) const {
    const LayerGroup& group = layout.groups[g];
    switch (group.kind) {
      case KvKind::kFull:
        return r <= covered[g].value();
      case KvKind::kShared:
        return group_allows(group.owner, r);
      case KvKind::kRecurrent:
        return std::ranges::find(states[g], t(r)) != states[g].end();
      case KvKind::kSliding:
        return std::ranges::any_of(rows[g], [&](const RowRange& range) {
          for (std::uint32_t row = 0; row < r; ++row) {
            const bool needed = row + group.window.value() >= r;
            const bool present = range.first <= t(row) && t(row) < range.end;
            if (needed && !present) return false;
          }
          return true;
        });
    }
    return false;
  }

  [[nodiscard]] bool request_allows(std::uint32_t r) const {
    return r % layout.alignment.value() == 0 && r <= query.matched.value() &&
           r < query.length.value() &&
           std::ranges::none_of(
               spans,
               [&](const MediaSpan& s) {
                 return !s.splittable && s.offset < t(r) && t(r) < s.end();
               });
  }

  template <typename Group>
  [[nodiscard]] std::uint32_t longest(Group group_allows_too) const {
    for (std::uint32_t r = query.length.value(); r > 0; --r) {
      if (request_allows(r) && group_allows_too(r)) return r;
    }
    return 0;
  }
};

TEST(ResumePointProperty, AgreesWithBruteForce) {
  testing::for_each_seed(20'000, [](Rng& rng) {
    const World world(rng);
    const auto available = world.availability();
    const ResumePoint point = resume_point(world.layout, available, world.query);
    const auto all_but_snapshots = [&](std::uint32_t r, bool snapshots) {
      for (std::size_t g = 0; g < world.layout.groups.size(); ++g) {
        if (!snapshots && world.layout.groups[g].kind != KvKind::kFull) continue;
        if (!world.group_allows(g, r)) return false;
      }
      return true;
    };
    const std::uint32_t expected =
        world.longest([&](auto r) { return all_but_snapshots(r, true); });
    ASSERT_EQ(point.length, t(expected));
    ASSERT_EQ(resume_length(world.layout, available, world.query), t(expected));
    for (std::size_t g = 0; g < world.layout.groups.size(); ++g) {
      const auto alone = world.longest([&](auto r) { return world.group_allows(g, r); });
      ASSERT_EQ(point.groups[g].alone, t(alone)) << "group " << g;
      ASSERT_LE(expected, alone);
    }
    const std::uint32_t best = world.longest([&](auto r) { return all_but_snapshots(r, false); });
    ASSERT_EQ(point.with_snapshot.value_or(point.length), t(best));
  });
}

}  // namespace
}  // namespace afterimage

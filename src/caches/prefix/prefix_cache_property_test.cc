// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "afterimage/prefix_cache.h"
#include "caches/prefix/prefix_draft.h"
#include "caches/prefix/prefix_explanation.h"
#include "caches/prefix/resume_point.h"
#include "caches/prefix/testing/kv_world.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace testing;  // NOLINT: the fixtures of these tests

struct Stored {
  unsigned space;
  Sequence sequence;
  std::uint32_t covered;
  std::vector<std::uint32_t> snapshots;
};

KvLayout random_layout(Rng& rng) {
  const KvLayout kLayouts[] = {
      {{full()}},
      {{full(), recurrent()}},
      {{recurrent()}},
      {{full(), sliding(3)}},
      {{sliding(4), sliding(2)}},
      {{full(3), sliding(3), recurrent(5), shared(1), full(1)}},
      {{full(), sliding(2)}, TokenCount(2)},
  };
  return kLayouts[rng.below(std::size(kLayouts))];
}

/// Few tokens and few pictures, so that sequences share much and diverge often; lengths that span
/// several pieces.
Sequence random_sequence(Rng& rng) {
  Sequence sequence;
  const bool is_long = rng.chance(0.2);
  const std::uint64_t parts = 1 + rng.below(is_long ? 5 : 8);
  for (std::uint64_t i = 0; i < parts; ++i) {
    if (rng.chance(0.25)) {
      sequence = with_media(std::move(sequence), picture(static_cast<unsigned>(rng.below(2))),
                            static_cast<std::uint32_t>(2 + rng.below(2)), rng.chance(0.5),
                            rng.chance(0.8) ? Modality::kImage : Modality::kAudio);
    } else {
      const auto repeats = is_long ? 100 + rng.below(2) * 90 : 1 + rng.below(3);
      const auto token = TokenId(static_cast<int>(rng.chance(0.1) ? 999 : rng.below(2)));
      sequence.tokens.insert(sequence.tokens.end(), repeats, token);
    }
  }
  return sequence;
}

bool same_at(const Sequence& a, const Sequence& b, std::uint32_t i) {
  const auto span_of = [i](const Sequence& s) {
    const auto it = std::ranges::find_if(s.spans, [i](const MediaSpan& span) {
      return span.offset.value() <= i && i < span.end().value();
    });
    return it == s.spans.end() ? MediaSpan{} : *it;
  };
  return a.tokens[i] == b.tokens[i] && span_of(a) == span_of(b);
}

std::uint32_t common(const Sequence& a, const Sequence& b) {
  std::uint32_t i = 0;
  while (i < a.tokens.size() && i < b.tokens.size() && same_at(a, b, i)) ++i;
  return i;
}

/// The result of a scan over everything ever stored.
struct Scan {
  std::uint32_t matched = 0;
  std::uint32_t at_least = 0;  // using only snapshots on the prompt's path
  std::uint32_t at_most = 0;   // using all snapshots, wherever they are
};

constexpr std::uint32_t kSlack = 1;

bool serves(const KvLayout& layout, std::uint32_t at, std::uint32_t r) {
  if (r > at) return false;
  for (const LayerGroup& group : layout.groups) {
    if (group.kind == KvKind::kRecurrent && r != at) return false;
    if (group.kind != KvKind::kSliding) continue;
    const std::uint32_t first = at - std::min(at, group.window.value() + kSlack);
    if (first > 0 && first + group.window.value() > r) return false;
  }
  return true;
}

Scan scan(const std::vector<Stored>& stored, const KvLayout& layout, unsigned space,
          const Sequence& prompt) {
  const auto of_kind = [&](KvKind kind) {
    return std::ranges::find(layout.groups, kind, &LayerGroup::kind) != layout.groups.end();
  };
  const bool needs_snapshot = of_kind(KvKind::kSliding) || of_kind(KvKind::kRecurrent);
  Scan found;
  std::set<std::uint32_t> on_the_way;  // positions of snapshots
  std::set<std::uint32_t> anywhere;
  for (const Stored& s : stored) {
    if (s.space != space) continue;
    const std::uint32_t lcp = std::min(common(s.sequence, prompt), s.covered);
    found.matched = std::max(found.matched, lcp);
    for (const std::uint32_t at : s.snapshots) {
      if (at <= lcp) on_the_way.insert(at);
      for (std::uint32_t r = 1; r <= std::min(lcp, at); ++r) {
        if (serves(layout, at, r)) anywhere.insert(r);
      }
    }
  }
  for (std::uint32_t r = 1; r < prompt.tokens.size() && r <= found.matched; ++r) {
    if (r % layout.alignment.value() != 0) continue;
    const bool cuts = std::ranges::any_of(prompt.spans, [r](const MediaSpan& s) {
      return !s.splittable && s.offset.value() < r && r < s.end().value();
    });
    if (cuts) continue;
    if (!needs_snapshot || on_the_way.contains(r)) found.at_least = r;
    if (!needs_snapshot || anywhere.contains(r)) found.at_most = r;
  }
  return found;
}

Stored random_stored(Rng& rng, const KvLayout& layout, const std::vector<Stored>& before) {
  Stored made{
      .space = static_cast<unsigned>(rng.below(2)), .sequence = {}, .covered = 0, .snapshots = {}};
  made.sequence = random_sequence(rng);
  if (!before.empty() && rng.chance(0.4)) {  // extends a stored sequence
    Sequence longer = before[rng.below(before.size())].sequence;
    for (std::uint64_t n = rng.below(4); n > 0; --n)
      longer.tokens.push_back(TokenId(static_cast<int>(n % 2)));
    made.sequence = std::move(longer);
  }
  const auto size = static_cast<std::uint32_t>(made.sequence.tokens.size());
  made.covered = size - static_cast<std::uint32_t>(rng.below(std::min(size, 3U) + 1));
  const bool any = std::ranges::any_of(layout.groups, [](const LayerGroup& g) {
    return g.kind == KvKind::kSliding || g.kind == KvKind::kRecurrent;
  });
  for (std::uint32_t at = 1; any && at <= made.covered; ++at) {
    const bool legal = legal_boundary(layout, made.sequence.spans, TokenCount(at)).value() == at;
    if (legal && rng.chance(at < 20 ? 0.3 : 0.02)) made.snapshots.push_back(at);
  }
  const bool rows =
      std::ranges::find(layout.groups, KvKind::kFull, &LayerGroup::kind) != layout.groups.end();
  if (!rows) made.covered = made.snapshots.empty() ? 0 : made.snapshots.back();
  return made;
}

TEST(PrefixCacheProperty, AgreesWithAScanOverEverythingStored) {
  for_each_seed(400, [](Rng& rng) {
    const KvLayout layout = random_layout(rng);
    CacheFixture f(64_MiB);
    std::vector<Stored> stored;
    for (int step = 0; step < 25; ++step) {
      const Stored next = random_stored(rng, layout, stored);
      const auto done =
          f.put(space(next.space), layout, next.sequence, next.covered, next.snapshots, kSlack);
      ASSERT_TRUE(done.has_value()) << to_string(done.error());
      stored.push_back(next);
      const Sequence prompt = rng.chance(0.5) ? stored[rng.below(stored.size())].sequence
                                              : random_stored(rng, layout, stored).sequence;
      const auto tenant = static_cast<unsigned>(rng.below(2));
      const Scan expected = scan(stored, layout, tenant, prompt);
      const PrefixMatch match = f.cache->match(space(tenant), prompt).value();
      ASSERT_EQ(match.matched().value(), expected.matched) << "step " << step;
      ASSERT_GE(match.resume().value(), expected.at_least) << "step " << step;
      ASSERT_LE(match.resume().value(), expected.at_most) << "step " << step;
      if (match.holds()) {
        ASSERT_TRUE(is_kv_of(f.cache->kv(match), space(tenant), layout, prompt)) << "step " << step;
      }
      const auto why = f.cache->explain(space(tenant), prompt).value();
      ASSERT_EQ(why.point.length, match.resume()) << to_string(why);
      ASSERT_EQ(why.matched, match.matched());
    }
  });
}

struct Held {
  PrefixMatch match;
  unsigned space;
  Sequence prompt;
};

/// Every position that a match can reach, of every sequence ever stored, counted once.
std::uint64_t reachable(PrefixCache& cache, const std::vector<Stored>& stored) {
  std::set<std::uint64_t> positions;
  for (const Stored& s : stored) {
    const auto after = histories(space(s.space), s.sequence);
    const auto matched = cache.match(space(s.space), s.sequence).value().matched().value();
    positions.insert(after.begin() + 1, after.begin() + 1 + matched);
  }
  return positions.size();
}

TEST(PrefixCacheProperty, ASmallBudgetServesNoWrongRowAndKeepsCountersExact) {
  for_each_seed(400, [](Rng& rng) {
    const KvLayout layout = random_layout(rng);
    PrefixCacheOptions options;
    if (rng.chance(0.3)) options.max_sequences = EntryCount(1 + rng.below(6));
    const std::uint64_t most = options.max_sequences.value();
    if (rng.chance(0.3)) options.max_tokens = 1 + rng.below(300);
    const std::uint64_t most_tokens = options.max_tokens;
    CacheFixture f(Bytes(256 + rng.below(8000)), std::move(options));
    std::vector<Stored> stored;
    std::vector<Held> held;
    bool erased = false;
    for (int step = 0; step < 60; ++step) {
      const std::uint64_t dice = rng.below(20);
      if (dice < 12) {
        const Stored next = random_stored(rng, layout, stored);
        const PrefixCacheStats before = f.cache->stats();
        const auto done =
            f.put(space(next.space), layout, next.sequence, next.covered, next.snapshots, kSlack);
        if (!done.has_value()) {
          ASSERT_EQ(done.error().code, ErrorCode::kNoSpace) << to_string(done.error());
          ASSERT_EQ(f.cache->stats().tokens, before.tokens) << "a refusal changed something";
          ASSERT_EQ(f.cache->stats().evictions, before.evictions);
        }
        stored.push_back(next);
      } else if (dice < 17) {
        const Stored query = !stored.empty() && rng.chance(0.7)
                                 ? stored[rng.below(stored.size())]
                                 : random_stored(rng, layout, stored);
        PrefixMatch match = f.cache->match(space(query.space), query.sequence).value();
        ASSERT_LE(match.resume().value(),
                  scan(stored, layout, query.space, query.sequence).at_most);
        if (match.holds() && held.size() < 4) {
          held.push_back({std::move(match), query.space, query.sequence});
        }
      } else if (dice < 19) {
        if (!held.empty())
          held.erase(held.begin() + static_cast<std::ptrdiff_t>(rng.below(held.size())));
      } else if (rng.chance(0.3)) {
        erased = f.cache->erase(space(static_cast<unsigned>(rng.below(2)))) || erased;
      } else if (rng.chance(0.3)) {
        const ContentDigest gone = picture(static_cast<unsigned>(rng.below(3)));
        erased = f.cache->erase_media(gone) > 0 || erased;
        for (const Stored& one : stored) {
          const auto about = std::ranges::find(one.sequence.spans, gone, &MediaSpan::content);
          if (about == one.sequence.spans.end()) continue;
          const PrefixMatch left = f.cache->match(space(one.space), one.sequence).value();
          ASSERT_LE(left.matched(), about->offset);
        }
      } else {
        f.cache->evict_bytes(Bytes(rng.below(1000)));
      }
      f.cache->check_invariants();
      ASSERT_LE(f.budget.used(), f.budget.capacity());
      ASSERT_LE(f.cache->stats().sequences.value(), most) << "step " << step;
      ASSERT_LE(f.cache->stats().tokens, most_tokens) << "step " << step;
      ASSERT_EQ(f.budget.used(), f.cache->stats().resident);
      for (const Held& h : held) {
        ASSERT_TRUE(is_kv_of(f.cache->kv(h.match), space(h.space), layout, h.prompt))
            << "step " << step;
      }
    }
    if (!erased) {
      const std::uint64_t tokens = f.cache->stats().tokens;
      ASSERT_EQ(reachable(*f.cache, stored), tokens);
    }
    held.clear();
    f.cache->clear();
    f.cache->check_invariants();
    ASSERT_EQ(f.budget.used(), 0_B) << "leaked";
  });
}

}  // namespace
}  // namespace afterimage

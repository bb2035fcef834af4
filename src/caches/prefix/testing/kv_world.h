// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <vector>

#include "afterimage/prefix_cache.h"

/// Self-identifying KV: every row and state is a function of the namespace and of everything before
/// it, so that a single byte of another sequence's KV is detected.
namespace afterimage::testing {

inline TokenCount tokens(std::uint64_t n) { return TokenCount(static_cast<std::uint32_t>(n)); }

inline NamespaceId space(unsigned n) {
  NamespaceId id;
  id.bytes[0] = static_cast<std::byte>(n);
  return id;
}

inline ContentDigest picture(unsigned n) {
  ContentDigest digest;
  digest.bytes[31] =
      static_cast<std::byte>(n);  // the last eight of the 256 bits, which are all compared
  return digest;
}

inline Sequence text(std::initializer_list<int> ids) {
  Sequence sequence;
  for (const int id : ids) sequence.tokens.push_back(TokenId(id));
  return sequence;
}

/// `n` tokens; equal seeds give equal prefixes.
inline Sequence text_of(std::uint32_t n, int seed = 1) {
  Sequence sequence;
  for (std::uint32_t i = 0; i < n; ++i) {
    sequence.tokens.push_back(TokenId(static_cast<int>((i * 7919U + 13U) % 1000U) + 1000 * seed));
  }
  return sequence;
}

/// Appends a media item of `length` placeholders.
inline Sequence with_media(Sequence sequence, ContentDigest content, std::uint32_t length,
                           bool splittable = false, Modality modality = Modality::kImage) {
  sequence.spans.push_back({.offset = tokens(sequence.tokens.size()),
                            .length = tokens(length),
                            .modality = modality,
                            .content = content,
                            .splittable = splittable});
  sequence.tokens.insert(sequence.tokens.end(), length, TokenId(999));
  return sequence;
}

inline Sequence operator+(Sequence sequence, const Sequence& more) {
  sequence.tokens.insert(sequence.tokens.end(), more.tokens.begin(), more.tokens.end());
  return sequence;
}

inline LayerGroup full(std::uint64_t row = 8) {
  return {.kind = KvKind::kFull, .row_bytes = Bytes(row)};
}
inline LayerGroup sliding(std::uint32_t window, std::uint64_t row = 8) {
  return {.kind = KvKind::kSliding, .window = tokens(window), .row_bytes = Bytes(row)};
}
inline LayerGroup recurrent(std::uint64_t state = 24) {
  return {.kind = KvKind::kRecurrent, .state_bytes = Bytes(state)};
}
inline LayerGroup shared(std::uint32_t owner) { return {.kind = KvKind::kShared, .owner = owner}; }

inline std::uint64_t stir(std::uint64_t h, std::uint64_t word) {
  h = (h + 0x632BE59BD9B4E019ULL) * 0x9E3779B97F4A7C15ULL;
  h = (h ^ (h >> 29U) ^ word) * 0xBF58476D1CE4E5B9ULL;
  return h ^ (h >> 32U);
}

/// after[i]: a digest of everything that the KV after i tokens depends on.
inline std::vector<std::uint64_t> histories(const NamespaceId& id, const Sequence& sequence) {
  std::vector<std::uint64_t> after = {stir(1, static_cast<std::uint64_t>(id.bytes[0]))};
  for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
    std::uint64_t h = stir(after.back(), static_cast<std::uint64_t>(sequence.tokens[i]));
    for (const MediaSpan& s : sequence.spans) {
      if (s.offset.value() > i || i >= s.end().value()) continue;
      h = stir(h, static_cast<std::uint64_t>(s.content.bytes[31]) + 1);
      h = stir(h, static_cast<std::uint64_t>(s.modality) * 2 + (s.splittable ? 1 : 0));
      h = stir(h, (std::uint64_t{s.offset.value()} << 32U) | s.length.value());
    }
    after.push_back(h);
  }
  return after;
}

inline void write(std::vector<std::byte>& out, std::uint64_t history, std::size_t group,
                  std::uint64_t bytes) {
  const std::size_t begin = out.size();
  out.resize(begin + bytes);
  for (std::uint64_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = stir(history, group * 1000 + i);
    std::memcpy(&out[begin + i], &word, std::min<std::uint64_t>(8, bytes - i));
  }
}

/// A capture as an engine would make it, with the memory behind it.
class Capture {
 public:
  Capture(const NamespaceId& id, const KvLayout& layout, const Sequence& sequence,
          std::uint32_t covered, std::uint32_t first_row = 0,
          const std::vector<std::uint32_t>& snapshots = {}, std::uint32_t slack = 0)
      : after_(histories(id, sequence)) {
    kv.begin = tokens(first_row);
    kv.end = tokens(covered);
    for (std::size_t g = 0; g < layout.groups.size(); ++g) {
      std::vector<KvRows>& pieces = kv.rows.emplace_back();
      if (layout.groups[g].kind == KvKind::kFull && first_row < covered) {
        pieces.push_back(rows(layout, g, first_row, covered));
      }
    }
    for (const std::uint32_t at : snapshots) kv.snapshots.push_back(snapshot(layout, at, slack));
  }

  KvSlice kv;

 private:
  KvRows rows(const KvLayout& layout, std::size_t g, std::uint32_t first, std::uint32_t end) {
    std::vector<std::byte>& out = memory_.emplace_back();
    for (std::uint32_t i = first; i < end; ++i) {
      write(out, after_[i + 1], g, layout.groups[g].row_bytes.value());
    }
    return {.first = tokens(first), .count = tokens(end - first), .bytes = out};
  }
  KvSnapshot snapshot(const KvLayout& layout, std::uint32_t at, std::uint32_t slack) {
    KvSnapshot made{.at = tokens(at), .groups = {}};
    for (std::size_t g = 0; g < layout.groups.size(); ++g) {
      const LayerGroup& group = layout.groups[g];
      std::vector<KvRows>& pieces = made.groups.emplace_back();
      if (group.kind == KvKind::kSliding) {
        const std::uint32_t n = std::min(at, group.window.value() + slack);
        pieces.push_back(rows(layout, g, at - n, at));
      } else if (group.kind == KvKind::kRecurrent) {
        std::vector<std::byte>& out = memory_.emplace_back();
        write(out, after_[at], g, group.state_bytes.value());
        pieces.push_back({.count = tokens(1), .bytes = out});
      }
    }
    return made;
  }

  std::vector<std::uint64_t> after_;
  std::list<std::vector<std::byte>> memory_;
};

/// Checks that `kv` is what the prompt's own prefill has after kv.end tokens, ready to resume there.
inline ::testing::AssertionResult is_kv_of(const KvSlice& kv, const NamespaceId& id,
                                           const KvLayout& layout, const Sequence& prompt) {
  if (const auto checked = check_slice(kv, layout); !checked.has_value()) {
    return ::testing::AssertionFailure() << to_string(checked.error());
  }
  const bool at_end = kv.snapshots.size() == 1 && kv.snapshots.front().at == kv.end;
  const auto after = histories(id, prompt);
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const LayerGroup& group = layout.groups[g];
    if (group.kind == KvKind::kShared) continue;
    const bool is_full = group.kind == KvKind::kFull;
    if (!is_full && !at_end) {
      return ::testing::AssertionFailure() << "not one snapshot at the resume point";
    }
    for (const KvRows& piece : is_full ? kv.rows[g] : kv.snapshots.front().groups[g]) {
      std::vector<std::byte> expected;
      if (group.kind == KvKind::kRecurrent) {
        write(expected, after[kv.end.value()], g, group.state_bytes.value());
      } else {
        for (std::uint32_t i = 0; i < piece.count.value(); ++i) {
          write(expected, after[piece.first.value() + i + 1], g, group.row_bytes.value());
        }
      }
      if (!std::ranges::equal(expected, piece.bytes)) {
        return ::testing::AssertionFailure() << "group " << g << ": KV of another sequence";
      }
    }
  }
  return ::testing::AssertionSuccess();
}

/// A cache with a budget, whose invariants are checked after every call.
struct CacheFixture {
  explicit CacheFixture(Bytes capacity = 1_MiB, PrefixCacheOptions options = {})
      : budget(capacity), cache(PrefixCache::create(std::move(options), budget).value()) {}

  Result<PrefixInsertion> put(const NamespaceId& id, const KvLayout& layout,
                              const Sequence& sequence, std::uint32_t covered,
                              const std::vector<std::uint32_t>& snapshots = {},
                              std::uint32_t slack = 0) {
    const Capture capture(id, layout, sequence, covered, 0, snapshots, slack);
    auto done = cache->insert(id, layout, sequence, capture.kv);
    cache->check_invariants();
    return done;
  }
  /// As an engine captures it: without the last token, which was sampled and has no KV.
  Result<PrefixInsertion> put(const Sequence& sequence) {
    return put(space(1), {{full()}}, sequence,
               static_cast<std::uint32_t>(sequence.tokens.size()) - 1);
  }
  /// The resume point; checks every restored byte.
  std::uint32_t resume(const NamespaceId& id, const KvLayout& layout, const Sequence& prompt) {
    const PrefixMatch match = cache->match(id, prompt).value();
    cache->check_invariants();
    if (match.holds()) {
      EXPECT_TRUE(is_kv_of(cache->kv(match), id, layout, prompt));
      EXPECT_TRUE(std::ranges::all_of(cache->payloads(match), &Payload::intact));
    }
    return match.resume().value();
  }
  /// Discards the first damaged payload of `match`. False: all are intact.
  bool discard_damaged(const PrefixMatch& match) const {
    const auto payloads = cache->payloads(match);
    const auto damaged = std::ranges::find_if_not(payloads, &Payload::intact);
    if (damaged == payloads.end()) return false;
    cache->discard_damaged(match, *damaged);
    return true;
  }
  std::uint32_t resume(const Sequence& prompt) { return resume(space(1), {{full()}}, prompt); }

  MemoryBudget budget;
  std::unique_ptr<PrefixCache> cache;
};

}  // namespace afterimage::testing

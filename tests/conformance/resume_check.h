// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/engine.h"
#include "conformance/engine_prompts.h"
#include "conformance/kv_shelf.h"

/// Compares runs of an engine. Returns "" or a description of the difference.
namespace afterimage::testing {

inline const GenerateOptions kFewTokens{.max_tokens = TokenCount(3), .on_text = {}};

inline Result<Generation> run(const Engine& engine, const EnginePrompt& prompt,
                              const KvUse& use = {}) {
  return engine.generate_from(prompt.sequence, prompt.embeddings, kFewTokens, use);
}

inline std::string difference(const Completion& a, const Completion& b) {
  if (a.tokens != b.tokens) return "other tokens";
  if (a.logits != b.logits) return "the same tokens, but other logits";
  return a.text == b.text ? "" : "other text";
}

inline std::vector<std::byte> bytes_of(std::span<const KvRows> pieces) {
  std::vector<std::byte> bytes;
  for (const KvRows& piece : pieces) {
    bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
  }
  return bytes;
}

inline std::string difference(const std::vector<std::vector<KvRows>>& a,
                              const std::vector<std::vector<KvRows>>& b) {
  for (std::size_t group = 0; group < a.size(); ++group) {
    if (bytes_of(a[group]) != bytes_of(b[group])) {
      return "other bytes in group " + std::to_string(group);
    }
  }
  return "";
}

/// `part` was captured in a run from `from`, `whole` in a cold run with the same requests.
inline std::string difference(const KvSlice& whole, const KvSlice& part, TokenCount from) {
  if (whole.begin != part.begin || whole.end != part.end) return "other positions";
  if (auto found = difference(whole.rows, part.rows); !found.empty()) return "rows: " + found;
  auto theirs = part.snapshots.begin();
  for (const KvSnapshot& mine : whole.snapshots) {
    if (mine.at < from) continue;
    if (theirs == part.snapshots.end() || theirs->at != mine.at) return "a snapshot is missing";
    if (auto found = difference(mine.groups, theirs->groups); !found.empty()) {
      return "snapshot at " + std::to_string(mine.at.value()) + ": " + found;
    }
    ++theirs;
  }
  return "";
}

/// A cold run of a prompt, and everything that a cache could store of it.
struct ColdRun {
  static Result<ColdRun> of(const Engine& engine, const EnginePrompt& prompt,
                            const std::vector<TokenCount>& points) {
    const KvWanted wanted = all_of(points);
    AFI_TRY(Generation generation, run(engine, prompt, {.wanted = wanted}));
    ColdRun cold{.completion = generation.completion, .kv = generation.kv, .shelf = {}};
    cold.shelf.add(std::move(generation.kv));
    return cold;
  }

  Completion completion;
  KvSlice kv;
  KvShelf shelf;
};

/// How a run resumed at `at` differs from `cold`, whose snapshots were taken at `points`. The KV is
/// passed in random pieces; in half of the cases the captures of the resumed run are compared,
/// too.
inline std::string resumed_difference(const Engine& engine, const EnginePrompt& prompt,
                                      const ColdRun& cold, const std::vector<TokenCount>& points,
                                      TokenCount at, Rng& rng) {
  KvSlice slice = cold.shelf.slice(at);
  const std::uint64_t longest = 1 + rng.below(prompt.size().value());
  recut(slice, longest, rng);
  KvUse use{.resume_from = &slice, .wanted = {}};
  const bool captures = rng.chance(0.5);
  if (captures) use.wanted = all_of({std::ranges::lower_bound(points, at), points.end()});
  const auto resumed = run(engine, without_covered_embeddings(prompt, at), use);
  std::string found;
  if (!resumed.has_value()) {
    found = to_string(resumed.error());
  } else {
    found = difference(cold.completion, resumed->completion);
    if (found.empty() && captures) found = difference(cold.kv, resumed->kv, at);
  }
  if (found.empty()) return "";
  return "resumed at " + std::to_string(at.value()) + " of " +
         std::to_string(prompt.size().value()) + ": " + found;
}

/// Runs `prompt` cold and resumed at each of `points`, which are legal and in order. Returns the
/// first difference.
inline std::string first_difference(const Engine& engine, const EnginePrompt& prompt,
                                    const std::vector<TokenCount>& points, Rng& rng) {
  const auto plain = engine.generate(prompt.sequence, prompt.embeddings, kFewTokens);
  if (!plain.has_value()) return "cold: " + to_string(plain.error());
  const auto cold = ColdRun::of(engine, prompt, points);
  if (!cold.has_value()) return "captured: " + to_string(cold.error());
  if (auto found = difference(*plain, cold->completion); !found.empty()) {
    return "with captures: " + found;
  }
  for (const TokenCount at : points) {
    auto found = resumed_difference(engine, prompt, *cold, points, at, rng);
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace afterimage::testing

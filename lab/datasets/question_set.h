// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lab/datasets/scenes.h"

namespace afterimage {

/// How a question differs from the similar one asked just before it.
enum class Trap : unsigned char {
  kNone,
  kOtherScene,  // the same words about another image or document
  kNegation,
  kAntonym,
  kNumber,
  kEntity,
  kRoleSwap,
  kPronoun,
  kSymbols,
  kCjk,
  kReencoded,  // the same pixels in another file
  kHistory,    // an earlier message requests another answer format
  kTools,      // tools are offered
};
inline constexpr std::size_t kTraps = 13;
/// "none", "other scene", "negation", …
std::string_view to_string(Trap trap);

/// How a question is worded, relative to an earlier one with the same meaning about the same scene.
enum class Wording : unsigned char {
  kFirst,     // not asked before
  kSame,      // byte for byte
  kTyped,     // spacing, punctuation, capitals or contractions differ
  kWorded,    // an article, a plural or a courtesy differs
  kRephrased  // rephrased
};
inline constexpr std::size_t kWordings = 5;
std::string_view to_string(Wording wording);

/// Other contents of the request.
enum class Setting : unsigned char { kPlain, kReencoded, kHistory, kTools };

struct SetQuestion {
  std::size_t scene = 0;
  SceneProgram program;
  Setting setting = Setting::kPlain;
  std::string text;
  Wording wording = Wording::kFirst;
  Trap trap = Trap::kNone;
};

/// Questions with known answers, in order.
struct QuestionSet {
  std::vector<Scene> scenes;
  std::vector<SetQuestion> questions;

  /// The true answer. Settings change its format: capitals (history), JSON (tools).
  [[nodiscard]] std::string truth(const SetQuestion& question) const;
};

struct QuestionSetOptions {
  std::size_t questions = 12'000;
  std::size_t scenes = 400;
  double traps = 0.2;  // share of all questions
  std::uint64_t seed = 1;
};

/// Deterministic on every machine for equal options. Popular scenes are asked about more often.
[[nodiscard]] QuestionSet make_question_set(const QuestionSetOptions& options);

}  // namespace afterimage

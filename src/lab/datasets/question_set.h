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

/// Why a question that looks like an earlier one is another. Each is asked right after its twin.
enum class Trap : unsigned char {
  kNone,
  kOtherScene,  // the same words about another picture or document
  kNegation,
  kAntonym,
  kNumber,
  kEntity,
  kRoleSwap,
  kPronoun,
  kSymbols,
  kCjk,
  kReencoded,  // the same pixels in another file
  kHistory,    // an earlier message asks for another form of answer
  kTools,      // tools are offered
};
inline constexpr std::size_t kTraps = 13;
/// "none", "other scene", "negation", …
std::string_view to_string(Trap trap);

/// How a question was put, beside one that asked the same of the same scene before.
enum class Wording : unsigned char {
  kFirst,     // nobody asked it before
  kSame,      // byte for byte
  kTyped,     // typed otherwise: spaces, marks, capitals, contractions
  kWorded,    // an article, a plural, a courtesy more or less
  kRephrased  // in words of its own
};
inline constexpr std::size_t kWordings = 5;
std::string_view to_string(Wording wording);

/// What else is in the request.
enum class Setting : unsigned char { kPlain, kReencoded, kHistory, kTools };

struct SetQuestion {
  std::size_t scene = 0;
  SceneProgram program;
  Setting setting = Setting::kPlain;
  std::string text;
  Wording wording = Wording::kFirst;
  Trap trap = Trap::kNone;
};

/// Questions of which every answer is known, in the order in which they are asked.
struct QuestionSet {
  std::vector<Scene> scenes;
  std::vector<SetQuestion> questions;

  /// The settings change what is said: in capitals (history), as JSON (tools).
  [[nodiscard]] std::string truth(const SetQuestion& question) const;
};

struct QuestionSetOptions {
  std::size_t questions = 12'000;
  std::size_t scenes = 400;
  double traps = 0.2;  // of all questions
  std::uint64_t seed = 1;
};

/// The same set for the same options, on every machine. Popular scenes are asked about more often.
[[nodiscard]] QuestionSet make_question_set(const QuestionSetOptions& options);

}  // namespace afterimage

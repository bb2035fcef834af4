// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/datasets/question_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "afterimage/result.h"

namespace afterimage {
namespace {

/// The wordings of one program: the first one, and alternatives with the same meaning.
struct Phrases {
  std::string plain;
  std::string worded;     // differs by an article, a plural or a courtesy; empty: none
  std::string rephrased;  // likewise
};

Phrases phrases(const SceneProgram& program) {
  const std::string& a = program.a;
  const std::string& b = program.b;
  switch (program.query) {
    case SceneQuery::kColor:
      return {fmt::format("Which color does the {} have?", a),
              fmt::format("Which color does {} have?", a),
              fmt::format("What is the {}'s color?", a)};
    case SceneQuery::kMaterial:
      return {fmt::format("Describe what the {} is made of.", a),
              fmt::format("Please describe what the {} is made of.", a),
              fmt::format("Out of which material did they make the {}?", a)};
    case SceneQuery::kCount:
      return {fmt::format("How many {}s are there?", a), fmt::format("How many {} are there?", a),
              fmt::format("What number of {}s can you see?", a)};
    case SceneQuery::kIsCount:
      return {fmt::format("Are there {} {}s in this place?", program.number, a),
              fmt::format("Are there {} {} in this place?", program.number, a),
              fmt::format("Would you count {} {}s here?", program.number, a)};
    case SceneQuery::kLeftOf:
      return {fmt::format("Is the {} to the left of the {}?", a, b), "",
              fmt::format("Does the {} stand further left than the {}?", a, b)};
    case SceneQuery::kRightOf:
      return {fmt::format("Is the {} to the right of the {}?", a, b), "",
              fmt::format("Does the {} stand further right than the {}?", a, b)};
    case SceneQuery::kBiggest:
      return {"What is the biggest thing in here?", "What is biggest thing in here?",
              "Which of these things is larger than all others?"};
    case SceneQuery::kSmallest:
      return {"What is the smallest thing in here?", "What is smallest thing in here?",
              "Which of these things is less large than all others?"};
    case SceneQuery::kIs:
      return {fmt::format("Which of the things are {}?", a), "",
              fmt::format("Name all that is {}.", a)};
    case SceneQuery::kIsNot:
      return {fmt::format("Which of the things are not {}?", a), "",
              fmt::format("Name all that has another color than {}.", a)};
    case SceneQuery::kHeldByHim:
      return {"What does he hold in his hands?", "", "Which object is he holding?"};
    case SceneQuery::kHeldByHer:
      return {"What does she hold in her hands?", "", "Which object is she holding?"};
    case SceneQuery::kYearOf:
      return {fmt::format("From which year is the {} manual?", a), "",
              fmt::format("When did they print the manual of {} here?", a)};
    case SceneQuery::kKindCount:
      return a == "cats" ? Phrases{"这里有几只猫？", "", "猫有多少只？"}
                         : Phrases{"这里有几只狗？", "", "狗有多少只？"};
  }
  AFI_CHECK(false);
}

/// A random variation in spacing, punctuation or capitals.
std::string typed(std::string text, Rng& rng) {
  switch (rng.below(5)) {
    case 0:
      return "  " + text + "\n";
    case 1:
      if (const auto space = text.find(' '); space != std::string::npos) text.insert(space, " ");
      return text;
    case 2:
      if (text.front() >= 'A' && text.front() <= 'Z') text.front() += 'a' - 'A';
      return text;
    case 3:
      if (text.ends_with('?')) text.insert(text.size() - 1, " ");
      return text;
    default:
      if (text.ends_with('?') || text.ends_with('.')) text.pop_back();
      return text;
  }
}

/// A trap for a program: nearly the same words, another meaning.
struct Twin {
  Trap trap = Trap::kNone;
  SceneProgram program;
};

Twin twin_of(const Scene& scene, SceneProgram program, Rng& rng) {
  const auto other_thing = [&](const std::string& than) {
    while (true) {
      const std::string& name = scene.things[rng.below(scene.things.size())].name;
      if (name != than) return name;
    }
  };
  switch (program.query) {
    case SceneQuery::kColor:
    case SceneQuery::kMaterial:
    case SceneQuery::kCount:
      program.a = other_thing(program.a);
      return {Trap::kEntity, program};
    case SceneQuery::kIsCount:
      ++program.number;
      return {Trap::kNumber, program};
    case SceneQuery::kLeftOf:
    case SceneQuery::kRightOf:
      if (rng.chance(0.5)) {
        std::swap(program.a, program.b);
        return {Trap::kRoleSwap, program};
      }
      program.query =
          program.query == SceneQuery::kLeftOf ? SceneQuery::kRightOf : SceneQuery::kLeftOf;
      return {Trap::kAntonym, program};
    case SceneQuery::kBiggest:
      program.query = SceneQuery::kSmallest;
      return {Trap::kAntonym, program};
    case SceneQuery::kSmallest:
      program.query = SceneQuery::kBiggest;
      return {Trap::kAntonym, program};
    case SceneQuery::kIs:
      program.query = SceneQuery::kIsNot;
      return {Trap::kNegation, program};
    case SceneQuery::kIsNot:
      program.query = SceneQuery::kIs;
      return {Trap::kNegation, program};
    case SceneQuery::kHeldByHim:
      program.query = SceneQuery::kHeldByHer;
      return {Trap::kPronoun, program};
    case SceneQuery::kHeldByHer:
      program.query = SceneQuery::kHeldByHim;
      return {Trap::kPronoun, program};
    case SceneQuery::kYearOf:
      program.a = program.a == "C" ? "C++" : program.a == "C++" ? "C#" : "C";
      return {Trap::kSymbols, program};
    case SceneQuery::kKindCount:
      program.a = program.a == "cats" ? "dogs" : "cats";
      return {Trap::kCjk, program};
  }
  AFI_CHECK(false);
}

class Maker {
 public:
  explicit Maker(const QuestionSetOptions& options) : options_(options), rng_(options.seed) {
    for (std::size_t i = 0; i < options.scenes; ++i) set_.scenes.push_back(make_scene(i, rng_));
  }

  QuestionSet make() {
    while (set_.questions.size() < options_.questions) {
      if (!set_.questions.empty() && rng_.chance(options_.traps)) {
        ask_trap(set_.questions.back());
      } else {
        ask(popular_scene(), Setting::kPlain);
      }
    }
    return std::move(set_);
  }

 private:
  /// Half of the questions are about a tenth of the scenes.
  std::size_t popular_scene() {
    const std::size_t all = set_.scenes.size();
    return rng_.chance(0.5) ? rng_.below(std::max<std::size_t>(all / 10, 1)) : rng_.below(all);
  }

  SceneProgram some_program(const Scene& scene) {
    SceneProgram program{.query = static_cast<SceneQuery>(
                             rng_.below(static_cast<unsigned>(SceneQuery::kKindCount) + 1))};
    const std::size_t one = rng_.below(scene.things.size());
    const std::size_t two = (one + 1 + rng_.below(scene.things.size() - 1)) % scene.things.size();
    switch (program.query) {
      case SceneQuery::kColor:
      case SceneQuery::kMaterial:
      case SceneQuery::kCount:
        program.a = scene.things[one].name;
        break;
      case SceneQuery::kIsCount:
        program.a = scene.things[one].name;
        program.number = 2 + static_cast<unsigned>(rng_.below(7));
        break;
      case SceneQuery::kLeftOf:
      case SceneQuery::kRightOf:
        program.a = scene.things[one].name;
        program.b = scene.things[two].name;
        break;
      case SceneQuery::kIs:
      case SceneQuery::kIsNot:
        program.a = scene.things[one].color;
        break;
      case SceneQuery::kYearOf:
        program.a = std::array{"C", "C++", "C#"}[rng_.below(3)];
        break;
      case SceneQuery::kKindCount:
        program.a = rng_.chance(0.5) ? "cats" : "dogs";
        break;
      case SceneQuery::kBiggest:
      case SceneQuery::kSmallest:
      case SceneQuery::kHeldByHim:
      case SceneQuery::kHeldByHer:
        break;
    }
    return program;
  }

  void ask(std::size_t scene, Setting setting) {
    SetQuestion question{
        .scene = scene, .program = some_program(set_.scenes[scene]), .setting = setting};
    put(question);
    set_.questions.push_back(std::move(question));
  }

  /// Words a question: plainly if it is new, in any wording if it was asked before.
  void put(SetQuestion& question) {
    const Phrases ways = phrases(question.program);
    question.text = ways.plain;
    if (asked_.emplace(question.scene, question.program, question.setting).second) return;
    const double chance = rng_.uniform();
    if (chance < 0.4) {
      question.wording = Wording::kSame;
    } else if (chance < 0.6) {
      question.text = typed(ways.plain, rng_);
      question.wording = question.text == ways.plain ? Wording::kSame : Wording::kTyped;
    } else if (chance < 0.8 && !ways.worded.empty()) {
      question.text = ways.worded;
      question.wording = Wording::kWorded;
    } else {
      question.text = ways.rephrased;
      question.wording = Wording::kRephrased;
    }
  }

  void ask_trap(const SetQuestion& last) {
    SetQuestion question = last;
    question.wording = Wording::kFirst;
    switch (rng_.below(6)) {
      case 0:
        question.trap = Trap::kOtherScene;
        question.scene = other_scene_with(last);
        break;
      case 1:
        question.trap = set_.scenes[last.scene].drawn ? Trap::kReencoded : Trap::kHistory;
        question.setting = set_.scenes[last.scene].drawn ? Setting::kReencoded : Setting::kHistory;
        break;
      case 2:
        question.trap = rng_.chance(0.5) ? Trap::kHistory : Trap::kTools;
        question.setting = question.trap == Trap::kHistory ? Setting::kHistory : Setting::kTools;
        break;
      default: {
        const Twin twin = twin_of(set_.scenes[last.scene], last.program, rng_);
        question.trap = twin.trap;
        question.program = twin.program;
        question.text = worded_like(last, twin.program);
        break;
      }
    }
    // A scene told in text has no image file to re-encode: the request would be unchanged.
    if (question.setting == Setting::kReencoded && !set_.scenes[question.scene].drawn) {
      question.setting = Setting::kPlain;
    }
    // A question asked before is not a trap: it may be served.
    if (!asked_.emplace(question.scene, question.program, question.setting).second) return;
    set_.questions.push_back(std::move(question));
  }

  /// Words a trap like the question it resembles: plainly, or in the same alternative wording.
  static std::string worded_like(const SetQuestion& last, const SceneProgram& program) {
    const Phrases ways = phrases(program);
    if (last.wording == Wording::kRephrased) return ways.rephrased;
    if (last.wording == Wording::kWorded && !ways.worded.empty()) return ways.worded;
    return ways.plain;
  }

  /// Another scene about which the same can be asked, with the same request text.
  std::size_t other_scene_with(const SetQuestion& last) {
    const auto has = [](const Scene& scene, const std::string& name) {
      return name.empty() ||
             std::ranges::find(scene.things, name, &SceneThing::name) != scene.things.end();
    };
    const bool names_things = last.program.query <= SceneQuery::kRightOf;
    for (int tries = 0; tries < 1000; ++tries) {
      const std::size_t scene = rng_.below(set_.scenes.size());
      if (scene == last.scene) continue;
      if (!names_things ||
          (has(set_.scenes[scene], last.program.a) && has(set_.scenes[scene], last.program.b))) {
        return scene;
      }
    }
    return last.scene;
  }

  QuestionSetOptions options_;
  Rng rng_;
  QuestionSet set_;
  std::set<std::tuple<std::size_t, SceneProgram, Setting>> asked_;
};

}  // namespace

std::string_view to_string(Trap trap) {
  constexpr std::array<std::string_view, kTraps> kNames{
      "none",    "other scene", "negation", "antonym",    "number",  "entity", "role swap",
      "pronoun", "symbols",     "cjk",      "re-encoded", "history", "tools"};
  return kNames[static_cast<std::size_t>(trap)];
}

std::string_view to_string(Wording wording) {
  constexpr std::array<std::string_view, kWordings> kNames{"first", "same", "typed otherwise",
                                                           "worded otherwise", "rephrased"};
  return kNames[static_cast<std::size_t>(wording)];
}

std::string QuestionSet::truth(const SetQuestion& question) const {
  std::string answer = true_answer(scenes[question.scene], question.program);
  if (question.setting == Setting::kTools) return fmt::format(R"({{"answer":"{}"}})", answer);
  if (question.setting != Setting::kHistory) return answer;
  std::string upper = answer;
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return upper.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos ? upper + "!"
                                                                                : upper;
}

QuestionSet make_question_set(const QuestionSetOptions& options) { return Maker(options).make(); }

}  // namespace afterimage

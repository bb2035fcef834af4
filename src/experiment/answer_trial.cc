// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/experiment/answer_trial.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "afterimage/experiment/pairs.h"
#include "afterimage/identity/content.h"
#include "afterimage/semantic/answer_once.h"
#include "afterimage/semantic/scope.h"

namespace afterimage {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kRemembered = 100;
constexpr const char* kTools = R"([{"type":"function","function":{"name":"look_closer"}}])";

/// The pictures of a scene: as it is, and in another file.
struct Pictures {
  MediaItem plain;
  MediaItem reencoded;
  ContentDigest plain_content;
  ContentDigest reencoded_content;
};

Result<MediaItem> picture(const Scene& scene, bool opaque) {
  AFI_TRY(std::vector<std::byte> file, drawn(scene, opaque));
  return MediaItem{.modality = Modality::kImage,
                   .files = {std::make_shared<const std::vector<std::byte>>(std::move(file))},
                   .name = scene.id};
}

Result<Pictures> pictures_of(const Scene& scene) {
  Pictures both;
  AFI_TRY(both.plain, picture(scene, false));
  AFI_TRY(both.reencoded, picture(scene, true));
  both.plain_content = content_digest(both.plain);
  both.reencoded_content = content_digest(both.reencoded);
  return both;
}

/// What was asked, whatever the words.
using Meaning = std::tuple<std::size_t, SceneProgram, Setting>;

class Trial {
 public:
  Trial(const QuestionSet& set, const LookupRules& rules, Namespace space, AnswerOnce& front)
      : set_(set), rules_(rules), space_(std::move(space)), front_(front) {
    report_.questions = set.questions.size();
  }

  Result<void> ask(const SetQuestion& asked) {
    AFI_TRY(const Scope scope, scope_of(asked));
    Question question(identify(scope, space_), asked.text);
    const std::string truth = set_.truth(asked);
    const Meaning meaning{asked.scene, asked.program, asked.setting};
    const auto generate = [&]() -> Result<AnswerOnce::Generated> {
      ++report_.engine_calls;
      origins_.insert_or_assign({question.scope().key, asked.text}, meaning);
      return AnswerOnce::Generated{
          .answer = {.text = truth, .finish_reason = "stop", .model = "oracle"}, .facts = {}};
    };
    const std::uint64_t calls = report_.engine_calls;
    AFI_TRY(const AnswerLookup found, front_.get_or_answer(question, rules_, generate));
    note(asked, truth, meaning, found, question.scope().key, report_.engine_calls == calls);
    return {};
  }

  TrialReport report() && { return std::move(report_); }

 private:
  Result<const Pictures*> pictures(std::size_t scene) {
    if (const auto it = pictures_.find(scene); it != pictures_.end()) return &it->second;
    AFI_TRY(Pictures both, pictures_of(set_.scenes[scene]));
    return &pictures_.emplace(scene, std::move(both)).first->second;
  }

  /// The way of a request, from its messages to its scope.
  Result<Scope> scope_of(const SetQuestion& asked) {
    const Scene& scene = set_.scenes[asked.scene];
    Request request;
    request.messages.push_back(
        {.role = Role::kSystem,
         .parts = {scene.drawn ? std::string("Answer in one word.") : told(scene)}});
    if (asked.setting == Setting::kHistory) {
      request.messages.push_back(
          {.role = Role::kUser, .parts = {std::string("Answer in capitals from now on.")}});
      request.messages.push_back({.role = Role::kAssistant, .parts = {std::string("I WILL.")}});
    }
    Message last{.role = Role::kUser, .parts = {}};
    std::vector<ContentDigest> contents;
    if (scene.drawn) {
      AFI_TRY(const Pictures* both, pictures(asked.scene));
      const bool other = asked.setting == Setting::kReencoded;
      last.parts.emplace_back(other ? both->reencoded : both->plain);
      contents.push_back(other ? both->reencoded_content : both->plain_content);
    }
    last.parts.emplace_back(asked.text);
    request.messages.push_back(std::move(last));
    AFI_TRY(SplitRequest split, split_request(request, contents));
    return Scope{.inputs = {},
                 .messages = std::move(split.messages),
                 .tools = asked.setting == Setting::kTools ? kTools : "",
                 .response_format = "",
                 .sampling = {{"temperature", "0"}},
                 .other = {}};
  }

  void note(const SetQuestion& asked, const std::string& truth, const Meaning& meaning,
            const AnswerLookup& found, const ScopeKey& scope, bool served) {
    const bool trap = asked.trap != Trap::kNone;
    Tally& tally = trap ? report_.traps[static_cast<std::size_t>(asked.trap)]
                        : report_.wordings[static_cast<std::size_t>(asked.wording)];
    ++tally.asked;
    if (!served) return;
    const LadderStep& step = found.steps.back();
    RungTally& rung = report_.rungs[static_cast<std::size_t>(step.rung)];
    ++rung.served;
    const auto origin = origins_.find({scope, step.candidate});
    const bool other = origin == origins_.end() || origin->second != meaning;
    const bool wrong = found.answer->text != truth;
    rung.wrong += wrong ? 1 : 0;
    tally.served += !trap || other || wrong ? 1 : 0;
    report_.unsafe += wrong || other ? 1 : 0;
    if ((wrong || other) && report_.wrong.size() < kRemembered) {
      report_.wrong.push_back({.asked = asked.text,
                               .candidate = step.candidate,
                               .given = found.answer->text,
                               .truth = truth,
                               .trap = asked.trap});
    }
  }

  const QuestionSet& set_;
  LookupRules rules_;
  Namespace space_;
  AnswerOnce& front_;
  std::map<std::size_t, Pictures> pictures_;
  std::map<std::pair<ScopeKey, std::string>, Meaning> origins_;  // whose answer is kept
  TrialReport report_;
};

}  // namespace

Tally TrialReport::all_traps() const {
  Tally all;
  for (const Tally& trap : traps) {
    all.asked += trap.asked;
    all.served += trap.served;
  }
  return all;
}

Result<TrialReport> run_trial(const QuestionSet& set, const LookupRules& rules,
                              const Clock& clock) {
  MemoryBudget budget(1_GiB);
  AFI_TRY(const auto cache, AnswerCache::create({}, budget, clock));
  AnswerOnce front(*cache, clock);
  AFI_TRY(Namespace space,
          Namespace::of({.model = "oracle", .encoder = "oracle"}, TenantId(), Secret{}));
  Trial trial(set, rules, std::move(space), front);
  for (const SetQuestion& question : set.questions) AFI_TRY_VOID(trial.ask(question));
  return std::move(trial).report();
}

std::string to_table(const TrialReport& report) {
  const auto percent = [](std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? std::string("-")
                      : fmt::format("{:.1f} %", 100 * proportion(part, whole).value);
  };
  std::string out =
      fmt::format("{} questions, the engine was asked {} times\n\n{:<22}{:>9}{:>9}{:>9}   {}\n",
                  report.questions, report.engine_calls, "", "served", "of all", "wrong",
                  "wrong at most (95 %)");
  for (const TextRung rung : kTextRungs) {
    const RungTally& tally = report.rungs[static_cast<std::size_t>(rung)];
    out += fmt::format("{:<22}{:>9}{:>9}{:>9}   {:.3f} %\n", to_string(rung), tally.served,
                       percent(tally.served, report.questions), tally.wrong,
                       100 * proportion(tally.wrong, tally.served).high);
  }
  out += fmt::format("\n{:<22}{:>9}{:>9}\n", "asked before, and now", "asked", "served");
  for (std::size_t i = 1; i < kWordings; ++i) {
    const Tally& tally = report.wordings[i];
    out += fmt::format("{:<22}{:>9}{:>9}\n", to_string(static_cast<Wording>(i)), tally.asked,
                       percent(tally.served, tally.asked));
  }
  out += fmt::format("\n{:<22}{:>9}{:>9}\n", "traps", "asked", "served");
  for (std::size_t i = 1; i < kTraps; ++i) {
    const Tally& tally = report.traps[i];
    out += fmt::format("{:<22}{:>9}{:>9}\n", to_string(static_cast<Trap>(i)), tally.asked,
                       tally.served);
  }
  const Tally all = report.all_traps();
  out += fmt::format("{:<22}{:>9}{:>9}\n", "together", all.asked, all.served);
  for (const WrongReuse& wrong : report.wrong) {
    out +=
        fmt::format("\n{}: {}\n  was served the answer to: {}\n  {} (true: {})\n",
                    to_string(wrong.trap), wrong.asked, wrong.candidate, wrong.given, wrong.truth);
  }
  return out;
}

std::string to_json(const TrialReport& report) {
  OrderedJson rungs = OrderedJson::array();
  for (const TextRung rung : kTextRungs) {
    const RungTally& tally = report.rungs[static_cast<std::size_t>(rung)];
    const Proportion wrong = proportion(tally.wrong, tally.served);
    rungs.push_back({{"rung", to_string(rung)},
                     {"served", tally.served},
                     {"wrong", tally.wrong},
                     {"wrong_95", {wrong.low, wrong.high}}});
  }
  OrderedJson wordings = OrderedJson::array();
  for (std::size_t i = 0; i < kWordings; ++i) {
    wordings.push_back({{"wording", to_string(static_cast<Wording>(i))},
                        {"asked", report.wordings[i].asked},
                        {"served", report.wordings[i].served}});
  }
  OrderedJson traps = OrderedJson::array();
  for (std::size_t i = 1; i < kTraps; ++i) {
    traps.push_back({{"trap", to_string(static_cast<Trap>(i))},
                     {"asked", report.traps[i].asked},
                     {"served", report.traps[i].served}});
  }
  const OrderedJson all{{"questions", report.questions}, {"engine_calls", report.engine_calls},
                        {"rungs", std::move(rungs)},     {"wordings", std::move(wordings)},
                        {"traps", std::move(traps)},     {"unsafe", report.unsafe}};
  return all.dump(2) + "\n";
}

}  // namespace afterimage

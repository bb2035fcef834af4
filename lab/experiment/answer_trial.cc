// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/answer_trial.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "afterimage/answer_once.h"
#include "afterimage/identity.h"
#include "afterimage/question.h"
#include "afterimage/result.h"
#include "caches/answers/eligibility.h"
#include "caches/answers/split_request.h"
#include "caches/similarity/hashed_ngrams.h"
#include "lab/pairs/pairs.h"

namespace afterimage {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kRemembered = 100;
constexpr float kNearest =
    0.5F;  // less similar neighbours are ignored; evidence decides on the others
constexpr const char* kTools = R"([{"type":"function","function":{"name":"look_closer"}}])";

/// The image of a scene, and the same pixels in another file.
struct Pictures {
  MediaItem plain;
  MediaItem reencoded;
  ContentDigest plain_content;
  ContentDigest reencoded_content;
};

Result<MediaItem> picture(const Scene& scene, bool opaque) {
  AFI_TRY(std::vector<std::byte> file, draw_scene(scene, opaque));
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

/// The meaning of a question, independent of its wording.
using Meaning = std::tuple<std::size_t, SceneProgram, Setting>;

struct Case {
  const SetQuestion& asked;
  std::string truth;
  Meaning meaning;
  ScopeKey scope;
};

struct BackendRequest {
  SimilarityLookup found;
  std::vector<Vector> vectors;
};

/// The similarity level with the built-in vectors.
class Neighbours {
 public:
  Neighbours(std::unique_ptr<SimilarityLevel> level, HashedNgrams embedder)
      : level_(std::move(level)), embedder_(std::move(embedder)) {}

  Result<BackendRequest> ask(const Question& question, const LookupRules& rules) {
    BackendRequest asked;
    AFI_TRY(asked.vectors.emplace_back(), embedder_.embed_one(std::string_view(question.text())));
    AFI_TRY(asked.found, level_->find(question, asked.vectors, rules));
    return asked;
  }
  Result<void> tell(const Question& question, const BackendRequest& asked, const Answer& said) {
    level_->learn(question, asked.found, said);
    return level_->insert(question, asked.vectors);
  }
  [[nodiscard]] SimilarityTally snapshot() const {
    SimilarityTally result = tally;
    result.learned = level_->stats().learned;
    return result;
  }

  SimilarityTally tally;

 private:
  std::unique_ptr<SimilarityLevel> level_;
  HashedNgrams embedder_;
};

class Trial {
 public:
  Trial(const QuestionSet& set, const TrialRules& rules, Namespace space, AnswerOnce& front,
        Neighbours* neighbours)
      : set_(set), rules_(rules), space_(std::move(space)), front_(front), neighbours_(neighbours) {
    report_.questions = set.questions.size();
  }

  Result<void> ask(const SetQuestion& asked) {
    AFI_TRY(const Scope scope, scope_of(asked));
    Question question(identify(scope, space_), asked.text);
    const Case here{.asked = asked,
                    .truth = set_.truth(asked),
                    .meaning = {asked.scene, asked.program, asked.setting},
                    .scope = question.scope().key};
    ++tally_of(asked).asked;
    const ReuseLimit limit =
        eligibility({.temperature = 0.0, .offers_tools = asked.setting == Setting::kTools},
                    asked.text)
            .limit;
    LookupRules rules = rules_.text;
    if (limit < ReuseLimit::kText) rules.serve = MatchLevel::kExact;
    AnswerOnce::Claim claim = front_.claim(question, rules);
    if (const auto* found = std::get_if<AnswerLookup>(&claim)) {
      record_level(here, *found);
      return {};
    }
    AFI_CHECK(std::holds_alternative<AnswerLeader>(claim));  // there are no concurrent requests
    auto leader = std::get<AnswerLeader>(std::move(claim));
    std::optional<BackendRequest> near;
    if (neighbours_ != nullptr && limit == ReuseLimit::kSimilarity) {
      AFI_TRY(near, neighbours_->ask(question, rules));
      record_neighbour(here, near->found);
      if (near->found.answer.has_value()) return {};
    }
    return ask_engine(here, question, std::move(leader), near);
  }

  TrialReport report() && { return std::move(report_); }

 private:
  Result<const Pictures*> pictures(std::size_t scene) {
    if (const auto it = pictures_.find(scene); it != pictures_.end()) return &it->second;
    AFI_TRY(Pictures both, pictures_of(set_.scenes[scene]));
    return &pictures_.emplace(scene, std::move(both)).first->second;
  }

  /// Builds the request of a question and derives its scope.
  Result<Scope> scope_of(const SetQuestion& asked) {
    const Scene& scene = set_.scenes[asked.scene];
    Request request;
    request.messages.push_back(
        {.role = Role::kSystem,
         .parts = {scene.drawn ? std::string("Answer in one word.") : describe_scene(scene)}});
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

  Result<void> ask_engine(const Case& here, Question& question, AnswerLeader leader,
                          const std::optional<BackendRequest>& near) {
    ++report_.engine_calls;
    origins_.insert_or_assign({here.scope, here.asked.text}, here.meaning);
    const Answer said{.text = here.truth, .finish_reason = "stop", .model = "oracle"};
    AFI_TRY_VOID(std::move(leader).publish(said, {}));
    return near.has_value() ? neighbours_->tell(question, *near, said) : Result<void>{};
  }

  Tally& tally_of(const SetQuestion& asked) {
    return asked.trap != Trap::kNone ? report_.traps[static_cast<std::size_t>(asked.trap)]
                                     : report_.wordings[static_cast<std::size_t>(asked.wording)];
  }

  /// Whether the served answer is not true or belongs to another question. Lists it if so.
  bool is_unsafe(const Case& here, const std::string& candidate, const Answer& given) {
    const auto origin = origins_.find({here.scope, candidate});
    const bool other = origin == origins_.end() || origin->second != here.meaning;
    if (!other && given.text == here.truth) return false;
    if (report_.wrong.size() < kRemembered) {
      report_.wrong.push_back({.asked = here.asked.text,
                               .candidate = candidate,
                               .given = given.text,
                               .truth = here.truth,
                               .trap = here.asked.trap});
    }
    return true;
  }

  void record_level(const Case& here, const AnswerLookup& found) {
    const MatchStep& step = found.steps.back();
    LevelTally& level = report_.levels[static_cast<std::size_t>(step.level)];
    const bool unsafe = is_unsafe(here, step.candidate, *found.answer);
    ++level.served;
    level.wrong += found.answer->text != here.truth ? 1 : 0;
    report_.unsafe += unsafe ? 1 : 0;
    // A trap that gets its own answer counts as a normal hit.
    tally_of(here.asked).served += here.asked.trap == Trap::kNone || unsafe ? 1 : 0;
  }

  void record_neighbour(const Case& here, const SimilarityLookup& found) {
    SimilarityTally& tally = neighbours_->tally;
    for (const Proposal& proposal : found.proposals) tally.vetoed += !proposal.vetoes.empty();
    if (!found.judged.has_value()) return;
    tally.explored += found.verdict == Verdict::kExplored ? 1 : 0;
    if (!found.answer.has_value()) {
      ++tally.unsure;
      return;
    }
    const bool unsafe = is_unsafe(here, found.proposals[*found.judged].candidate, *found.answer);
    const bool trap = here.asked.trap != Trap::kNone;
    ++tally.served;
    tally.unsafe += unsafe ? 1 : 0;
    tally.traps_served += trap && unsafe ? 1 : 0;
    if (!trap) ++tally_of(here.asked).served;
  }

  const QuestionSet& set_;
  TrialRules rules_;
  Namespace space_;
  AnswerOnce& front_;
  Neighbours* neighbours_;
  std::map<std::size_t, Pictures> pictures_;
  // The question of each cached answer.
  std::map<std::pair<ScopeKey, std::string>, Meaning> origins_;
  TrialReport report_;
};

std::string percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? std::string("-")
                    : fmt::format("{:.1f} %", 100 * proportion(part, whole).value);
}

std::string similarity_row(const SimilarityTally& tally, std::uint64_t questions) {
  const Proportion unsafe = proportion(tally.unsafe, tally.served);
  const std::string most = tally.served == 0 ? "-" : fmt::format("{:.3f} %", 100 * unsafe.high);
  std::string out = fmt::format("{:<22}{:>9}{:>9}{:>9}   {}\n", "text", tally.served,
                                percent(tally.served, questions), tally.unsafe, most);
  out += fmt::format(
      "\ntext, by similarity ({}): {} neighbours were vetoed; {} were not served for lack of\n"
      "evidence or to keep learning; of {} compared with the engine's answer,\n"
      "{} were right; {} traps were served\n",
      to_string(tally.mode), tally.vetoed, tally.unsure, tally.learned.seen(), tally.learned.right,
      tally.traps_served);
  if (tally.served == 0) return out;
  out += fmt::format("unsafe {:.2f} % (95 % interval {:.2f} to {:.2f} %); budget {:.2f} %{}\n",
                     100 * unsafe.value, 100 * unsafe.low, 100 * unsafe.high,
                     100 * tally.error_budget, tally.in_budget() ? "" : ": OVER BUDGET");
  return out;
}

OrderedJson similarity_json(const SimilarityTally& tally) {
  const Proportion unsafe = proportion(tally.unsafe, tally.served);
  return {{"mode", to_string(tally.mode)},
          {"served", tally.served},
          {"unsafe", tally.unsafe},
          {"unsafe_95", {unsafe.low, unsafe.high}},
          {"error_budget", tally.error_budget},
          {"in_budget", tally.in_budget()},
          {"traps_served", tally.traps_served},
          {"unsure", tally.unsure},
          {"explored", tally.explored},
          {"vetoed", tally.vetoed},
          {"learned", {{"right", tally.learned.right}, {"wrong", tally.learned.wrong}}}};
}

}  // namespace

Tally TrialReport::all_traps() const {
  Tally all;
  for (const Tally& trap : traps) {
    all.asked += trap.asked;
    all.served += trap.served;
  }
  return all;
}

bool SimilarityTally::in_budget() const {
  return served == 0 || proportion(unsafe, served).low <= error_budget;
}

Result<TrialReport> run_trial(const QuestionSet& set, const TrialRules& rules, const Clock& clock) {
  MemoryBudget budget(1_GiB);
  AFI_TRY(const auto cache, AnswerCache::create({}, budget, clock));
  AnswerOnce front(*cache, clock);
  AFI_TRY(Namespace space,
          Namespace::of({.model = "oracle", .encoder = "oracle"}, TenantId(), Secret{}));
  std::optional<Neighbours> neighbours;
  if (rules.similarity.has_value()) {
    AFI_TRY(HashedNgrams embedder, HashedNgrams::create());
    SimilarityOptions options{
        .layers = {{.name = "text", .dimensions = embedder.dimensions(), .threshold = kNearest}},
        .mode = *rules.similarity,
        .acceptance = rules.acceptance};
    AFI_TRY(auto level, SimilarityLevel::create(std::move(options), *cache, budget, clock));
    neighbours.emplace(std::move(level), std::move(embedder));
    neighbours->tally.mode = *rules.similarity;
    neighbours->tally.error_budget = rules.acceptance.error_budget;
  }
  Trial trial(set, rules, std::move(space), front, neighbours ? &*neighbours : nullptr);
  for (const SetQuestion& question : set.questions) AFI_TRY_VOID(trial.ask(question));
  TrialReport report = std::move(trial).report();
  if (neighbours.has_value()) report.similarity = neighbours->snapshot();
  return report;
}

std::string to_table(const TrialReport& report) {
  std::string out =
      fmt::format("{} questions, {} engine calls\n\n{:<22}{:>9}{:>9}{:>9}   {}\n", report.questions,
                  report.engine_calls, "", "served", "of all", "wrong", "wrong at most (95 %)");
  for (const MatchLevel level : kMatchLevels) {
    const LevelTally& tally = report.levels[static_cast<std::size_t>(level)];
    out += fmt::format("{:<22}{:>9}{:>9}{:>9}   {:.3f} %\n", to_string(level), tally.served,
                       percent(tally.served, report.questions), tally.wrong,
                       100 * proportion(tally.wrong, tally.served).high);
  }
  if (report.similarity.has_value()) out += similarity_row(*report.similarity, report.questions);
  out += fmt::format("\n{:<22}{:>9}{:>9}\n", "wording of a repeat", "asked", "served");
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
  out += fmt::format("{:<22}{:>9}{:>9}\n", "total", all.asked, all.served);
  for (const WrongReuse& wrong : report.wrong) {
    out +=
        fmt::format("\n{}: {}\n  was served the answer to: {}\n  {} (true: {})\n",
                    to_string(wrong.trap), wrong.asked, wrong.candidate, wrong.given, wrong.truth);
  }
  return out;
}

std::string to_json(const TrialReport& report) {
  OrderedJson levels = OrderedJson::array();
  for (const MatchLevel level : kMatchLevels) {
    const LevelTally& tally = report.levels[static_cast<std::size_t>(level)];
    const Proportion wrong = proportion(tally.wrong, tally.served);
    levels.push_back({{"match_level", to_string(level)},
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
  const OrderedJson all{
      {"questions", report.questions},
      {"engine_calls", report.engine_calls},
      {"match_levels", std::move(levels)},
      {"similarity",
       report.similarity.has_value() ? similarity_json(*report.similarity) : OrderedJson(nullptr)},
      {"wordings", std::move(wordings)},
      {"traps", std::move(traps)},
      {"unsafe", report.unsafe}};
  return all.dump(2) + "\n";
}

}  // namespace afterimage

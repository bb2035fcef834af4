// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/datasets/picture_samples.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "lab/datasets/dataset.h"

namespace afterimage {
namespace {

using SceneJson = nlohmann::ordered_json;

/// GQA's notation of an object: its name and an id in parentheses, here its place.
std::string with_id(const Scene& scene, const std::string& name) {
  for (const SceneThing& thing : scene.things) {
    if (thing.name == name) return fmt::format("{} ({})", name, thing.place);
  }
  return name;
}

std::vector<SemanticStep> steps_of(const Scene& scene, const SceneProgram& program) {
  const std::string a = with_id(scene, program.a);
  const std::string b = with_id(scene, program.b);
  switch (program.query) {
    case SceneQuery::kColor:
      return {{"select", a}, {"query", "color"}};
    case SceneQuery::kMaterial:
      return {{"select", a}, {"query", "material"}};
    case SceneQuery::kCount:
      return {{"select", a}, {"count", ""}};
    case SceneQuery::kIsCount:
      return {{"select", a}, {"verify count", std::to_string(program.number)}};
    case SceneQuery::kLeftOf:
      return {{"select", a}, {"verify rel", "to the left of " + b}};
    case SceneQuery::kRightOf:
      return {{"select", a}, {"verify rel", "to the right of " + b}};
    case SceneQuery::kBiggest:
      return {{"select", "thing"}, {"choose", "biggest"}};
    case SceneQuery::kSmallest:
      return {{"select", "thing"}, {"choose", "smallest"}};
    case SceneQuery::kIs:
      return {{"select", "thing"}, {"filter color", program.a}};
    case SceneQuery::kIsNot:
      return {{"select", "thing"}, {"filter color", "not(" + program.a + ")"}};
    case SceneQuery::kHeldByHim:
      return {{"select", "man"}, {"relate", "holding"}, {"query", "name"}};
    case SceneQuery::kHeldByHer:
      return {{"select", "woman"}, {"relate", "holding"}, {"query", "name"}};
    case SceneQuery::kYearOf:
      return {{"select", "manual of " + program.a}, {"query", "year"}};
    case SceneQuery::kKindCount:
      return {{"select", program.a}, {"count", ""}};
  }
  return {};
}

std::string joined_steps(const std::vector<SemanticStep>& steps) {
  std::string text;
  for (const SemanticStep& step : steps) {
    text += (text.empty() ? "" : "->") + step.operation + ": " + step.argument;
  }
  return text;
}

/// GQA's groups of a question: what is asked, and about what.
std::string local_group(const SceneProgram& program) {
  return fmt::format("{:02}-{}", static_cast<unsigned>(program.query), program.a);
}

class PictureCache {
 public:
  explicit PictureCache(const QuestionSet& set) : set_(set) {}

  Result<FileBytes> of(std::size_t scene, bool reencoded) {
    FileBytes& result = drawn_[{scene, reencoded}];
    if (result == nullptr) {
      AFI_TRY(std::vector<std::byte> file, draw_scene(set_.scenes[scene], reencoded));
      result = std::make_shared<const std::vector<std::byte>>(std::move(file));
    }
    return result;
  }

 private:
  const QuestionSet& set_;
  std::map<std::pair<std::size_t, bool>, FileBytes> drawn_;
};

Sample sample_of(const QuestionSet& set, std::size_t number, bool reencoded) {
  const SetQuestion& asked = set.questions[number];
  const Scene& scene = set.scenes[asked.scene];
  Sample sample{.dataset_id = fmt::format("{:08}", number),
                .image_id = reencoded ? scene.id + "-again" : scene.id,
                .question = asked.text,
                .answer = set.truth(asked)};
  sample.full_answer = fmt::format("The answer is {}.", sample.answer);
  sample.semantic = steps_of(scene, asked.program);
  sample.semantic_str = joined_steps(sample.semantic);
  sample.global_group = asked.program.query <= SceneQuery::kMaterial ? "attribute" : "scene";
  sample.local_group = local_group(asked.program);
  sample.metadata =
      SceneJson{{"wording", to_string(asked.wording)}, {"trap", to_string(asked.trap)}}.dump();
  return sample;
}

SceneJson record_of(const Sample& sample) {
  SceneJson steps = SceneJson::array();
  for (std::size_t i = 0; i < sample.semantic.size(); ++i) {
    SceneJson depends = SceneJson::array();
    if (i > 0) depends.push_back(i - 1);
    steps.push_back({{"operation", sample.semantic[i].operation},
                     {"dependencies", std::move(depends)},
                     {"argument", sample.semantic[i].argument}});
  }
  return {{"semantic", std::move(steps)},
          {"imageId", sample.image_id},
          {"question", sample.question},
          {"answer", sample.answer},
          {"fullAnswer", sample.full_answer},
          {"groups", {{"global", sample.global_group}, {"local", sample.local_group}}},
          {"isBalanced", true},
          {"semanticStr", sample.semantic_str},
          {"metadata", SceneJson::parse(sample.metadata)}};
}

}  // namespace

Result<std::vector<Sample>> picture_samples(const QuestionSet& set) {
  PictureCache pictures(set);
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < set.questions.size(); ++i) {
    const SetQuestion& asked = set.questions[i];
    const bool alone = asked.setting == Setting::kPlain || asked.setting == Setting::kReencoded;
    if (!set.scenes[asked.scene].drawn || !alone) continue;
    const bool reencoded = asked.setting == Setting::kReencoded;
    Sample sample = sample_of(set, i, reencoded);
    AFI_TRY(sample.image, pictures.of(asked.scene, reencoded));
    samples.push_back(std::move(sample));
  }
  return samples;
}

Result<void> write_gqa(const std::string& folder, std::span<const Sample> samples, Files& files) {
  AFI_TRY_VOID(files.make_folder(folder + "/images"));
  // Record by record, because inserting into an ordered JSON object is linear.
  std::string text;
  std::map<std::string, FileBytes> pictures;
  for (const Sample& sample : samples) {
    text += fmt::format("{}{}: {}", text.empty() ? "{\n" : ",\n",
                        SceneJson(sample.dataset_id).dump(), record_of(sample).dump());
    pictures.emplace(sample.image_id, sample.image);
  }
  text += text.empty() ? "{}\n" : "\n}\n";
  for (const auto& [id, picture] : pictures) {
    AFI_TRY_VOID(files.replace(fmt::format("{}/images/{}.png", folder, id), *picture));
  }
  return files.replace(folder + "/val_balanced_questions.json", std::as_bytes(std::span(text)));
}

Result<std::vector<Sample>> synthetic_samples() {
  const QuestionSet set = make_question_set({.questions = 1, .scenes = 6, .seed = 2});
  PictureCache pictures(set);
  const struct {
    const char* id;
    std::size_t scene;  // even numbers are drawn scenes
    const char* key;
    const char* question;
    const char* answer;
    const char* expected;
  } kRecords[] = {
      {"synthetic-exact-1", 0, "Describe the red train at the platform.",
       "Which color does the train have?", "red", ""},
      {"synthetic-exact-2", 0, "Describe the red train at the platform.",
       "Which color does the train have?", "red", "exact_text"},
      {"synthetic-semantic-1", 2, "A dog is waiting for its owner in front of the station.",
       "Who is waiting at the station?", "dog", ""},
      {"synthetic-semantic-2", 2, "A dog is waiting for its owner in front of the station!!!",
       "Name the animal outside.", "dog", "semantic_text"},
      {"synthetic-embedding-1", 4, "place of the bicycle", "Where does the bicycle stand?",
       "by the wall", ""},
      {"synthetic-embedding-2", 4, "position of the bike", "Where does the bicycle stand?",
       "by the wall", "embedding:prompt"}};
  std::vector<Sample> samples;
  for (const auto& record : kRecords) {
    Sample sample{.dataset_id = record.id,
                  .image_id = set.scenes[record.scene].id,
                  .question = record.question,
                  .answer = record.answer,
                  .chunk_override = record.key,
                  .expected_hit = record.expected};
    sample.metadata = SceneJson{{"expected_hit", record.expected}}.dump();
    AFI_TRY(sample.image, pictures.of(record.scene, false));
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace afterimage

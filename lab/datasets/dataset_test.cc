// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/datasets/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "foundation/platform/testing/memory_files.h"
#include "lab/datasets/answer_match.h"
#include "lab/datasets/chunk_source.h"
#include "lab/datasets/image_roots.h"
#include "lab/datasets/picture_samples.h"
#include "lab/datasets/prompt.h"

namespace afterimage {
namespace {

constexpr const char* kGqa = R"json({
  "05515938": {"semantic": [{"operation": "select", "dependencies": [], "argument": "wall (722332)"},
                            {"operation": "filter color", "dependencies": [0], "argument": "white"}],
               "entailed": [], "imageId": "2405722", "isBalanced": true,
               "groups": {"global": null, "local": "10c-wall_color"},
               "question": "Is the wall white?", "answer": "yes", "fullAnswer": "Yes, it is.",
               "semanticStr": "select: wall (722332)->filter color: white [0]"},
  "2": {"imageId": "7", "question": "", "answer": "no"},
  "3": {"imageId": 7, "question": "Why?", "answer": ["no"]}})json";

void put(Files& files, const std::string& path, std::string_view text) {
  ASSERT_TRUE(files.replace(path, std::as_bytes(std::span(text))).has_value());
}

std::vector<Sample> pictures(std::size_t questions = 400) {
  return picture_samples(make_question_set({.questions = questions, .scenes = 10, .seed = 3}))
      .value();
}

TEST(Dataset, ReadsPublishedGqa) {
  const Records read = parse_gqa(kGqa).value();
  ASSERT_EQ(read.samples.size(), 1U);
  const Sample& sample = read.samples[0];
  EXPECT_EQ(sample.dataset_id, "05515938");
  EXPECT_EQ(sample.image_id, "2405722");
  EXPECT_EQ(sample.question, "Is the wall white?");
  EXPECT_EQ(sample.answer, "yes");
  EXPECT_EQ(sample.full_answer, "Yes, it is.");
  EXPECT_EQ(sample.global_group, "");
  EXPECT_EQ(sample.local_group, "10c-wall_color");
  EXPECT_EQ(sample.semantic_str, "select: wall (722332)->filter color: white [0]");
  EXPECT_EQ(program_text(sample), "select:wall (722332) | filter color:white");
}

TEST(Dataset, NamesABadRecordAndReadsTheOthers) {
  const Records read = parse_gqa(kGqa).value();
  ASSERT_EQ(read.rejected.size(), 2U);
  EXPECT_EQ(read.rejected[0].id, "2");
  EXPECT_EQ(read.rejected[1].id, "3");
  EXPECT_NE(read.rejected[1].error.message.find("answer"), std::string::npos);
}

TEST(Dataset, RejectsInvalidJson) {
  for (const char* text : {"", "{", "[{\"id\": 1}", "7", "\"text\""}) {
    EXPECT_FALSE(parse_gqa(text).has_value()) << text;
    EXPECT_FALSE(parse_llava(text).has_value()) << text;
  }
}

TEST(Dataset, ReadsTheFirstTurnOfLlava) {
  const Records read = parse_llava(R"([
    {"id": "000000033471", "image": "000000033471.jpg", "conversations": [
      {"from": "human", "value": "<image>\nWhat are the colors of the bus?"},
      {"from": "gpt", "value": "White and red."},
      {"from": "human", "value": "And behind it?"}, {"from": "gpt", "value": "Trees."}]},
    {"id": 9, "conversations": [{"from": "gpt", "value": "Hello."}]}])")
                           .value();
  ASSERT_EQ(read.samples.size(), 1U);
  EXPECT_EQ(read.samples[0].question, "What are the colors of the bus?");
  EXPECT_EQ(read.samples[0].answer, "White and red.");
  EXPECT_EQ(read.samples[0].image_names, std::vector<std::string>{"000000033471.jpg"});
  EXPECT_EQ(read.samples[0].image_id, "000000033471");
  ASSERT_EQ(read.rejected.size(), 1U);
}

TEST(Dataset, ReadsVideoFramesAsAList) {
  const Records read = parse_gqa(R"([{"id": "v1_0100", "imageId": "v1_0100",
    "question": "Is the cap on the bottle?", "answer": "yes",
    "metadata": {"video_id": "v1", "frame_number": 100, "extra": {"image_path": "v1/0100.jpg"}}}])")
                           .value();
  ASSERT_EQ(read.samples.size(), 1U);
  EXPECT_EQ(read.samples[0].dataset_id, "v1_0100");
  EXPECT_EQ(read.samples[0].image_names, std::vector<std::string>{"v1/0100.jpg"});
  EXPECT_NE(read.samples[0].metadata.find("frame_number"), std::string::npos);
}

TEST(Dataset, FindsTheFileOfAConfigurationAndItsShards) {
  testing::MemoryFiles files;
  put(files, "gqa/val_balanced_questions.json", kGqa);
  DatasetOptions options{.data = "gqa", .max_samples = -1, .shuffle_seed = -1};
  EXPECT_EQ(load_dataset(options, files).value().samples.size(), 1U);
  const char* one = R"({"a": {"question": "One?", "answer": "1"}})";
  const char* two = R"({"b": {"question": "Two?", "answer": "2"}})";
  put(files, "gqa/train_all_questions/train_all_questions_10.json", one);
  put(files, "gqa/train_all_questions/train_all_questions_2.json", two);
  options.config = "train_all_instructions";
  const Dataset sharded = load_dataset(options, files).value();
  ASSERT_EQ(sharded.samples.size(), 2U);
  EXPECT_EQ(sharded.samples[0].dataset_id, "b") << "2 sorts before 10";
}

// Regression: "train" read the file of "val", and the logs said "train".
TEST(Dataset, ASplitHasItsOwnFile) {
  testing::MemoryFiles files;
  put(files, "gqa/val_balanced_questions.json", R"({"v": {"question": "One?", "answer": "1"}})");
  put(files, "gqa/train_balanced_questions.json", R"({"t": {"question": "Two?", "answer": "2"}})");
  const auto first_of = [&](const std::string& split) {
    const auto read = load_dataset({.data = "gqa", .split = split}, files);
    return read.has_value() ? read->samples[0].dataset_id : read.error().message;
  };
  EXPECT_EQ(first_of("val"), "v");
  EXPECT_EQ(first_of("train"), "t");
  EXPECT_EQ(first_of("train[:1]"), "t");
  EXPECT_NE(first_of("testdev").find("testdev_balanced_questions.json"), std::string::npos);
}

TEST(ChunkSource, AWindowEndsBetweenCharacters) {
  const Sample sample{.question = "Größe?"};
  EXPECT_EQ(chunk_text(sample, ChunkSource::kQuestion, 3), "Grö");
  EXPECT_EQ(chunk_text(sample, ChunkSource::kQuestion, 6), "Größe?");
  EXPECT_EQ(chunk_text(sample, ChunkSource::kQuestion, 100), "Größe?");
  EXPECT_EQ(chunk_text(sample, ChunkSource::kQuestion), "Größe?");
}

TEST(Dataset, FetchesNothingAndSaysWhatToDo) {
  const testing::MemoryFiles files;
  const auto nowhere = load_dataset({}, files);
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_NE(nowhere.error().message.find("--data"), std::string::npos);
  const auto missing = load_dataset({.data = "gqa.json"}, files);
  ASSERT_FALSE(missing.has_value());
  EXPECT_NE(missing.error().message.find("gqa.json"), std::string::npos);
}

TEST(Dataset, SplitsMayBeSliced) {
  testing::MemoryFiles files;
  std::string text = "[";
  for (int i = 0; i < 10; ++i) {
    text += (i == 0 ? "" : ",") + std::string(R"({"id": ")") + std::to_string(i) +
            R"(", "question": "What?", "answer": "x"})";
  }
  put(files, "f.json", text + "]");
  const struct {
    const char* split;
    std::string first;
    std::size_t size;
  } kCases[] = {{"val", "0", 10},         {"val[:3]", "0", 3},      {"val[7:]", "7", 3},
                {"val[10%:30%]", "1", 2}, {"val[-2:]", "8", 2},     {"val[2:4]", "2", 2},
                {"val[:-9]", "0", 1},     {"val[0:1000]", "0", 10}, {"val[-20%:]", "8", 2}};
  for (const auto& c : kCases) {
    const auto read = load_dataset(
        {.data = "f.json", .split = c.split, .max_samples = -1, .shuffle_seed = -1}, files);
    ASSERT_TRUE(read.has_value()) << c.split;
    EXPECT_EQ(read->samples.size(), c.size) << c.split;
    EXPECT_EQ(read->samples[0].dataset_id, c.first) << c.split;
  }
  for (const char* split : {"val[", "val[3]", "val[a:]", "val[5:5]", "val[:0]", "val[1000%:]"}) {
    EXPECT_FALSE(load_dataset({.data = "f.json", .split = split}, files).has_value()) << split;
  }
}

TEST(Dataset, ShuffleIsDeterministicForItsSeed) {
  const testing::MemoryFiles files;
  const auto ids = [&](std::int64_t seed) {
    std::string all;
    const auto read = load_dataset(
        {.kind = DatasetKind::kGenerated, .max_samples = 20, .shuffle_seed = seed}, files);
    for (const Sample& sample : read.value().samples) all += sample.dataset_id + " ";
    return all;
  };
  EXPECT_EQ(ids(7), ids(7));
  EXPECT_NE(ids(7), ids(8));
  EXPECT_NE(ids(7), ids(-1));
}

TEST(Dataset, TheSyntheticSetHasAPairForEachTechnique) {
  const std::vector<Sample> samples = synthetic_samples().value();
  ASSERT_EQ(samples.size(), 6U);
  for (std::size_t i = 0; i < 6; i += 2) {
    EXPECT_EQ(samples[i].expected_hit, "");
    EXPECT_NE(samples[i + 1].expected_hit, "");
    EXPECT_EQ(samples[i].image, samples[i + 1].image);
  }
  EXPECT_EQ(samples[0].chunk_override, samples[1].chunk_override);
  EXPECT_NE(samples[2].question, samples[3].question) << "otherwise a prompt layer would decide";
  EXPECT_EQ(samples[4].question, samples[5].question);
  EXPECT_NE(samples[4].chunk_override, samples[5].chunk_override);
}

TEST(PictureSamples, GqaRoundTrips) {
  testing::MemoryFiles files;
  const std::vector<Sample> samples = pictures();
  ASSERT_GT(samples.size(), 100U);
  ASSERT_TRUE(write_gqa("out", samples, files).has_value());
  Dataset read =
      load_dataset({.data = "out", .max_samples = -1, .shuffle_seed = -1}, files).value();
  ASSERT_EQ(read.samples.size(), samples.size());
  const AttachedImages images = attach_images(read.samples, ImageRoots({"out/images"}, files));
  EXPECT_EQ(images.attached, samples.size()) << images.first_missing;
  std::vector<Sample> in_memory = samples;
  attach_images(in_memory, ImageRoots({}, files));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    ASSERT_EQ(read.samples[i].dataset_id, samples[i].dataset_id);
    ASSERT_EQ(read.samples[i].question, samples[i].question);
    ASSERT_EQ(read.samples[i].answer, samples[i].answer);
    ASSERT_EQ(read.samples[i].semantic_str, samples[i].semantic_str);
    ASSERT_EQ(read.samples[i].content, in_memory[i].content);
    ASSERT_EQ(chunk_text(read.samples[i], ChunkSource::kCombined),
              chunk_text(samples[i], ChunkSource::kCombined));
  }
}

TEST(PictureSamples, EqualMeaningGivesEqualProgramAndAnswer) {
  std::map<std::pair<std::string, std::string>, std::string> answers;
  for (const Sample& sample : pictures(3000)) {
    const auto [it, fresh] = answers.emplace(
        std::pair(sample.image_id, chunk_text(sample, ChunkSource::kSemantic)), sample.answer);
    EXPECT_EQ(it->second, sample.answer) << sample.semantic_str;
  }
}

TEST(ChunkSource, EachUsesItsOwnField) {
  Sample sample{.image_id = "7",
                .question = "Is it?",
                .answer = "yes",
                .full_answer = "Yes, it is.",
                .global_group = "color",
                .local_group = "10c-wall",
                .semantic_str = "select: wall (722332)->filter color (12,-) : white [0]"};
  const struct {
    const char* name;
    const char* expected;
  } kCases[] = {{"question", "Is it?"},
                {"semantic", "select: wall ->filter color : white [0]"},
                {"answer", "Yes, it is."},
                {"group", "color 10c-wall"},
                {"image", "image-7"},
                {"combined", "select: wall ->filter color : white [0] | color 10c-wall"}};
  for (const auto& c : kCases) {
    EXPECT_EQ(chunk_text(sample, chunk_source_named(c.name).value()), c.expected) << c.name;
  }
  EXPECT_FALSE(chunk_source_named("questions").has_value());
  sample.chunk_override = "mine";
  EXPECT_EQ(chunk_text(sample, ChunkSource::kImage), "mine");
  const Sample bare{.question = "Is it?"};
  for (const ChunkSource source : kChunkSources) EXPECT_EQ(chunk_text(bare, source), "Is it?");
}

// Regression: all text in parentheses was dropped, so these two shared one key.
TEST(ChunkSource, KeepsParenthesesThatAreNotIds) {
  const Sample white{.semantic_str = "select: thing (7)->filter color: not(white) [0]"};
  const Sample blue{.semantic_str = "select: thing (7)->filter color: not(blue) [0]"};
  EXPECT_EQ(chunk_text(white, ChunkSource::kSemantic),
            "select: thing ->filter color: not(white) [0]");
  EXPECT_NE(chunk_text(white, ChunkSource::kSemantic), chunk_text(blue, ChunkSource::kSemantic));
  const Sample open{.semantic_str = "select: thing (7"};
  EXPECT_EQ(chunk_text(open, ChunkSource::kSemantic), "select: thing (7");
}

TEST(Prompt, FillsPlaceholdersAndEmptiesUnknownOnes) {
  const Sample sample{.dataset_id = "1", .image_id = "7", .question = "Is {it} so?", .answer = "y"};
  const struct {
    const char* given;
    const char* expected;
  } kCases[] = {{"Q: {question} A:", "Q: Is {it} so? A:"},
                {"  {question}\n", "Is {it} so?"},
                {"{nobody}{image_id}/{dataset_id}/{answer} {question}", "7/1/y Is {it} so?"},
                {"{{\"q\": \"{question}\"}}", "{\"q\": \"Is {it} so?\"}"},
                {"{ not a name } {question", "{ not a name } {question"},
                {"", ""}};
  for (const auto& c : kCases) EXPECT_EQ(render_prompt(c.given, sample), c.expected);
}

TEST(AnswerMatch, MatchesWholeWords) {
  const struct {
    const char* output;
    const char* reference;
    bool expected;
  } kCases[] = {{"yes", "yes", true},
                {"Yes, it is.", "yes", true},
                {"the answer is: Red Lamp!", "red lamp", true},
                {"the lamp is red", "red lamp", false},
                {"", "yes", false},
                {"red", "red lamp", false},
                {"written in C++.", "C", false},
                {"written in C++.", "c++", true},
                {"C# it is", "C++", false},
                {"3 dogs", "3", true},
                {"13 dogs", "3", false},
                {"It is -5.", "5", false},
                {"It is \u22125.", "-5", true},
                {"1.5 km", "5", false},
                {"1.5 km", "1.5", true},
                {"It is 5.", "5", true},
                {"3-5 days", "5", true},
                {"No. 5", "5", true}};
  for (const auto& c : kCases) {
    EXPECT_EQ(answer_matches(c.output, c.reference), c.expected) << c.output << "/" << c.reference;
  }
  EXPECT_EQ(answer_matches("yes", ""), std::nullopt);
  EXPECT_EQ(answer_matches("?", "?"), true);
}

// Regression: substring search, and references in other scripts were ignored.
TEST(Seed002, s21_NoDoesNotMatchKnow) {
  EXPECT_EQ(answer_matches("I do not know.", "no"), false);
  EXPECT_EQ(answer_matches("no", "know"), false);
  EXPECT_EQ(answer_matches("图中有三只猫。", "三只猫"), true);
  EXPECT_EQ(answer_matches("图中有三只猫。", "两只猫"), false);
  EXPECT_EQ(answer_matches("Это КРАСНЫЙ дом", "красный"), true);
  EXPECT_EQ(answer_matches("Ήταν ΚΌΚΚΙΝΟ", "κόκκινο"), false) << "accents are not folded";
  EXPECT_EQ(answer_matches("ÉTÉ", "été"), true);
}

// Regression: a template of several lines was truncated to its first, so no question was asked.
TEST(Seed002, s23_MultiLineTemplatesAskTheQuestion) {
  const Sample sample{.image_id = "7", .question = "Is it?"};
  EXPECT_EQ(render_prompt("<image>\nImage ID: {image_id}\nQuestion: {question}\nAnswer:", sample),
            "<image>\nImage ID: 7\nQuestion: Is it?\nAnswer:");
  EXPECT_TRUE(check_template("<image>\n{question}").has_value());
  const auto cut = check_template("<image>");
  ASSERT_FALSE(cut.has_value());
  EXPECT_NE(cut.error().message.find("{question}"), std::string::npos);
}

// Regression: any path named by the data set was opened, however large.
TEST(Seed002, s27_OpensImagesOnlyBelowTheRootsAndUpToALimit) {
  testing::MemoryFiles files;
  const std::vector<Sample> samples = pictures(20);
  const std::string picture(reinterpret_cast<const char*>(samples[0].image->data()),
                            samples[0].image->size());
  put(files, "root/a.png", picture);
  put(files, "root/200/200715.png", picture);
  put(files, "/etc/secret.png", picture);
  put(files, "secret.png", picture);
  put(files, "rootless/a.png", picture);
  put(files, "root/note.jpg", "no picture at all");
  const ImageRoots roots({"root"}, files);
  const auto found = [&](const std::string& name) {
    return roots.find({.image_names = {name}}).has_value();
  };
  EXPECT_TRUE(found("a.png"));
  EXPECT_TRUE(found("x/../a.png"));
  EXPECT_TRUE(roots.find({.image_id = "200715"}).has_value());
  for (const char* name : {"/etc/secret.png", "../secret.png", "../rootless/a.png",
                           "x/../../secret.png", "..", ".", "", "note.jpg"}) {
    EXPECT_FALSE(found(name)) << name;
  }
  EXPECT_FALSE(roots.find({.image_id = "../secret"}).has_value());
  EXPECT_TRUE(ImageRoots({"/etc"}, files).find({.image_names = {"/etc/secret.png"}}).has_value());
  const ImageRoots small({"root"}, files, {.max_file = 10_B});
  EXPECT_EQ(small.find({.image_names = {"a.png"}}).error().code, ErrorCode::kLimitExceeded);
}

// Regression: missing images went unnoticed.
TEST(Seed002, s24_CountsAndReportsMissingImages) {
  const testing::MemoryFiles files;
  std::vector<Sample> samples = pictures(40);
  const std::size_t all = samples.size();
  for (Sample& sample : samples) sample.image = nullptr;
  samples[0].image_id = "";
  const AttachedImages images = attach_images(samples, ImageRoots({"nowhere"}, files));
  EXPECT_EQ(images.attached, 0U);
  EXPECT_EQ(images.missing, all - 1);
  EXPECT_NE(images.first_missing.find("nowhere"), std::string::npos);
}

}  // namespace
}  // namespace afterimage

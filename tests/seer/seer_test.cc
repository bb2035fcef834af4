// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "afterimage/clock.h"
#include "bench/run/run.h"
#include "bench/workload/media_loader.h"
#include "bench/workload/workload.h"
#include "engines/llama/llama_engine.h"
#include "foundation/platform/files.h"

/// The small model that sees answers the questions of examples/scenes.jsonl. Wrong reuse shows in what it says.
namespace afterimage {
namespace {

/// Of 48. The model is as it was trained; a lower number means that an engine computes something
/// else.
constexpr std::uint64_t kRight = 40;

const LlamaEngine& seer() {
  static const auto engine = [] {
    LlamaOptions options;
    options.model = AFTERIMAGE_SEER;
    options.mmproj = std::string(AFTERIMAGE_SEER)
                         .replace(std::string(AFTERIMAGE_SEER).rfind(".gguf"), 5, ".mmproj.gguf");
    options.context = TokenCount(512);
    options.threads = 1;  // other tests run beside it
    return LlamaEngine::create(std::move(options)).value();
  }();
  return *engine;
}

Workload scenes() {
  const SystemFiles files;
  MediaLoader loader =
      MediaLoader::open({.workload = AFTERIMAGE_SCENES, .images_folder = "", .limits = {}}, files)
          .value();
  return read_workload(
             AFTERIMAGE_SCENES, files,
             [&](const MediaReference& reference) { return loader.load_parts(reference); })
      .value();
}

RunReport run(const Workload& workload) {
  const SystemClock clock;
  RunOptions options;
  options.generate.max_tokens = TokenCount(64);
  return run_workload(workload, seer(), options, clock).value();
}

const RunReport& report_of_scenes() {
  static const RunReport kReport = run(scenes());
  return kReport;
}

TEST(Seer, AnswersAreRightAndTheSameWithReuse) {
  const RunReport& report = report_of_scenes();
  EXPECT_TRUE(report.fine());
  EXPECT_EQ(report.judged, 48U);
  EXPECT_GE(report.cold.right, kRight);
  EXPECT_EQ(report.encode_once.right, report.cold.right);
  EXPECT_EQ(report.warm.right, report.cold.right);
  EXPECT_LT(report.warm.prefilled, report.cold.prefilled / 2);
  EXPECT_EQ(report.encode_once.encoder_calls, report.distinct_media);
}

/// What transformers says: models/weights/answers.json.
TEST(Seer, SaysWhatTransformersSays) {
  std::ifstream file(AFTERIMAGE_SEER_ANSWERS);
  const nlohmann::json answers = nlohmann::json::parse(file);
  const RunReport& report = report_of_scenes();
  std::size_t same = 0;
  for (const RequestReport& request : report.requests) {
    const std::string expected = answers.at(request.id);
    same += static_cast<std::size_t>(request.text == expected);
    if (request.text != expected) {
      std::cerr << request.id << ": " << request.text << " instead of " << expected << '\n';
    }
  }
  EXPECT_GE(same, 47U) << "of 48: engines round differently, so one may be a tie";
}

/// The same question about eight pictures, one after the other in the same place of the prompt.
TEST(Seer, AnotherPictureInACachedPromptIsAnotherAnswer) {
  Workload workload;
  std::set<std::string> seen;
  for (const Request& request : scenes().requests) {
    for (const ContentPart& part : request.messages[1].parts) {
      const auto* const picture = std::get_if<MediaItem>(&part);
      if (picture == nullptr || !seen.insert(picture->name).second) continue;
      Request describe{.id = RequestId(picture->name)};
      describe.messages.push_back(
          {.role = Role::kUser, .parts = {*picture, std::string("Describe the picture.")}});
      workload.requests.push_back(std::move(describe));
    }
  }
  const RunReport report = run(workload);
  EXPECT_TRUE(report.fine());
  std::set<std::string> answers;
  for (const RequestReport& request : report.requests) answers.insert(request.text);
  EXPECT_EQ(answers.size(), 8U);
}

/// If keys did not hold which picture it is, answers would be about another one.
TEST(Seer, KeysThatIgnoreThePictureMakeAnswersWrong) {
  Workload workload = scenes();
  for (Request& request : workload.requests) {
    for (Message& message : request.messages) {
      for (ContentPart& part : message.parts) {
        if (auto* const item = std::get_if<MediaItem>(&part)) item->digest = ContentDigest();
      }
    }
  }
  const RunReport report = run(workload);
  const std::uint64_t usual = report_of_scenes().warm.right;
  EXPECT_LT(report.encode_once.right, usual - 10);
  EXPECT_LT(report.warm.right, usual - 10);
  RecordProperty("right", static_cast<int>(usual));
  RecordProperty("right_with_mutated_keys", static_cast<int>(report.warm.right));
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// What the small model that sees says of one scene does not depend on the kind of file in which it is sent.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "bench/run/run.h"
#include "engines/llama/llama_engine.h"
#include "foundation/documents/document_reader.h"
#include "foundation/media/decode.h"
#include "foundation/platform/files.h"
#include "testing/pdf_files.h"

namespace afterimage {
namespace {

struct SceneQuestion {
  std::string text;
  std::string answer;
};
/// Of examples/scenes.jsonl.
const std::vector<SceneQuestion> kQuestions = {
    {"Tell me the colour of the square.", "The square is green."},
    {"Which word do you see?", "It says drum."},
    {"How many red shapes do you see?", "There is one red shape."}};

const LlamaEngine& seeing_engine() {
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

MediaItem scene_file(const std::string& path) {
  const SystemFiles files;
  auto bytes = std::make_shared<std::vector<std::byte>>(files.read(path, 1_MiB).value());
  const std::string ending = std::filesystem::path(path).extension();
  const bool moves = ending == ".mp4" || ending == ".webm";
  return {.modality = moves ? Modality::kVideo : Modality::kImage,
          .files = {std::move(bytes)},
          .name = std::filesystem::path(path).filename()};
}

std::vector<std::string> answers_about(const std::string& path) {
  Workload workload;
  for (const SceneQuestion& question : kQuestions) {
    Request request{.id = RequestId(std::to_string(workload.requests.size()))};
    request.messages.push_back(
        {.role = Role::kSystem, .parts = {std::string("You answer questions about pictures.")}});
    request.messages.push_back({.role = Role::kUser, .parts = {scene_file(path), question.text}});
    const DocumentReader reader({.library = testing::pdfium_library(), .longer_side = 128});
    EXPECT_TRUE(reader.replace_documents(request).has_value()) << path;
    workload.requests.push_back(std::move(request));
  }
  const SystemClock clock;
  RunOptions options;
  options.generate.max_tokens = TokenCount(64);
  const auto report = run_workload(workload, seeing_engine(), options, clock);
  EXPECT_TRUE(report.has_value()) << path << ": " << to_string(report.error());
  std::vector<std::string> answers;
  for (const RequestReport& request : report->requests) answers.push_back(request.text);
  return answers;
}

TEST(SeerFormats, AnswersAreTheSameInEveryFormatInAClipAndOnAPage) {
  std::vector<std::string> expected;
  for (const SceneQuestion& question : kQuestions) expected.push_back(question.answer);
  ASSERT_EQ(answers_about(AFTERIMAGE_SCENE), expected);
  std::size_t asked = 0;
  for (const auto& file : std::filesystem::directory_iterator(AFTERIMAGE_SCENE_FILES)) {
    if (file.path().extension() == ".pdf" && testing::pdfium_library().empty()) {
      std::cerr << "not asked: a PDF page, for there is no PDFium\n";
      continue;
    }
    EXPECT_EQ(answers_about(file.path()), expected) << file.path();
    ++asked;
  }
  EXPECT_GE(asked, 14U);
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/workload/workload.h"

#include <gtest/gtest.h>

#include <string>

#include "bench/workload/media_loader.h"
#include "foundation/platform/testing/memory_files.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {

/// Loads every name as an image and records the names.
struct Loader {
  std::vector<MediaReference> asked;
  LoadMedia load = [this](const MediaReference& reference) -> Result<std::vector<MediaItem>> {
    asked.push_back(reference);
    if (reference.name.ends_with(".pdf")) {
      return std::vector{MediaItem{.name = "page 1"}, MediaItem{.name = "page 2"}};
    }
    return std::vector{MediaItem{.modality = reference.modality, .name = reference.name}};
  };
};

TEST(WorkloadLine, IsAChatRequestWithLocalMedia) {
  Loader loader;
  const auto request = parse_workload_line(
      R"({"id":"a1","agent":"analyst","tenant":"acme","conversation":"goes_on","model":"ignored","messages":[
          {"role":"system","content":"Be brief."},
          {"role":"user","content":[
            {"type":"image_url","image_url":{"url":"chart.png","detail":"high"}},
            {"type":"input_audio","input_audio":{"data":"call.wav","format":"wav"}},
            {"type":"video_url","video_url":{"url":"frames","fps":2.5}},
            {"type":"file","file":{"file_data":"report.pdf","filename":"ignored"}},
            {"type":"text","text":"What is this?"}]},
          {"role":"assistant","content":null}]})",
      loader.load);
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_EQ(request->id.text(), "a1");
  EXPECT_EQ(request->hints.agent, "analyst");
  EXPECT_EQ(request->tenant.text(), "acme");
  EXPECT_EQ(request->hints.conversation, ContinuationHint::kGoesOn);
  ASSERT_EQ(request->messages.size(), 3U);
  EXPECT_EQ(request->messages[0].role, Role::kSystem);
  EXPECT_EQ(std::get<std::string>(request->messages[0].parts[0]), "Be brief.");
  ASSERT_EQ(request->messages[1].parts.size(), 6U) << "a document has two pages here";
  EXPECT_EQ(std::get<MediaItem>(request->messages[1].parts[2]).modality, Modality::kVideo);
  EXPECT_TRUE(request->messages[2].parts.empty());
  EXPECT_EQ(std::get<MediaItem>(request->messages[1].parts[4]).name, "page 2");
  ASSERT_EQ(loader.asked.size(), 4U);
  EXPECT_EQ(loader.asked[0].name, "chart.png");
  EXPECT_EQ(loader.asked[1].declared_format, "wav");
  EXPECT_EQ(loader.asked[2].frames_per_second, 2.5);
}

TEST(WorkloadLine, NamesTheInvalidField) {
  const struct {
    const char* name;
    const char* line;
    const char* said;
  } kCases[] = {
      {"nothing", "", "not JSON"},
      {"half an object", R"({"id":"a",)", "not JSON"},
      {"not UTF-8", "{\"id\":\"\xff\"}", "not JSON"},
      {"another kind", "[1,2]", "not a JSON object"},
      {"no id", R"({"messages":[]})", "has no \"id\""},
      {"a number as id", R"({"id":1,"messages":[]})", "\"id\" of the line is number"},
      {"an empty id", R"({"id":"","messages":[]})", "\"id\" is empty"},
      {"a hint that says nothing", R"({"id":"a","conversation":"maybe","messages":[]})",
       "goes_on or ends"},
      {"agent of the wrong kind", R"({"id":"a","agent":{},"messages":[]})", "\"agent\""},
      {"no messages", R"({"id":"a"})", "\"messages\""},
      {"empty messages", R"({"id":"a","messages":[]})", "\"messages\""},
      {"a message that is text", R"({"id":"a","messages":["x"]})", "message 1"},
      {"no role", R"({"id":"a","messages":[{"content":"x"}]})", "message 1 has no \"role\""},
      {"unknown role", R"({"id":"a","messages":[{"role":"wizard","content":"x"}]})", "wizard"},
      {"no content", R"({"id":"a","messages":[{"role":"user"}]})", "no \"content\""},
      {"content of the wrong kind", R"({"id":"a","messages":[{"role":"user","content":7}]})",
       "\"content\" of message 1 is number"},
      {"unknown part", R"({"id":"a","messages":[{"role":"user","content":[{"type":"smell"}]}]})",
       "part 1 of message 1 is of type \"smell\""},
      {"image without url",
       R"({"id":"a","messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})",
       "has no \"url\""},
  };
  for (const auto& c : kCases) {
    Loader loader;
    const auto request = parse_workload_line(c.line, loader.load);
    ASSERT_FALSE(request.has_value()) << c.name;
    EXPECT_NE(request.error().message.find(c.said), std::string::npos)
        << c.name << ": " << request.error().message;
  }
}

TEST(Workload, ReadsRightAnswers) {
  testing::MemoryFiles files;
  const std::string text =
      R"({"id":"a","expected":"The circle is red.","messages":[{"role":"user","content":"?"}]})"
      "\n"
      R"({"id":"b","messages":[{"role":"user","content":"?"}]})"
      "\n"
      R"({"id":"c","expected":3,"messages":[{"role":"user","content":"?"}]})";
  ASSERT_TRUE(files.replace("w.jsonl", std::as_bytes(std::span(text))).has_value());
  Loader loader;
  const auto workload = read_workload("w.jsonl", files, loader.load);
  ASSERT_TRUE(workload.has_value());
  EXPECT_EQ(workload->expected,
            (std::map<RequestId, std::string>{{RequestId("a"), "The circle is red."}}));
  ASSERT_EQ(workload->rejected.size(), 1U);
  EXPECT_NE(workload->rejected[0].error.message.find("\"expected\""), std::string::npos);
}

TEST(WorkloadLine, RejectsDeepNestingWithoutRecursion) {
  Loader loader;
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_FALSE(parse_workload_line(deep, loader.load).has_value());
  EXPECT_FALSE(parse_workload_line(deep.substr(0, 200'000), loader.load).has_value());
}

TEST(Workload, RejectsBadLinesByNumberAndReadsTheOthers) {
  testing::MemoryFiles files;
  const std::string text =
      "{\"id\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}\n"
      "\n"
      "{broken\r\n"
      "{\"id\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"y\"}]}\n"
      "{\"id\":\"b\",\"messages\":[{\"role\":\"user\",\"content\":\"z\"}]}";
  ASSERT_TRUE(files.replace("w.jsonl", std::as_bytes(std::span(text))).has_value());
  Loader loader;
  const Workload workload = read_workload("w.jsonl", files, loader.load).value();
  ASSERT_EQ(workload.requests.size(), 2U);
  EXPECT_EQ(workload.requests[1].id.text(), "b");
  ASSERT_EQ(workload.rejected.size(), 2U);
  EXPECT_EQ(workload.rejected[0].number, 3U);
  EXPECT_EQ(workload.rejected[1].number, 4U);
  EXPECT_EQ(workload.rejected[1].error.message, "id \"a\" is already used on line 1");
}

TEST(MediaLoader, ReadsEachFileOnce) {
  testing::MemoryFiles files;
  const auto png = testing::make_png(testing::make_plain(4, 4, 1, 2, 3));
  ASSERT_TRUE(files.replace("w/a.png", png).has_value());
  MediaLoader loader = MediaLoader::open({.workload = "w/w.jsonl"}, files).value();
  const MediaItem first = loader.load({.name = "a.png"}).value();
  const MediaItem second = loader.load({.name = "./a.png"}).value();
  EXPECT_EQ(first.files[0], second.files[0]);
}

TEST(MediaLoader, LoadsAFolderAsAVideo) {
  testing::MemoryFiles files;
  for (const char* name : {"w/clip/1.png", "w/clip/0.png"}) {
    const auto png = testing::make_png(testing::make_plain(4, 4, name[7] == '0' ? 9 : 0, 0, 0));
    ASSERT_TRUE(files.replace(name, png).has_value());
  }
  MediaLoader loader = MediaLoader::open({.workload = "w/w.jsonl"}, files).value();
  const MediaItem video =
      loader.load({.modality = Modality::kVideo, .name = "clip", .frames_per_second = 2.5}).value();
  ASSERT_EQ(video.files.size(), 2U);
  EXPECT_EQ(video.frame_rate_mhz, 2'500U);
  EXPECT_EQ(video.files[0], loader.load({.name = "clip/0.png"})->files[0]) << "in order of name";
  for (const double fps : {-1.0, 1e9, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(
        loader.load({.modality = Modality::kVideo, .name = "clip", .frames_per_second = fps})
            .has_value());
  }
}

TEST(MediaLoader, ChecksDataUrlsAgainstTheirBytes) {
  const testing::MemoryFiles files;
  MediaLoader loader = MediaLoader::open({.workload = "w.jsonl"}, files).value();
  const struct {
    const char* name;
    const char* url;
    bool fine;
  } kCases[] = {
      {"a PNG that says so", "data:image/png;base64,iVBORw0KGgoAAAAN", true},
      {"parameters before the encoding", "data:image/png;charset=x;base64,iVBORw0KGgoAAAAN", true},
      {"a PNG that says JPEG", "data:image/jpeg;base64,iVBORw0KGgoAAAAN", false},
      {"no bytes", "data:image/png;base64,", false},
      {"not base64", "data:image/png;base64,!!!!", false},
      {"cut", "data:image/png;base64,iVBORw0KGgoAAAA", false},
      {"not said to be base64", "data:image/png,iVBORw0KGgoAAAAN", false},
      {"no comma", "data:image/png;base64", false},
      {"nothing", "data:", false},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(loader.load({.name = c.url}).has_value(), c.fine) << c.name;
  }
}

TEST(MediaLoader, ReplacesImagesByPhotosInOrder) {
  testing::MemoryFiles files;
  for (const char* name : {"photos/b.png", "photos/a.png"}) {
    const auto png = testing::make_png(testing::make_plain(4, 4, name[7] == 'a' ? 9 : 0, 0, 0));
    ASSERT_TRUE(files.replace(name, png).has_value());
  }
  MediaLoader loader =
      MediaLoader::open({.workload = "w.jsonl", .images_folder = "photos"}, files).value();
  for (const char* name : {"x.jpg", "y.jpg", "z.jpg", "x.jpg"}) {
    ASSERT_TRUE(loader.load({.name = name}).has_value());
  }
  const std::map<std::string, std::string> expected = {
      {"x.jpg", "a.png"}, {"y.jpg", "b.png"}, {"z.jpg", "a.png"}};
  EXPECT_EQ(loader.stand_ins(), expected);
}

}  // namespace
}  // namespace afterimage

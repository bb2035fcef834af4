// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Transcriptions, rerank, images and speech through the whole gateway.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <thread>
#include <vector>

#include "foundation/crypto/sha256.h"
#include "foundation/text/data_url.h"
#include "testing/running_gateway.h"

namespace afterimage {
namespace {

using testing::ask;
using ::testing::HasSubstr;
using testing::json;
using testing::Running;
using testing::Said;

const std::string kSound("RIFF\0\xFF\r\nsound", 13);
constexpr const char* kTranscriptions = "/v1/audio/transcriptions";

/// A form with this sound, and fields of its own.
struct Upload {
  std::string boundary = "B";
  std::string name = "a.wav";
  std::string fields = {};  // field("model", "w")
  std::string sound = kSound;

  [[nodiscard]] std::string type() const {
    return "Content-Type: multipart/form-data; boundary=" + boundary + "\r\n";
  }
  [[nodiscard]] std::string field(const std::string& name_of, const std::string& value) const {
    return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + name_of +
           "\"\r\n\r\n" + value + "\r\n";
  }
  [[nodiscard]] std::string body() const {
    return fields + "--" + boundary +
           "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name +
           "\"\r\nContent-Type: audio/wav\r\n\r\n" + sound + "\r\n--" + boundary + "--\r\n";
  }
};

Said transcribe(Running& running, const Upload& upload, const std::string& headers = "") {
  return running.post(kTranscriptions, upload.body(), upload.type() + headers);
}
/// The model's server replies with this.
void replies(Running& running, const std::string& type, const std::string& body,
             unsigned status = 200) {
  running.model.answers([=](const HttpRequest&, const Responder& responder) {
    responder.reply({.status = status, .headers = {{"Content-Type", type}}, .body = body});
  });
}

TEST(Endpoints, TheSameSoundInTwoUploadsIsOneCall) {
  Running running;
  replies(running, "application/json", R"({"text": "Good morning."})");
  Upload one;
  one.fields = one.field("model", "w") + one.field("language", "en");
  const Said first = transcribe(running, one);
  EXPECT_EQ(first.header("X-Cache"), "MISS") << first.head;
  EXPECT_EQ(*running.model.last().body, one.body()) << "forwarded byte for byte";
  Upload other{.boundary = "another", .name = "b.mp3"};
  other.fields = other.field("language", "en") + other.field("model", "w");
  const Said second = transcribe(running, other);
  EXPECT_EQ(second.header("X-Cache"), "HIT") << second.head;
  EXPECT_EQ(second.body, first.body) << "byte for byte, spaces included";
  EXPECT_EQ(second.header("Content-Type"), "application/json");
  EXPECT_EQ(running.model.asked(), 1);
  Upload german;
  german.fields = german.field("model", "w") + german.field("language", "de");
  EXPECT_EQ(transcribe(running, german).header("X-Cache"), "MISS");
  Upload louder = one;
  louder.sound += "!";
  EXPECT_EQ(transcribe(running, louder).header("X-Cache"), "MISS");
  EXPECT_EQ(running.post("/v1/audio/translations", one.body(), one.type()).header("X-Cache"),
            "MISS");
}

TEST(Endpoints, TextIsKeptWithItsContentType) {
  Running running;
  const std::string vtt = "WEBVTT\r\n\r\n00:00.000 --> 00:01.000\r\nHi \x01 \x02\r\n";
  replies(running, "text/vtt; charset=utf-8", vtt);
  Upload upload;
  upload.fields = upload.field("response_format", "vtt");
  transcribe(running, upload);
  const Said hit = transcribe(running, upload);
  EXPECT_EQ(hit.header("X-Cache"), "HIT");
  EXPECT_EQ(hit.header("Content-Type"), "text/vtt; charset=utf-8");
  EXPECT_EQ(hit.body, vtt) << "bytes that mark ids in other records are text here";
}

TEST(Endpoints, AStreamIsKeptOnceItSaysThatItIsComplete) {
  const std::string delta = "data: {\"type\":\"transcript.text.delta\",\"delta\":\"Hi\"}\n\n";
  const std::string last = "data: {\"type\":\"transcript.text.done\",\"text\":\"Hi\"}\n\n";
  const std::string chunk =
      "data: {\"object\":\"transcription.chunk\",\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}"
      "\n\n";
  const std::string done = "data: [DONE]\n\n";
  const std::string error = "event: error\ndata: {\"error\":{\"message\":\"no\"}}\n\n";
  const struct {
    const char* name;
    std::string events;
    bool kept;
  } kCases[] = {
      {"OpenAI", delta + last, true},
      {"OpenAI with [DONE]", delta + last + done, true},
      {"vLLM", chunk + done, true},
      {"it just stops", delta, false},
      {"texts without an end, as speaches'", "data: Hi\n\n", false},
      {"an error", delta + error + last, false},
      {"more after the end", done + delta, false},
  };
  for (const auto& c : kCases) {
    Running running;
    replies(running, "text/event-stream; charset=utf-8", c.events);
    Upload upload;
    upload.fields = upload.field("stream", "true");
    const Said first = transcribe(running, upload);
    EXPECT_EQ(first.body, c.events) << c.name;
    const Said second = transcribe(running, upload);
    EXPECT_EQ(second.header("X-Cache"), c.kept ? "HIT" : "MISS") << c.name;
    EXPECT_EQ(second.body, c.events) << c.name;
    EXPECT_THAT(second.header("Content-Type"), HasSubstr("text/event-stream")) << c.name;
  }
}

TEST(Endpoints, WhatIsNoAnswerIsNotKept) {
  const struct {
    const char* name;
    std::string type;
    std::string body;
    unsigned status = 200;
  } kCases[] = {
      {"an error's status", "application/json", R"({"text":"x"})", 500},
      {"an error with status 200", "application/json", R"({"error":{"message":"no"}})"},
      {"torn JSON", "application/json", R"({"text":)"},
      {"nothing", "text/plain", ""},
      {"no content type", "", "text"},
  };
  for (const auto& c : kCases) {
    Running running;
    replies(running, c.type, c.body, c.status);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(transcribe(running, {}).header("X-Cache"), "MISS") << c.name;
    }
  }
}

TEST(Endpoints, AWarmTranscriptionIsADraw) {
  Running running;
  replies(running, "application/json", R"({"text":"Hi"})");
  Upload warm;
  warm.fields = warm.field("temperature", "0.6");
  EXPECT_EQ(transcribe(running, warm).header("X-Cache"), "MISS");
  EXPECT_EQ(transcribe(running, warm).header("X-Cache"), "MISS") << "the same requester";
  Upload other = warm;
  other.fields += other.field("user", "another");
  EXPECT_EQ(transcribe(running, other).header("X-Cache"), "HIT");
  EXPECT_EQ(transcribe(running, warm, "X-Afterimage-Sampled: off\r\n").header("X-Cache"), "BYPASS");
}

TEST(Endpoints, ErasingTheSoundErasesItsTranscription) {
  Running running;
  replies(running, "application/json", R"({"text":"Hi"})");
  transcribe(running, {});
  EXPECT_EQ(transcribe(running, {}).header("X-Cache"), "HIT");
  const std::string digest = to_hex(sha256(std::as_bytes(std::span(kSound))));
  const json done = running.admin("POST", "/admin/api/erase", R"({"media":")" + digest + "\"}");
  EXPECT_EQ(done["answers"], 1) << done.dump();
  EXPECT_EQ(transcribe(running, {}).header("X-Cache"), "MISS");
}

TEST(Endpoints, LabelsAndTenantsHold) {
  Running running;
  replies(running, "application/json", R"({"text":"Hi"})");
  transcribe(running, {}, "X-Afterimage-Tags: meeting\r\nAuthorization: Bearer a\r\n");
  EXPECT_EQ(transcribe(running, {}, "Authorization: Bearer a\r\n").header("X-Cache"), "HIT");
  EXPECT_EQ(transcribe(running, {}, "Authorization: Bearer b\r\n").header("X-Cache"), "MISS");
  running.admin("POST", "/admin/api/invalidate", R"({"tag":"meeting","dry_run":false})");
  EXPECT_EQ(transcribe(running, {}, "Authorization: Bearer a\r\n").header("X-Cache"), "MISS");
}

TEST(Endpoints, ConcurrentUploadsShareOneCall) {
  Running running;
  running.model.hold(1);
  const Upload upload;
  std::vector<Said> said(3);
  {
    std::vector<std::jthread> clients;
    for (Said& one : said) clients.emplace_back([&] { one = transcribe(running, upload); });
    const auto held = running.model.wait_held(1);
    while (running.admin("GET", "/admin/api/stats")["requests"]["in_flight"] != 3) {
      std::this_thread::yield();
    }
    held.front().reply(
        {.headers = {{"Content-Type", "application/json"}}, .body = R"({"text":"Hi"})"});
  }
  for (const Said& one : said) EXPECT_EQ(one.body, R"({"text":"Hi"})");
  EXPECT_EQ(running.model.asked(), 1);
}

TEST(Endpoints, RerankIsKeptAtEachOfItsPaths) {
  Running running;
  const std::string tei = R"([{"index":1,"score":0.9},{"index":0,"score":0.1}])";
  replies(running, "application/json", tei);
  const std::string body = R"({"query":"q","texts":["a","b"]})";
  for (const char* path : {"/rerank", "/v1/rerank", "/v2/rerank", "/score", "/v1/score"}) {
    EXPECT_EQ(running.post(path, body).header("X-Cache"), "MISS") << path;
    EXPECT_EQ(running.model.last().target, path);
    const Said hit = running.post(path, body);
    EXPECT_EQ(hit.header("X-Cache"), "HIT") << path;
    EXPECT_EQ(hit.body, tei);
  }
  EXPECT_EQ(running.post("/rerank/", body).status, 404U) << "paths of the server stay closed";
}

TEST(Endpoints, ImagesAndSpeechNeedASeedOrReplay) {
  Running running;
  const std::string mp3("ID3\x01\x02\0sound", 11);
  const auto cache = [&](const std::string& path, const std::string& body,
                         const std::string& headers = "") {
    return running.post(path, body, headers);
  };
  replies(running, "audio/mpeg", mp3);
  const std::string speech = R"({"model":"t","input":"Hello","voice":"a"})";
  const Said bypass = cache("/v1/audio/speech", speech);
  EXPECT_EQ(bypass.header("X-Cache"), "BYPASS");
  EXPECT_THAT(bypass.header("Cache-Status"), HasSubstr("no-seed"));
  EXPECT_EQ(bypass.body, mp3);
  const std::string replay = "X-Afterimage-Sampled: replay\r\n";
  EXPECT_EQ(cache("/v1/audio/speech", speech, replay).header("X-Cache"), "MISS");
  const Said hit = cache("/v1/audio/speech", speech, replay);
  EXPECT_EQ(hit.header("X-Cache"), "HIT");
  EXPECT_EQ(hit.header("Content-Type"), "audio/mpeg");
  EXPECT_EQ(hit.body, mp3);
  replies(running, "application/json", R"({"created":5,"data":[{"b64_json":"AAAA"}]})");
  const std::string seeded = R"({"model":"i","prompt":"a cat","seed":7})";
  EXPECT_EQ(cache("/v1/images/generations", seeded).header("X-Cache"), "MISS");
  const Said image = cache("/v1/images/generations", seeded);
  EXPECT_EQ(image.header("X-Cache"), "HIT");
  EXPECT_EQ(json::parse(image.body)["created"], 5);
  EXPECT_EQ(cache("/v1/images/generations", R"({"model":"i","prompt":"a cat"})").header("X-Cache"),
            "BYPASS");
}

TEST(Endpoints, ContentByAddressBypasses) {
  Running running;
  replies(running, "application/json", R"({"results":[]})");
  const Said said =
      running.post("/v1/rerank", R"({"query":"q","documents":[{"image":"https://x.org/a.png"}]})");
  EXPECT_EQ(said.header("X-Cache"), "BYPASS");
  EXPECT_THAT(said.header("Cache-Status"), HasSubstr("media-by-address"));
}

TEST(Endpoints, ExplainSaysTheSameOfARequestThatIsNotSent) {
  Running running;
  replies(running, "application/json", R"({"text":"Hi"})");
  const Upload upload;
  const auto explained = [&](const json& asked) {
    return running.admin("POST", "/admin/api/explain", asked.dump());
  };
  const std::string body = upload.body();
  const json asked{{"operation", "transcription"},
                   {"body_base64", encode_base64(std::as_bytes(std::span(body)))},
                   {"headers", {{"Content-Type", "multipart/form-data; boundary=B"}}}};
  EXPECT_EQ(explained(asked)["outcome"], "miss");
  transcribe(running, upload);
  EXPECT_EQ(explained(asked)["outcome"], "hit");
  EXPECT_EQ(running.model.asked(), 1);
  json rerank{{"operation", "rerank"}, {"path", "/v2/rerank"}, {"body", {{"query", "q"}}}};
  running.post("/v2/rerank", R"({"query":"q"})");
  EXPECT_EQ(explained(rerank)["outcome"], "hit");
  rerank.erase("path");
  EXPECT_EQ(explained(rerank)["outcome"], "miss");
  rerank["path"] = "/v1/score";
  EXPECT_TRUE(explained(rerank).contains("error"));
}

TEST(Endpoints, OtherMethodsAreRefused) {
  Running running;
  EXPECT_EQ(ask(running.service->port(), "GET", kTranscriptions, "").status, 405U);
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Whatever part of a request holds bytes: an answer about them is found by them, in every mode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "foundation/crypto/sha256.h"
#include "foundation/platform/environment.h"
#include "foundation/text/data_url.h"
#include "gateway/proxy/testing/built_in_gateway.h"
#include "testing/media_files.h"
#include "testing/pdf_files.h"
#include "testing/running_gateway.h"

namespace afterimage {
namespace {

using namespace testing;

std::string base64(const FileContent& file) { return encode_base64(file); }
std::string url(const std::string& type, const FileContent& file) {
  return "data:" + type + ";base64," + base64(file);
}
FileContent content(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// What a client may send, and the file whose bytes it holds.
struct Sent {
  std::string name;
  FileContent file;
  std::string path;
  std::string body;
  bool engine_takes_it = false;
};

std::string chat_about(const std::string& part, const std::string& more = "") {
  return R"({"model":"m","temperature":0,"max_tokens":4,"messages":[{"role":"user","content":[)" +
         part + R"(,{"type":"text","text":"q"}]}])" + more + "}";
}

/// Before any other thread.
std::vector<Sent> everything() {
  constexpr const char* kChat = "/v1/chat/completions";
  const FileContent png = make_png(make_picture(32, 32));
  const FileContent wav = make_wav(std::vector<float>(1'600, 0.25F), 16'000);
  const FileContent gif = make_gif({make_picture(16, 16), make_picture(16, 16)}, 10);
  const FileContent pdf = make_pdf({text_page("one")});
  const FileContent note =
      content("A note of more than sixty-four characters, which is a file of a client's.");
  const std::string pdfium = pdfium_library();
  const bool reads_pdf = !pdfium.empty();
  if (reads_pdf) set_environment_default("AFTERIMAGE_PDFIUM", pdfium);
  const auto member = [](const std::string& name, const std::string& value) {
    return R"({"type":")" + name + R"(",")" + name + R"(":)" + value + "}";
  };
  std::vector<Sent> all = {
      {"image_url", png, kChat,
       chat_about(member("image_url", R"({"url":")" + url("image/png", png) + "\"}")), true},
      {"image_url as a text", png, kChat,
       chat_about(member("image_url", "\"" + url("image/png", png) + "\"")), true},
      {"video_url", gif, kChat,
       chat_about(member("video_url", R"({"url":")" + url("image/gif", gif) + "\"}")), true},
      {"audio_url", wav, kChat,
       chat_about(member("audio_url", R"({"url":")" + url("audio/wav", wav) + "\"}")), true},
      {"input_audio", wav, kChat,
       chat_about(member("input_audio", R"({"data":")" + base64(wav) + R"(","format":"wav"})")),
       true},
      {"file: PDF", pdf, kChat,
       chat_about(member("file", R"({"file_data":")" + url("application/pdf", pdf) + "\"}")),
       reads_pdf},
      {"file: PDF with a name", pdf, kChat,
       chat_about(member(
           "file", R"({"filename":"a.pdf","file_data":")" + url("application/pdf", pdf) + "\"}")),
       reads_pdf},
      {"file: text", note, kChat,
       chat_about(member("file", R"({"file_data":")" + url("text/plain", note) + "\"}"))},
      {"file: base64 alone", pdf, kChat,
       chat_about(member("file", R"({"file_data":")" + base64(pdf) + "\"}"))},
      {"input_image", png, kChat,
       chat_about(R"({"type":"input_image","image_url":")" + url("image/png", png) + "\"}")},
      {"image of another API", png, kChat,
       chat_about(R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":")" +
                  base64(png) + "\"}}")},
      {"image_embeds", png, kChat, chat_about(member("image_embeds", "\"" + base64(png) + "\""))},
      {"a further member of a part", png, kChat,
       chat_about(R"({"type":"text","text":"t","picture":")" + url("image/png", png) + "\"}")},
      {"a data URL within a text", png, kChat,
       chat_about(R"({"type":"text","text":"see )" + url("image/png", png) + R"( here"})"), true},
      {"a message's own field", png, kChat,
       R"({"model":"m","temperature":0,"messages":[{"role":"user","content":"q","images":[")" +
           base64(png) + R"("]}]})"},
      {"a field of the body", pdf, kChat,
       chat_about(R"({"type":"text","text":"t"})",
                  R"(,"documents":[{"data":")" + base64(pdf) + "\"}]")},
      {"a tool's result", png, kChat,
       R"({"model":"m","temperature":0,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"image_url","image_url":{"url":")" +
           url("image/png", png) + R"("}}]}]})"},
      {"a call's arguments", png, kChat,
       R"({"model":"m","temperature":0,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"p\":\")" +
           url("image/png", png) +
           R"(\"}"}}]},{"role":"tool","tool_call_id":"c","content":"t"}]})"},
      {"a completion's prompt", png, "/v1/completions",
       R"({"model":"m","temperature":0,"max_tokens":4,"prompt":[{"prompt_string":"q","multimodal_data":[")" +
           base64(png) + R"("]}]})"},
      {"an embedding's input", png, "/v1/embeddings",
       R"({"model":"m","input":[{"image":")" + url("image/png", png) + R"("}]})"},
  };
  const auto anthropic = [](const std::string& block) {
    return R"({"model":"m","temperature":0,"max_tokens":4,"messages":[{"role":"user","content":[)" +
           block + R"(,{"type":"text","text":"q"}]}]})";
  };
  const auto source = [](const std::string& type, const std::string& media,
                         const std::string& data) {
    return R"({"type":")" + type + R"(","media_type":")" + media + R"(","data":")" + data + "\"}";
  };
  const std::string words(reinterpret_cast<const char*>(note.data()), note.size());
  all.push_back(
      {"Anthropic: image", png, "/v1/messages",
       anthropic(R"({"type":"image","source":)" + source("base64", "image/png", base64(png)) + "}"),
       true});
  all.push_back({"Anthropic: PDF document", pdf, "/v1/messages",
                 anthropic(R"({"type":"document","source":)" +
                           source("base64", "application/pdf", base64(pdf)) + "}"),
                 reads_pdf});
  all.push_back(
      {"Anthropic: text document", note, "/v1/messages",
       anthropic(R"({"type":"document","source":)" + source("text", "text/plain", words) + "}"),
       true});
  const auto responses = [](const std::string& part) {
    return R"({"model":"m","temperature":0,"max_output_tokens":4,"input":[{"role":"user","content":[)" +
           part + R"(,{"type":"input_text","text":"q"}]}]})";
  };
  all.push_back(
      {"Responses: image", png, "/v1/responses",
       responses(R"({"type":"input_image","image_url":")" + url("image/png", png) + "\"}"), true});
  all.push_back({"Responses: PDF file", pdf, "/v1/responses",
                 responses(R"({"type":"input_file","filename":"a.pdf","file_data":")" +
                           url("application/pdf", pdf) + "\"}"),
                 reads_pdf});
  all.push_back({"Responses: text file", note, "/v1/responses",
                 responses(R"({"type":"input_file","filename":"a.txt","file_data":")" +
                           url("text/plain", note) + "\"}"),
                 true});
  return all;
}

/// A gateway in one of the modes.
struct Served {
  std::string name;
  std::function<Said(const Sent&)> post;
  std::function<json(const std::string& path, const std::string& body)> admin;
  bool is_engine = false;
};

// Regression: behind --upstream a PDF was no media, and its answers went on after it was erased.
void check(const std::vector<Sent>& all, const Served& served, bool erases) {
  int tried = 0;
  for (const Sent& sent : all) {
    if (served.is_engine && !sent.engine_takes_it) continue;
    const std::string what = served.name + (erases ? ", erase, " : ", invalidate, ") + sent.name;
    ++tried;
    ASSERT_EQ(served.post(sent).status, 200U) << what;
    ASSERT_EQ(served.post(sent).header("X-Cache"), "HIT") << what;
    const std::string digest = to_hex(sha256(sent.file));
    if (erases) {
      const json done = served.admin("/admin/api/erase", R"({"media":")" + digest + "\"}");
      EXPECT_GE(done.value("answers", 0), 1) << what << ": " << done.dump();
    } else {
      const json done =
          served.admin("/admin/api/invalidate", R"({"dry_run":false,"media":")" + digest + "\"}");
      EXPECT_GE(done.value("entries", 0), 1) << what << ": " << done.dump();
    }
    EXPECT_EQ(served.post(sent).header("X-Cache"), "MISS") << what;
  }
  EXPECT_GE(tried, served.is_engine ? 9 : 20);
}

void answer(const HttpRequest& request, const Responder& responder) {
  const auto reply = [&](const json& body) {
    responder.reply({.headers = {{"Content-Type", "application/json"}}, .body = body.dump()});
  };
  const json usage{{"prompt_tokens", 1}, {"completion_tokens", 1}, {"total_tokens", 2}};
  if (request.target == "/v1/completions") {
    const json choice{{"index", 0}, {"text", "answer"}, {"finish_reason", "stop"}};
    return reply({{"id", "c"},
                  {"object", "text_completion"},
                  {"created", 1},
                  {"model", "m"},
                  {"choices", json::array({choice})},
                  {"usage", usage}});
  }
  if (request.target == "/v1/embeddings") {
    const json vector{{"object", "embedding"}, {"index", 0}, {"embedding", {0.5}}};
    return reply(
        {{"object", "list"}, {"model", "m"}, {"data", json::array({vector})}, {"usage", usage}});
  }
  Model::chat(request, responder);
}

TEST(EraseMedia, EveryPartThatHoldsBytesBehindAnotherServer) {
  const std::vector<Sent> all = everything();
  for (const bool erases : {true, false}) {
    Running running;
    running.model.answers(answer);
    const Served served{
        .name = "upstream",
        .post = [&](const Sent& sent) { return running.post(sent.path, sent.body); },
        .admin = [&](const std::string& path,
                     const std::string& body) { return running.admin("POST", path, body); }};
    check(all, served, erases);
  }
}

TEST(EraseMedia, EveryPartThatHoldsBytesOnTheBuiltInEngine) {
  const std::vector<Sent> all = everything();
  for (const bool erases : {true, false}) {
    BuiltInGateway gateway;
    const Served served{
        .name = "engine",
        .post = [&](const Sent& sent) { return gateway.post(sent.path, sent.body); },
        .admin = [&](const std::string& path,
                     const std::string& body) { return gateway.admin("POST", path, body); },
        .is_engine = true};
    check(all, served, erases);
  }
}

TEST(EraseMedia, WhatAnotherFileMadeStays) {
  Running running;
  const auto about = [](const std::string& text) {
    return chat_about(R"({"type":"file","file":{"file_data":")" +
                      url("application/pdf", content(text)) + "\"}}");
  };
  running.chat(about("%PDF-one"));
  running.chat(about("%PDF-two"));
  const json done = running.admin("POST", "/admin/api/erase",
                                  R"({"media":")" + to_hex(sha256(content("%PDF-one"))) + "\"}");
  EXPECT_EQ(done["answers"], 1) << done.dump();
  EXPECT_EQ(running.chat(about("%PDF-two")).header("X-Cache"), "HIT");
}

// Regression: of a file that became a text of the chat, nothing said that the answer was about it.
TEST(EraseMedia, AnUploadedTextErasesWhatWasAskedAboutIt) {
  Running running;
  const std::string note = "the note";
  const std::string form =
      "--b\r\nContent-Disposition: form-data; "
      "name=\"purpose\"\r\n\r\nuser_data\r\n--b\r\nContent-Disposition: "
      "form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\n" +
      note + "\r\n--b--\r\n";
  const Said uploaded =
      running.post("/v1/files", form, "Content-Type: multipart/form-data; boundary=b\r\n");
  ASSERT_EQ(uploaded.status, 200U) << uploaded.body;
  const std::string id = json::parse(uploaded.body)["id"];
  ASSERT_EQ(running.chat(chat_about(R"({"type":"file","file":{"file_id":")" + id + "\"}}")).status,
            200U);
  const json done = running.admin("POST", "/admin/api/erase",
                                  R"({"media":")" + to_hex(sha256(content(note))) + "\"}");
  EXPECT_EQ(done["answers"], 1) << done.dump();
  EXPECT_EQ(done["files"], 1) << done.dump();
}

}  // namespace
}  // namespace afterimage

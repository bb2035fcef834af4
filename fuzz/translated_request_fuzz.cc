// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are a request of Anthropic's /v1/messages or OpenAI's /v1/responses, or an error. A request
// becomes JSON that is a chat completion, except where it holds bad base64; the same bytes become the same.
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "gateway/anthropic/messages_request.h"
#include "gateway/openai/request.h"
#include "gateway/protocol/chat_files.h"
#include "gateway/responses/responses_request.h"
#include "json_check.h"

using namespace afterimage;
using testing::is_json;

namespace {

Result<UploadedFile> find_file(std::string_view id) {
  if (!id.starts_with("file-")) return fail(ErrorCode::kNotFound, "there is none");
  return UploadedFile{.type = id.ends_with("t") ? "text/plain" : "image/png",
                      .bytes = std::make_shared<const std::string>("bytes")};
}

Result<std::shared_ptr<const StoredResponse>> find_response(std::string_view id) {
  if (!id.starts_with("resp_")) return fail(ErrorCode::kNotFound, "there is none");
  return std::make_shared<const StoredResponse>(StoredResponse{
      .response = "{}", .items = "[]", .messages = R"({"role":"user","content":"x"})"});
}

void check_chat(const std::string& chat) {
  AFI_CHECK(is_json(chat));
  const auto read = read_api_request(ApiOperation::kChat, chat, ApiReader::kOtherServer);
  AFI_CHECK(read.has_value() || read.error().message.contains("cannot be decoded") ||
            read.error().message.contains("non-empty string") ||
            read.error().message.contains("cache") || read.error().message.contains("seed"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const auto use : {MessagesUse::kAnswer, MessagesUse::kCount}) {
    const auto messages = read_messages_request(body, find_file, use);
    if (!messages.has_value()) {
      AFI_CHECK(!messages.error().message.empty());
      continue;
    }
    check_chat(messages->chat);
    AFI_CHECK(read_messages_request(body, find_file, use)->chat == messages->chat);
  }
  const auto responses = read_responses_request(body, find_file, find_response, "7");
  if (responses.has_value()) {
    check_chat(responses->chat);
    AFI_CHECK(is_json(responses->items));
    AFI_CHECK(is_json("[" + responses->messages + "]"));
    AFI_CHECK(is_json("{" + responses->echo + "}"));
  }
  const auto with_files = with_uploaded_files(body, find_file);
  if (with_files.has_value() && with_files->has_value()) AFI_CHECK(is_json(**with_files));
  return 0;
}

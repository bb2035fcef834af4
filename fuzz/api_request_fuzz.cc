// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are a request or an error. A parsed request is JSON, its media are where the parser
// says, and with the fetched media inserted it parses again.
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "gateway/openai/request.h"
#include "json_check.h"

using namespace afterimage;
using testing::is_json;

namespace {

void check(ApiOperation operation, ApiReader reader, std::string_view body) {
  auto request = read_api_request(operation, body, reader);
  if (!request.has_value()) return;
  AFI_CHECK(is_json(body));
  AFI_CHECK(with_fetched_media(body, request->media) == body);
  if (reader == ApiReader::kEngine) static_cast<void>(engine_request(*request));
  const std::vector<ContentDigest> contents(request->media.size());
  static_cast<void>(scope_of(*request, contents, {}));
  for (ApiMedia& media : request->media) {
    const bool is_document = media.end == 0;  // files are in the body, and not by address
    AFI_CHECK(is_document ? media.bytes != nullptr
                          : media.begin < media.end && media.end <= body.size());
    AFI_CHECK(is_document || (body[media.begin] == '"' && body[media.end - 1] == '"'));
    AFI_CHECK(media.address.empty() == (media.bytes != nullptr));
    if (!media.bytes) media.bytes = std::make_shared<const std::vector<std::byte>>(4);
  }
  const auto fetched =
      read_api_request(operation, with_fetched_media(body, request->media), reader);
  AFI_CHECK(fetched.has_value() && fetched->media.size() == request->media.size());
  AFI_CHECK(fetched->question == request->question);
  for (const ApiMedia& media : fetched->media) AFI_CHECK(media.bytes != nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const auto operation :
       {ApiOperation::kChat, ApiOperation::kCompletion, ApiOperation::kEmbedding}) {
    check(operation, ApiReader::kEngine, body);
    check(operation, ApiReader::kOtherServer, body);
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are a request or an error. With its last byte changed it is another request, or none: no byte of
// a file or of a field is left out of what a request is.
#include <cstdint>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "fuzz_input.h"
#include "gateway/endpoints/endpoint_request.h"
#include "gateway/files/multipart.h"

using namespace afterimage;

namespace {

void check_last_byte(ApiOperation operation, std::string_view type, std::string body,
                     const ApiRequest& request) {
  const auto parts = parse_multipart(type, body, RepeatedNames::kAllowed);
  if (!parts.has_value() || parts->empty() || parts->back().content.empty()) return;
  if (!parts->back().is_file) return;  // the user, or a number with two spellings
  const std::string_view content = parts->back().content;
  const std::size_t last =
      static_cast<std::size_t>(content.data() - body.data()) + content.size() - 1;
  body[last] = static_cast<char>(body[last] ^ 1);
  const auto other = read_endpoint_request(operation, type, body);
  AFI_CHECK(!other.has_value() || other->scope.other != request.scope.other);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  testing::FuzzInput input(data, size);
  const std::string_view type = input.until('\n');
  const std::string_view body = input.rest();
  for (const auto operation : {ApiOperation::kTranscription, ApiOperation::kRerank,
                               ApiOperation::kImageEdit, ApiOperation::kSpeech}) {
    const auto request = read_endpoint_request(operation, type, body);
    if (!request.has_value()) continue;
    AFI_CHECK(request->operation == operation && request->media.empty());
    check_last_byte(operation, type, std::string(body), *request);
  }
  return 0;
}

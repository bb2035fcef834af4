// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are a form or an error. The parts of a form lie in its body, and written out again they are
// the same form.
#include <cstdint>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "fuzz_input.h"
#include "gateway/files/multipart.h"

using namespace afterimage;

namespace {

std::string in_quotes(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') made.push_back('\\');
    made.push_back(c);
  }
  return made + "\"";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  testing::FuzzInput input(data, size);
  const std::string_view type = input.until('\n');
  const std::string_view body = input.rest();
  const auto parts = parse_multipart(type, body);
  if (!parts.has_value()) return 0;
  std::string again;
  // Not in the body: longer than it.
  const std::string boundary = "b" + std::string(60, '7');
  if (body.contains(boundary)) return 0;
  for (const FormPart& part : *parts) {
    AFI_CHECK(part.content.data() >= body.data() &&
              part.content.data() + part.content.size() <= body.data() + body.size());
    again += "--" + boundary + "\r\nContent-Disposition: form-data; name=" + in_quotes(part.name);
    again += "; filename=" + in_quotes(part.filename) + "\r\n\r\n";
    again.append(part.content).append("\r\n");
  }
  again += "--" + boundary + "--\r\n";
  const auto reread = parse_multipart("multipart/form-data; boundary=" + boundary, again);
  AFI_CHECK(reread.has_value() && reread->size() == parts->size());
  for (std::size_t i = 0; i < parts->size(); ++i) {
    AFI_CHECK((*reread)[i].name == (*parts)[i].name);
    AFI_CHECK((*reread)[i].filename == (*parts)[i].filename);
    AFI_CHECK((*reread)[i].content == (*parts)[i].content);
  }
  return 0;
}

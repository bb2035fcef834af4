// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>

#include "afterimage/result.h"
#include "foundation/json/json_text.h"
#include "foundation/text/data_url.h"
#include "gateway/openai/request.h"

namespace afterimage {
namespace {

std::string as_data_url(const ApiMedia& media) {
  constexpr std::string_view kBesidesLetters = "!#$&^_.+-/;=";
  const auto option = media.options.find("mime");
  const bool is_type = option != media.options.end() && !option->second.empty() &&
                       std::ranges::all_of(option->second, [&](char c) {
                         return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                (c >= '0' && c <= '9') || kBesidesLetters.contains(c);
                       });
  return "data:" + (is_type ? option->second : "application/octet-stream") + ";base64," +
         encode_base64(*media.bytes);
}

}  // namespace

std::string with_fetched_media(std::string_view body, std::span<const ApiMedia> media) {
  std::string text;
  std::size_t copied = 0;
  for (const ApiMedia& item : media) {
    if (item.address.empty() || item.bytes == nullptr) continue;
    AFI_CHECK(copied <= item.begin && item.begin <= item.end && item.end <= body.size());
    text.append(body, copied, item.begin - copied);
    append_json_string(text, as_data_url(item));
    copied = item.end;
  }
  return text.append(body.substr(copied));
}

}  // namespace afterimage

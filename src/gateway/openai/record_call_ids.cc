// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/record_call_ids.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace afterimage {
namespace {

constexpr std::size_t kLeastRandom = 8;

/// With the beginning and the length of `id`: some models know their ids by these.
std::string other_id(const std::string& id, const std::string& random) {
  const std::size_t mark = id.find_last_of("_-");
  std::size_t keep = mark == std::string::npos ? 0 : mark + 1;
  if (id.size() - keep < kLeastRandom) keep = id.size() - std::min(id.size(), kLeastRandom);
  std::string other = id.substr(0, keep);
  while (other.size() < id.size()) other.push_back(random[(other.size() - keep) % random.size()]);
  return other;
}

/// Whether the string at `at` is the value of a member "id". Within a text quotes are escaped, so this is
/// never part of one.
bool is_value_of_id(std::string_view json, std::size_t at) {
  constexpr std::string_view kName = "\"id\"";
  const auto skip_spaces = [&] {
    while (at > 0 && json[at - 1] == ' ') --at;
  };
  skip_spaces();
  if (at == 0 || json[at - 1] != ':') return false;
  --at;
  skip_spaces();
  return json.substr(0, at).ends_with(kName);
}

}  // namespace

bool says_call_id(const ApiRecord& record, std::span<const std::string> ids) {
  if (ids.empty()) return false;
  const std::string said = record.has_body() ? record.body({}) : record.text();
  return std::ranges::any_of(ids, [&](const std::string& id) { return said.contains(id); });
}

ApiRecord with_fresh_call_ids(ApiRecord record, std::span<const std::string> taken,
                              const std::function<std::string()>& random) {
  if (taken.empty() || !record.calls_tools()) return record;
  std::string bytes = record.serialize();
  bool is_other = false;
  for (const std::string& id : taken) {
    const std::string value = '"' + id + '"';
    std::string other;
    for (std::size_t at = bytes.find(value); at != std::string::npos;
         at = bytes.find(value, at + value.size())) {
      if (!is_value_of_id(bytes, at)) continue;
      if (other.empty()) other = other_id(id, random());
      bytes.replace(at + 1, id.size(), other);
      is_other = true;
    }
  }
  if (!is_other) return record;
  // No length has changed, so it is a record still.
  auto made = ApiRecord::parse(bytes);
  return made.has_value() ? *std::move(made) : record;
}

}  // namespace afterimage

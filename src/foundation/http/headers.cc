// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/headers.h"

#include <algorithm>

namespace afterimage {

bool same_header(std::string_view one, std::string_view other) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(one, other, {}, lower, lower);
}

bool has_media_type(const HttpHeaders& headers, std::string_view type) {
  const std::string_view found = headers.find("content-type").value_or("");
  return same_header(found.substr(0, type.size()), type);
}

void HttpHeaders::add(std::string name, std::string value) {
  fields_.emplace_back(std::move(name), std::move(value));
}

void HttpHeaders::set(std::string_view name, std::string value) {
  remove(name);
  fields_.emplace_back(name, std::move(value));
}

void HttpHeaders::remove(std::string_view name) {
  remove_if([&](std::string_view field) { return same_header(field, name); });
}

HttpHeaders HttpHeaders::copy_with_room(std::size_t more) const {
  HttpHeaders copy;
  copy.fields_.reserve(fields_.size() + more);
  copy.fields_.insert(copy.fields_.end(), fields_.begin(), fields_.end());
  return copy;
}

std::optional<std::string_view> HttpHeaders::find(std::string_view name) const {
  const auto it = std::ranges::find_if(
      fields_, [&](const auto& field) { return same_header(field.first, name); });
  if (it == fields_.end()) return std::nullopt;
  return it->second;
}

std::optional<std::string> HttpHeaders::joined(std::string_view name) const {
  std::optional<std::string> all;
  for (const auto& [field, value] : fields_) {
    if (!same_header(field, name)) continue;
    if (all.has_value()) {
      *all += ", " + value;
    } else {
      all = value;
    }
  }
  return all;
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/attached_bytes.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "foundation/crypto/sha256.h"
#include "foundation/text/data_url.h"

namespace afterimage {
namespace {

constexpr std::size_t kLeastBase64 = 64;  // characters: shorter ones are names and numbers
constexpr std::string_view kBase64 = ";base64,";

bool is_of_base64(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
         c == '/' || c == '-' || c == '_' || c == '=' || c == '\n' || c == '\r';
}

/// As servers read it: also with line ends, in the alphabet for URLs, and without padding.
std::optional<std::vector<std::byte>> bytes_of(std::string_view base64) {
  std::string strict;
  strict.reserve(base64.size() + 2);
  for (const char c : base64) {
    if (c != '\n' && c != '\r' && c != '=') strict.push_back(c == '-' ? '+' : c == '_' ? '/' : c);
  }
  while (strict.size() % 4 != 0) strict.push_back('=');
  auto bytes = decode_base64(strict);
  if (!bytes.has_value() || bytes->empty()) return std::nullopt;
  return *std::move(bytes);
}

void add(std::span<const std::byte> bytes, std::vector<ContentDigest>& found) {
  const ContentDigest digest{sha256(bytes)};
  if (std::ranges::find(found, digest) == found.end()) found.push_back(digest);
}

}  // namespace

void add_data_urls(std::string_view text, std::vector<ContentDigest>& found) {
  if (is_data_url(text)) {
    const auto whole = decode_data_url(text);
    if (whole.has_value()) return add(whole->bytes, found);
  }
  for (std::size_t at = text.find(kBase64); at != std::string_view::npos;
       at = text.find(kBase64, at)) {
    at += kBase64.size();
    const std::string_view rest = text.substr(at);
    const auto* const end = std::ranges::find_if_not(rest, is_of_base64);
    const auto bytes = bytes_of(rest.substr(0, static_cast<std::size_t>(end - rest.begin())));
    if (bytes.has_value()) add(*bytes, found);
  }
}

void add_attached(const JsonValue& value, std::vector<ContentDigest>& found) {
  if (value.is(JsonKind::kString)) {
    const std::string_view text = value.text();
    const bool is_base64 = text.size() >= kLeastBase64 && std::ranges::all_of(text, is_of_base64);
    const auto bytes = is_base64 ? bytes_of(text) : std::nullopt;
    if (!bytes.has_value()) return add_data_urls(text, found);
    return add(*bytes, found);
  }
  if (value["type"].text() == "text" && value["data"].is(JsonKind::kString)) {
    add(std::as_bytes(std::span(value["data"].text())), found);
  }
  for (const JsonValue member : value) add_attached(member, found);
}

void add_attached_members(const JsonValue& object, std::initializer_list<std::string_view> without,
                          std::vector<ContentDigest>& found) {
  for (const JsonValue member : object) {
    if (std::ranges::find(without, member.key()) == without.end()) add_attached(member, found);
  }
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/control_tokens.h"

#include <algorithm>
#include <utility>

namespace afterimage {

ControlTokens::ControlTokens(std::vector<std::string> spellings) {
  for (std::string& spelling : spellings) {
    if (spelling.size() < 2) continue;
    lengths_.push_back(spelling.size());
    if (!first_bytes_.contains(spelling.front())) first_bytes_ += spelling.front();
    spellings_.insert(std::move(spelling));
  }
  std::ranges::sort(lengths_);
  const auto repeated = std::ranges::unique(lengths_);
  lengths_.erase(repeated.begin(), repeated.end());
}

bool ControlTokens::begins_one(std::string_view text) const {
  if (!first_bytes_.contains(text.front())) return false;
  return std::ranges::any_of(lengths_, [&](std::size_t length) {
    return length <= text.size() && spellings_.contains(std::string(text.substr(0, length)));
  });
}

std::string ControlTokens::broken_by(std::string_view separator, std::string text) const {
  const std::string_view whole = text;
  std::string broken;
  std::size_t copied = 0;  // bytes of the text that are in `broken`
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (!begins_one(whole.substr(at))) continue;
    // After its first byte: occurrences that overlap are each broken by a separator of their own.
    broken.append(whole, copied, at + 1 - copied).append(separator);
    copied = at + 1;
  }
  if (copied == 0) return text;  // nearly always: a long chat is not copied
  return broken.append(whole, copied);
}

std::vector<std::string_view> split_at(std::string_view separator, std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

}  // namespace afterimage

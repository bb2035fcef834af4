// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/text/valid_text.h"

#include <algorithm>

namespace afterimage {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kCut = "\xE2\x80\xA6";

bool within(char c, unsigned low, unsigned high) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= low && byte <= high;
}

/// The length that a lead byte announces and the range of the second byte (Unicode 15, table 3-7,
/// which excludes overlong forms, surrogates and code points beyond U+10FFFF).
struct Lead {
  std::size_t size = 0;
  unsigned low = 0x80;
  unsigned high = 0xBF;
};

Lead lead_of(char c) {
  if (within(c, 0x00, 0x7F)) return {1};
  if (within(c, 0xC2, 0xDF)) return {2};
  if (within(c, 0xE0, 0xE0)) return {3, 0xA0, 0xBF};
  if (within(c, 0xED, 0xED)) return {3, 0x80, 0x9F};
  if (within(c, 0xE1, 0xEF)) return {3};
  if (within(c, 0xF0, 0xF0)) return {4, 0x90, 0xBF};
  if (within(c, 0xF4, 0xF4)) return {4, 0x80, 0x8F};
  if (within(c, 0xF1, 0xF3)) return {4};
  return {};
}

/// Length of the character at the start of `text`; 0: it is not valid.
std::size_t character_size(std::string_view text) {
  const Lead lead = lead_of(text.front());
  if (lead.size <= 1) return lead.size;
  if (text.size() < lead.size || !within(text[1], lead.low, lead.high)) return 0;
  const std::string_view rest = text.substr(2, lead.size - 2);
  return std::ranges::all_of(rest, [](char c) { return within(c, 0x80, 0xBF); }) ? lead.size : 0;
}

/// Whether `text` is an incomplete but so far valid character.
bool is_begun(std::string_view text) {
  const Lead lead = lead_of(text.front());
  if (text.size() >= lead.size) return false;
  if (text.size() > 1 && !within(text[1], lead.low, lead.high)) return false;
  return text.size() < 3 || within(text[2], 0x80, 0xBF);
}

}  // namespace

std::string TextPieces::add(std::string_view bytes) {
  begun_.append(bytes);
  std::string whole;
  std::string_view rest = begun_;
  while (!rest.empty() && !is_begun(rest)) {
    const std::size_t size = character_size(rest);
    whole.append(size == 0 ? kReplacement : rest.substr(0, size));
    rest.remove_prefix(std::max<std::size_t>(size, 1));
  }
  begun_.erase(0, begun_.size() - rest.size());
  return whole;
}

std::string TextPieces::finish() {
  std::string last;
  for (; !begun_.empty(); begun_.pop_back()) last.append(kReplacement);
  return last;
}

std::string valid_text(std::string_view text, std::size_t most_bytes) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const std::string_view next = size == 0 ? kReplacement : text.substr(0, size);
    if (out.size() + next.size() > most_bytes) return out.append(kCut);
    out.append(next);
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out;
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/usage_scan.h"

#include <algorithm>
#include <charconv>

namespace afterimage {
namespace {

constexpr std::size_t kKept = 64;
constexpr std::string_view kMark = "_tokens\":";
constexpr std::string_view kLlamaMark = "_n\":";  // of "cache_n"
constexpr std::uint64_t kMost = 1'000'000'000;

/// nullopt: it is no count, or may go on in the next piece.
std::optional<std::uint64_t> count_in(std::string_view value) {
  while (value.starts_with(' ')) value.remove_prefix(1);
  std::uint64_t count = 0;
  const char* const end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, count);
  if (read.ec != std::errc() || read.ptr == end || count > kMost) return std::nullopt;
  return count;
}

}  // namespace

void UsageScan::feed(std::string_view bytes) {
  // The seam first, then the piece itself: nothing is copied but the seam.
  const std::size_t begin = std::min(bytes.size(), kKept);
  if (!rest_.empty()) {
    scan(rest_ + std::string(bytes.substr(0, begin)));
  }
  scan(bytes);
  rest_.append(bytes.size() > kKept ? bytes.substr(bytes.size() - kKept) : bytes);
  if (rest_.size() > kKept) rest_.erase(0, rest_.size() - kKept);
}

void UsageScan::scan(std::string_view bytes) {
  std::optional<std::size_t> timing;  // the last one
  for (std::size_t at = bytes.find('_'); at != std::string_view::npos;
       at = bytes.find('_', at + 1)) {
    const std::string_view before = bytes.substr(0, at);
    const std::string_view name = bytes.substr(at);
    if (name.starts_with(kLlamaMark) && before.ends_with("\"cache")) timing = at;
    if (!name.starts_with(kMark)) continue;
    const auto count = count_in(name.substr(kMark.size(), kKept));
    if (!count.has_value()) continue;
    if (before.ends_with("\"prompt") || before.ends_with("\"input")) prompt_ = count;
    if (before.ends_with("\"completion") || before.ends_with("\"output")) output_ = count;
    if (before.ends_with("\"cached")) cached_ = count;
  }
  if (!timing.has_value()) return;
  if (const auto count = count_in(bytes.substr(*timing + kLlamaMark.size(), kKept))) {
    cached_ = count;
  }
}

}  // namespace afterimage

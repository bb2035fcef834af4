// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/sleep_state.h"

#include <algorithm>
#include <charconv>

namespace afterimage {
namespace {

constexpr std::size_t kLongestLine = 4096;

}  // namespace

void SleepState::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + part.size() > kLongestLine) {
      is_long_ = true;
      line_.clear();
    }
    if (!is_long_) line_.append(part);
    if (end == std::string_view::npos) return;
    if (!is_long_) read_line(line_);
    line_.clear();
    is_long_ = false;
    bytes.remove_prefix(end + 1);
  }
}

void SleepState::read_line(std::string_view line) {
  if (!line.starts_with("vllm:engine_sleep_state{")) return;
  const std::size_t labels = line.rfind('}');
  if (labels == std::string_view::npos) return;
  if (!line.substr(0, labels).contains("sleep_state=\"awake\"")) return;
  std::string_view value = line.substr(labels + 1);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  double awake = 0;
  if (std::from_chars(value.data(), value.data() + value.size(), awake).ec != std::errc()) return;
  asleep_ = asleep_.value_or(false) || awake == 0;
}

}  // namespace afterimage

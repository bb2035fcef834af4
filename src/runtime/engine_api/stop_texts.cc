// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/engine_api/stop_texts.h"

#include <algorithm>
#include <utility>

namespace afterimage {

StopTexts::StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
}

bool StopTexts::may_begin_one(std::string_view text) const {
  return std::ranges::any_of(stops_,
                             [&](const std::string& stop) { return stop.starts_with(text); });
}

std::string StopTexts::add(std::string_view piece) {
  if (found_) return "";
  held_ += piece;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
  found_ = end != std::string::npos;
  if (!found_) {
    end = 0;
    while (end < held_.size() && !may_begin_one(std::string_view(held_).substr(end))) ++end;
  }
  std::string released = held_.substr(0, end);
  held_.erase(0, found_ ? held_.size() : end);
  return released;
}

std::string StopTexts::finish() { return std::exchange(held_, {}); }

}  // namespace afterimage

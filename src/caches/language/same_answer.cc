// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/language/same_answer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "foundation/text/ascii.h"

namespace afterimage {
namespace {

/// The words in lower case, without trailing punctuation; empty ones are dropped.
std::vector<std::string> said(std::string_view text) {
  std::vector<std::string> words;
  const std::string lower = ascii::lowered(text);
  for (std::size_t at = 0; at < lower.size();) {
    const std::size_t begin = lower.find_first_not_of(" \t\r\n", at);
    if (begin == std::string::npos) break;
    const std::size_t end = std::min(lower.find_first_of(" \t\r\n", begin), lower.size());
    std::string word = lower.substr(begin, end - begin);
    word.erase(word.find_last_not_of(".,;:!?") + 1);
    if (!word.empty()) words.push_back(std::move(word));
    at = end;
  }
  return words;
}

std::optional<double> number(const std::string& word) {
  constexpr std::array<std::string_view, 13> kNames{"zero", "one",    "two",   "three", "four",
                                                    "five", "six",    "seven", "eight", "nine",
                                                    "ten",  "eleven", "twelve"};
  if (const auto* named = std::ranges::find(kNames, word); named != kNames.end()) {
    return static_cast<double>(named - kNames.begin());
  }
  double value = 0.0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::multiset<double> numbers(const std::vector<std::string>& words) {
  std::multiset<double> found;
  for (const std::string& word : words) {
    if (const auto value = number(word)) found.insert(*value);
  }
  return found;
}

std::optional<bool> verdict(const std::vector<std::string>& words) {
  if (words.empty()) return std::nullopt;
  if (words.front() == "yes" || words.front() == "true") return true;
  if (words.front() == "no" || words.front() == "false") return false;
  return std::nullopt;
}

}  // namespace

SameAnswer same_answer(std::string_view a, std::string_view b) {
  const std::vector<std::string> one = said(a);
  const std::vector<std::string> other = said(b);
  if (one == other) return a == b || !one.empty() ? SameAnswer::kSame : SameAnswer::kUnclear;
  const std::multiset<double> one_numbers = numbers(one);
  const std::multiset<double> other_numbers = numbers(other);
  if (!one_numbers.empty() && !other_numbers.empty() && one_numbers != other_numbers) {
    return SameAnswer::kDifferent;
  }
  const auto one_verdict = verdict(one);
  const auto other_verdict = verdict(other);
  if (one_verdict.has_value() && other_verdict.has_value()) {
    return one_verdict == other_verdict ? SameAnswer::kSame : SameAnswer::kDifferent;
  }
  const bool only_numbers = one.size() == 1 && other.size() == 1 && !one_numbers.empty();
  return only_numbers && one_numbers == other_numbers ? SameAnswer::kSame : SameAnswer::kUnclear;
}

}  // namespace afterimage

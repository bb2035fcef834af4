// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/retry_after.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <string>
#include <string_view>

#include "gateway/proxy/backend.h"

namespace afterimage {
namespace {

/// Of the whole text; nullopt: it is not a number.
template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

/// "Sun, 06 Nov 1994 08:49:37 GMT", the form that RFC 9110 has servers write.
std::optional<WallTime> http_date(std::string_view text) {
  constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  if (text.size() != 29 || !text.ends_with(" GMT")) return std::nullopt;
  const auto month = std::ranges::find(kMonths, text.substr(8, 3));
  const auto day = number_in<unsigned>(text.substr(5, 2));
  const auto year = number_in<int>(text.substr(12, 4));
  const auto hour = number_in<int>(text.substr(17, 2));
  const auto minute = number_in<int>(text.substr(20, 2));
  const auto second = number_in<int>(text.substr(23, 2));
  if (month == kMonths.end() || !day || !year || !hour || !minute || !second) return std::nullopt;
  const auto index = static_cast<unsigned>(month - kMonths.begin()) + 1;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(index),
                                         std::chrono::day(*day)};
  if (!date.ok() || *year > 2200) return std::nullopt;
  return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute) + std::chrono::seconds(*second);
}

bool is_long(double seconds) {
  return seconds > std::chrono::duration<double>(kLongestRetryWait).count();
}

/// As the official clients read it: milliseconds first.
bool asks_to_wait_long(const HttpHeaders& headers, WallTime now) {
  if (const auto text = headers.find("retry-after-ms"); text.has_value()) {
    if (const auto wait = number_in<double>(*text); wait.has_value()) return is_long(*wait / 1'000);
  }
  const auto text = headers.find("retry-after");
  if (!text.has_value()) return false;
  if (const auto wait = number_in<double>(*text); wait.has_value()) return is_long(*wait);
  const auto date = http_date(*text);
  return date.has_value() && *date - now > kLongestRetryWait;
}

}  // namespace

void add_retry_after(HttpHeaders& headers, const std::optional<Duration>& wait) {
  if (!wait.has_value()) return;
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(*wait).count();
  headers.set("Retry-After", std::to_string(std::max<std::int64_t>(1, seconds)));
  if (*wait > kLongestRetryWait) headers.set(kShouldRetry, "false");
}

void add_missing_retry_after(HttpHeaders& headers) {
  for (const std::string_view name :
       {std::string_view("retry-after"), std::string_view("retry-after-ms"), kShouldRetry}) {
    if (headers.find(name).has_value()) return;
  }
  headers.add("Retry-After", "1");
}

void limit_retry_after(HttpHeaders& headers, WallTime now) {
  if (headers.find(kShouldRetry).has_value() || !asks_to_wait_long(headers, now)) return;
  headers.set(kShouldRetry, "false");
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/config/replica_setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "gateway/config/host_pattern.h"

namespace afterimage {
namespace {

constexpr double kLeastWeight = 0.01;
constexpr double kMostWeight = 100;
constexpr std::uint32_t kMostRequests = 1'000'000;
constexpr std::uint32_t kMostTokenized = 1000;  // a second
constexpr std::size_t kLongestName = 64;

std::unexpected<Error> invalid_replica(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

/// The text up to the separator, which is removed with it.
std::string_view take_word(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return word;
}

bool is_replica_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-' || c == ':' || c == '[' || c == ']';
  });
}

Result<std::string> read_endpoint(std::string_view key, std::string_view value) {
  if (value.starts_with("tcp://")) value.remove_prefix(6);
  const auto url = canonical_url("http://" + std::string(value));
  if (value.empty() || !url.has_value() || url->target.size() > 1 || !value.contains(':')) {
    return invalid_replica(
        fmt::format("{}= is not a host and a port: write {}=10.0.0.1:5557", key, key));
  }
  return std::string(value);
}

Result<void> read_option(std::string_view key, std::string_view value, ReplicaSetting& replica) {
  const char* const end = value.data() + value.size();
  if (key == "name") {
    if (!is_replica_name(value)) {
      return invalid_replica(
          fmt::format("'{}' is not a name: use 1 to 64 letters, digits, '.', '_' and '-'", value));
    }
    replica.name = value;
  } else if (key == "weight") {
    const auto read = std::from_chars(value.data(), end, replica.weight);
    // Written so that NaN is out of range.
    if (read.ec != std::errc() || read.ptr != end ||
        !(replica.weight >= kLeastWeight && replica.weight <= kMostWeight)) {
      return invalid_replica(fmt::format("weight={} is not a number between 0.01 and 100", value));
    }
  } else if (key == "limit") {
    const auto read = std::from_chars(value.data(), end, replica.limit);
    if (read.ec != std::errc() || read.ptr != end || replica.limit < 1 ||
        replica.limit > kMostRequests) {
      return invalid_replica(
          fmt::format("limit={} is not a whole number between 1 and {}", value, kMostRequests));
    }
  } else if (key == "models") {
    while (!value.empty()) {
      const std::string_view pattern = take_word(value, ',');
      if (!pattern.empty()) replica.models.emplace_back(pattern);
    }
    if (replica.models.empty()) return invalid_replica("models= names no model");
  } else if (key == "events") {
    AFI_TRY(replica.events, read_endpoint(key, value));
  } else if (key == "replay") {
    AFI_TRY(replica.replay, read_endpoint(key, value));
  } else if (key == "tokenize") {
    const auto read = std::from_chars(value.data(), end, replica.tokenize);
    if (read.ec != std::errc() || read.ptr != end || replica.tokenize > kMostTokenized) {
      return invalid_replica(
          fmt::format("tokenize={} is not a whole number between 0 and {}", value, kMostTokenized));
    }
  } else if (key == "cache_salt") {
    if (value != "true" && value != "false") {
      return invalid_replica(fmt::format("cache_salt={} is neither true nor false", value));
    }
    replica.cache_salt = value == "true";
  } else {
    return invalid_replica(
        fmt::format("'{}=' is unknown: a replica has name, weight, models, limit, events, replay, "
                    "tokenize and cache_salt",
                    key));
  }
  return {};
}

}  // namespace

/// In linear time for one star and bounded time for more.
bool fits_pattern(std::string_view pattern, std::string_view text) {
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  std::size_t p = 0;
  std::size_t t = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Result<void> check_server_url(const std::string& url) {
  constexpr std::string_view kSecure = "https://";
  const bool secure = url.starts_with(kSecure);
  const auto parsed = canonical_url(secure ? "http://" + url.substr(kSecure.size()) : url);
  if (parsed.has_value() && url.find_first_of("?#\\") == std::string::npos) {
    return {};
  }
  return invalid_replica(
      "this is not the URL of a server: write http://host, http://host:8000 or "
      "http://host:8000/base, without a user, '?' or '#'");
}

Result<ReplicaSetting> parse_replica(std::string_view text) {
  ReplicaSetting replica;
  while (!text.empty()) {
    const std::string_view word = take_word(text, ' ');
    if (word.empty()) continue;
    if (replica.url.empty()) {
      AFI_TRY_VOID(check_server_url(std::string(word)));
      replica.url = word;
      continue;
    }
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      return invalid_replica("after the URL write key=value, such as weight=2 or models=qwen*");
    }
    AFI_TRY_VOID(read_option(word.substr(0, equals), word.substr(equals + 1), replica));
  }
  if (replica.url.empty()) {
    return invalid_replica("a replica begins with the URL of its server: write http://host:8000");
  }
  if (!replica.replay.empty() && replica.events.empty()) {
    return invalid_replica("replay= needs events=");
  }
  if (replica.name.empty()) {
    const std::size_t begin = replica.url.find("://") + 3;
    replica.name = replica.url.substr(begin, replica.url.find('/', begin) - begin);
  }
  return replica;
}

bool serves_model(const ReplicaSetting& replica, std::string_view model) {
  return replica.models.empty() ||
         std::ranges::any_of(replica.models, [&](const std::string& pattern) {
           return fits_pattern(pattern, model);
         });
}

}  // namespace afterimage

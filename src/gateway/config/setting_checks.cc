// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/config/setting_checks.h"

#include <charconv>
#include <cstdint>

#include "foundation/text/ascii.h"
#include "gateway/config/budget_setting.h"
#include "gateway/config/host_pattern.h"
#include "gateway/config/replica_setting.h"
#include "gateway/config/settings.h"
#include "storage/redis/remote_address.h"

namespace afterimage {

Result<void> check_listen_address(const std::string& address) {
  if (address == "localhost" || is_numeric_host(address)) return {};
  return invalid_value(
      fmt::format("'{}' is not an IP address: write 127.0.0.1, 0.0.0.0, ::1 or localhost, "
                  "without a port or brackets",
                  address));
}

Result<void> check_kv_events(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon != std::string::npos) {
    std::string_view address = std::string_view(text).substr(0, colon);
    if (address.starts_with('[') && address.ends_with(']')) {
      address = address.substr(1, address.size() - 2);
    }
    std::uint16_t number = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + colon + 1, end, number);
    if (read.ec == std::errc() && read.ptr == end && is_numeric_host(std::string(address))) {
      return {};
    }
  }
  return invalid_value(fmt::format(
      "'{}' is not an address and a port: write 127.0.0.1:5557, 0.0.0.0:5557 or [::1]:5557", text));
}

Result<void> check_token(const std::string& token) {
  constexpr std::size_t kShortest = 16;
  constexpr std::size_t kLongest = 1024;
  const bool visible = std::ranges::all_of(token, [](char c) { return c > ' ' && c < 0x7F; });
  if (visible && token.size() >= kShortest && token.size() <= kLongest) return {};
  return invalid_value("a token must have 16 to 1024 visible ASCII characters and no spaces");
}

Result<void> check_host(const std::string& host) {
  if (canonical_host(host).has_value()) return {};
  return invalid_value(fmt::format("'{}' is not a host name: write afterimage.example.org", host));
}

Result<void> check_origin(const std::string& origin) {
  if (origin == "*") return {};
  const std::string_view text = origin;
  const std::size_t mark = text.find("://");
  const auto is_small = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const auto has_only = [&](std::string_view part, std::string_view more) {
    return !part.empty() &&
           std::ranges::all_of(part, [&](char c) { return is_small(c) || more.contains(c); });
  };
  const bool is_origin = mark != std::string_view::npos && has_only(text.substr(0, mark), "+-.") &&
                         has_only(text.substr(mark + 3), "-._:[]");
  const bool has_default_port = (text.starts_with("http://") && text.ends_with(":80")) ||
                                (text.starts_with("https://") && text.ends_with(":443"));
  if (is_origin && !has_default_port) return {};
  return invalid_value(
      fmt::format("'{}' is not an origin as browsers send it: write https://app.example.org, "
                  "http://localhost:3000 (in lower case, without a path and a default port), or *",
                  origin));
}

Result<void> check_host_pattern(const std::string& pattern) {
  AFI_TRY_VOID(parse_host_pattern(pattern));
  return {};
}

Result<void> check_absolute(const std::string& path) {
  if (path.starts_with('/')) return {};
  return invalid_value(fmt::format("'{}' is not an absolute path: begin it with /", path));
}

Result<void> check_folder(const std::string& path) {
  AFI_TRY_VOID(check_absolute(path));
  if (path.find_first_not_of('/') != std::string::npos) return {};
  return invalid_value("'/' would allow every file on this machine: name a folder");
}

Result<void> check_replica(const std::string& text) {
  AFI_TRY_VOID(parse_replica(text));
  return {};
}

Result<void> check_budget(const std::string& text) {
  AFI_TRY_VOID(parse_budget(text));
  return {};
}

Result<void> check_price(const std::string& text) {
  AFI_TRY_VOID(parse_price(text));
  return {};
}

Result<void> check_path(const std::string& path) {
  const bool plain = std::ranges::all_of(path, [](char c) { return c > ' ' && c < 0x7F; });
  if (plain && path.starts_with('/')) return {};
  return invalid_value(fmt::format("'{}' is not a path: write /health", path));
}

Result<void> check_embedder(const std::string& embedder) {
  if (embedder == kBuiltInEmbedder || is_model_file(embedder)) return {};
  if (canonical_url(embedder).has_value()) return {};
  return invalid_value(fmt::format(
      R"(write "{}", a URL such as http://host:8080/v1/embeddings, or the absolute path of a GGUF file)",
      kBuiltInEmbedder));
}

Result<void> check_verifier(const std::string& verifier) {
  if (is_model_file(verifier) || canonical_url(verifier).has_value()) return {};
  return invalid_value(
      "write a URL such as http://host:8080/v1/rerank, or the absolute path of a GGUF file");
}

Result<void> check_word(const std::string& word) {
  const bool whole = !word.empty() && word.find_first_of(" \t\r\n") == std::string::npos;
  if (whole && word == ascii::lowered(word) && !std::string_view(".,;:?!").contains(word.back())) {
    return {};
  }
  return invalid_value(
      fmt::format("'{}' is not one word in lower case, without punctuation after it", word));
}

Result<void> check_remote(const std::string& url) {
  AFI_TRY_VOID(parse_remote_url(url));
  return {};
}

Result<void> check_server_name(const std::string& name) {
  if (is_host(name)) return {};
  return invalid_value(fmt::format("'{}' is not a host name: write cache.example", name));
}

Result<void> check_key_digest(const std::string& digest) {
  const bool hex = std::ranges::all_of(digest, [](char c) {
    return ascii::is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  });
  if (hex && digest.size() == 64) return {};
  // The message does not repeat the value: it may be the key itself.
  return invalid_value(
      "this is not the SHA-256 of a key (64 hex digits): write what "
      "`printf %s KEY | sha256sum` prints");
}

Result<void> check_variable(const std::string& name) {
  const bool plain = std::ranges::all_of(
      name, [](char c) { return ascii::is_letter(c) || ascii::is_digit(c) || c == '_'; });
  if (plain && !name.empty() && !ascii::is_digit(name.front())) return {};
  return invalid_value(fmt::format("'{}' is not the name of an environment variable", name));
}

Result<void> check_not_empty(const std::string& text) {
  return text.empty() ? invalid_value("the value must not be empty") : Result<void>();
}

}  // namespace afterimage

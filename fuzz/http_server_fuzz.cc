// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes from a client: the handler receives only unambiguous requests, and every response is
// HTTP. The requests of one connection are answered in order.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/http/server.h"
#include "loopback.h"

using namespace afterimage;

namespace {

constexpr Bytes kMostBody = 4_KiB;

void check_request(const HttpRequest& request) {
  AFI_CHECK(!request.method.empty() && request.target.starts_with('/'));
  AFI_CHECK(std::ranges::all_of(request.target, [](char c) { return c > ' ' && c < 0x7F; }));
  AFI_CHECK(request.body != nullptr && request.body->size() <= kMostBody.value());
  std::size_t hosts = 0;
  std::size_t lengths = 0;
  std::size_t codings = 0;
  for (const auto& [name, value] : request.headers) {
    AFI_CHECK(!name.empty());
    AFI_CHECK(std::ranges::all_of(name, [](char c) { return c > ' ' && c != ':' && c < 0x7F; }));
    for (const char c : value) AFI_CHECK(c != '\r' && c != '\n' && c != '\0');
    hosts += same_header(name, "host") ? 1U : 0U;
    lengths += same_header(name, "content-length") ? 1U : 0U;
    codings += same_header(name, "transfer-encoding") ? 1U : 0U;
  }
  // Two lengths, or a length and a coding, could be read as two different requests.
  AFI_CHECK(hosts <= 1 && lengths + codings <= 1);
}

HttpReply refusal(unsigned status, std::string_view why) {
  return {.status = status, .headers = {{"Content-Type", "text/plain"}}, .body = std::string(why)};
}

HttpServer& server() {
  static IoThreads threads{1};
  static const auto kServer =
      HttpServer::listen(
          {.limits = {.body = kMostBody, .bodies = 64_KiB, .headers = 2_KiB},
           .error_reply = refusal},
          [](const HttpRequest& request, const Responder& responder) {
            check_request(request);
            responder.reply({.body = "read"});
          },
          threads)
          .value();
  return *kServer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::uint16_t port = server().port();
  const std::string said = testing::exchange(port, text);
  AFI_CHECK(said.empty() || said.starts_with("HTTP/1.1 "));
  AFI_CHECK(server().stats().bodies <= 64_KiB);
  return 0;
}

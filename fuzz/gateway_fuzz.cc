// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Well-formed HTTP with arbitrary content to both ports of the whole gateway: every request gets an
// HTTP response; paths and headers forwarded to the model are unambiguous; and without its token
// the admin port reveals and changes nothing.
//
// The first byte selects the port; a line "METHOD target" follows, then header lines, an empty line
// and the body.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "afterimage/digest.h"
#include "afterimage/result.h"
#include "afterimage/secret.h"
#include "foundation/platform/random.h"
#include "foundation/platform/wall_clocks.h"
#include "fuzz_input.h"
#include "gateway/service/service.h"
#include "loopback.h"

using namespace afterimage;
using testing::FuzzInput;

namespace {

/// Different in each process, so that an input with one token says nothing to the next process.
const std::string& admin_token() {
  static const std::string kToken = to_hex(random_secret().value());
  return kToken;
}
constexpr std::string_view kAnswer =
    R"({"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,)"
    R"("message":{"role":"assistant","content":"an answer"},"finish_reason":"stop"}],)"
    R"("usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}})";

void check_passed_on(const HttpRequest& request) {
  const std::string_view target = request.target;
  const std::string_view path = target.substr(0, target.find('?'));
  AFI_CHECK(path.starts_with("/") && !path.contains("//") && !path.contains('\\'));
  AFI_CHECK(!path.contains("/../") && !path.ends_with("/.."));
  AFI_CHECK(!path.starts_with("/admin"));
  for (const auto& [name, value] : request.headers) {
    AFI_CHECK(!same_header(name.substr(0, 13), "x-afterimage-"));
    AFI_CHECK(!same_header(name, "upgrade") && !same_header(name, "te"));
  }
}

HttpReply explained(unsigned status, std::string_view why) {
  return {.status = status, .headers = {}, .body = std::string(why)};
}

/// Lives as long as the process, like its threads.
struct World {
  World() {
    model = HttpServer::listen(
                {.error_reply = explained},
                [](const HttpRequest& request, const Responder& responder) {
                  check_passed_on(request);
                  responder.reply({.headers = {{"Content-Type", "application/json"}},
                                   .body = std::string(kAnswer)});
                },
                threads)
                .value();
    const std::string text =
        "[listen]\nport = 0\n[log]\nlevel = \"off\"\n[memory]\nbudget = "
        "\"16 MiB\"\n"
        "[admin]\nport = 0\ntoken = \"" +
        admin_token() +
        "\"\n[upstream]\nurl = \"http://127.0.0.1:" + std::to_string(model->port()) + "\"\n";
    auto settings = parse_settings(text, "fuzz.toml");
    AFI_CHECK(settings.has_value());
    service =
        Service::start({.settings = *settings,
                        .read_settings = [settings]() -> Result<Settings> { return *settings; },
                        .engine = nullptr,
                        .version = "fuzz",
                        .log = [](std::string_view) { return true; }},
                       clock, wall)
            .value();
  }
  SystemClock clock;
  SystemWallClock wall;
  IoThreads threads{1};
  std::unique_ptr<HttpServer> model;
  std::unique_ptr<Service> service;
};

/// This target frames messages correctly; http_server_fuzz covers wrong framing.
bool is_framing(std::string_view name) {
  constexpr std::array<std::string_view, 6> kFraming{
      "connection", "content-length", "expect", "transfer-encoding", "host", "upgrade"};
  return std::ranges::any_of(kFraming, [&](auto one) { return same_header(one, name); });
}

bool is_field_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  });
}

std::string request_of(FuzzInput& input) {
  const std::string_view line = input.until('\n');
  const std::size_t space = std::min(line.find(' '), line.size());
  std::string text(line.substr(0, space));
  if (text.empty() || !std::ranges::all_of(text, [](char c) { return c >= 'A' && c <= 'Z'; })) {
    text = "POST";
  }
  text += " /";
  for (const char c : line.substr(std::min(space + 1, line.size()))) {
    if (c > ' ' && c < 0x7F) text += c;
  }
  text += " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n";
  for (std::string_view field = input.until('\n'); !field.empty(); field = input.until('\n')) {
    const std::size_t colon = std::min(field.find(':'), field.size());
    const std::string_view name = field.substr(0, colon);
    if (colon == field.size() || !is_field_name(name) || is_framing(name)) continue;
    text.append(name).append(":");
    for (const char c : field.substr(colon + 1)) {
      if (c == '\t' || (c >= ' ' && c != 0x7F) || static_cast<unsigned char>(c) >= 0x80) text += c;
    }
    text += "\r\n";
  }
  const std::string_view body = input.rest();
  text += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  return text.append(body);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto* const kWorld = new World;
  FuzzInput input(data, size);
  const bool admin = input.u8() % 2 == 1;
  const std::string request = request_of(input);
  if (request.contains(admin_token())) return 0;  // the fuzzer sees the operands of comparisons
  const testing::LoopbackSocket socket(testing::LoopbackSocket::connected_to(
      admin ? kWorld->service->admin_port() : kWorld->service->port()));
  socket.send(request);
  const std::string said = socket.read_all();
  AFI_CHECK(said.starts_with("HTTP/1.1 ") && said.size() >= 12);
  AFI_CHECK(!said.contains(admin_token()));
  if (!admin || said.substr(9, 3) != "200") return 0;
  const std::string_view target = std::string_view(request).substr(request.find(' ') + 1);
  const std::string_view path = target.substr(0, target.find_first_of("? "));
  AFI_CHECK(path == "/" || path == "/health" || path == "/ready");
  AFI_CHECK(!kWorld->service->gateway().draining());
  return 0;
}

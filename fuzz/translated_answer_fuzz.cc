// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Whatever a model's server sends, whole or as a stream cut anywhere, becomes valid JSON or events of
// valid JSON, or an error. The first byte selects the client's API and whether it streams.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "fuzz_input.h"
#include "gateway/anthropic/messages_translation.h"
#include "gateway/responses/responses_translation.h"
#include "json_check.h"

using namespace afterimage;
using testing::FuzzInput;

namespace {

void check_json(std::string_view text) { AFI_CHECK(testing::is_json(text)); }

void check_events(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find("\n\n");
    AFI_CHECK(end != std::string_view::npos && text.starts_with("event: "));
    const std::string_view event = text.substr(0, end);
    const std::size_t line = event.find("\ndata: ");
    AFI_CHECK(line != std::string_view::npos);
    check_json(event.substr(line + 7));
    text.remove_prefix(end + 2);
  }
}

template <typename Make>
void check(std::string_view bytes, bool streams, const Make& make) {
  const ClientContext client{.tenant = "t", .files = [](std::string_view) -> Result<UploadedFile> {
                               return fail(ErrorCode::kNotFound, "");
                             }};
  const std::string asked =
      std::string(R"({"model":"m","max_tokens":1,"stream":)") + (streams ? "true" : "false");
  const auto begin = [&] {
    auto translation = make();
    const bool is_messages = translation->name() == "messages";
    const auto chat = translation->request(
        is_messages
            ? asked +
                  R"(,"thinking":{"type":"adaptive"},"stop_sequences":["x"],"messages":[{"role":"user","content":"x"}]})"
            : std::string(R"({"model":"m","input":"x","stream":)") + (streams ? "true}" : "false}"),
        client);
    AFI_CHECK(chat.has_value());
    return translation;
  };
  const std::string never_fails = begin()->whole_or_failure(bytes);
  streams ? check_events(never_fails) : check_json(never_fails);
  const auto translation = begin();
  std::string made;
  for (std::size_t at = 0; at < bytes.size(); at += 61) {
    made += translation->feed(bytes.substr(at, 61));
  }
  made += translation->end();
  streams ? check_events(made) : check_json(made);
  AFI_CHECK(translation->feed("data: {}\n\n").empty() && translation->end().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  const unsigned which = input.u8();
  const bool streams = (which & 1U) != 0;
  if ((which & 2U) == 0) {
    check(input.rest(), streams, [] { return std::make_unique<MessagesTranslation>("7"); });
  } else {
    ManualClock clock;
    ResponseStore store(1_MiB, std::chrono::hours(1), clock);
    check(input.rest(), streams,
          [&] { return std::make_unique<ResponsesTranslation>("7", 1, store); });
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// For any text, a log line is one ASCII line of JSON that contains the text, and metrics stay valid
// UTF-8 lines with the same number of series.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/platform/testing/manual_wall_clock.h"
#include "foundation/telemetry/log.h"
#include "foundation/telemetry/metrics.h"
#include "foundation/text/valid_text.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string valid = valid_text(text, 2048);
  AFI_CHECK(valid_text(valid, valid.size()) == valid);

  std::string written;
  {
    const testing::ManualWallClock clock;
    Log log({}, clock, [&](std::string_view line) {
      written += line;
      return true;
    });
    log.info("request", {{"text", text}, {text, 1}});
  }
  AFI_CHECK(written.find('\n') == written.size() - 1);
  AFI_CHECK(
      std::ranges::all_of(written, [](char c) { return c == '\n' || (c >= ' ' && c < 0x7F); }));
  const auto line = nlohmann::json::parse(written);
  AFI_CHECK(line["event"] == "request" && line["text"] == valid);

  const auto lines_of = [](const std::string& page) { return std::ranges::count(page, '\n'); };
  static const auto kBefore = lines_of(Metrics().text());
  Metrics metrics;
  metrics.counter("asked_total", "Questions.", {{"tenant", std::string(text)}}).add();
  const std::string page = metrics.text();
  AFI_CHECK(lines_of(page) == kBefore + 3);
  AFI_CHECK(valid_text(page, page.size()) == page);
  return 0;
}

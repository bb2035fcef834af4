// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes give a script or an error with a message. Short scripts are run and keep within the
// budget.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "afterimage/result.h"
#include "lab/pressure_scripts/pressure.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto script = parse_pressure_script(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!script.has_value()) {
    AFI_CHECK(!script.error().message.empty());
    return 0;
  }
  script->runs = std::min<Duration>(script->runs, std::chrono::milliseconds(500));
  script->load.objects = std::min(script->load.objects, 100U);
  script->load.per_second = std::min(script->load.per_second, 1'000.0);
  script->load.size = std::min(script->load.size, 8_MiB);  // its bytes are real
  const PressureReport report = run_pressure(*script, PressureRules::kGovernor);
  AFI_CHECK(report.violations == 0);
  AFI_CHECK(report.peak <= script->governor.cap);
  AFI_CHECK(!to_json(report, report).empty());
  return 0;
}

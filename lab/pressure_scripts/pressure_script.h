// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/pressure.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// An event that affects the memory or the gauge.
struct PressureEvent {
  enum class Kind : unsigned char {
    kExternal,  // other users hold `bytes`, reached linearly over `lasts`
    kHover,     // other users hold `bytes` ± `spread`, changed every `every`, for `lasts`
    kAllocate,  // the engine allocates `bytes` and frees them after `lasts`
    kFreeze,    // the gauge repeats its last value for `lasts`
    kSilence,   // the gauge returns nothing for `lasts`
  };
  Kind kind = Kind::kExternal;
  Duration at{0};
  Duration lasts{0};
  Bytes bytes;
  Bytes spread;
  Duration every{0};
};

/// A condition on the results of the script.
struct PressureExpectation {
  enum class What : unsigned char {
    kOom,
    kViolations,
    kTransitions,
    kReleaseMs,
    kHitPercent,
    kEntries,
    kOpen
  };
  What what = What::kOom;
  bool at_least = false;  // otherwise: at most
  double limit = 0;
  Duration from{0};  // of kTransitions
  Duration to{0};
  std::string text;  // as written in the script
};

/// Requests for objects of one size, Zipf-distributed; a miss is computed and inserted.
struct PressureLoad {
  std::uint32_t objects = 1'000;
  Bytes size = 8_MiB;
  double zipf = 0.9;
  double per_second = 200;
  std::uint64_t seed = 1;
};

struct PressureScript {
  Bytes memory = 16_GiB;
  Bytes below = 32_GiB;
  Duration runs = std::chrono::seconds(60);
  PressureLoad load;
  GovernorOptions governor{.cap = 12_GiB, .reserve = 1_GiB};
  std::vector<PressureEvent> events;  // by time
  std::vector<PressureExpectation> expectations;
};

/// Parses docs/lab/formats/pressure-script.md.
///
/// Errors   kInvalidArgument, with the line and what was expected there; kLimitExceeded: a script
///          longer than a day, or more than 100,000 lines or objects.
/// Threads  Any.
Result<PressureScript> parse_pressure_script(std::string_view text);

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>

#include "afterimage/request.h"
#include "afterimage/units.h"

namespace afterimage {

/// What started this conversation turn. Append only, never renumber: policies use it as an index.
enum class TurnKind : unsigned char { kUnknown, kHuman, kToolResult };
/// Why the model stopped. After kToolUse a program sends the next turn, usually soon.
enum class StopReason : unsigned char { kUnknown, kEndTurn, kToolUse, kOther };
/// Facts about a request that an eviction policy may use.
struct RequestFacts {
  Duration now{0};  // since any fixed time; must not decrease
  std::uint32_t output_tokens = 0;
  TurnKind kind = TurnKind::kUnknown;
  StopReason stop = StopReason::kUnknown;
  ContinuationHint hint = ContinuationHint::kNone;
};

}  // namespace afterimage

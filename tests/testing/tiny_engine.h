// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <utility>

#include "engines/reference/reference_engine.h"

namespace afterimage::testing {

/// The smallest reference engine. `clock` outlives it.
inline std::unique_ptr<ReferenceEngine> tiny_engine(const Clock& clock) {
  ReferenceOptions tiny = ReferenceOptions::tiny();
  tiny.clock = &clock;
  return ReferenceEngine::create(std::move(tiny)).value();
}

}  // namespace afterimage::testing

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
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

/// The options of the smallest engine, changed.
inline ReferenceOptions tiny_with(const std::function<void(ReferenceOptions&)>& change) {
  ReferenceOptions options = ReferenceOptions::tiny();
  change(options);
  return options;
}

}  // namespace afterimage::testing

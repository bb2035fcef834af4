// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <type_traits>
#include <utility>

#include "afterimage/clock.h"
#include "afterimage/result.h"

/// Shared by the benchmarks that do not use Google Benchmark: checked operations and timing. A
/// failure prints to standard error and exits with 1.
namespace afterimage::bench {

inline void need(bool fine, const char* what) {
  if (fine) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

template <typename T>
T must(Result<T> result) {
  need(result.has_value(), result ? "" : to_string(result.error()).c_str());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

inline double seconds(const std::function<void()>& work) {
  const SystemClock clock;
  const Duration start = clock.now();
  work();
  return std::chrono::duration<double>(clock.now() - start).count();
}

}  // namespace afterimage::bench

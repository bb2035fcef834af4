// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <concepts>
#include <cstdint>
#include <future>
#include <memory>
#include <type_traits>
#include <utility>

#include "foundation/platform/workers.h"

namespace afterimage {

/// Runs submitted work on one dedicated thread, one item at a time; callers wait for the result.
///
/// Why      OpenMP creates a team of threads for each thread that has ever computed with it. Once
///          the teams together have more threads than there are cores, they stop spinning and sleep
///          at every barrier, and a compute graph has a barrier between any two nodes: milliseconds
///          per batch, however small. So one thread does all computing of a model.
/// Threads  Any but the dedicated thread itself.
class OwnThread {
 public:
  template <std::invocable Work>
  std::invoke_result_t<Work&> run(Work work) {
    // Shared, because the thread may still be finishing the task when its result is already
    // available.
    const auto task =
        std::make_shared<std::packaged_task<std::invoke_result_t<Work&>()>>(std::move(work));
    auto result = task->get_future();
    static_cast<void>(thread_.post([task] { (*task)(); }));  // the queue is unbounded
    return result.get();
  }

 private:
  Workers thread_{1, SIZE_MAX};
};

/// Runs `work` on a temporary thread, so that its OpenMP team ends with it.
template <std::invocable Work>
std::invoke_result_t<Work&> run_on_temporary_thread(Work work) {
  return std::async(std::launch::async, std::move(work)).get();
}

}  // namespace afterimage

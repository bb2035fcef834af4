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

/// One thread that does everything of a kind, one thing at a time, while those who want it wait.
///
/// Why      OpenMP keeps a team of threads for each thread that ever computed with it. Once there
///          are more of them than cores, its threads no longer spin but fall asleep wherever they
///          wait for each other, and in a graph that is between any two nodes: milliseconds for
///          each batch, however small. So all computing of a model comes from one thread.
/// Threads  Any but its own.
class OwnThread {
 public:
  template <std::invocable Work>
  std::invoke_result_t<Work&> run(Work work) {
    // Shared, because the thread may still be leaving the task when its result is here.
    const auto task =
        std::make_shared<std::packaged_task<std::invoke_result_t<Work&>()>>(std::move(work));
    auto result = task->get_future();
    static_cast<void>(thread_.post([task] { (*task)(); }));  // the queue has no end
    return result.get();
  }

 private:
  Workers thread_{1, SIZE_MAX};
};

/// On a thread of its own that ends with it, and what OpenMP keeps for it.
template <std::invocable Work>
std::invoke_result_t<Work&> run_on_passing_thread(Work work) {
  return std::async(std::launch::async, std::move(work)).get();
}

}  // namespace afterimage

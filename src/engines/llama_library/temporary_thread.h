// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <concepts>
#include <future>
#include <type_traits>
#include <utility>

namespace afterimage {

/// Runs `work` on a temporary thread, so that its OpenMP team ends with it.
template <std::invocable Work>
std::invoke_result_t<Work&> run_on_temporary_thread(Work work) {
  return std::async(std::launch::async, std::move(work)).get();
}

}  // namespace afterimage

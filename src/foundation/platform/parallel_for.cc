// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/platform/parallel_for.h"

#include <algorithm>
#include <exception>
#include <memory>

#include "foundation/platform/mutex.h"

namespace afterimage {
namespace {

/// Shared with the helpers, since a helper may start after the call has returned; it then finds no
/// item left.
struct Shared {
  explicit Shared(std::size_t all, const std::function<void(std::size_t)>& what)
      : count(all), work(&what) {}

  void help() {
    while (true) {
      std::size_t item = 0;
      {
        const MutexLock lock(mutex);
        if (next == count) return;
        item = next++;
      }
      std::exception_ptr failed;
      try {
        (*work)(item);
      } catch (...) {
        failed = std::current_exception();
      }
      const MutexLock lock(mutex);
      if (first_failure == nullptr) first_failure = std::move(failed);
      if (++done == count) changed.notify_all();
    }
  }

  const std::size_t count;
  const std::function<void(std::size_t)>* work;  // valid while items are left
  Mutex mutex;
  Condition changed;
  std::size_t next AFI_GUARDED_BY(mutex) = 0;
  std::size_t done AFI_GUARDED_BY(mutex) = 0;
  std::exception_ptr first_failure AFI_GUARDED_BY(mutex);
};

}  // namespace

void parallel_for(Workers& helpers, std::size_t width, std::size_t count,
                  const std::function<void(std::size_t)>& work) {
  if (count == 0) return;
  const auto shared = std::make_shared<Shared>(count, work);
  for (std::size_t i = 1; i < std::min(width, count); ++i) {
    if (!helpers.post([shared] { shared->help(); })) break;
  }
  shared->help();
  const MutexLock lock(shared->mutex);
  while (shared->done != count) shared->changed.wait(shared->mutex);
  if (shared->first_failure != nullptr) std::rethrow_exception(shared->first_failure);
}

}  // namespace afterimage

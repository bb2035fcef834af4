// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/side_by_side.h"

#include <algorithm>
#include <memory>

#include "foundation/platform/mutex.h"

namespace afterimage {
namespace {

/// Outlives the call: a helper may come when all is done, and finds nothing to do.
struct Shared {
  explicit Shared(std::size_t all, const std::function<void(std::size_t)>& what)
      : count(all), work(&what) {}

  void help() {
    while (true) {
      std::size_t mine = 0;
      {
        const MutexLock lock(mutex);
        if (next == count) return;
        mine = next++;
      }
      (*work)(mine);
      const MutexLock lock(mutex);
      if (++done == count) changed.notify_all();
    }
  }

  const std::size_t count;
  const std::function<void(std::size_t)>* work;  // while something is to be done
  Mutex mutex;
  Condition changed;
  std::size_t next AFI_GUARDED_BY(mutex) = 0;
  std::size_t done AFI_GUARDED_BY(mutex) = 0;
};

}  // namespace

void side_by_side(Workers& helpers, std::size_t width, std::size_t count,
                  const std::function<void(std::size_t)>& work) {
  if (count == 0) return;
  const auto shared = std::make_shared<Shared>(count, work);
  for (std::size_t i = 1; i < std::min(width, count); ++i) {
    if (!helpers.post([shared] { shared->help(); })) break;
  }
  shared->help();
  const MutexLock lock(shared->mutex);
  while (shared->done != count) shared->changed.wait(shared->mutex);
}

}  // namespace afterimage

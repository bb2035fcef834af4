// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <functional>

#include "foundation/platform/workers.h"

namespace afterimage {

/// Calls work(0) … work(count - 1) on the calling thread and on up to `width` - 1 free threads of
/// `helpers`. Returns when all calls have finished. Without a free helper the caller does all. The
/// first exception of a call is thrown then.
void parallel_for(Workers& helpers, std::size_t width, std::size_t count,
                  const std::function<void(std::size_t)>& work);

}  // namespace afterimage

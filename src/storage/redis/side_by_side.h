// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <functional>

#include "foundation/platform/workers.h"

namespace afterimage {

/// Does work(0) … work(count - 1), on this thread and on as many of `helpers` as are free, at most
/// `width` in all; returns when all is done. Whoever finds no helper does it alone.
void side_by_side(Workers& helpers, std::size_t width, std::size_t count,
                  const std::function<void(std::size_t)>& work);

}  // namespace afterimage

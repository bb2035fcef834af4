// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/clock.h"

namespace afterimage {

/// The machine's real-time clock.
class SystemWallClock final : public WallClock {
 public:
  [[nodiscard]] WallTime now() const override;
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "afterimage/units.h"

namespace afterimage {

/// One direction of a link or a device: first in, first out, at a fixed rate.
class Pipe {
 public:
  explicit Pipe(double bytes_per_second) : rate_(bytes_per_second) {}

  /// When the last byte has passed if the bytes are ready at `ready`. Requires open().
  Duration pass(Duration ready, Bytes bytes) {
    const auto took = Duration(std::llround(static_cast<double>(bytes.value()) / rate_ * 1e9));
    free_at_ = std::max(free_at_, ready) + took;
    busy_ += took;
    moved_ += bytes;
    return free_at_;
  }
  [[nodiscard]] bool open() const { return rate_ > 0; }
  [[nodiscard]] Bytes moved() const { return moved_; }
  [[nodiscard]] Duration busy() const { return busy_; }

 private:
  double rate_;
  Duration free_at_{0};
  Duration busy_{0};
  Bytes moved_;
};

/// Passes bytes through two pipes at once; the slower one determines the end.
inline Duration pass(Pipe& from, Pipe& to, Duration ready, Bytes bytes) {
  return std::max(from.pass(ready, bytes), to.pass(ready, bytes));
}

}  // namespace afterimage

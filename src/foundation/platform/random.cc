// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/platform/random.h"

#include <sys/random.h>

#include <cmath>
#include <numbers>

#include "afterimage/result.h"
#include "afterimage/secret.h"

namespace afterimage {

std::uint64_t Rng::next() {
  state_ += 0x9E3779B97F4A7C15U;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

std::uint64_t Rng::below(std::uint64_t bound) {
  AFI_CHECK(bound > 0);
  // Rejects values past the largest multiple of bound, which would favour small results.
  const std::uint64_t limit = max() - max() % bound;
  std::uint64_t value = next();
  while (value >= limit) value = next();
  return value % bound;
}

double Rng::uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

double Rng::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

Rng Rng::split(std::uint64_t label) const {
  Rng mixed(state_ ^ (label * 0xD1342543DE82EF95U + 1));
  return Rng(mixed.next());
}

Result<Secret> random_secret() {
  std::array<std::byte, 32> secret{};
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    return fail(ErrorCode::kUnavailable, "the operating system provided no random bytes");
  }
  return secret;
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "afterimage/digest.h"
#include "afterimage/secret.h"

namespace afterimage {

/// SHA-256 of one buffer.
std::array<std::byte, kDigestBytes> sha256(std::span<const std::byte> bytes);

/// HMAC-SHA-256 (RFC 2104).
std::array<std::byte, kDigestBytes> hmac_sha256(const Secret& key,
                                                std::span<const std::byte> message);

/// Incremental SHA-256. Reuse the object: making one takes longer than hashing a small message.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  /// The digest of all bytes since the last finish(); the next update() starts a new message.
  std::array<std::byte, kDigestBytes> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace afterimage

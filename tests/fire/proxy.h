// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>

#include "afterimage/units.h"

namespace afterimage::fire {

/// A proxy between a client and a server on this machine that simulates a bad network.
///
/// Threads  Any; it runs one thread of its own.
class TcpProxy {
 public:
  enum class Mood : std::uint8_t {
    kHonest,
    kDelays,      // delays every packet by `amount` milliseconds
    kSwallows,    // accepts everything and forwards nothing
    kHalfCloses,  // closes the direction from the server; the client's direction stays open
    kResets,      // resets (RST) current and new connections at once
    kThrottles,   // `amount` bytes per second to the client
    kFlips,       // flips one bit per `amount` bytes, in both directions
    kTruncates,   // forwards `amount` bytes to the client, then closes
  };

  /// Listens on a free port of 127.0.0.1.
  explicit TcpProxy(std::uint16_t server);
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;
  ~TcpProxy();

  [[nodiscard]] std::uint16_t port() const;
  void be(Mood mood, std::uint64_t amount = 0);
  /// Packets that were delayed, changed or dropped.
  [[nodiscard]] std::uint64_t meddled() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace afterimage::fire

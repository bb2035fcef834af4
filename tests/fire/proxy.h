// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>

#include "afterimage/units.h"

namespace afterimage::fire {

/// Stands between a client and a server on this machine, and is a bad network on command.
///
/// Threads  Any; one of its own.
class TcpProxy {
 public:
  enum class Mood : std::uint8_t {
    kHonest,
    kDelays,      // every packet by `amount` milliseconds
    kSwallows,    // takes everything and passes on nothing
    kHalfCloses,  // what the server says ends; what the client says goes on
    kResets,      // RST, at once and to whoever comes
    kThrottles,   // `amount` bytes a second to the client
    kFlips,       // one bit in `amount` bytes, either way
    kTruncates,   // passes on `amount` bytes to the client, and closes
  };

  /// Listens on a port of 127.0.0.1 that was free.
  explicit TcpProxy(std::uint16_t server);
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;
  ~TcpProxy();

  [[nodiscard]] std::uint16_t port() const;
  void be(Mood mood, std::uint64_t amount = 0);
  /// Packets that were held back, changed or not passed on.
  [[nodiscard]] std::uint64_t meddled() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace afterimage::fire

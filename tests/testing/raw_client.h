// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace afterimage::testing {

/// A client that sends any bytes, also those that no HTTP library would send. Every read times out
/// after ten seconds, so that a test fails instead of hanging.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  /// False: the server has closed the connection.
  bool send(std::string_view bytes) const;
  /// Reads until everything received since the start contains `text`; returns whether it does.
  bool read_until(std::string_view text);
  /// Everything received until the server closed.
  const std::string& read_all();
  [[nodiscard]] const std::string& received() const { return received_; }
  /// Waits until the server closes the connection; returns whether it did.
  bool closed();
  void close();

 private:
  bool read_more();
  int socket_ = -1;
  std::string received_;
};

}  // namespace afterimage::testing

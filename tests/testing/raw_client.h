// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace afterimage::testing {

/// A client that sends whatever a test has it send, also what no HTTP library would.
/// Every read ends after ten seconds, so that a test fails and does not hang.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  /// False: the server has closed the connection.
  bool send(std::string_view bytes) const;
  /// Reads on until all that came, since the beginning, contains `text`; whether it does.
  bool read_until(std::string_view text);
  /// Everything that came until the server closed.
  const std::string& read_all();
  [[nodiscard]] const std::string& received() const { return received_; }
  /// Whether the server has closed the connection; waits until it has.
  bool closed();
  void close();

 private:
  bool read_more();
  int socket_ = -1;
  std::string received_;
};

}  // namespace afterimage::testing

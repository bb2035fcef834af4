// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <string>

/// A server on this machine for tests of HTTP clients. Link afterimage_testing_http.
namespace afterimage::testing {

/// Accepts one connection after the other on a free port of 127.0.0.1, reads one HTTP request from
/// each, and writes the raw bytes that `answer` returns for its head and body, so that they can be
/// torn or invalid. An empty answer writes nothing and keeps the connection open until the server
/// is destroyed.
class LocalServer {
 public:
  using Answer = std::function<std::string(const std::string& head, const std::string& body)>;

  explicit LocalServer(Answer answer);
  ~LocalServer();

  [[nodiscard]] std::string url(const std::string& path) const;
  [[nodiscard]] int asked() const;  // requests so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// "HTTP/1.1 200 OK" with the length and the body.
std::string http_answer(const std::string& body, unsigned status = 200);

}  // namespace afterimage::testing

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <string>

/// A server on this machine, for tests of whoever asks one. Link afterimage_testing_http.
namespace afterimage::testing {

/// Takes one connection after the other on a free port of 127.0.0.1, reads one request of HTTP
/// from each, and writes what `answer` makes of its head and body: raw bytes, so that it can be
/// torn or wrong. An empty answer: nothing is written, and the connection stays open until the
/// server goes.
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

/// "HTTP/1.1 200 OK", the length, and the body.
std::string http_answer(const std::string& body, unsigned status = 200);

}  // namespace afterimage::testing

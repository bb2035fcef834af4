// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "foundation/http/headers.h"

namespace afterimage {

/// One request as a server received it: whole, within the limits, with a head that is well-formed.
struct HttpRequest {
  std::string method;  // "GET", as sent
  std::string target;  // path and query, as sent; begins with '/'
  HttpHeaders headers;
  std::shared_ptr<const std::string> body;  // never nullptr
  std::string peer;                         // the client's numeric address
};

/// Bytes that come by and by. Every reader remembers for itself how far it is.
///
/// Threads  Any.
class BodySource {
 public:
  enum class State : unsigned char {
    kMore,    // not all yet
    kEnd,     // with these bytes it is complete
    kBroken,  // it will never be complete: the connection is cut, so that nobody takes it for whole
  };
  struct Piece {
    std::string bytes;
    State state = State::kMore;
  };

  virtual ~BodySource() = default;
  /// What there is beyond the first `from` bytes, or some of it. Nothing and kMore: `wake` will be
  /// called, once, from any thread, as soon as there is.
  virtual Piece read(std::size_t from, std::function<void()> wake) = 0;
  /// A reader of this body is not coming back, for whatever reason. Called once for each.
  virtual void left() {}
};

using HttpBody =
    std::variant<std::string, std::shared_ptr<const std::string>, std::shared_ptr<BodySource>>;

struct HttpReply {
  unsigned status = 200;
  /// Without Content-Length, Transfer-Encoding and Connection: those are the server's business.
  HttpHeaders headers;
  HttpBody body;
};

}  // namespace afterimage

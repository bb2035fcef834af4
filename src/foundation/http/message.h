// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "foundation/http/headers.h"

namespace afterimage {

/// One request as a server received it: complete, within the limits, and well-formed.
struct HttpRequest {
  std::string method;                       // "GET", as sent
  std::string target;                       // path and query, as sent; begins with '/'
  HttpHeaders headers;                      // without trailers
  std::shared_ptr<const std::string> body;  // never nullptr
  std::string peer;                         // the client's numeric address
};

/// Memory that is kept for a response. Those that name the same `what` share it.
struct HeldBytes {
  const void* what = nullptr;  // nullptr: nothing
  std::size_t bytes = 0;
};

/// A body that is produced incrementally. Each reader keeps its own read position.
///
/// Threads  Any.
class BodySource {
 public:
  enum class State : unsigned char {
    kMore,    // more will follow
    kEnd,     // complete with these bytes
    kBroken,  // will never be complete: the connection is cut so the client sees a truncated body
  };
  struct Piece {
    std::string bytes;
    State state = State::kMore;
  };

  virtual ~BodySource() = default;
  /// Returns some or all of the bytes available from offset `from` on. If it returns no bytes and
  /// kMore, `wake` is called once, from any thread, as soon as there are more.
  virtual Piece read(std::size_t from, std::function<void()> wake) = 0;
  /// The length of the whole body; nullopt: unknown, and it is sent in chunks.
  [[nodiscard]] virtual std::optional<std::size_t> size() const { return std::nullopt; }
  /// What stays in memory for a reader that does not read on, besides the piece that it has.
  [[nodiscard]] virtual HeldBytes held() const { return {}; }
  /// The client did not read what it was sent, and is cut off; left() follows.
  virtual void too_slow() {}
  /// A reader of this body will not read again, for whatever reason. Called once per reader.
  virtual void left() {}
};

using HttpBody =
    std::variant<std::string, std::shared_ptr<const std::string>, std::shared_ptr<BodySource>>;

struct HttpReply {
  unsigned status = 200;
  /// Without Content-Length, Transfer-Encoding and Connection, which the server sets.
  HttpHeaders headers;
  HttpBody body;
};

}  // namespace afterimage

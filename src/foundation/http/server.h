// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "afterimage/result.h"
#include "afterimage/units.h"
#include "foundation/http/io_threads.h"
#include "foundation/http/message.h"
#include "foundation/http/tls.h"

namespace afterimage {

struct HttpLimits {
  Bytes body = 64_MiB;     // of one request
  Bytes bodies = 1_GiB;    // total of all requests being read or answered
  Bytes unread = 256_MiB;  // total of responses that wait for their clients; then the oldest end
  Bytes headers = 32_KiB;  // of one request, including its request line
  std::uint32_t connections = 10'000;
  Duration header_timeout = std::chrono::seconds(10);  // from a request's first byte
  Duration body_timeout = std::chrono::seconds(60);    // for the whole body
  Duration idle_timeout = std::chrono::seconds(75);    // between two requests of a connection
  Duration write_timeout = std::chrono::seconds(60);   // without the client reading anything

  bool operator==(const HttpLimits&) const = default;
};

/// Counters cover the server's whole life.
struct HttpServerStats {
  std::uint64_t accepted = 0;
  std::uint64_t requests = 0;
  std::uint64_t refused_connections = 0;  // beyond the limit
  std::uint64_t malformed = 0;            // 400: not valid HTTP
  std::uint64_t large_headers = 0;        // 431
  std::uint64_t large_bodies = 0;         // 413
  std::uint64_t overloaded = 0;           // 503: HttpLimits::bodies reached
  std::uint64_t slow = 0;                 // 408, and clients that stopped reading
  std::uint64_t unread_cut = 0;           // clients cut off because of HttpLimits::unread
  std::uint64_t no_descriptors = 0;       // 503: the process had no file descriptor left
  std::uint64_t failed_handshakes = 0;    // of TLS, and clients that speak plain HTTP there
  std::uint64_t open = 0;                 // connections now
  Bytes bodies;                           // in memory now
  Bytes unread;                           // the same, of responses
};

/// The response owed to one request. Copies refer to the same response; if all of them are dropped
/// without replying, the server answers 500.
///
/// Threads  Any.
class Responder {
 public:
  struct Pending;
  explicit Responder(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {}

  /// Sends the response. Only the first call has an effect.
  void reply(HttpReply reply) const;
  /// Calls `gone` once if the client disconnects before the response is complete, at once if it
  /// already has; on any thread.
  void on_disconnect(std::function<void()> gone) const;

 private:
  std::shared_ptr<Pending> pending_;
};

/// Called on the connection's thread, so it must not block. It may reply at once, or later from any
/// thread.
using HttpHandler = std::function<void(HttpRequest request, Responder responder)>;

/// An HTTP/1.1 server. It answers malformed, oversized and slow requests itself, with a body made
/// by `error_reply`; they never reach the handler. A failing connection does not affect the others.
/// With TLS, a handshake may take HttpLimits::header_timeout, and plain HTTP gets a 400 that says so.
///
/// Errors   listen(): kUnavailable: the address is in use or invalid.
/// Threads  Any; drain() and the destructor not from one of `threads`.
/// Source   RFC 9112; src/foundation/http/DESIGN.md.
class HttpServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";  // numeric, IPv4 or IPv6
    std::uint16_t port = 0;             // 0: any free port
    HttpLimits limits;
    /// Makes the body of responses that the server itself sends.
    std::function<HttpReply(unsigned status, std::string_view why)> error_reply;
    /// More headers of the response to a request with these; of the server's own responses as well, if
    /// the headers could be read. nullptr: none.
    std::function<HttpHeaders(const HttpHeaders& asked)> added_headers = nullptr;
    /// https only; nullptr: http only.
    std::shared_ptr<const TlsIdentity> tls = nullptr;
    /// The process has no file descriptor left for a client, which gets a 503. Called on one of the
    /// I/O threads, at most once in ten seconds.
    std::function<void()> on_no_descriptors = nullptr;
  };

  /// `threads` must outlive the server.
  static Result<std::unique_ptr<HttpServer>> listen(Options options, HttpHandler handler,
                                                    IoThreads& threads);
  /// Closes all connections.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// How long an idle connection may still send a request during drain(): one that is on its way is
  /// answered with "Connection: close" instead of being reset.
  static constexpr Duration kLastRequest = std::chrono::milliseconds(500);

  [[nodiscard]] std::uint16_t port() const;
  /// Applies to future requests; requests being read keep the limits they started with.
  void set_limits(const HttpLimits& limits);
  /// Applies to connections that begin from now on. Only for a server that has an identity.
  void set_tls(std::shared_ptr<const TlsIdentity> identity);
  /// Accepts no new connections and waits at most `timeout` until all are closed: after the response to
  /// their current request, or after the one to a request that arrives within kLastRequest. True: all
  /// were.
  bool drain(Duration timeout);
  [[nodiscard]] HttpServerStats stats() const;

  struct State;  // shared by its connections

 private:
  explicit HttpServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace afterimage

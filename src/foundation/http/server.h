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

namespace afterimage {

struct HttpLimits {
  Bytes body = 64_MiB;     // of one request
  Bytes bodies = 1_GiB;    // of all that are being read or answered, together
  Bytes headers = 32_KiB;  // of one request, with its first line
  std::uint32_t connections = 10'000;
  Duration header_timeout = std::chrono::seconds(10);  // from a request's first byte
  Duration body_timeout = std::chrono::seconds(60);    // for all of it
  Duration idle_timeout = std::chrono::seconds(75);    // between two requests of a connection
  Duration write_timeout = std::chrono::seconds(60);   // without the client taking anything
};

/// Every counter is of the server's whole life.
struct HttpServerStats {
  std::uint64_t accepted = 0;
  std::uint64_t requests = 0;
  std::uint64_t refused_connections = 0;  // beyond the limit
  std::uint64_t malformed = 0;            // 400: no HTTP
  std::uint64_t large_headers = 0;        // 431
  std::uint64_t large_bodies = 0;         // 413
  std::uint64_t overloaded = 0;           // 503: bodies, together
  std::uint64_t slow = 0;                 // 408, and clients that did not read
  std::uint64_t open = 0;                 // connections, now
  Bytes bodies;                           // in memory, now
};

/// The one answer that a request is owed. Copies are the same answer; if all of them go without
/// one, it is 500.
///
/// Threads  Any.
class Responder {
 public:
  struct Pending;
  explicit Responder(std::shared_ptr<Pending> ticket) : ticket_(std::move(ticket)) {}

  /// Once; further ones are ignored.
  void reply(HttpReply reply) const;
  /// `gone` is called once if the client leaves before the answer is complete, at once if it has
  /// left already; on any thread.
  void on_disconnect(std::function<void()> gone) const;

 private:
  std::shared_ptr<Pending> ticket_;
};

/// Is called on the connection's thread, and must not block; it may answer there and then, or later
/// from anywhere.
using HttpHandler = std::function<void(HttpRequest request, Responder responder)>;

/// An HTTP/1.1 server. What is malformed, too large or too slow is answered here, with a body that
/// `explain` makes, and never reaches the handler; one connection's trouble is no other's.
///
/// Errors   listen: kUnavailable: the address is taken, or is none.
/// Threads  Any, but not from one of `threads`: drain and the destructor.
/// Source   RFC 9112; src/http/DESIGN.md.
class HttpServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";  // numeric, IPv4 or IPv6
    std::uint16_t port = 0;             // 0: any that is free
    HttpLimits limits;
    /// The body of an answer that the server itself gives.
    std::function<HttpReply(unsigned status, std::string_view why)> explain;
  };

  /// `threads` outlive the server.
  static Result<std::unique_ptr<HttpServer>> listen(Options options, HttpHandler handler,
                                                    IoThreads& threads);
  /// Closes everything.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  /// Of requests to come; those that are being read keep the ones they began with.
  void set_limits(const HttpLimits& limits);
  /// Takes no new connections, closes the idle ones, and waits until the others are answered, at
  /// most `patience`. True: all were.
  bool drain(Duration timeout);
  [[nodiscard]] HttpServerStats stats() const;

  struct State;  // what its connections share

 private:
  explicit HttpServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace afterimage

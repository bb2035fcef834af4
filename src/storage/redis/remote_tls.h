// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "afterimage/result.h"

struct ssl_ctx_st;
struct ssl_st;
struct x509_store_ctx_st;

namespace afterimage {

/// For rediss:// URLs. Certificates are always checked, and TLS is 1.2 or later.
struct RemoteTlsOptions {
  std::string ca_file;           // PEM file of the authorities trusted; empty: the system's
  std::string certificate_file;  // PEM file of a client certificate and its chain; empty: none
  std::string key_file;          // PEM file of its private key; empty: it is in certificate_file
  std::string server_name;       // that servers' certificates must have; empty: the host's name

  bool operator==(const RemoteTlsOptions&) const = default;
};

/// What rediss:// connections trust and what they show: TLS 1.2 and later. The servers' certificates
/// are always checked.
///
/// Errors   load: kInvalidArgument: a file that cannot be read or is not PEM, a key that needs a pass
///          phrase or does not belong to the certificate. The message names the file.
/// Threads  Any: it does not change.
class RemoteTls {
 public:
  static Result<std::shared_ptr<const RemoteTls>> load(const RemoteTlsOptions& options);

  [[nodiscard]] const RemoteTlsOptions& options() const { return options_; }
  [[nodiscard]] ssl_ctx_st* context() const { return context_.get(); }

 private:
  struct FreeContext {
    void operator()(ssl_ctx_st* context) const;
  };
  explicit RemoteTls(RemoteTlsOptions options) : options_(std::move(options)) {}

  RemoteTlsOptions options_;
  std::unique_ptr<ssl_ctx_st, FreeContext> context_;
};

/// A TLS session on a connected non-blocking socket, which it does not own.
///
/// Steps    A step that would block returns 0: wait until the socket is ready for wanted(), then call
///          again with the same bytes.
/// Errors   kUnavailable: the session ended or was refused; the message says what to do.
/// Threads  One at a time.
class TlsStream {
 public:
  /// The certificate must be for `host`, or for the name in the options of `tls`.
  static Result<std::unique_ptr<TlsStream>> create(std::shared_ptr<const RemoteTls> tls, int fd,
                                                   const std::string& host);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  /// 1: done, and the certificate is valid.
  Result<std::size_t> handshake();
  Result<std::size_t> read(std::span<char> into);
  Result<std::size_t> write(std::string_view bytes);
  /// POLLIN or POLLOUT.
  [[nodiscard]] short wanted() const { return wanted_; }

 private:
  TlsStream(std::shared_ptr<const RemoteTls> tls, ssl_st* session, std::string name)
      : tls_(std::move(tls)), session_(session), name_(std::move(name)) {}
  static int on_certificate(int accepted, x509_store_ctx_st* check);
  Result<std::size_t> step(int result, std::size_t bytes);
  [[nodiscard]] std::string closed_reason(int number) const;
  [[nodiscard]] std::string reason_of(unsigned long error) const;
  [[nodiscard]] std::string refused_certificate() const;

  const std::shared_ptr<const RemoteTls> tls_;
  ssl_st* session_;
  std::string name_;       // that the certificate must have
  std::string presented_;  // the names in a certificate that was refused
  bool heard_ = false;     // the server has said something after the handshake
  short wanted_ = 0;
};

}  // namespace afterimage

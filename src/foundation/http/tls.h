// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <string>

#include "afterimage/clock.h"
#include "afterimage/result.h"

namespace afterimage {

/// A server's certificate with its chain, and its private key. TLS 1.2 and later.
///
/// Errors   load: kInvalidArgument: a file that cannot be read or is not PEM, a key that needs a pass
///          phrase or does not belong to the certificate. The message names the file and never
///          repeats its content.
/// Threads  Any: it does not change.
class TlsIdentity {
 public:
  /// `key_file` empty: the key is in `certificate_file`.
  static Result<std::shared_ptr<const TlsIdentity>> load(const std::string& certificate_file,
                                                         const std::string& key_file);
  ~TlsIdentity();
  TlsIdentity(const TlsIdentity&) = delete;
  TlsIdentity& operator=(const TlsIdentity&) = delete;

  /// When the certificate expires.
  [[nodiscard]] WallTime expires() const;

  struct Impl;
  [[nodiscard]] const Impl& impl() const { return *impl_; }

 private:
  explicit TlsIdentity(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The authorities whose certificates a client accepts, instead of the system's.
///
/// Errors   load: kInvalidArgument: a file that cannot be read, or holds no PEM certificate.
/// Threads  Any: it does not change.
class TlsTrust {
 public:
  static Result<std::shared_ptr<const TlsTrust>> load(const std::string& ca_file);
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  explicit TlsTrust(std::string file) : file_(std::move(file)) {}
  std::string file_;
};

}  // namespace afterimage

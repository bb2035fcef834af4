// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "afterimage/units.h"

namespace afterimage {

class LeaseService;
class RedisLeases;
class RemoteTier;

struct SharedStoreOptions {
  std::string url;  // redis://[user@]host[:port][,host[:port]…][/database]; docs/remote.md
  std::string password;
  std::string sentinel_password;  // of the Sentinels that the URL names; empty: none
  /// For rediss:// URLs; certificates are always checked, and TLS is 1.2 or later. PEM files: of the
  /// authorities trusted (empty: the system's), and of a client certificate and its key (empty: none).
  std::string tls_ca_file;
  std::string tls_certificate_file;
  std::string tls_key_file;     // empty: the key is in tls_certificate_file
  std::string tls_server_name;  // that servers' certificates must have; empty: the host's name
  Duration ttl = std::chrono::hours(24);
  Bytes in_flight = 64_MiB;  // memory for pending writes; also the largest entry
  Duration put_timeout = std::chrono::milliseconds(0);
  Duration timeout = std::chrono::milliseconds(50);  // per operation; four times that to connect
};

/// Shared storage of processes that have the same secret: a remote tier and the leases for writing
/// to it.
///
/// Errors   open: kInvalidArgument: not a valid URL, or files for TLS that cannot be used or that
///          the URL does not ask for. Unreachable servers are not an error: see
///          RemoteTier.
/// Threads  Any.
class SharedStore {
 public:
  /// The clock outlives the store.
  static Result<std::unique_ptr<SharedStore>> open(const SharedStoreOptions& options,
                                                   const Clock& clock);

  ~SharedStore();

  /// For ReuseOptions::tier.
  [[nodiscard]] Tier& tier();
  [[nodiscard]] const Tier& tier() const;
  /// For ReuseOptions::leases.
  [[nodiscard]] LeaseService& leases();

  /// The same two objects under their own types, for callers that need server-specific state; see
  /// storage/remote/remote_tier.h and redis_leases.h.
  [[nodiscard]] RemoteTier& remote_tier();
  [[nodiscard]] const RemoteTier& remote_tier() const;
  [[nodiscard]] const RedisLeases& redis_leases() const;

 private:
  struct State;
  explicit SharedStore(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "storage/remote/remote_tier.h"
#include "testing/temporary_folder.h"

/// Real redis-server processes on this machine, for tests. Link afterimage_testing_redis.
namespace afterimage::testing {

/// Whether redis-server is installed; AFI_NEEDS_REDIS() skips the test if it is not.
bool redis_is_installed();
#define AFI_NEEDS_REDIS()                                                     \
  if (!::afterimage::testing::redis_is_installed()) {                         \
    GTEST_SKIP() << "there is no redis-server: scripts/install-deps.sh test"; \
  }

/// One redis-server on a free port of 127.0.0.1, without persistence. It is killed with the object
/// and with the test process.
class RedisServer {
 public:
  explicit RedisServer(std::vector<std::string> options = {});
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  [[nodiscard]] RemoteAddress address() const { return {.host = "127.0.0.1", .port = port_}; }
  /// Runs one command and returns its reply.
  RespValue ask(std::initializer_list<std::string_view> parts) const;
  void kill();
  /// SIGSTOP: its connections stay open, and it answers nothing.
  void stop() const;
  void go_on() const;
  /// Starts a killed server again on the same port: empty, or with what it SAVEd before.
  void start();
  /// Makes it a replica and waits until it has copied everything.
  void follow(const RedisServer& primary) const;

 private:
  std::vector<std::string> options_;
  TemporaryFolder folder_;
  std::uint16_t port_;
  pid_t pid_ = -1;
};

/// A cluster whose masters cover all slots, each with `replicas` replicas that have caught up.
class RedisCluster {
 public:
  explicit RedisCluster(std::size_t masters, std::size_t replicas = 0,
                        std::string node_timeout = "1000");

  [[nodiscard]] RedisServer& server(std::size_t i) { return *servers_[i]; }
  [[nodiscard]] std::size_t size() const { return servers_.size(); }
  [[nodiscard]] std::vector<RemoteAddress> addresses() const;
  /// Which master owned the key's slot when the cluster was created.
  [[nodiscard]] std::size_t master_of(std::string_view key) const;

 private:
  std::size_t masters_;
  std::vector<std::unique_ptr<RedisServer>> servers_;
};

/// Certificates made by the openssl program, in a folder that goes with the object.
class RedisCertificates {
 public:
  /// An authority "ca" and another one "other-ca".
  RedisCertificates();
  /// Makes name.pem and name.key for `names` ("DNS:localhost,IP:127.0.0.1"), signed by `authority`.
  void sign(const std::string& name, const std::string& names, const std::string& authority = "ca",
            bool expired = false) const;
  [[nodiscard]] std::string path(const std::string& file) const { return folder_.file(file); }
  /// Options of a server that speaks TLS on this port, besides plain RESP on its other one.
  [[nodiscard]] std::vector<std::string> server_options(
      const std::string& name, std::uint16_t port, const std::string& auth_clients = "no") const;

 private:
  void run(const std::string& command) const;
  TemporaryFolder folder_;
};

/// One Sentinel that watches a primary under a name, and calls it dead after `down_after` ms alone.
class RedisSentinel {
 public:
  RedisSentinel(const std::string& name, const RemoteAddress& primary, const std::string& more = "",
                std::string down_after = "2000", std::string quorum = "1");
  ~RedisSentinel();
  RedisSentinel(const RedisSentinel&) = delete;
  RedisSentinel& operator=(const RedisSentinel&) = delete;

  [[nodiscard]] RemoteAddress address() const { return {.host = "127.0.0.1", .port = port_}; }
  /// Runs one command and returns its reply.
  RespValue ask(std::initializer_list<std::string_view> parts) const;
  void stop() const;
  void go_on() const;

 private:
  TemporaryFolder folder_;
  std::uint16_t port_;
  pid_t pid_ = -1;
};

/// Options with long timeouts, for tests on busy machines.
RemoteTierOptions long_timeout_options(std::vector<RemoteAddress> seeds);

std::uint16_t free_port();

/// Polls every 10 ms until `done` returns true; aborts the program after a minute.
void wait_until(const std::function<bool()>& done);

}  // namespace afterimage::testing

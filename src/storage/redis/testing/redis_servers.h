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

/// Real servers on this machine, for tests. Link afterimage_testing_remote.
namespace afterimage::testing {

/// Whether there is a redis-server; if not, a test says so and is skipped.
bool redis_is_installed();
#define AFI_NEEDS_REDIS()                                                     \
  if (!::afterimage::testing::redis_is_installed()) {                         \
    GTEST_SKIP() << "there is no redis-server: scripts/install-deps.sh test"; \
  }

/// One server on a port of 127.0.0.1 that was free, which keeps nothing on disk. It dies with the
/// object, and with the test.
class RedisServer {
 public:
  explicit RedisServer(std::vector<std::string> options = {});
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  [[nodiscard]] RemoteAddress address() const { return {.host = "127.0.0.1", .port = port_}; }
  /// Waits for the answer.
  RespValue ask(std::initializer_list<std::string_view> parts) const;
  void kill();
  /// SIGSTOP: it keeps its connections, and answers nobody.
  void stop() const;
  void go_on() const;
  /// Again on the same port, empty.
  void start();

 private:
  std::vector<std::string> options_;
  TemporaryFolder folder_;
  std::uint16_t port_;
  pid_t pid_ = -1;
};

/// Masters of all slots together, each with so many replicas, which have caught up.
class RedisCluster {
 public:
  explicit RedisCluster(std::size_t masters, std::size_t replicas = 0,
                        std::string node_timeout = "1000");

  [[nodiscard]] RedisServer& server(std::size_t i) { return *servers_[i]; }
  [[nodiscard]] std::size_t size() const { return servers_.size(); }
  [[nodiscard]] std::vector<RemoteAddress> addresses() const;
  /// Which of the masters that there were has the slot.
  [[nodiscard]] std::size_t master_of(std::string_view key) const;

 private:
  std::size_t masters_;
  std::vector<std::unique_ptr<RedisServer>> servers_;
};

/// Patient, as tests on busy machines have to be.
RemoteTierOptions patient_options(std::vector<RemoteAddress> seeds);

std::uint16_t free_port();

/// Looks again every few milliseconds; ends the program if it does not come to pass within a
/// minute.
void wait_until(const std::function<bool()>& done);

}  // namespace afterimage::testing

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/testing/redis_servers.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <utility>

#include "afterimage/result.h"
#include "storage/redis/connection.h"

namespace afterimage::testing {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);

Result<RespValue> try_to_ask(const RemoteAddress& address,
                             std::initializer_list<std::string_view> parts) {
  static const SystemClock kClock;
  AFI_TRY(const auto addresses, resolve(address));
  const Duration deadline = kClock.now() + kTimeout;
  AFI_TRY(const auto connection,
          RespConnection::connect(address.text(), addresses.front(), kClock, deadline));
  return connection->ask(parts, deadline);
}

pid_t spawn(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = -1;
  AFI_CHECK(::posix_spawnp(&pid, arguments[0], nullptr, nullptr, arguments.data(), environ) == 0);
  return pid;
}

}  // namespace

void wait_until(const std::function<bool()>& done) {
  const SystemClock clock;
  const Duration deadline = clock.now() + kTimeout;
  while (!done()) {
    AFI_CHECK(clock.now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

bool redis_is_installed() {
  return ::access("/usr/bin/redis-server", X_OK) == 0 ||
         ::access("/usr/local/bin/redis-server", X_OK) == 0;
}

std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  AFI_CHECK(::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  AFI_CHECK(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

RedisServer::RedisServer(std::vector<std::string> options)
    : options_(std::move(options)), port_(free_port()) {
  start();
}

void RedisServer::start() {
  std::vector<std::string> words{"setpriv",          "--pdeathsig", "KILL",
                                 "redis-server",     "--port",      std::to_string(port_),
                                 "--bind",           "127.0.0.1",   "--dir",
                                 folder_.path(),     "--save",      "",
                                 "--appendonly",     "no",          "--logfile",
                                 folder_.file("log")};
  words.insert(words.end(), options_.begin(), options_.end());
  pid_ = spawn(std::move(words));
  wait_until([&] {
    const auto said = try_to_ask(address(), {"PING"});
    return said.has_value() && !said->text.starts_with("LOADING");
  });
}

RedisServer::~RedisServer() { kill(); }

void RedisServer::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

// A killed server has no pid, and kill(-1) would signal every process.
void RedisServer::stop() const {
  AFI_CHECK(pid_ > 0);
  ::kill(pid_, SIGSTOP);
}
void RedisServer::go_on() const {
  AFI_CHECK(pid_ > 0);
  ::kill(pid_, SIGCONT);
}

void RedisServer::follow(const RedisServer& primary) const {
  ask({"REPLICAOF", "127.0.0.1", std::to_string(primary.port_)});
  wait_until([&] { return ask({"INFO", "replication"}).text.contains("master_link_status:up"); });
  wait_until([&] { return primary.ask({"INFO", "replication"}).text.contains("state=online"); });
}

RespValue RedisServer::ask(std::initializer_list<std::string_view> parts) const {
  auto said = try_to_ask(address(), parts);
  // A Sentinel that demotes a server closes its connections.
  if (!said.has_value()) said = try_to_ask(address(), parts);
  AFI_CHECK(said.has_value());
  return *std::move(said);
}

RedisCluster::RedisCluster(std::size_t masters, std::size_t replicas, std::string node_timeout)
    : masters_(masters) {
  for (std::size_t i = 0; i < masters * (1 + replicas); ++i) {
    servers_.push_back(std::make_unique<RedisServer>(std::vector<std::string>{
        "--cluster-enabled", "yes", "--cluster-node-timeout", node_timeout, "--cluster-port",
        std::to_string(free_port()), "--cluster-require-full-coverage", "no",
        "--repl-diskless-sync-delay", "0"}));
  }
  for (std::size_t i = 0; i < masters; ++i) {
    const std::size_t first = kSlots * i / masters;
    const std::size_t last = kSlots * (i + 1) / masters - 1;
    servers_[i]->ask({"CLUSTER", "ADDSLOTSRANGE", std::to_string(first), std::to_string(last)});
  }
  const std::string port = std::to_string(servers_[0]->address().port);
  // The cluster bus port is not the default: take it from CLUSTER NODES.
  const std::string nodes = servers_[0]->ask({"CLUSTER", "NODES"}).text;
  const std::size_t at = nodes.find('@') + 1;
  const std::string bus = nodes.substr(at, nodes.find_first_of(" ,", at) - at);
  for (std::size_t i = 1; i < servers_.size(); ++i) {
    servers_[i]->ask({"CLUSTER", "MEET", "127.0.0.1", port, bus});
  }
  const auto info_has = [](const RedisServer& server, std::string_view section,
                           std::string_view text) {
    return section.empty() ? server.ask({"CLUSTER", "INFO"}).text.contains(text)
                           : server.ask({"INFO", section}).text.contains(text);
  };
  const std::string known = "cluster_known_nodes:" + std::to_string(servers_.size());
  for (const auto& server : servers_) {
    wait_until([&] { return info_has(*server, "", known); });
  }
  for (std::size_t i = masters; i < servers_.size(); ++i) {
    const std::string id = servers_[i % masters]->ask({"CLUSTER", "MYID"}).text;
    wait_until(
        [&] { return servers_[i]->ask({"CLUSTER", "REPLICATE", id}).kind == RespKind::kText; });
    wait_until([&] { return info_has(*servers_[i], "replication", "master_link_status:up"); });
  }
  const std::string whole = "cluster_slots_assigned:16384";
  for (const auto& server : servers_) {
    wait_until(
        [&] { return info_has(*server, "", whole) && info_has(*server, "", "cluster_state:ok"); });
  }
  // Wait until the slot table names every replica.
  wait_until([&] {
    const auto ranges = slot_ranges(servers_[0]->ask({"CLUSTER", "SLOTS"}), {});
    if (!ranges.has_value()) return false;
    for (const SlotRange& range : *ranges) {
      if (range.replicas.size() != replicas) return false;
    }
    return true;
  });
}

std::vector<RemoteAddress> RedisCluster::addresses() const {
  std::vector<RemoteAddress> all;
  for (const auto& server : servers_) all.push_back(server->address());
  return all;
}

std::size_t RedisCluster::master_of(std::string_view key) const {
  for (std::size_t i = 0; i < masters_; ++i) {
    if (slot_of(key) < kSlots * (i + 1) / masters_) return i;
  }
  return masters_ - 1;
}

RedisCertificates::RedisCertificates() {
  for (const std::string name : {"ca", "other-ca"}) {
    run("openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=" + name + " -keyout " +
        name + ".key -out " + name + ".pem");
  }
}

void RedisCertificates::run(const std::string& command) const {
  AFI_CHECK(std::system(("cd " + folder_.path() + " && " + command + " >log 2>&1").c_str()) == 0);
}

void RedisCertificates::sign(const std::string& name, const std::string& names,
                             const std::string& authority, bool expired) const {
  std::ofstream(path(name + ".ext")) << "subjectAltName=" << names << "\n";
  std::ofstream(path("ca.cnf")) << "[ca]\ndefault_ca=a\n[a]\ndatabase=index\nnew_certs_dir=.\n"
                                   "rand_serial=yes\npolicy=p\ndefault_md=sha256\n[p]\n"
                                   "commonName=supplied\n";
  std::ofstream(path("index"));
  run("openssl req -newkey rsa:2048 -nodes -subj /CN=" + name + " -keyout " + name + ".key -out " +
      name + ".csr");
  run("openssl ca -batch -config ca.cnf -notext -in " + name + ".csr -cert " + authority +
      ".pem -keyfile " + authority + ".key -extfile " + name + ".ext -out " + name + ".pem" +
      (expired ? " -startdate 20200101000000Z -enddate 20200201000000Z" : " -days 30"));
}

std::vector<std::string> RedisCertificates::server_options(const std::string& name,
                                                           std::uint16_t port,
                                                           const std::string& auth_clients) const {
  return {"--tls-port",         std::to_string(port), "--tls-cert-file",    path(name + ".pem"),
          "--tls-key-file",     path(name + ".key"),  "--tls-ca-cert-file", path("ca.pem"),
          "--tls-auth-clients", auth_clients};
}

RedisSentinel::RedisSentinel(const std::string& name, const RemoteAddress& primary,
                             const std::string& more, std::string down_after, std::string quorum)
    : port_(free_port()) {
  const std::string file = folder_.file("sentinel.conf");
  std::ofstream(file) << "port " << port_ << "\nbind 127.0.0.1\ndir " << folder_.path()
                      << "\nlogfile " << folder_.file("log") << "\nsentinel monitor " << name << " "
                      << primary.host << " " << primary.port << " " << quorum
                      << "\nsentinel down-after-milliseconds " << name << " " << down_after
                      << "\nsentinel failover-timeout " << name << " 3000\n"
                      << more;
  pid_ = spawn({"setpriv", "--pdeathsig", "KILL", "redis-server", file, "--sentinel"});
  wait_until([&] { return try_to_ask(address(), {"PING"}).has_value(); });
}

RedisSentinel::~RedisSentinel() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

RespValue RedisSentinel::ask(std::initializer_list<std::string_view> parts) const {
  auto said = try_to_ask(address(), parts);
  AFI_CHECK(said.has_value());
  return *std::move(said);
}

void RedisSentinel::stop() const { ::kill(pid_, SIGSTOP); }
void RedisSentinel::go_on() const { ::kill(pid_, SIGCONT); }

RemoteTierOptions long_timeout_options(std::vector<RemoteAddress> seeds) {
  return {.servers = {.seeds = std::move(seeds),
                      .connect_timeout = std::chrono::seconds(20),
                      .timeout = std::chrono::seconds(20)},
          .put_timeout = std::chrono::seconds(20),
          .flush_timeout = std::chrono::seconds(60)};
}

}  // namespace afterimage::testing

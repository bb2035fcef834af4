// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/testing/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <list>
#include <map>
#include <thread>

#include "afterimage/result.h"
#include "foundation/platform/mutex.h"
#include "storage/redis/resp.h"

namespace afterimage::testing {

struct ScriptedServer::State {
  State(bool is_clustered, bool has_replica) : clustered(is_clustered), replica(has_replica) {
    listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    AFI_CHECK(::bind(listener, reinterpret_cast<const sockaddr*>(&at), size) == 0);
    AFI_CHECK(::listen(listener, 64) == 0);
    AFI_CHECK(::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    port = ntohs(at.sin_port);
    acceptor = std::thread([this] { accept(); });
  }
  ~State() {
    stopping = true;
    acceptor.join();
    for (std::thread& thread : threads) thread.join();
    ::close(listener);
  }

  /// Waits until `fd` is readable. False: the server is stopping.
  bool wait(int fd) const {
    while (!stopping) {
      pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
      if (::poll(&waiting, 1, 20) > 0) return true;
    }
    return false;
  }

  void accept() {
    while (wait(listener)) {
      const int fd = ::accept(listener, nullptr, nullptr);
      if (fd >= 0) threads.emplace_back([this, fd] { serve(fd); });
    }
  }

  void serve(int fd) {
    std::string received;
    const std::uint64_t number = ++connections;
    while (wait(fd)) {
      std::array<char, 65536> buffer{};
      const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
      if (got <= 0) break;
      received.append(buffer.data(), static_cast<std::size_t>(got));
      if (!answer_all(fd, number, received)) break;
    }
    ::close(fd);
  }

  /// Answers every complete command received. False: close this connection.
  bool answer_all(int fd, std::uint64_t number, std::string& received) {
    while (true) {
      const auto parsed = parse_resp(received, {.bytes = 8_MiB});
      if (!parsed.has_value()) return false;
      if (!parsed->has_value()) return true;
      received.erase(0, (*parsed)->size);
      Words words;
      for (const RespValue& item : (*parsed)->value.items) words.push_back(item.text);
      Said said;
      {
        const MutexLock lock(mutex);
        asking = number;
        const std::string honest = honest_answer(words);
        said =
            script && !is_about_the_server(words) ? script(words, honest) : Said{.bytes = honest};
      }
      if (!say(fd, said)) return false;
    }
  }

  bool say(int fd, const Said& said) const {
    const std::size_t step = said.then == Said::Then::kDribble ? 1 : said.bytes.size();
    for (std::size_t at = 0; at < said.bytes.size() && !stopping; at += step) {
      if (::send(fd, said.bytes.data() + at, step, MSG_NOSIGNAL) < 0) return false;
      if (step == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    switch (said.then) {
      case Said::Then::kClose:
        return false;
      case Said::Then::kHalfClose:
        ::shutdown(fd, SHUT_WR);
        return true;
      case Said::Then::kStall:
        while (wait(fd)) {
          std::array<char, 4096> dropped{};
          if (::recv(fd, dropped.data(), dropped.size(), 0) <= 0) return false;
        }
        return false;
      case Said::Then::kGoOn:
      case Said::Then::kDribble:
        break;
    }
    return true;
  }

  /// What the client asks before it uses a server (storage/redis/server_check.h).
  static bool is_about_the_server(const Words& words) {
    const bool named = words.size() > 1;
    const bool asks_who = words.front() == "INFO" && (!named || words[1] == "server");
    return words.front() == "CLUSTER" || asks_who ||
           (named && (words[1].starts_with("afi1:r:") || words[1].starts_with("afi1:w{")));
  }

  std::string honest_answer(const Words& words) AFI_REQUIRES(mutex) {
    const auto bulk = [](const std::string& text) {
      return to_resp({.kind = RespKind::kBulk, .text = text});
    };
    const std::string& verb = words.front();
    if (verb == "CLUSTER") {
      if (!clustered) return "-ERR This instance has cluster support disabled\r\n";
      const auto at = [](std::uint16_t its) {
        return "*2\r\n$9\r\n127.0.0.1\r\n:" + std::to_string(its) + "\r\n";
      };
      return (replica ? "*1\r\n*4\r\n:0\r\n:16383\r\n" : "*1\r\n*3\r\n:0\r\n:16383\r\n") +
             at(port) + (replica ? at(1) : "");
    }
    if (verb == "INFO") {
      return bulk(std::string("run_id:scripted\r\nrole:master\r\nredis_mode:") +
                  (clustered ? "cluster\r\n" : "standalone\r\n") +
                  (replica ? "slave0:ip=127.0.0.1,port=1,state=online\r\n" : ""));
    }
    if (verb == "SCAN") {
      std::string keys;
      for (const auto& [name, value] : values) keys += bulk(name);
      return "*2\r\n$1\r\n0\r\n*" + std::to_string(values.size()) + "\r\n" + keys;
    }
    if (verb == "SET") {
      const bool only_new = words.size() > 3 && words[3] == "NX";
      const auto before = values.find(words[1]);
      if (only_new && before != values.end()) return "$-1\r\n";
      std::string said = "+OK\r\n";
      if (words.back() == "GET") said = before == values.end() ? "$-1\r\n" : bulk(before->second);
      values[words[1]] = words[2];
      return said;
    }
    if (verb == "GET") {
      const auto value = values.find(words[1]);
      return value == values.end() ? "$-1\r\n" : bulk(value->second);
    }
    if (verb == "DEL") return ":" + std::to_string(values.erase(words[1])) + "\r\n";
    if (verb == "EXISTS") return ":" + std::to_string(values.count(words[1])) + "\r\n";
    if (verb == "EXEC") return "*1\r\n:1\r\n";
    return "+OK\r\n";
  }

  const bool clustered;
  const bool replica;
  int listener = -1;
  std::uint16_t port = 0;
  std::atomic<bool> stopping = false;
  mutable Mutex mutex;
  Script script AFI_GUARDED_BY(mutex);
  std::map<std::string, std::string> values AFI_GUARDED_BY(mutex);
  std::uint64_t asking AFI_GUARDED_BY(mutex) = 0;
  std::atomic<std::uint64_t> connections = 0;
  std::list<std::thread> threads;  // one per connection; only the acceptor adds to it
  std::thread acceptor;
};

ScriptedServer::ScriptedServer(bool clustered, bool replica)
    : state_(std::make_unique<State>(clustered, replica)) {}
ScriptedServer::~ScriptedServer() = default;

void ScriptedServer::set_script(Script script) {
  const MutexLock lock(state_->mutex);
  state_->script = std::move(script);
}

RemoteAddress ScriptedServer::address() const {
  return {.host = "127.0.0.1", .port = state_->port};
}

// Called by scripts, which run under the lock.
std::string ScriptedServer::another_value(const std::string& key) const
    AFI_THREAD_ANNOTATION(no_thread_safety_analysis) {
  for (const auto& [name, value] : state_->values) {
    if (name != key) return value;
  }
  return {};
}

void ScriptedServer::keep(const std::string& key, const std::optional<std::string>& value)
    AFI_THREAD_ANNOTATION(no_thread_safety_analysis) {
  if (value.has_value()) {
    state_->values[key] = *value;
  } else {
    state_->values.erase(key);
  }
}

std::uint64_t ScriptedServer::asking() const AFI_THREAD_ANNOTATION(no_thread_safety_analysis) {
  return state_->asking;
}

}  // namespace afterimage::testing

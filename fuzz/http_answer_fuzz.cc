// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes from a server: the listener receives a head, bytes and an end, or an error, exactly
// once.
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "afterimage/result.h"
#include "foundation/http/caller.h"
#include "loopback.h"

using namespace afterimage;
using testing::LoopbackSocket;

namespace {

/// Answers each connection with the bytes that were set last.
class Liar {
 public:
  Liar() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    AFI_CHECK(::bind(socket_, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
    AFI_CHECK(::listen(socket_, 16) == 0);
    socklen_t size = sizeof where;
    AFI_CHECK(::getsockname(socket_, reinterpret_cast<sockaddr*>(&where), &size) == 0);
    port_ = ntohs(where.sin_port);
    std::thread([this] { serve(); }).detach();  // as long as the process
  }
  void says(std::string_view answer) {
    const std::scoped_lock lock(mutex_);
    answer_ = answer;
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  [[noreturn]] void serve() {
    while (true) {
      const int client = ::accept(socket_, nullptr, nullptr);
      if (client < 0) continue;
      std::array<char, 4096> asked{};
      AFI_CHECK(::recv(client, asked.data(), asked.size(), 0) >= 0);
      std::string answer;
      {
        const std::scoped_lock lock(mutex_);
        answer = answer_;
      }
      for (std::string_view left = answer; !left.empty();) {
        const auto sent = ::send(client, left.data(), left.size(), MSG_NOSIGNAL);
        if (sent <= 0) break;
        left.remove_prefix(static_cast<std::size_t>(sent));
      }
      // The client closes first, so that no port lingers.
      ::shutdown(client, SHUT_WR);
      while (::recv(client, asked.data(), asked.size(), 0) > 0) continue;
      ::close(client);
    }
  }
  int socket_;
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  std::string answer_;
};

class Heard final : public HttpListener {
 public:
  void on_head(unsigned status, HttpHeaders headers) override {
    AFI_CHECK(!head_ && !over_ && status >= 100 && status < 1000);
    for (const auto& [name, value] : headers) {
      AFI_CHECK(!name.empty());
      for (const char c : value) AFI_CHECK(c != '\r' && c != '\n');
    }
    head_ = true;
  }
  void on_bytes(std::string_view bytes) override {
    AFI_CHECK(head_ && !over_);
    bytes_ += bytes.size();
  }
  void on_end() override {
    AFI_CHECK(head_);
    settle();
  }
  void on_error(const Error& error) override {
    AFI_CHECK(!error.message.empty());
    settle();
  }
  std::size_t wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return over_; });
    return bytes_;
  }

 private:
  void settle() {
    const std::scoped_lock lock(mutex_);
    AFI_CHECK(!over_);
    over_ = true;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool head_ = false;
  bool over_ = false;
  std::size_t bytes_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Liar* const kLiar = new Liar;  // its thread outlives main()
  static auto* const kThreads = new IoThreads(1);
  static auto* const kCaller = new HttpCaller({.max_idle = 0}, *kThreads);
  kLiar->says({reinterpret_cast<const char*>(data), size});
  const Url url{.host = "127.0.0.1", .port = std::to_string(kLiar->port()), .target = "/"};
  const auto heard = std::make_shared<Heard>();
  kCaller->call({.url = url, .body = std::make_shared<const std::string>("{}")}, heard);
  AFI_CHECK(heard->wait() <= size);
  return 0;
}

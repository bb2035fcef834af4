// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "testing/local_server.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <list>
#include <thread>

namespace afterimage::testing {

namespace asio = boost::asio;
using asio::ip::tcp;

struct LocalServer::State {
  explicit State(Answer chosen) : answer(std::move(chosen)) {
    thread = std::thread([this] { serve(); });
  }
  ~State() {
    stopping = true;
    boost::system::error_code ignored;
    tcp::socket last(context);  // wakes the thread in accept()
    last.connect(acceptor.local_endpoint(), ignored);
    thread.join();
  }

  void serve() {
    while (true) {
      boost::system::error_code error;
      tcp::socket socket(context);
      acceptor.accept(socket, error);
      if (stopping || error) return;
      talk(std::move(socket));
    }
  }

  void talk(tcp::socket socket) {
    boost::system::error_code error;
    asio::streambuf buffer;
    const std::size_t head_size = asio::read_until(socket, buffer, "\r\n\r\n", error);
    if (error) return;
    std::string text(asio::buffers_begin(buffer.data()), asio::buffers_end(buffer.data()));
    const std::string head = text.substr(0, head_size);
    std::string body = text.substr(head_size);
    if (const auto at = head.find("Content-Length: "); at != std::string::npos) {
      std::size_t missing = std::stoul(head.substr(at + 16)) - body.size();
      std::string rest(missing, '\0');
      asio::read(socket, asio::buffer(rest), error);
      body += rest;
    }
    ++asked;
    const std::string said = answer(head, body);
    if (said.empty()) {
      silent.push_back(std::move(socket));
    } else {
      asio::write(socket, asio::buffer(said), error);
    }
  }

  Answer answer;
  asio::io_context context;
  tcp::acceptor acceptor{context, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::list<tcp::socket> silent;
  std::atomic<bool> stopping = false;
  std::atomic<int> asked = 0;
  std::thread thread;
};

LocalServer::LocalServer(Answer answer) : state_(std::make_unique<State>(std::move(answer))) {}
LocalServer::~LocalServer() = default;

std::string LocalServer::url(const std::string& path) const {
  return "http://127.0.0.1:" + std::to_string(state_->acceptor.local_endpoint().port()) + path;
}
int LocalServer::asked() const { return state_->asked; }

std::string http_answer(const std::string& body, unsigned status) {
  return "HTTP/1.1 " + std::to_string(status) +
         " OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace afterimage::testing

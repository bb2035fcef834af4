// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/http/client.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>

namespace afterimage {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

/// One step after the other, each begun when the one before it is done; the first that fails is
/// what is told.
class Exchange {
 public:
  explicit Exchange(const HttpQuestion& question)
      : question_(question), resolver_(context_), stream_(context_) {
    request_.method(http::verb::post);
    request_.target(question.url.target);
    request_.version(11);
    request_.set(http::field::host, question.url.host + ":" + question.url.port);
    request_.set(http::field::user_agent, "afterimage");
    request_.set(http::field::content_type, question.content_type);
    request_.set(http::field::connection, "close");
    for (const auto& [name, value] : question.headers) request_.set(name, value);
    request_.body() = question.body;
    request_.prepare_payload();
    parser_.body_limit(question.max_answer.value());
  }

  Result<HttpAnswer> run() {
    resolver_.async_resolve(question_.url.host, question_.url.port,
                            [this](auto error, auto found) { connect(error, found); });
    context_.run_for(std::chrono::duration_cast<std::chrono::nanoseconds>(question_.deadline));
    if (!error_.has_value()) return failed("it did not answer in time");
    if (*error_ == http::error::body_limit) {
      return fail(ErrorCode::kLimitExceeded, server() + ": its answer is larger than allowed");
    }
    if (error_->failed()) return failed(error_->message());
    return HttpAnswer{.status = parser_.get().result_int(),
                      .body = std::move(parser_.get().body())};
  }

 private:
  using Failure = boost::system::error_code;

  void connect(Failure error, const tcp::resolver::results_type& found) {
    if (done(error)) return;
    stream_.async_connect(found, [this](Failure e, const tcp::endpoint& /*where*/) { write(e); });
  }
  void write(Failure error) {
    if (done(error)) return;
    http::async_write(stream_, request_, [this](Failure e, std::size_t /*bytes*/) { read(e); });
  }
  void read(Failure error) {
    if (done(error)) return;
    http::async_read(stream_, buffer_, parser_,
                     [this](Failure e, std::size_t /*bytes*/) { error_ = e; });
  }
  bool done(Failure error) {
    if (error.failed()) error_ = error;
    return error.failed();
  }

  [[nodiscard]] std::string server() const {
    return "http://" + question_.url.host + ":" + question_.url.port + question_.url.target;
  }
  [[nodiscard]] std::unexpected<Error> failed(const std::string& why) const {
    return fail(ErrorCode::kUnavailable, server() + ": " + why);
  }

  const HttpQuestion& question_;
  asio::io_context context_;
  tcp::resolver resolver_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> parser_;
  std::optional<Failure> error_;  // of the last step, also if it went well
};

bool is_header(const std::string& name, const std::string& value) {
  const auto visible = [](char c) { return c > ' ' && c < 0x7F && c != ':'; };
  return !name.empty() && std::ranges::all_of(name, visible) &&
         std::ranges::none_of(value, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

}  // namespace

Result<HttpAnswer> http_post(const HttpQuestion& question) {
  for (const auto& [name, value] : question.headers) {
    if (!is_header(name, value)) {
      return fail(ErrorCode::kInvalidArgument, "'" + name + "' is no header, or its value is none");
    }
  }
  return Exchange(question).run();
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/caller.h"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <cerrno>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "afterimage/clock.h"
#include "foundation/crypto/system_trust.h"
#include "foundation/http/io_threads_impl.h"

namespace afterimage {
namespace {

namespace asio = net::asio;
namespace http = net::beast::http;
using net::Awaitable;
using net::Failure;
using net::kQuiet;
using Resolver = asio::ip::basic_resolver<net::Tcp, net::Executor>;
using Secure = asio::ssl::stream<net::Stream>;

constexpr std::size_t kUsualRequestHead = 512;  // bytes of a request's head
constexpr std::size_t kUsualResponseHeaders = 8;
constexpr std::size_t kReadPiece = 64 * 1024;
constexpr std::size_t kWritePiece = 256 * 1024;
constexpr std::uint32_t kAnswerHead = 64 * 1024;

/// A Beast body type that hands parsed bytes to the listener without copying them.
struct ToListener {
  struct value_type {
    HttpListener* listener = nullptr;
  };
  class reader {
   public:
    template <bool kRequest, class Fields>
    reader(http::header<kRequest, Fields>& /*head*/, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>& /*length*/, Failure& error) { error = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, Failure& error) {
      error = {};
      std::size_t size = 0;
      for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers);
           ++it) {
        const asio::const_buffer bytes(*it);
        body_.listener->on_bytes({static_cast<const char*>(bytes.data()), bytes.size()});
        size += bytes.size();
      }
      return size;
    }
    void finish(Failure& error) { error = {}; }

   private:
    value_type& body_;
  };
};
using AnswerParser = http::response_parser<ToListener>;

/// One connection, plain or TLS.
struct Wire {
  explicit Wire(const net::Executor& executor) : plain(executor) {}

  [[nodiscard]] net::Stream& lowest() { return secure.has_value() ? secure->next_layer() : plain; }
  Awaitable<std::pair<Failure, std::size_t>> read_some(asio::mutable_buffer into) {
    if (secure.has_value()) {
      const auto [error, size] = co_await secure->async_read_some(into, kQuiet);
      co_return std::pair(error, size);
    }
    const auto [error, size] = co_await plain.async_read_some(into, kQuiet);
    co_return std::pair(error, size);
  }
  template <class Buffers>
  Awaitable<Failure> write(const Buffers& buffers) {
    if (secure.has_value()) {
      const auto [error, size] = co_await asio::async_write(*secure, buffers, kQuiet);
      co_return error;
    }
    const auto [error, size] = co_await asio::async_write(plain, buffers, kQuiet);
    co_return error;
  }
  /// Whether the server has closed it or sent bytes without a request.
  [[nodiscard]] bool spent() {
    char byte = 0;
    const auto got = ::recv(lowest().socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }

  net::Stream plain;
  std::optional<Secure> secure;
  net::beast::flat_buffer buffer;
  Duration idle_since{0};
};

void append_server(std::string& to, const Url& url, std::string_view usual_port = {}) {
  const bool v6 = url.host.contains(':');
  to.append(v6 ? "[" : "").append(url.host).append(v6 ? "]" : "");
  if (url.port != usual_port) to.append(":").append(url.port);
}

std::string server_of(const Url& url) {
  std::string server;
  append_server(server, url);
  return server;
}

bool is_clean(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}
bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return c > ' ' && c < 0x7F &&
           std::string_view("()<>@,;:\\\"/[]?={}").find(c) == std::string_view::npos;
  });
}

/// What is sent as the body: what stands before the splice, its text, and what stands after it.
std::array<std::string_view, 3> pieces_of(const HttpCall& call) {
  if (call.body == nullptr) return {};
  const std::string_view body = *call.body;
  if (!call.splice.has_value()) return {body};
  AFI_CHECK(call.splice->begin <= call.splice->end && call.splice->end <= body.size());
  return {body.substr(0, call.splice->begin), call.splice->text, body.substr(call.splice->end)};
}

/// The next bytes of `pieces`, at most kWritePiece, which are removed there; `first` goes before them.
std::array<asio::const_buffer, 4> take_buffers(std::string_view first,
                                               std::array<std::string_view, 3>& pieces) {
  std::array<asio::const_buffer, 4> buffers{asio::buffer(first)};
  std::size_t room = kWritePiece;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view now = pieces[i].substr(0, room);
    buffers[i + 1] = asio::buffer(now);
    pieces[i].remove_prefix(now.size());
    room -= now.size();
  }
  return buffers;
}

Result<std::string> head_of(const HttpCall& call) {
  if (!is_name(call.method) || !is_clean(call.url.target) || !is_clean(call.url.host)) {
    return fail(ErrorCode::kInvalidArgument,
                "invalid method, target or host in an HTTP request: " + call.method);
  }
  std::string head;
  head.reserve(kUsualRequestHead);
  head.append(call.method).append(" ").append(call.url.target).append(" HTTP/1.1\r\nHost: ");
  append_server(head, call.url, call.url.tls ? "443" : "80");
  head.append("\r\n");
  for (const auto& [name, value] : call.headers) {
    if (!is_name(name) || !is_clean(value)) {
      return fail(ErrorCode::kInvalidArgument,
                  "invalid name or value of the request header '" + name + "'");
    }
    head.append(name).append(": ").append(value).append("\r\n");
  }
  if (call.body != nullptr) {
    std::size_t length = 0;
    for (const std::string_view piece : pieces_of(call)) length += piece.size();
    head.append("Content-Length: ").append(std::to_string(length)).append("\r\n");
  }
  return std::move(head.append("\r\n"));
}

}  // namespace

/// State of one call. Used on its thread only, except for `executor`.
struct HttpCallHandle::State : std::enable_shared_from_this<HttpCallHandle::State> {
  State(HttpCall asked, std::shared_ptr<HttpListener> its_listener, const net::Executor& on)
      : call(std::move(asked)),
        listener(std::move(its_listener)),
        executor(on),
        event(on, net::Timer::time_point::max()),
        alarm(on, net::Timer::time_point::max()) {}

  void end_with(HttpFailure failure) {
    alarm.cancel();
    if (overdue) {
      failure.error = {ErrorCode::kTimeout, call.url.host + ": no response in time"};
    } else if (cancelled) {
      failure = {.error = {ErrorCode::kCancelled, "the call was cancelled"}};
    }
    listener->on_failure(failure);
  }
  void give_up() {
    cancelled = true;
    event.cancel();
    if (wire != nullptr) wire->lowest().close();
  }

  HttpCall call;
  std::shared_ptr<HttpListener> listener;
  net::Executor executor;
  net::Timer event;  // resumed, resolved, cancelled
  std::unique_ptr<Wire> wire;
  net::Timer alarm;  // the deadline
  bool paused = false;
  bool cancelled = false;
  bool overdue = false;  // cancelled by the alarm
};

struct HttpCaller::State : std::enable_shared_from_this<HttpCaller::State> {
  State(const Options& chosen, IoThreads& on) : options(chosen), threads(on), idle(on.count()) {}

  /// Made for the first https URL: reading the system's certificates takes longer than a short call.
  asio::ssl::context& tls() {
    std::call_once(tls_made_, [this] {
      Failure ignored;
      asio::ssl::context& made = tls_.emplace(asio::ssl::context::tls_client);
      if (options.trust != nullptr) {
        made.load_verify_file(options.trust->file(), ignored);  // a file that is gone trusts nobody
      } else {
        made.set_default_verify_paths(ignored);
        const std::string bundle = system_trust_elsewhere();
        if (!bundle.empty()) made.load_verify_file(bundle, ignored);
      }
      made.set_verify_mode(asio::ssl::verify_peer, ignored);
    });
    return *tls_;
  }

  using Call = HttpCallHandle::State;
  Awaitable<void> run(std::shared_ptr<Call> call, unsigned thread);
  Awaitable<std::optional<HttpFailure>> open(Call& call);
  Awaitable<std::optional<HttpFailure>> resolve(Call& call, std::vector<net::Tcp::endpoint>& found);
  Awaitable<std::optional<HttpFailure>> secure(Call& call);
  struct ExchangeResult {
    std::optional<Error> error;
    bool began = false;  // a byte of the response arrived
    bool keep = false;   // the connection can be reused
  };
  Awaitable<ExchangeResult> exchange(Call& call, const std::string& head);
  Awaitable<ExchangeResult> receive(Call& call);

  bool take_idle(Call& call, unsigned thread);
  void keep(Call& call, unsigned thread);

  Options options;
  IoThreads& threads;
  SystemClock clock;
  /// One map per thread, used on that thread only: connections by server, the newest last.
  std::vector<std::map<std::string, std::vector<std::unique_ptr<Wire>>>> idle;
  std::once_flag tls_made_;
  std::optional<asio::ssl::context> tls_;
};

namespace {

Error unavailable(const HttpCall& call, std::string_view why,
                  ErrorCode code = ErrorCode::kUnavailable) {
  return {code, fmt::format("{}: {}", server_of(call.url), why)};
}

HttpFailure not_sent(const HttpCall& call, std::string_view why,
                     ErrorCode code = ErrorCode::kUnavailable) {
  return {.error = unavailable(call, why, code), .stage = HttpStage::kNotSent};
}

ErrorCode code_of(Failure error) {
  return error == net::beast::error::timeout ? ErrorCode::kTimeout : ErrorCode::kUnavailable;
}

Error broken_off(const HttpCall& call, Failure error) {
  if (error == net::beast::error::timeout) {
    return unavailable(call, "no response in time", ErrorCode::kTimeout);
  }
  if (error == asio::error::eof || error == http::error::end_of_stream ||
      error == http::error::partial_message || error == asio::ssl::error::stream_truncated) {
    return unavailable(call, "the server closed the connection before the response was complete");
  }
  if (error.category() == http::make_error_code(http::error::need_more).category()) {
    return {ErrorCode::kCorruption, fmt::format("{}: the response is not valid HTTP: {}",
                                                server_of(call.url), error.message())};
  }
  return unavailable(call, error.message());
}

/// The certificate must be for this host: a name, or an address. False: it is neither.
bool expect_name(SSL* stream, const std::string& host) {
  Failure error;
  asio::ip::make_address(host, error);
  X509_VERIFY_PARAM* const expected = SSL_get0_param(stream);
  if (!error) return X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) == 1;
  X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  // Written out: the macro SSL_set_tlsext_host_name has an old-style cast. Addresses are not sent
  // as names (RFC 6066 3).
  std::string name = host;
  return X509_VERIFY_PARAM_set1_host(expected, host.data(), host.size()) == 1 &&
         SSL_ctrl(stream, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.data()) ==
             1;
}

std::string pool_key(const Url& url) {
  std::string key(url.tls ? "s " : "p ");
  key.reserve(url.host.size() + url.port.size() + 5);
  append_server(key, url);
  return key;
}

}  // namespace

bool HttpCaller::State::take_idle(Call& call, unsigned thread) {
  auto& pool = idle[thread][pool_key(call.call.url)];
  const Duration now = clock.now();
  std::erase_if(pool, [&](const auto& wire) { return now - wire->idle_since > options.keep; });
  while (!pool.empty()) {
    auto wire = std::move(pool.back());
    pool.pop_back();
    if (wire->spent()) continue;
    call.wire = std::move(wire);
    return true;
  }
  return false;
}

void HttpCaller::State::keep(Call& call, unsigned thread) {
  auto& pool = idle[thread][pool_key(call.call.url)];
  if (pool.size() >= options.max_idle) return;
  call.wire->idle_since = clock.now();
  call.wire->lowest().expires_never();
  pool.push_back(std::move(call.wire));
}

/// The system's name resolution cannot be cancelled; after the timeout it is left running, ignored.
Awaitable<std::optional<HttpFailure>> HttpCaller::State::resolve(
    Call& call, std::vector<net::Tcp::endpoint>& found) {
  Failure error;
  const auto numeric = asio::ip::make_address(call.call.url.host, error);
  if (!error) {
    const auto port = static_cast<std::uint16_t>(std::stoul(call.call.url.port));
    found.emplace_back(numeric, port);
    co_return std::nullopt;
  }
  struct Resolution {
    bool done = false;
    Failure error;
    std::vector<net::Tcp::endpoint> endpoints;
  };
  const auto resolution = std::make_shared<Resolution>();
  const auto resolver = std::make_shared<Resolver>(call.executor);
  resolver->async_resolve(call.call.url.host, call.call.url.port,
                          [resolution, resolver, weak_call = call.weak_from_this()](
                              Failure failed, const auto& results) {
                            resolution->done = true;
                            resolution->error = failed;
                            for (const auto& entry : results)
                              resolution->endpoints.push_back(entry.endpoint());
                            if (const auto waiting = weak_call.lock()) waiting->event.cancel();
                          });
  call.event.expires_after(
      std::chrono::duration_cast<std::chrono::nanoseconds>(call.call.connect_timeout));
  if (!resolution->done && !call.cancelled) co_await call.event.async_wait(kQuiet);
  call.event.expires_at(net::Timer::time_point::max());
  if (call.cancelled) co_return HttpFailure{.error = {ErrorCode::kCancelled, "cancelled"}};
  if (!resolution->done)
    co_return not_sent(call.call, "its name was not resolved in time", ErrorCode::kTimeout);
  if (resolution->error) co_return not_sent(call.call, resolution->error.message());
  found = resolution->endpoints;
  co_return std::nullopt;
}

Awaitable<std::optional<HttpFailure>> HttpCaller::State::open(Call& call) {
  std::vector<net::Tcp::endpoint> found;
  if (auto failure = co_await resolve(call, found)) co_return failure;
  if (call.call.may_connect) {
    const auto before = found.size();
    std::erase_if(found, [&](const net::Tcp::endpoint& where) {
      return !call.call.may_connect(where.address().to_string());
    });
    if (found.empty() && before > 0) {
      co_return HttpFailure{
          .error = {ErrorCode::kInvalidArgument,
                    server_of(call.call.url) + " resolved to an address that is not allowed"}};
    }
  }
  call.wire = std::make_unique<Wire>(call.executor);
  call.wire->plain.expires_after(call.call.connect_timeout);
  const auto [error, where] = co_await call.wire->plain.async_connect(found, kQuiet);
  if (call.cancelled) co_return HttpFailure{.error = {ErrorCode::kCancelled, "cancelled"}};
  if (error == net::beast::error::timeout) {
    co_return not_sent(call.call, "the connection was not established in time",
                       ErrorCode::kTimeout);
  }
  if (error == asio::error::no_descriptors || error.value() == ENFILE ||
      error == boost::system::errc::address_not_available) {
    co_return HttpFailure{
        .error = {ErrorCode::kLimitExceeded,
                  fmt::format("{}: this process has no file descriptor or port left for a "
                              "connection ({}); raise its limit of open files",
                              server_of(call.call.url), error.message())},
        .stage = HttpStage::kNotSent};
  }
  if (error) co_return not_sent(call.call, error.message());
  Failure ignored;
  call.wire->plain.socket().set_option(net::Tcp::no_delay(true), ignored);
  if (call.call.url.tls) co_return co_await secure(call);
  co_return std::nullopt;
}

Awaitable<std::optional<HttpFailure>> HttpCaller::State::secure(Call& call) {
  Secure& stream = call.wire->secure.emplace(std::move(call.wire->plain), tls());
  if (!expect_name(stream.native_handle(), call.call.url.host)) {
    co_return not_sent(call.call, "its name is not valid for TLS");
  }
  const auto [failed] = co_await stream.async_handshake(Secure::client, kQuiet);
  if (!failed) co_return std::nullopt;
  const long verified = SSL_get_verify_result(stream.native_handle());
  if (verified == X509_V_OK) {
    co_return not_sent(call.call, "TLS: " + failed.message(), code_of(failed));
  }
  co_return not_sent(call.call, fmt::format("TLS: its certificate is not accepted: {}",
                                            X509_verify_cert_error_string(verified)));
}

Awaitable<HttpCaller::State::ExchangeResult> HttpCaller::State::exchange(Call& call,
                                                                         const std::string& head) {
  auto body = pieces_of(call.call);
  std::string_view first = head;
  const auto is_left = [&body] {
    return std::ranges::any_of(body, [](std::string_view piece) { return !piece.empty(); });
  };
  while (!first.empty() || is_left()) {
    const auto buffers = take_buffers(first, body);
    call.wire->lowest().expires_after(call.call.idle_timeout);
    const Failure error = co_await call.wire->write(buffers);
    // A server may respond and close before it has read the whole request: read the response.
    if (error && error != asio::error::broken_pipe && error != asio::error::connection_reset) {
      co_return ExchangeResult{.error = broken_off(call.call, error)};
    }
    if (error) break;
    first = {};
  }
  co_return co_await receive(call);
}

Awaitable<HttpCaller::State::ExchangeResult> HttpCaller::State::receive(Call& call) {
  ExchangeResult result;
  std::optional<AnswerParser> parser;
  const auto begin = [&] {
    parser.emplace();
    parser->header_limit(kAnswerHead);
    parser->body_limit(boost::none);
    parser->get().body().listener = call.listener.get();
    if (call.call.method == "HEAD") parser->skip(true);
  };
  begin();
  auto& buffer = call.wire->buffer;
  bool headed = false;
  bool waits = false;
  while (!parser->is_done()) {
    Failure error;
    if (buffer.size() > 0) buffer.consume(parser->put(buffer.data(), error));
    if (error && error != http::error::need_more) {
      result.error = broken_off(call.call, error);
      co_return result;
    }
    if (parser->is_header_done() && !headed) {
      const unsigned status = parser->get().result_int();
      if (status < 100) {
        result.error = Error{ErrorCode::kCorruption, "the response has an invalid status"};
        co_return result;
      }
      if (status >= 100 && status < 200) {
        begin();
        continue;
      }
      headed = true;
      parser->eager(true);
      HttpHeaders headers;
      headers.reserve(kUsualResponseHeaders);
      for (const auto& field : parser->get()) {
        headers.add(std::string(std::string_view(field.name_string())),
                    std::string(std::string_view(field.value())));
      }
      call.listener->on_head(status, std::move(headers));
      continue;
    }
    if (parser->is_done()) break;
    while (call.paused && !call.cancelled) co_await call.event.async_wait(kQuiet);
    if (call.cancelled) {
      result.error = Error{ErrorCode::kCancelled, "cancelled"};
      co_return result;
    }
    // The head has this time as a whole, or a server that sends it byte by byte would hold the call.
    if (headed || !std::exchange(waits, true)) {
      call.wire->lowest().expires_after(call.call.idle_timeout);
    }
    const auto read = co_await call.wire->read_some(buffer.prepare(kReadPiece));
    if (read.first == asio::error::eof && headed && parser->need_eof()) {
      Failure ended;
      parser->put_eof(ended);
      if (!ended) break;
    }
    if (read.first) {
      result.error = broken_off(call.call, read.first);
      co_return result;
    }
    result.began = true;
    buffer.commit(read.second);
  }
  result.keep = parser->keep_alive() && !parser->need_eof() && buffer.size() == 0;
  co_return result;
}

Awaitable<void> HttpCaller::State::run(std::shared_ptr<Call> call, unsigned thread) {
  const auto self = shared_from_this();
  const auto head = head_of(call->call);
  if (!head.has_value()) {
    co_return call->end_with({.error = head.error(), .stage = HttpStage::kNotSent});
  }
  if (call->call.deadline.has_value()) {
    call->alarm.expires_after(
        std::chrono::duration_cast<std::chrono::nanoseconds>(*call->call.deadline));
    call->alarm.async_wait([weak_call = std::weak_ptr(call)](Failure error) {
      const auto late = weak_call.lock();
      if (late == nullptr || error) return;
      late->overdue = true;
      late->give_up();
    });
  }
  for (bool resent = false;; resent = true) {
    const bool kept = !resent && !call->call.once && take_idle(*call, thread);
    if (!kept) {
      if (auto failure = co_await open(*call)) {
        failure->stage = resent ? HttpStage::kUnanswered : HttpStage::kNotSent;
        failure->resent = resent;
        co_return call->end_with(*std::move(failure));
      }
    }
    ExchangeResult result = co_await exchange(*call, *head);
    // A reused connection may have been closed just now: a new one is tried. If it is only slow, the
    // server has the request, and a retry would send it twice.
    const bool may_be_stale = result.error.has_value() && kept && !result.began &&
                              result.error->code != ErrorCode::kTimeout && !call->cancelled;
    if (may_be_stale && call->call.resends) continue;
    if (result.error.has_value() || call->cancelled) {
      co_return call->end_with(
          {.error = std::move(result.error).value_or(Error{ErrorCode::kCancelled, ""}),
           .stage = result.began ? HttpStage::kBroken : HttpStage::kUnanswered,
           .reused = may_be_stale,
           .resent = resent});
    }
    if (result.keep) keep(*call, thread);
    call->alarm.cancel();
    co_return call->listener->on_end();
  }
}

void HttpCallHandle::cancel() const {
  if (const auto call = state_.lock()) {
    asio::dispatch(call->executor, [call] { call->give_up(); });
  }
}

void HttpCallHandle::pause() const {
  if (const auto call = state_.lock()) {
    asio::dispatch(call->executor, [call] { call->paused = true; });
  }
}

void HttpCallHandle::resume() const {
  if (const auto call = state_.lock()) {
    asio::dispatch(call->executor, [call] {
      call->paused = false;
      call->event.cancel();
    });
  }
}

HttpCaller::HttpCaller(const Options& options, IoThreads& threads)
    : state_(std::make_shared<State>(options, threads)) {}

HttpCaller::~HttpCaller() = default;

HttpCallHandle HttpCaller::call(HttpCall call, std::shared_ptr<HttpListener> listener) {
  const unsigned thread = state_->threads.here_or_next();
  const auto executor = state_->threads.impl().loops[thread]->get_executor();
  auto state =
      std::make_shared<HttpCallHandle::State>(std::move(call), std::move(listener), executor);
  HttpCallHandle handle{std::weak_ptr(state)};
  asio::co_spawn(executor, state_->run(std::move(state), thread), asio::detached);
  return handle;
}

}  // namespace afterimage

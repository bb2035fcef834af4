// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "foundation/http/caller.h"
#include "foundation/http/server.h"
#include "foundation/platform/wall_clocks.h"
#include "testing/raw_client.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::RawClient;
using ::testing::StartsWith;

/// Certificates made by the openssl program, in a folder that goes with the tests.
class Certificates {
 public:
  static Certificates& all() {
    static Certificates made;
    return made;
  }
  Certificates() {
    char name[] = "/tmp/afterimage-tls-XXXXXX";
    folder_ = ::mkdtemp(name);
    authority("ca");
    authority("other-ca");
    sign("localhost", "ca", "DNS:localhost,IP:127.0.0.1", 30);
    sign("second", "ca", "DNS:localhost", 60);
    sign("elsewhere", "ca", "DNS:elsewhere.example", 30);
    sign("expired", "ca", "DNS:localhost", -1);
    sign("unknown", "other-ca", "DNS:localhost", 30);
    std::ofstream(path("rubbish.pem")) << "-----BEGIN CERTIFICATE-----\nrubbish\n";
    std::ofstream(path("empty.pem"));
    run("openssl rsa -aes128 -passout pass:x -in " + path("localhost.key") + " -out " +
        path("locked.key"));
  }
  ~Certificates() { std::filesystem::remove_all(folder_); }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  void run(const std::string& command) const {
    ASSERT_EQ(std::system(("cd " + folder_ + " && " + command + " >log 2>&1").c_str()), 0)
        << command;
  }
  void authority(const std::string& name) {
    run("openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=" + name + " -keyout " +
        name + ".key -out " + name + ".pem");
  }
  /// `days` below 0: it expired yesterday.
  void sign(const std::string& name, const std::string& by, const std::string& names, int days) {
    std::ofstream(path(name + ".ext")) << "subjectAltName=" << names << "\n";
    std::ofstream(path("ca.cnf")) << "[ca]\ndefault_ca=a\n[a]\ndatabase=index\nnew_certs_dir=.\n"
                                     "rand_serial=yes\npolicy=p\ndefault_md=sha256\n[p]\n"
                                     "commonName=supplied\n";
    std::ofstream(path("index"));
    const std::string dates = days < 0 ? " -startdate 20200101000000Z -enddate 20200201000000Z"
                                       : " -days " + std::to_string(days);
    run("openssl req -newkey rsa:2048 -nodes -subj /CN=" + name + " -keyout " + name +
        ".key -out " + name + ".csr");
    run("openssl ca -batch -config ca.cnf -notext -in " + name + ".csr -cert " + by +
        ".pem -keyfile " + by + ".key -extfile " + name + ".ext -out " + name + ".pem" + dates);
  }

  std::string folder_;
};

std::shared_ptr<const TlsIdentity> identity(const std::string& name) {
  const Certificates& made = Certificates::all();
  return TlsIdentity::load(made.path(name + ".pem"), made.path(name + ".key")).value();
}

HttpReply plainly(unsigned status, std::string_view why) {
  return {.status = status, .headers = {}, .body = std::string(why)};
}

/// A TLS server on a free port.
struct SecureServer {
  explicit SecureServer(const std::string& name, HttpLimits limits = {}, HttpHandler handler = {})
      : threads(1),
        server(HttpServer::listen({.limits = limits, .error_reply = plainly, .tls = identity(name)},
                                  handler ? std::move(handler) : echo, threads)
                   .value()) {}
  static void echo(const HttpRequest& request, const Responder& responder) {
    responder.reply({.headers = {{"X-Target", request.target}}, .body = *request.body});
  }
  IoThreads threads;
  std::unique_ptr<HttpServer> server;
};

/// Waits for one response.
class Answer final : public HttpListener {
 public:
  void on_head(unsigned status, HttpHeaders /*headers*/) override {
    said += std::to_string(status) + " ";
  }
  void on_bytes(std::string_view bytes) override { said.append(bytes); }
  void on_end() override { settle(); }
  void on_error(const Error& error) override {
    said += error.message;
    settle();
  }
  std::string wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return settled_; });
    return said;
  }
  std::string said;

 private:
  void settle() {
    const std::scoped_lock lock(mutex_);
    settled_ = true;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool settled_ = false;
};

struct SecureClient {
  explicit SecureClient(const std::string& ca = "ca")
      : threads(1),
        caller(
            HttpCaller::Options{.trust =
                                    TlsTrust::load(Certificates::all().path(ca + ".pem")).value()},
            threads) {}
  std::string ask(const std::string& url, std::string body = "hello") {
    const auto answer = std::make_shared<Answer>();
    caller.call({.url = parse_url(url).value(),
                 .headers = {},
                 .body = std::make_shared<const std::string>(std::move(body))},
                answer);
    return answer->wait();
  }
  IoThreads threads;
  HttpCaller caller;
};

std::string url_of(const HttpServer& server, const std::string& host = "localhost") {
  return "https://" + host + ":" + std::to_string(server.port()) + "/x";
}

TEST(Tls, ServesRequestsOfOneConnectionOneAfterTheOther) {
  SecureServer served("localhost");
  SecureClient client;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.ask(url_of(*served.server)), "200 hello");
  EXPECT_EQ(client.ask(url_of(*served.server, "127.0.0.1")), "200 hello");
  EXPECT_EQ(served.server->stats().accepted, 2U) << "connections are used again";
  EXPECT_EQ(served.server->stats().failed_handshakes, 0U);
}

TEST(Tls, CarriesLargeBodiesBothWays) {
  SecureServer served("localhost");
  SecureClient client;
  const std::string body(3'000'000, 'x');
  EXPECT_EQ(client.ask(url_of(*served.server), body), "200 " + body);
}

TEST(Tls, ClientsRefuseWrongNamesExpiredCertificatesAndUnknownAuthorities) {
  const struct {
    const char* certificate;
    const char* why;
  } kCases[] = {{"elsewhere", "hostname mismatch"},
                {"expired", "certificate has expired"},
                {"unknown", "unable to get local issuer certificate"}};
  for (const auto& c : kCases) {
    SecureServer served(c.certificate);
    SecureClient client;
    const std::string said = client.ask(url_of(*served.server));
    EXPECT_THAT(said, HasSubstr("TLS: its certificate is not accepted")) << c.certificate;
    EXPECT_THAT(said, HasSubstr(c.why));
  }
  SecureServer served("second");  // names localhost, and no address
  SecureClient client;
  EXPECT_THAT(client.ask(url_of(*served.server, "127.0.0.1")), HasSubstr("IP address mismatch"));
}

TEST(Tls, ANewCertificateHoldsForNewConnections) {
  SecureServer served("unknown");
  SecureClient client;
  EXPECT_THAT(client.ask(url_of(*served.server)), HasSubstr("not accepted"));
  served.server->set_tls(identity("localhost"));
  EXPECT_EQ(client.ask(url_of(*served.server)), "200 hello");
  served.server->set_tls(identity("unknown"));
  EXPECT_EQ(client.ask(url_of(*served.server)), "200 hello") << "the connection goes on";
}

TEST(Tls, PlainHttpGetsAnAnswerThatSaysSo) {
  SecureServer served("localhost");
  RawClient client(served.server->port());
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string said = client.read_all();
  EXPECT_THAT(said, StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_THAT(said, HasSubstr("this port speaks TLS only"));
  EXPECT_EQ(served.server->stats().failed_handshakes, 1U);
}

TEST(Tls, RubbishInsteadOfAHandshakeEndsThatConnectionOnly) {
  SecureServer served("localhost");
  for (const std::string& rubbish :
       {std::string("\x16\x03\x01\xff\xff", 5), std::string(4096, '\0'), std::string("\x80\x01")}) {
    RawClient client(served.server->port());
    client.send(rubbish + std::string(20'000, 'x'));
    client.read_all();
  }
  SecureClient client;
  EXPECT_EQ(client.ask(url_of(*served.server)), "200 hello");
}

TEST(Tls, SlowHandshakesEndInTimeAndDelayNobody) {
  SecureServer served("localhost", {.header_timeout = 300ms});  // one I/O thread for all
  RawClient silent(served.server->port());
  RawClient half(served.server->port());
  half.send("\x16");
  SecureClient client;
  EXPECT_EQ(client.ask(url_of(*served.server)), "200 hello");
  silent.read_all();
  half.read_all();
  EXPECT_EQ(served.server->stats().failed_handshakes, 1U) << "the silent one began none";
}

TEST(Tls, AClientThatLeavesIsNoticedWhileItsResponseIsMade) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Responder> held;
  bool gone = false;
  SecureServer served("localhost", {}, [&](const HttpRequest& /*request*/, const Responder& to) {
    to.on_disconnect([&] {
      const std::scoped_lock lock(mutex);
      gone = true;
      changed.notify_all();
    });
    const std::scoped_lock lock(mutex);
    held.push_back(to);
    changed.notify_all();
  });
  SecureClient client;
  const auto answer = std::make_shared<Answer>();
  const auto call = client.caller.call(
      {.method = "GET", .url = parse_url(url_of(*served.server)).value()}, answer);
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return !held.empty(); });
  lock.unlock();
  call.cancel();
  lock.lock();
  changed.wait(lock, [&] { return gone; });
  held.clear();
}

TEST(Tls, FilesThatCannotBeUsedAreRefusedWithTheirName) {
  const Certificates& made = Certificates::all();
  const struct {
    const char* certificate;
    const char* key;
    const char* file;
    const char* why;
  } kCases[] = {
      {"absent.pem", "localhost.key", "absent.pem", "not a PEM file with a certificate"},
      {"rubbish.pem", "localhost.key", "rubbish.pem", "not a PEM file with a certificate"},
      {"empty.pem", "localhost.key", "empty.pem", "not a PEM file with a certificate"},
      {"localhost.pem", "absent.key", "absent.key", "private key"},
      {"localhost.pem", "", "localhost.pem", "private key"},
      {"localhost.pem", "second.key", "second.key", "does not belong"},
      {"localhost.pem", "locked.key", "locked.key", "without a pass phrase"}};
  for (const auto& c : kCases) {
    const auto loaded =
        TlsIdentity::load(made.path(c.certificate), *c.key == '\0' ? "" : made.path(c.key));
    ASSERT_FALSE(loaded.has_value()) << c.certificate << " " << c.key;
    EXPECT_THAT(loaded.error().message, HasSubstr(c.file));
    EXPECT_THAT(loaded.error().message, HasSubstr(c.why));
  }
  EXPECT_FALSE(TlsTrust::load(made.path("empty.pem")).has_value());
  EXPECT_FALSE(TlsTrust::load(made.path("absent.pem")).has_value());
}

TEST(Tls, SaysWhenACertificateExpires) {
  const WallTime now = SystemWallClock().now();
  EXPECT_GT(identity("localhost")->expires(), now + 29 * 24h);
  EXPECT_LT(identity("localhost")->expires(), now + 31 * 24h);
  EXPECT_LT(identity("expired")->expires(), now);
}

}  // namespace
}  // namespace afterimage

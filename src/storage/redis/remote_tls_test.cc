// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// rediss:// with real servers: what is accepted, and what each wrong setting says.
#include "storage/redis/remote_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <thread>
#include <vector>

#include "afterimage/shared_store.h"
#include "storage/redis/connection.h"
#include "storage/redis/testing/redis_servers.h"
#include "storage/remote/remote_tier.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::free_port;
using ::testing::HasSubstr;
using testing::long_timeout_options;
using testing::RedisCertificates;
using testing::RedisServer;
using testing::tier_bytes;
using testing::tier_key;

const RedisCertificates& certificates() {
  static const auto* const kMade = [] {
    auto* const made = new RedisCertificates();
    made->sign("localhost", "DNS:localhost,IP:127.0.0.1");
    made->sign("elsewhere", "DNS:cache.example,IP:10.1.2.3");
    made->sign("expired", "DNS:localhost,IP:127.0.0.1", "ca", true);
    made->sign("stranger", "DNS:localhost,IP:127.0.0.1", "other-ca");
    return made;
  }();
  return *kMade;
}

/// A server with a plain port and one for TLS.
struct SecureRedis {
  explicit SecureRedis(const std::string& name, const std::string& auth_clients = "no")
      : port(free_port()), server(certificates().server_options(name, port, auth_clients)) {}
  [[nodiscard]] RemoteAddress at(const std::string& host = "127.0.0.1") const {
    return {.host = host, .port = port};
  }
  std::uint16_t port;
  RedisServer server;
};

class RemoteTlsTest : public ::testing::Test {
 protected:
  void SetUp() override { AFI_NEEDS_REDIS(); }
  static RemoteTlsOptions trusting(const std::string& authority = "ca") {
    return {.ca_file = certificates().path(authority + ".pem")};
  }
  static RemoteTlsOptions showing(const std::string& name) {
    RemoteTlsOptions options = trusting();
    options.certificate_file = certificates().path(name + ".pem");
    options.key_file = certificates().path(name + ".key");
    return options;
  }
  std::unique_ptr<RemoteTier> open(const RemoteAddress& at, const RemoteTlsOptions& tls) {
    RemoteTierOptions options = long_timeout_options({at});
    options.servers.tls = RemoteTls::load(tls).value();
    return RemoteTier::open(options, memory, clock).value();
  }
  bool keeps(RemoteTier& tier, std::uint64_t n, std::size_t size = 100) {
    if (!tier.put(tier_key(n), {}, tier_bytes(n, size)) || !tier.flush()) return false;
    const auto found = tier.get(tier_key(n), memory);
    return found.has_value() && found->has_value() &&
           std::ranges::equal((**found).bytes, tier_bytes(n, size));
  }
  std::string reason(const RemoteAddress& at, const RemoteTlsOptions& tls) {
    return open(at, tls)->stats().degraded_reason;
  }

  MemoryBudget memory{64_MiB};
  SystemClock clock;
};

TEST_F(RemoteTlsTest, EntriesOfAnySizePass) {
  const SecureRedis redis("localhost");
  const auto tier = open(redis.at("localhost"), trusting());
  EXPECT_EQ(tier->stats().degraded_reason, "");
  // Within one record of 16 KiB, over its border, and more than a chunk.
  for (const std::size_t size : {0U, 1U, 16384U, 16385U, 1000000U, 5000000U}) {
    EXPECT_TRUE(keeps(*tier, size + 1, size)) << size;
  }
  EXPECT_TRUE(tier->erase(tier_key(1)).has_value());
  EXPECT_EQ(tier->get(tier_key(1), memory).value(), std::nullopt);
}

/// Speaks TLS to one client, and says the next piece, in one record, each time it has heard something.
class TlsTalker {
 public:
  explicit TlsTalker(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    AFI_CHECK(::bind(listener_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    AFI_CHECK(::listen(listener_, 1) == 0);
    at_.size = sizeof at;
    AFI_CHECK(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at_.storage), &at_.size) == 0);
    thread_ = std::thread([this] { talk(); });
  }
  ~TlsTalker() {
    thread_.join();
    ::close(listener_);
  }
  TlsTalker(const TlsTalker&) = delete;
  TlsTalker& operator=(const TlsTalker&) = delete;
  [[nodiscard]] const SocketAddress& at() const { return at_; }

 private:
  void talk() {
    const int fd = ::accept(listener_, nullptr, nullptr);
    SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate_chain_file(context, certificates().path("localhost.pem").c_str());
    SSL_CTX_use_PrivateKey_file(context, certificates().path("localhost.key").c_str(),
                                SSL_FILETYPE_PEM);
    SSL* const session = SSL_new(context);
    SSL_set_fd(session, fd);
    std::array<char, 1024> heard{};
    if (SSL_accept(session) == 1) {
      for (const std::string& piece : pieces_) {
        if (SSL_read(session, heard.data(), heard.size()) <= 0) break;
        SSL_write(session, piece.data(), static_cast<int>(piece.size()));
      }
      SSL_read(session, heard.data(), heard.size());  // until the client has left
    }
    SSL_free(session);
    SSL_CTX_free(context);
    ::close(fd);
  }

  std::vector<std::string> pieces_;
  int listener_;
  SocketAddress at_;
  std::thread thread_;
};

// Regression: such bytes had left the socket, which was then taken for silent.
TEST_F(RemoteTlsTest, BytesBehindAReplyInItsRecordEndTheConnection) {
  const struct {
    const char* name;
    std::string rest;
    bool usable;
  } kCases[] = {{"the reply alone", "hello\r\n", true}, {"one more", "hello\r\n+OK\r\n", false}};
  for (const auto& c : kCases) {
    const TlsTalker talker({"$5\r\n", c.rest});
    const Duration deadline = clock.now() + 10s;
    auto connection =
        RespConnection::connect("talker", talker.at(), clock, deadline,
                                {.tls = RemoteTls::load(trusting()).value(), .host = "127.0.0.1"});
    ASSERT_TRUE(connection.has_value()) << connection.error().message;
    const std::string_view command = "GET";
    ASSERT_TRUE((*connection)->send(std::span(&command, 1), deadline).has_value());
    ASSERT_TRUE((*connection)->read_head(deadline).has_value());
    ASSERT_TRUE((*connection)->send(std::span(&command, 1), deadline).has_value());
    std::array<std::byte, 5> bytes{};
    ASSERT_TRUE((*connection)->read_bytes(bytes, deadline).has_value());
    ASSERT_TRUE((*connection)->end_bulk(deadline).has_value());
    EXPECT_EQ((*connection)->usable(), c.usable) << c.name;
  }
}

TEST_F(RemoteTlsTest, ConnectionsAreUsedAgain) {
  const SecureRedis redis("localhost");
  const auto tier = open(redis.at(), trusting());
  for (std::uint64_t n = 0; n < 50; ++n) EXPECT_TRUE(keeps(*tier, n));
  const std::string info = redis.server.ask({"INFO", "stats"}).text;
  const std::size_t at = info.find("total_connections_received:") + 27;
  EXPECT_LT(std::stoi(info.substr(at)), 40) << "of 100 operations";
}

TEST_F(RemoteTlsTest, TheNameIsCheckedAndCanBeGiven) {
  const SecureRedis redis("elsewhere");
  EXPECT_THAT(reason(redis.at(), trusting()),
              AllOf(HasSubstr("not for '127.0.0.1' but for cache.example, 10.1.2.3"),
                    HasSubstr("remote.tls.server_name")));
  EXPECT_THAT(reason(redis.at("localhost"), trusting()), HasSubstr("not for 'localhost'"));
  for (const std::string name : {"cache.example", "10.1.2.3"}) {
    RemoteTlsOptions named = trusting();
    named.server_name = name;
    EXPECT_TRUE(keeps(*open(redis.at(), named), 1)) << name;
  }
}

TEST_F(RemoteTlsTest, WhatIsWrongIsSaid) {
  const SecureRedis redis("localhost");
  EXPECT_THAT(reason(redis.at(), trusting("other-ca")),
              AllOf(HasSubstr("by no authority that"), HasSubstr("other-ca.pem"),
                    HasSubstr("set remote.tls.ca_file")));
  EXPECT_THAT(reason(redis.at(), {}), AllOf(HasSubstr("by no authority that the system trusts"),
                                            HasSubstr("set remote.tls.ca_file")));
  const SecureRedis expired("expired");
  EXPECT_THAT(reason(expired.at(), trusting()), HasSubstr("has expired: renew it"));
}

// It waits for the rest of a command.
TEST_F(RemoteTlsTest, AServerWithoutTlsIsSilentAndGivenUpInTime) {
  const RedisServer plain;
  RemoteTierOptions options = long_timeout_options({plain.address()});
  options.servers.connect_timeout = 100ms;
  options.servers.tls = RemoteTls::load(trusting()).value();
  const auto tier = RemoteTier::open(options, memory, clock).value();
  EXPECT_THAT(tier->stats().degraded_reason,
              HasSubstr("name its TLS port, or write redis:// for a server without TLS"));
}

TEST_F(RemoteTlsTest, ATlsPortIsSpokenToWithoutTls) {
  const SecureRedis redis("localhost");
  const auto tier = RemoteTier::open(long_timeout_options({redis.at()}), memory, clock).value();
  EXPECT_THAT(tier->stats().degraded_reason, HasSubstr("write rediss://"));
}

// With TLS 1.3 the handshake is over before the server says so.
TEST_F(RemoteTlsTest, AClientCertificateIsShownWhereItIsRequired) {
  const SecureRedis redis("localhost", "yes");
  EXPECT_THAT(reason(redis.at(), trusting()), HasSubstr("set remote.tls.certificate_file"));
  EXPECT_TRUE(keeps(*open(redis.at(), showing("localhost")), 1));
  EXPECT_THAT(reason(redis.at(), showing("stranger")), HasSubstr("stranger.pem"));
}

TEST_F(RemoteTlsTest, AReplicasProcessIsReadOverTls) {
  const SecureRedis primary("localhost");
  const std::uint16_t port = free_port();
  std::vector<std::string> words = certificates().server_options("localhost", port);
  words.insert(words.end(), {"--replica-announce-port", std::to_string(port)});
  RedisServer replica(words);
  replica.follow(primary.server);
  const auto tier = open(primary.at(), trusting());
  EXPECT_TRUE(keeps(*tier, 1));
  EXPECT_TRUE(primary.server.ask({"GET", "afi1:r:0"}).text.contains(' ')) << "two processes";
}

TEST_F(RemoteTlsTest, FilesThatCannotBeUsedAreNamed) {
  std::ofstream(certificates().path("rubbish.pem")) << "-----BEGIN CERTIFICATE-----\nrubbish\n";
  const auto complaint = [](const RemoteTlsOptions& options) {
    const auto loaded = RemoteTls::load(options);
    EXPECT_FALSE(loaded.has_value());
    return loaded.has_value() ? "" : loaded.error().message;
  };
  EXPECT_THAT(complaint(trusting("rubbish")), HasSubstr("rubbish.pem: this is not a PEM file"));
  EXPECT_THAT(complaint(trusting("nothing")), HasSubstr("nothing.pem"));
  RemoteTlsOptions mismatch = showing("localhost");
  mismatch.key_file = certificates().path("expired.key");
  EXPECT_THAT(complaint(mismatch), HasSubstr("expired.key"));
  RemoteTlsOptions keyless = trusting();
  keyless.key_file = certificates().path("localhost.key");
  EXPECT_THAT(complaint(keyless), HasSubstr("a key without a certificate"));
}

// Otherwise entries would travel in the clear although files for TLS are given.
TEST_F(RemoteTlsTest, FilesWithoutATlsUrlAreRefused) {
  SharedStoreOptions options{.url = "redis://127.0.0.1:1", .tls_ca_file = trusting().ca_file};
  const auto opened = SharedStore::open(options, clock);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(opened.error().message, HasSubstr("write rediss://"));
  options.url = "rediss://127.0.0.1:1";
  EXPECT_TRUE(SharedStore::open(options, clock).has_value())
      << "nobody is there, which is no error";
}

}  // namespace
}  // namespace afterimage

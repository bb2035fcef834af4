// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What does the remote tier cost compared with a bare client? The same values to the same servers
// over the same number of connections, alternating: the tier, a bare client that sends and receives
// RESP without checks, and hiredis where it is installed.
//
//   remote_bench HOST:PORT [MEGABYTES] [ROUNDS] [overwrite]    prints JSON: GB/s by client,
//   operation, size and round. overwrite: the server keeps its entries between turns
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "foundation/platform/random.h"
#include "measure.h"
#include "storage/redis/connection.h"
#include "storage/remote/remote_tier.h"
#if defined(AFTERIMAGE_BENCH_HIREDIS)
#include <hiredis/hiredis.h>
#endif

using namespace afterimage;
using bench::must;
using bench::need;
using bench::seconds;

namespace {

constexpr Duration kPatience = std::chrono::seconds(60);

TierKey key_of(std::uint64_t n) {
  TierKey key;
  Rng rng(n);
  for (std::byte& byte : key.bytes) byte = static_cast<std::byte>(rng.below(256));
  return key;
}

/// Runs work(0) … work(count - 1) on that many threads, each of which knows its number.
void on_threads(unsigned threads, std::size_t count,
                const std::function<void(unsigned, std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      for (std::size_t i = next++; i < count; i = next++) work(t, i);
    });
  }
  for (std::thread& thread : all) thread.join();
}

struct Client {
  const char* name;
  std::function<void(const std::vector<std::byte>& value, std::size_t count)> put;
  std::function<void(std::size_t size, std::size_t count)> get;
};

/// RESP only: no checksums, generous deadlines, reused memory.
class Bare {
 public:
  Bare(const RemoteAddress& server, unsigned connections) {
    const SocketAddress at = must(resolve(server)).front();
    for (unsigned i = 0; i < connections; ++i) {
      connections_.push_back(
          must(RespConnection::connect(server.text(), at, clock_, clock_.now() + kPatience)));
      memory_.emplace_back();
    }
  }
  void put(const std::vector<std::byte>& value, std::size_t count) {
    const std::string_view bytes(reinterpret_cast<const char*>(value.data()), value.size());
    on_threads(threads(), count, [&](unsigned t, std::size_t i) {
      const RespAround set = resp_set(name(i), value.size(), std::chrono::hours(1));
      const std::string_view pieces[] = {set.before, bytes, set.after};
      const Duration deadline = clock_.now() + kPatience;
      must(connections_[t]->send(pieces, deadline));
      need(must(connections_[t]->read_head(deadline)).text == "OK", "a bare SET failed");
    });
  }
  void get(std::size_t size, std::size_t count) {
    on_threads(threads(), count, [&](unsigned t, std::size_t i) {
      const std::string command = resp_command({"GET", name(i)});
      const std::string_view piece = command;
      const Duration deadline = clock_.now() + kPatience;
      must(connections_[t]->send(std::span(&piece, 1), deadline));
      const RespHead head = must(connections_[t]->read_head(deadline));
      need(head.number == static_cast<std::int64_t>(size), "a bare GET failed");
      memory_[t].resize(size);
      must(connections_[t]->read_bytes(memory_[t], deadline));
      must(connections_[t]->end_bulk(deadline));
    });
  }
  /// Empties the server and frees its memory, so that overwriting is not compared with writing into
  /// an empty server.
  void forget_all() {
    const std::string command = resp_command({"FLUSHALL"});
    const std::string_view piece = command;
    const Duration deadline = clock_.now() + kPatience;
    must(connections_.front()->send(std::span(&piece, 1), deadline));
    need(must(connections_.front()->read_head(deadline)).text == "OK", "a FLUSHALL failed");
  }

 private:
  [[nodiscard]] unsigned threads() const { return static_cast<unsigned>(connections_.size()); }
  static std::string name(std::size_t i) { return "bare:" + std::to_string(i); }

  SystemClock clock_;
  std::vector<std::unique_ptr<RespConnection>> connections_;
  std::vector<std::vector<std::byte>> memory_;
};

#if defined(AFTERIMAGE_BENCH_HIREDIS)
class Hiredis {
 public:
  Hiredis(const RemoteAddress& server, unsigned connections) {
    for (unsigned i = 0; i < connections; ++i) {
      connections_.push_back(redisConnect(server.host.c_str(), server.port));
      need(connections_.back() != nullptr && connections_.back()->err == 0,
           "hiredis cannot connect");
    }
  }
  ~Hiredis() {
    for (redisContext* connection : connections_) redisFree(connection);
  }
  Hiredis(const Hiredis&) = delete;
  Hiredis& operator=(const Hiredis&) = delete;
  void put(const std::vector<std::byte>& value, std::size_t count) {
    on_threads(static_cast<unsigned>(connections_.size()), count, [&](unsigned t, std::size_t i) {
      const std::string name = "hiredis:" + std::to_string(i);
      auto* reply = static_cast<redisReply*>(redisCommand(
          connections_[t], "SET %s %b PX 3600000", name.c_str(), value.data(), value.size()));
      need(reply != nullptr && reply->type == REDIS_REPLY_STATUS, "a SET of hiredis failed");
      freeReplyObject(reply);
    });
  }
  void get(std::size_t size, std::size_t count) {
    on_threads(static_cast<unsigned>(connections_.size()), count, [&](unsigned t, std::size_t i) {
      const std::string name = "hiredis:" + std::to_string(i);
      auto* reply = static_cast<redisReply*>(redisCommand(connections_[t], "GET %s", name.c_str()));
      need(reply != nullptr && reply->type == REDIS_REPLY_STRING && reply->len == size,
           "a GET of hiredis failed");
      freeReplyObject(reply);
    });
  }

 private:
  std::vector<redisContext*> connections_;
};
#endif

class Tiered {
 public:
  explicit Tiered(const RemoteAddress& server) {
    RemoteTierOptions options{.put_timeout = kPatience, .flush_timeout = kPatience};
    options.servers.seeds = {server};
    // A throughput measurement on a busy machine must not fail on deadlines.
    options.servers.timeout = options.servers.connect_timeout = kPatience;
    threads_ = options.servers.connections;
    tier_ = must(RemoteTier::open(options, memory_, clock_));
  }
  [[nodiscard]] unsigned connections() const { return threads_; }
  void put(const std::vector<std::byte>& value, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) must(tier_->put(key_of(i), {}, value));
    must(tier_->flush());
  }
  void get(std::size_t size, std::size_t count) {
    on_threads(threads_, count, [&](unsigned, std::size_t i) {
      const auto found = must(tier_->get(key_of(i), room_));
      need(found.has_value() && found->bytes.size() == size, "a get of the tier missed");
    });
  }

 private:
  MemoryBudget memory_{64_MiB};
  MemoryBudget room_{1_GiB};
  SystemClock clock_;
  unsigned threads_ = 0;
  std::unique_ptr<RemoteTier> tier_;
};

void say(const char* client, const char* operation, std::size_t size, double gb_per_s) {
  static bool first = true;
  std::printf("%s{\"client\":\"%s\",\"operation\":\"%s\",\"bytes\":%zu,\"gb_per_s\":%.4f}",
              first ? "[" : ",\n ", client, operation, size, gb_per_s);
  std::fflush(stdout);
  first = false;
}

}  // namespace

int main(int argc, char** argv) {
  need(argc >= 2 && argc <= 5 && (argc < 5 || argv[4] == std::string("overwrite")),
       "remote_bench HOST:PORT [MEGABYTES] [ROUNDS] [overwrite]");
  const RemoteUrl url = must(parse_remote_url("redis://" + std::string(argv[1])));
  const std::size_t all = (argc > 2 ? std::stoul(argv[2]) : 128) << 20U;
  const int rounds = argc > 3 ? std::stoi(argv[3]) : 7;
  const RemoteAddress server = url.servers.front();
  Tiered tier(server);
  Bare bare(server, tier.connections());
  std::vector<Client> clients{
      {"tier", [&](auto& value, auto count) { tier.put(value, count); },
       [&](auto size, auto count) { tier.get(size, count); }},
      {"bare", [&](auto& value, auto count) { bare.put(value, count); },
       [&](auto size, auto count) { bare.get(size, count); }},
  };
#if defined(AFTERIMAGE_BENCH_HIREDIS)
  Hiredis hiredis(server, tier.connections());
  clients.push_back({"hiredis", [&](auto& value, auto count) { hiredis.put(value, count); },
                     [&](auto size, auto count) { hiredis.get(size, count); }});
#endif
  for (const std::size_t size :
       {std::size_t{64} << 10U, std::size_t{1} << 20U, std::size_t{16} << 20U}) {
    std::vector<std::byte> value(size);
    Rng rng(size);
    for (std::byte& byte : value) byte = static_cast<std::byte>(rng.below(256));
    const std::size_t count = std::max<std::size_t>(1, all / size);
    const double gigabytes = static_cast<double>(count * size) / 1e9;
    for (int round = -1; round < rounds; ++round) {  // the first one is warm-up
      for (std::size_t turn = 0; turn < clients.size(); ++turn) {
        const Client& client =
            clients[(turn + static_cast<std::size_t>(round + 1)) % clients.size()];
        if (argc < 5) bare.forget_all();
        const double put = seconds([&] { client.put(value, count); });
        const double get = seconds([&] { client.get(size, count); });
        if (round < 0) continue;
        say(client.name, "put", size, gigabytes / put);
        say(client.name, "get", size, gigabytes / get);
      }
    }
  }
  std::printf("]\n");
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Hostile servers that forge, stall or close: every call ends in time, and no wrong byte is served.
#include <gtest/gtest.h>

#include "storage/redis/testing/scripted_server.h"
#include "storage/remote/redis_leases.h"
#include "storage/remote/remote_tier.h"
#include "testing/seeds.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;
using testing::Said;
using testing::ScriptedServer;
using testing::tier_bytes;
using testing::tier_key;
using Then = Said::Then;

struct Lie {
  const char* name;
  /// The reply sent instead of the honest one. `words` is the command.
  std::function<Said(Rng& rng, const ScriptedServer& server, const ScriptedServer::Words& words,
                     std::string honest)>
      tell;
};

std::string moved_to(const ScriptedServer& server, const char* how) {
  return "-" + std::string(how) + " 1 " + server.address().text() + "\r\n";
}

/// Changes the announced length of a bulk.
std::string with_length(const std::string& honest, std::int64_t by) {
  if (honest.empty() || honest.front() != '$' || honest.starts_with("$-")) return honest;
  const std::size_t end = honest.find('\r');
  const std::int64_t length = std::stoll(honest.substr(1, end - 1)) + by;
  return "$" + std::to_string(length) + honest.substr(end);
}

const std::vector<Lie>& lies() {
  static const std::vector<Lie> kLies{
      {"nil", [](auto&, auto&, auto&, auto) { return Said{"$-1\r\n"}; }},
      {"longer", [](auto&, auto&, auto&, auto honest) { return Said{with_length(honest, 7)}; }},
      {"shorter", [](auto&, auto&, auto&, auto honest) { return Said{with_length(honest, -7)}; }},
      {"huge", [](auto&, auto&, auto&, auto) { return Said{"$536870912\r\nabc"}; }},
      {"loading", [](auto&, auto&, auto&, auto) { return Said{"-LOADING Redis is loading\r\n"}; }},
      {"moved", [](auto&, auto& server, auto&, auto) { return Said{moved_to(server, "MOVED")}; }},
      {"ask", [](auto&, auto& server, auto&, auto) { return Said{moved_to(server, "ASK")}; }},
      {"nowhere", [](auto&, auto&, auto&, auto) { return Said{"-MOVED 1 127.0.0.1:1\r\n"}; }},
      {"full", [](auto&, auto&, auto&, auto) { return Said{"-OOM command not allowed\r\n"}; }},
      {"torn",
       [](Rng& rng, auto&, auto&, auto honest) {
         return Said{honest.substr(0, rng.below(honest.size())), Then::kClose};
       }},
      {"torn and silent",
       [](Rng& rng, auto&, auto&, auto honest) {
         return Said{honest.substr(0, rng.below(honest.size())), Then::kStall};
       }},
      {"half closed",
       [](Rng& rng, auto&, auto&, auto honest) {
         return Said{honest.substr(0, rng.below(honest.size())), Then::kHalfClose};
       }},
      {"silent", [](auto&, auto&, auto&, auto) { return Said{"", Then::kStall}; }},
      {"slow", [](auto&, auto&, auto&, auto honest) { return Said{honest, Then::kDribble}; }},
      {"another's value",
       [](auto&, auto& server, auto& words, auto honest) {
         if (words.front() != "GET") return Said{honest};
         return Said{to_resp({.kind = RespKind::kBulk, .text = server.another_value(words[1])})};
       }},
      {"flipped",
       [](Rng& rng, auto&, auto&, auto honest) {
         honest[rng.below(honest.size())] ^= static_cast<char>(1 << rng.below(8));
         return Said{honest};
       }},
      {"of another kind", [](auto&, auto&, auto&, auto) { return Said{":7\r\n"}; }},
      {"a list", [](auto&, auto&, auto&, auto) { return Said{"*2\r\n$1\r\na\r\n:1\r\n"}; }},
      {"twice", [](auto&, auto&, auto&, auto honest) { return Said{honest + honest}; }},
      {"garbage",
       [](Rng& rng, auto&, auto&, auto) {
         std::string bytes(1 + rng.below(9'000), 0);
         for (char& byte : bytes) byte = static_cast<char>(rng.below(256));
         return Said{bytes};
       }},
      {"no line's end", [](auto&, auto&, auto&, auto) { return Said{std::string(9'000, '+')}; }},
      {"another protocol",
       [](auto&, auto&, auto&, auto) { return Said{"HTTP/1.1 400 Bad Request\r\n\r\n"}; }},
  };
  return kLies;
}

struct Hostility {
  const Lie* lie;
  bool clustered;
};

class HostileServer : public ::testing::TestWithParam<Hostility> {
 protected:
  static RemoteTierOptions options(const ScriptedServer& server) {
    return {.servers = {.seeds = {server.address()},
                        .connect_timeout = 200ms,
                        .timeout = 50ms,
                        // Keep calling: with the defaults the breaker opens after five failures.
                        .breaker = {.open_duration = 10ms, .ramp_tenth = 0ms, .ramp_third = 0ms}},
            .chunk = 2_KiB,
            .flush_timeout = 20s,
            .known_absent = 0ms};
  }
};

TEST_P(HostileServer, EveryCallEndsInTimeAndServesNoWrongByte) {
  constexpr Duration kBusyMachine = 10s;
  for_each_seed(2, [&](Rng& rng) {
    ScriptedServer server(GetParam().clustered);
    Rng lying = rng.split(1);
    server.set_script([&](const auto& words, const std::string& honest) {
      return lying.chance(0.3) ? GetParam().lie->tell(lying, server, words, honest) : Said{honest};
    });
    MemoryBudget memory(4_MiB);
    const SystemClock clock;
    const auto tier = RemoteTier::open(options(server), memory, clock).value();
    RedisLeases leases(*tier);
    const auto in_time = [&](const char* what, Duration most, const auto& call) {
      const Duration began = clock.now();
      call();
      EXPECT_LT(clock.now() - began, most + kBusyMachine) << what;
    };
    for (int step = 0; step < 40; ++step) {
      const std::uint64_t n = rng.below(4);
      const std::size_t size = n * 2'500;
      switch (rng.below(5)) {
        case 0:
          in_time("put", 0ms,
                  [&] { static_cast<void>(tier->put(tier_key(n), {}, tier_bytes(n, size))); });
          break;
        case 1:
          in_time("flush", 20s, [&] { static_cast<void>(tier->flush()); });
          break;
        case 2:
          if (rng.chance(0.5)) {
            in_time("erase", 20s, [&] { static_cast<void>(tier->erase(tier_key(n))); });
          } else {
            in_time("claim", 1s + tier->longest_get(Bytes(size)), [&] {
              const std::array keys{tier_key(n)};
              const auto claim = leases.claim_and_prefetch(tier_key(n), tier_key(n), keys, memory);
              const auto found = tier->get(tier_key(n), memory);
              if (!found.has_value() || !found->has_value()) return;
              EXPECT_TRUE(std::ranges::equal((*found)->bytes, tier_bytes(n, size)))
                  << "wrong bytes";
            });
          }
          break;
        default:
          in_time("get", tier->longest_get(Bytes(size)), [&] {
            const auto found = tier->get(tier_key(n), memory);
            if (!found.has_value() || !found->has_value()) return;
            EXPECT_TRUE(std::ranges::equal((*found)->bytes, tier_bytes(n, size))) << "wrong bytes";
          });
      }
    }
    // An honest server is used again.
    server.set_script(nullptr);
    const Duration deadline = clock.now() + 60s;
    bool found = false;
    while (!found && clock.now() < deadline) {
      static_cast<void>(tier->put(tier_key(1), {}, tier_bytes(1, 2'500)));
      static_cast<void>(tier->flush());
      const auto entry = tier->get(tier_key(1), memory);
      found = entry.has_value() && entry->has_value();
    }
    EXPECT_TRUE(found);
  });
}

std::vector<Hostility> hostilities() {
  std::vector<Hostility> all;
  for (const Lie& lie : lies()) {
    all.push_back({&lie, false});
    all.push_back({&lie, true});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Remote, HostileServer, ::testing::ValuesIn(hostilities()),
                         [](const auto& test) {
                           std::string name = test.param.lie->name;
                           std::erase_if(name, [](char c) { return c == ' ' || c == '\''; });
                           return name + (test.param.clustered ? "Cluster" : "Alone");
                         });

TEST(HostileServerOnce, FollowsOneRedirectionOnly) {
  ScriptedServer server(true);
  MemoryBudget memory(1_MiB);
  const SystemClock clock;
  const auto tier =
      RemoteTier::open({.servers = {.seeds = {server.address()}, .timeout = 20s}}, memory, clock)
          .value();
  int asked = 0;
  server.set_script([&](const auto&, const auto&) {
    ++asked;
    return Said{moved_to(server, "MOVED")};
  });
  EXPECT_EQ(tier->get(tier_key(1), memory).value(), std::nullopt);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(tier->remote_stats().cluster.redirected, 1U);
}

}  // namespace
}  // namespace afterimage

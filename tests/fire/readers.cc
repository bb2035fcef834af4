// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Clients that ask for large responses and do not read them: the memory for them is bounded, and
// everybody else is answered.
#include <fmt/format.h>

#include <memory>
#include <thread>

#include "fire/fire.h"
#include "foundation/http/server.h"
#include "testing/raw_client.h"

namespace afterimage::fire {
namespace {

using testing::RawClient;

constexpr std::size_t kSize = 4UL << 20U;  // more than the system takes for a connection
constexpr Bytes kLimit(4 * kSize);

std::string get(const char* target) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", target);
}

}  // namespace

Tally run_readers(const FireRun& run) {
  Tally tally;
  const auto body = std::make_shared<const std::string>(kSize, 's');
  const std::uint64_t rounds = run.of(40, 2);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Rng rng(run.seed * 104'729 + round);
    IoThreads threads(2);
    const auto handler = [&](const HttpRequest& request, const Responder& responder) {
      if (request.target == "/shared") return responder.reply({.body = body});
      responder.reply({.body = std::string(request.target == "/small" ? 10 : kSize, 'x')});
    };
    const auto server =
        HttpServer::listen({.limits = {.unread = kLimit}, .error_reply = nullptr}, handler, threads)
            .value();
    const std::string where =
        fmt::format(": round {} of --only readers --seed {}", round, run.seed);
    std::vector<std::unique_ptr<RawClient>> silent;
    std::uint64_t own = 0;
    for (int i = 0; i < 12; ++i) {
      const bool shares = rng.chance(0.3);
      silent.push_back(std::make_unique<RawClient>(server->port()));
      silent.back()->send(get(shares ? "/shared" : "/own"));
      own += shares ? 0 : 1;
      ++tally.injected;
      // Until it waits, or has cut off another.
      const auto waits = [&] {
        const HttpServerStats stats = server->stats();
        return stats.unread_cut + stats.unread.value() / kSize >= own;
      };
      while (!waits()) std::this_thread::yield();
      tally.expect(
          server->stats().unread <= kLimit,
          fmt::format("{} MiB wait for clients{}", server->stats().unread.value() >> 20U, where));
      RawClient reads(server->port());
      reads.send(get("/small"));
      tally.note(
          reads.read_all().ends_with("\r\n\r\nxxxxxxxxxx") ? Finding::kFine : Finding::kWrongBytes,
          "a client that reads" + where);
    }
    tally.detected += silent.size();
    // The last one was not cut off, and gets all of it.
    tally.note(silent.back()->read_all().size() > kSize ? Finding::kFine : Finding::kWrongBytes,
               "a client that reads late" + where);
    silent.clear();
    while (server->stats().open > 0) std::this_thread::yield();
    tally.expect(server->stats().unread == 0_B, "memory was not given back" + where);
    run.tell(round + 1, rounds);
  }
  return tally;
}

}  // namespace afterimage::fire

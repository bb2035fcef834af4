// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Requests that end the model server that runs them, and servers that close connections without an
// answer: what one client asks again and again must not cost the fleet.
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <memory>

#include "fire/fire.h"
#include "gateway/fleet/fleet_backend.h"
#include "testing/mortal_server.h"

namespace afterimage::fire {
namespace {

using testing::MortalServer;
using Fate = MortalServer::Fate;

constexpr std::size_t kReplicas = 4;
constexpr int kAsked = 5;  // times that a client asks the same

std::string response(unsigned status) {
  return fmt::format(
      "HTTP/1.1 {} X\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}", status);
}

/// The first word of a request is its fate.
MortalServer::Act behave(const std::string& head, const std::string& body) {
  if (head.starts_with("GET ")) return {.answer = response(200)};
  if (body.starts_with("die")) return {.fate = Fate::kDie};
  if (body.starts_with("fail")) return {.fate = Fate::kDie, .answer = response(500)};
  if (body.starts_with("close")) return {.fate = Fate::kClose};
  return {.answer = response(200)};
}

/// The status of the response; 0: an error instead.
class StatusListener final : public BackendListener {
 public:
  std::future<unsigned> status() { return promise_.get_future(); }
  void on_head(unsigned status, HttpHeaders /*headers*/) override { status_ = status; }
  void on_bytes(std::string_view /*bytes*/) override {}
  void on_end() override { promise_.set_value(status_); }
  void on_error(const Error& /*error*/) override { promise_.set_value(0); }
  void on_recorded_head(unsigned status, HttpHeaders headers) override {
    on_head(status, std::move(headers));
  }
  void on_record(ApiRecord /*record*/) override {}
  void on_bounded() override {}

 private:
  std::promise<unsigned> promise_;
  unsigned status_ = 0;
};

class Fleet4 {
 public:
  explicit Fleet4(const Clock& clock) {
    UpstreamSettings settings;
    settings.health_interval = std::chrono::hours(1);
    settings.routing = "round-robin";
    for (std::size_t i = 0; i < kReplicas; ++i) {
      servers_.push_back(std::make_unique<MortalServer>(behave));
      settings.replicas.push_back(fmt::format("{} name=r{}", servers_.back()->url(), i));
    }
    backend_ = FleetBackend::create(settings, "", caller_, threads_, clock).value();
  }
  ~Fleet4() {
    backend_.reset();
    threads_.stop();
  }
  Fleet4(const Fleet4&) = delete;
  Fleet4& operator=(const Fleet4&) = delete;

  unsigned ask(const std::string& body) {
    const auto listener = std::make_shared<StatusListener>();
    auto status = listener->status();
    backend_->ask({.method = "POST",
                   .target = "/v1/chat/completions",
                   .headers = {},
                   .body = std::make_shared<const std::string>(body),
                   .operation = ApiOperation::kChat},
                  listener);
    return status.get();
  }
  [[nodiscard]] int posts() const {
    int all = 0;
    for (const auto& server : servers_) all += server->posts();
    return all;
  }
  [[nodiscard]] std::size_t dead() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(servers_, [](const auto& server) { return server->is_dead(); }));
  }

 private:
  std::vector<std::unique_ptr<MortalServer>> servers_;
  IoThreads threads_{1};
  HttpCaller caller_{{}, threads_};
  std::unique_ptr<FleetBackend> backend_;
};

}  // namespace

Tally run_fatal(const FireRun& run) {
  Tally tally;
  const std::uint64_t rounds = run.of(150, 6);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Rng rng(run.seed * 7'919 + round);
    Fleet4 fleet(run.clock);
    const std::string where = fmt::format(": round {} of --only fatal --seed {}", round, run.seed);
    const auto answers = [&] {
      for (std::uint64_t i = 1 + rng.below(3); i > 0; --i) {
        tally.note(fleet.ask(fmt::format("fine {}", rng.next())) == 200 ? Finding::kFine
                                                                        : Finding::kWrongBytes,
                   "a request beside them" + where);
      }
    };
    answers();
    const int before = fleet.posts();
    tally.expect(fleet.ask("close") != 200, "a closed connection is an answer" + where);
    tally.expect(fleet.posts() - before <= 2, "closed without an answer, it was sent on" + where);
    answers();
    const std::string fatal = rng.chance(0.5) ? "die" : "fail";
    for (int i = 1; i <= kAsked; ++i) {
      tally.expect(fleet.ask(fatal) >= 500, "a fatal request has an answer" + where);
      tally.expect(fleet.dead() <= static_cast<std::size_t>(std::min(i, 2)),
                   fmt::format("asked {} times, it ended {} replicas{}", i, fleet.dead(), where));
    }
    answers();
    tally.injected += 1 + kAsked;
    tally.detected += 1 + kAsked;
    run.tell(round + 1, rounds);
  }
  return tally;
}

}  // namespace afterimage::fire

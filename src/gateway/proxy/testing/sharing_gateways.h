// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "afterimage/tier.h"
#include "caches/invalidation/invalidation_log.h"
#include "foundation/platform/testing/manual_wall_clock.h"
#include "foundation/platform/testing/memory_files.h"
#include "gateway/proxy/gateway.h"
#include "testing/leases_in_memory.h"
#include "testing/running_gateway.h"
#include "testing/simulated_cell.h"

/// Several gateways before one model that share answers, in one process.
namespace afterimage::testing {

/// Until a test that waits gives up; nothing is decided by it.
inline constexpr Duration kPatience = std::chrono::seconds(20);

/// Who asks, in the order in which they came, waits until a test answers.
class HeldModel final : public Backend {
 public:
  [[nodiscard]] std::string_view kind() const override { return "test"; }
  [[nodiscard]] std::string name() const override { return "m"; }
  [[nodiscard]] ModelIdentity identity(const std::string& model) const override {
    return {.model = model,
            .weights_epoch = "",
            .encoder = "upstream",
            .adapter = "",
            .chat_template = ""};
  }
  [[nodiscard]] bool takes_anything() const override { return true; }
  BackendCall ask(BackendRequest /*asked*/, std::shared_ptr<BackendListener> listener) override {
    bool answers = false;
    {
      const std::scoped_lock lock(mutex_);
      asked_.push_back(listener);
      answers = at_once_;
      changed_.notify_all();
    }
    if (answers) say(*listener, Model::said("at once"));
    return {.cancel =
                [weak = std::weak_ptr(listener)] {
                  const auto wants = weak.lock();
                  if (wants != nullptr) wants->on_error({ErrorCode::kCancelled, "cancelled"});
                },
            .handle = {}};
  }

  std::size_t asked() {
    const std::scoped_lock lock(mutex_);
    return asked_.size();
  }
  void wait_asked(std::size_t times) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return asked_.size() >= times; }));
  }
  void answer_at_once() {
    const std::scoped_lock lock(mutex_);
    at_once_ = true;
  }
  /// To the one who asked as the `which`-th, 0 the first.
  void answer(std::size_t which, const std::string& text, const std::string& finish = "stop") {
    say(*listener(which), Model::said(text, finish));
  }
  void refuse(std::size_t which, unsigned status) {
    say(*listener(which), R"({"error":{"message":"no"}})", status);
  }
  void fail(std::size_t which) {
    listener(which)->on_error({ErrorCode::kUnavailable, "the model is gone"});
  }
  std::shared_ptr<BackendListener> listener(std::size_t which) {
    const std::scoped_lock lock(mutex_);
    return asked_.at(which);
  }

 private:
  static void say(HttpListener& listener, const std::string& body, unsigned status = 200) {
    listener.on_head(status, {{"Content-Type", "application/json"}});
    listener.on_bytes(body);
    listener.on_end();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool at_once_ = false;
  std::vector<std::shared_ptr<BackendListener>> asked_;
};

/// Servers' entries. A test may step in before one is put.
class SteppedTier final : public Tier {
 public:
  explicit SteppedTier(MemoryBudget& budget) : kept_(budget) {}
  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    if (before_put) before_put();
    return kept_.put(key, meta, bytes);
  }
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override {
    ++gets;
    return kept_.get(key, room);
  }
  Result<void> erase(const TierKey& key) override { return kept_.erase(key); }
  Result<void> flush() override { return kept_.flush(); }
  [[nodiscard]] bool may_contain(const TierKey& key) const override {
    return knows_nothing || kept_.may_contain(key);
  }
  [[nodiscard]] TierStats stats() const override { return kept_.stats(); }

  std::function<void()> before_put;
  std::atomic<int> gets = 0;
  std::atomic<bool> knows_nothing = false;  // until it is asked, as a tier of servers

 private:
  HostTier kept_;
};

/// What all gateways have.
struct GatewayWorld {
  ManualClock clock;  // of requests
  ManualClock still;  // of what is kept and of leases
  testing::ManualWallClock wall{WallTime(std::chrono::seconds(1'000'000))};
  MemoryBudget below{16_MiB};
  SteppedTier tier{below};
  SimulatedServers servers;
  LeasesInMemory turns;
  HeldModel model;
};

/// One gateway.
class SharingGateway {
 public:
  explicit SharingGateway(GatewayWorld& world, const std::string& toml = "")
      : ids_(world.wall),
        log_({.level = LogLevel::kOff}, world.wall, [](std::string_view) { return true; }),
        cell_(world.servers),
        list_(cell_, kSecret),
        reuse_(Reuse::create({.budget = 16_MiB, .answers = AnswerReuse()}, kSecret, world.still)
                   .value()),
        archive_(AnswerArchive::open({.tier = world.tier,
                                      .transfer = transfer_,
                                      .cache = *reuse_->answer_cache(),
                                      .files = files_,
                                      .erasures = "",
                                      .clock = world.still,
                                      .wall = world.wall,
                                      .shared = &list_,
                                      .wait = {},
                                      .turns = &world.turns})
                     .value()),
        caller_({}, threads_),
        gateway_(
            Gateway::create(parse_settings(toml, "test.toml").value(), {.backend = world.model,
                                                                        .reuse = *reuse_,
                                                                        .archive = archive_.get(),
                                                                        .caller = caller_,
                                                                        .threads = threads_,
                                                                        .metrics = metrics_,
                                                                        .log = log_,
                                                                        .ids = ids_,
                                                                        .clock = world.clock,
                                                                        .root = kSecret})
                .value()) {
    EXPECT_TRUE(archive_->refresh().has_value());
    server_ = HttpServer::listen(
                  {.error_reply = nullptr},
                  [this](HttpRequest request, Responder responder) {
                    gateway_->handle(std::move(request), std::move(responder));
                  },
                  threads_)
                  .value();
  }
  /// As a service ends.
  ~SharingGateway() {
    server_.reset();
    threads_.stop();
    gateway_->stop();
    gateway_->responses().forget_all();
  }
  SharingGateway(const SharingGateway&) = delete;
  SharingGateway& operator=(const SharingGateway&) = delete;

  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  Gateway& gateway() { return *gateway_; }
  [[nodiscard]] std::uint64_t in_flight() const { return gateway_->counts().snapshot().in_flight; }
  /// Of its only request so far; waits for it.
  Decision decision() {
    const SystemClock clock;
    const Duration end = clock.now() + kPatience;
    while (gateway_->decisions().last() == 0 && clock.now() < end) std::this_thread::yield();
    return gateway_->decisions().find(1).value_or(Decision());
  }
  /// afterimage_answer_leases_total: "acquired", "elsewhere", "expired", "unavailable".
  [[nodiscard]] std::uint64_t leases(const std::string& result) const {
    const std::string text = metrics_.text();
    const std::string name = "afterimage_answer_leases_total{result=\"" + result + "\"} ";
    const auto at = text.find(name);
    return at == std::string::npos ? 0 : std::stoull(text.substr(at + name.size()));
  }

 private:
  static constexpr Secret kSecret{std::byte{7}};
  MemoryBudget transfer_{1_MiB};
  testing::MemoryFiles files_;
  Metrics metrics_;
  IdGenerator ids_;
  Log log_;
  SimulatedCell cell_;
  InvalidationLog list_;
  std::unique_ptr<Reuse> reuse_;
  std::unique_ptr<AnswerArchive> archive_;
  IoThreads threads_{2};
  HttpCaller caller_;
  std::unique_ptr<Gateway> gateway_;
  std::unique_ptr<HttpServer> server_;
};

/// One request to a gateway, and its answer once it is there.
class Waiting {
 public:
  Waiting(SharingGateway& gateway, const std::string& body, const std::string& headers = "")
      : thread_([this, port = gateway.port(), body, headers] {
          said_ = testing::ask(port, "POST", "/v1/chat/completions", body, headers);
        }) {}
  ~Waiting() { said(); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  const Said& said() {
    if (thread_.joinable()) thread_.join();
    return said_;
  }

 private:
  Said said_;
  std::thread thread_;
};

}  // namespace afterimage::testing

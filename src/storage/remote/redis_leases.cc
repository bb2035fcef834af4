// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/redis_leases.h"

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/secret.h"
#include "foundation/platform/fault_points.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"
#include "storage/remote/manifest.h"

namespace afterimage {

struct RedisLeases::State {
  State(RemoteTier& its_tier, RedisLeasesOptions its_options)
      : tier(its_tier), options(its_options), thread([this] { run(); }) {}
  ~State() {
    {
      const MutexLock lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
    for (const auto& [token, name] : held) {
      static_cast<void>(run_if_held(name, token, {"DEL", name}));
    }
  }

  /// Runs `command` in a transaction if the lease still holds our token. False: it does not, and
  /// nothing was done.
  Result<bool> run_if_held(const std::string& name, const std::string& token,
                           std::initializer_list<std::string_view> command);
  void run();
  void renew();
  void release(const std::string& token);

  RemoteTier& tier;
  const RedisLeasesOptions options;
  mutable Mutex mutex;
  TimedCondition changed;
  std::map<std::string, std::string> held AFI_GUARDED_BY(mutex);  // token to lease key
  RedisLeasesStats stats AFI_GUARDED_BY(mutex);
  bool stopping AFI_GUARDED_BY(mutex) = false;
  std::thread thread;  // last: it uses the others
};

/// Renewed while this object lives, and then until the entry's pending writes have been sent.
class RedisLeases::HeldLease final : public Lease {
 public:
  HeldLease(std::shared_ptr<State> state, TierKey entry, std::string token)
      : state_(std::move(state)), entry_(entry), token_(std::move(token)) {}
  HeldLease(const HeldLease&) = delete;
  HeldLease& operator=(const HeldLease&) = delete;
  ~HeldLease() override {
    const auto release = [state = std::weak_ptr(state_), token = token_] {
      if (const auto alive = state.lock()) alive->release(token);
    };
    if (AFI_STEP("turn.put.first")) {
      state_->tier.when_settled(entry_, release);
    } else {
      release();
    }
  }

 private:
  std::shared_ptr<State> state_;
  TierKey entry_;
  std::string token_;
};

RedisLeases::RedisLeases(RemoteTier& tier, RedisLeasesOptions options)
    : state_(std::make_shared<State>(tier, options)) {}
RedisLeases::~RedisLeases() {
  // Pending writes release their leases when they have been sent.
  static_cast<void>(state_->tier.flush());
}

Result<bool> RedisLeases::State::run_if_held(const std::string& name, const std::string& token,
                                             std::initializer_list<std::string_view> command) {
  bool ours = false;
  AFI_TRY_VOID(tier.cluster().call(
      name, {.lane = RemoteLane::kControl, .time = 5 * tier.cluster().servers().timeout},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        const auto send_command =
            [&](std::initializer_list<std::string_view> parts) -> Result<RespValue> {
          auto reply = connection.ask(parts, deadline);
          if (reply.has_value() && reply->kind == RespKind::kError) {
            // The connection may still have a WATCH or MULTI open; do not reuse it.
            connection.abandon();
            refusal = reply->text;
          }
          return reply;
        };
        ours = false;
        if (AFI_STEP("turn.watch")) AFI_TRY_VOID(send_command({"WATCH", name}));
        if (!refusal.empty()) return {};
        AFI_TRY(RespValue reply, send_command({"GET", name}));
        if (!refusal.empty()) return {};
        if (!AFI_GUARD("turn.token", reply.kind == RespKind::kBulk && reply.text == token)) {
          AFI_TRY_VOID(send_command({"UNWATCH"}));
          return {};
        }
        AFI_POINT("turn.compared");
        AFI_TRY(reply, send_command({"MULTI"}));
        if (!refusal.empty()) return {};
        AFI_TRY(reply, send_command(command));
        if (!refusal.empty()) return {};
        AFI_TRY(reply, send_command({"EXEC"}));
        // One reply in the list: executed. Nil: the key changed after WATCH.
        ours = AFI_GUARD("turn.done", reply.kind == RespKind::kList && reply.items.size() == 1);
        return {};
      }));
  return ours;
}

void RedisLeases::State::run() {
  while (true) {
    {
      const MutexLock lock(mutex);
      changed.wait_for(mutex, options.lease / 3, [this]() AFI_REQUIRES(mutex) { return stopping; });
      if (stopping) return;
    }
    if (AFI_STEP("turn.renew")) renew();
  }
}

void RedisLeases::State::renew() {
  std::map<std::string, std::string> leases;
  {
    const MutexLock lock(mutex);
    leases = held;
  }
  const std::string time = milliseconds_text(options.lease);
  for (const auto& [token, name] : leases) {
    const auto ours = run_if_held(name, token, {"PEXPIRE", name, time});
    if (!ours.has_value() || *ours) continue;
    const MutexLock lock(mutex);
    stats.expired += held.erase(token);
  }
}

void RedisLeases::State::release(const std::string& token) {
  std::string name;
  {
    const MutexLock lock(mutex);
    const auto lease = held.find(token);
    if (lease == held.end()) return;
    name = lease->second;
    held.erase(lease);
  }
  const auto ours = run_if_held(name, token, {"DEL", name});
  if (!ours.has_value() || *ours) return;
  const MutexLock lock(mutex);
  ++stats.expired;
}

LeaseService::Claim RedisLeases::claim(const TierKey& lease_key, const TierKey& entry) {
  State& s = *state_;
  const std::string name = lease_name(lease_key);
  const auto unknown = [&] {
    const MutexLock lock(s.mutex);
    ++s.stats.unavailable;
    return Claim{};
  };
  const auto random = random_secret();
  if (!random.has_value()) return unknown();
  std::string token = to_hex(*random);
  // The hour is for the fault test that takes away lease expiry.
  const std::string time =
      milliseconds_text(AFI_STEP("turn.ends") ? s.options.lease : std::chrono::hours(1));
  const std::string command = AFI_STEP("turn.if.none")
                                  ? resp_command({"SET", name, token, "NX", "PX", time})
                                  : resp_command({"SET", name, token, "PX", time});
  bool ours = false;
  const auto asked = s.tier.cluster().call(
      name, {.lane = RemoteLane::kControl, .time = s.tier.cluster().servers().timeout},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        const std::string_view piece = command;
        AFI_TRY_VOID(connection.send(std::span(&piece, 1), deadline));
        AFI_TRY(RespHead head, connection.read_head(deadline));
        if (head.kind == RespKind::kError) {
          refusal = std::move(head.text);
        } else if (!AFI_GUARD("turn.reply",
                              head.kind == RespKind::kNil || head.kind == RespKind::kText)) {
          connection.abandon();
          return fail(ErrorCode::kCorruption, connection.name() + ": unexpected reply to SET NX");
        }
        ours = AFI_GUARD("turn.free", head.kind == RespKind::kText);
        return {};
      });
  if (!asked.has_value()) return unknown();
  const MutexLock lock(s.mutex);
  if (!ours) {
    ++s.stats.elsewhere;
    return {.status = LeaseStatus::kElsewhere, .lease = nullptr};
  }
  ++s.stats.acquired;
  s.held.emplace(token, name);
  return {.status = LeaseStatus::kAcquired,
          .lease = std::make_unique<HeldLease>(state_, entry, std::move(token))};
}

bool RedisLeases::wait(std::uint32_t attempt, const std::stop_token& stop) {
  const RedisLeasesOptions& options = state_->options;
  Duration so_far{0};
  Duration next = options.first_wait;
  for (std::uint32_t i = 0; i < attempt; ++i) {
    so_far += next;
    next = std::min(2 * next, options.longest_wait);
  }
  if (so_far >= options.timeout || stop.stop_requested()) return false;
  Mutex waiting;
  TimedCondition woken;
  const std::stop_callback wake(stop, [&] {
    const MutexLock lock(waiting);
    woken.notify_all();
  });
  const MutexLock lock(waiting);
  return !woken.wait_for(waiting, next, [&] { return stop.stop_requested(); });
}

RedisLeasesStats RedisLeases::stats() const {
  const MutexLock lock(state_->mutex);
  return state_->stats;
}

}  // namespace afterimage

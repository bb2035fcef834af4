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
namespace {}  // namespace

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
      static_cast<void>(if_ours(name, token, {"DEL", name}));
    }
  }

  /// Does it while the turn is ours. False: it is not, and nothing was done.
  Result<bool> if_ours(const std::string& name, const std::string& token,
                       std::initializer_list<std::string_view> command);
  void run();
  void renew();
  void give_back(const std::string& token);

  RemoteTier& tier;
  const RedisLeasesOptions options;
  mutable Mutex mutex;
  TimedCondition changed;
  std::map<std::string, std::string> held AFI_GUARDED_BY(mutex);  // token, and the turn's name
  RedisLeasesStats stats AFI_GUARDED_BY(mutex);
  bool stopping AFI_GUARDED_BY(mutex) = false;
  std::thread thread;  // last: it uses the others
};

/// Renewed while it lives, and after that until what was put has arrived.
class RedisLeases::Held final : public Lease {
 public:
  Held(std::shared_ptr<State> state, TierKey entry, std::string token)
      : state_(std::move(state)), entry_(entry), token_(std::move(token)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() override {
    const auto give_back = [state = std::weak_ptr(state_), token = token_] {
      if (const auto alive = state.lock()) alive->give_back(token);
    };
    if (AFI_STEP("turn.put.first")) {
      state_->tier.after(entry_, give_back);
    } else {
      give_back();
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
  // What is on its way calls back when it has arrived.
  static_cast<void>(state_->tier.flush());
}

Result<bool> RedisLeases::State::if_ours(const std::string& name, const std::string& token,
                                         std::initializer_list<std::string_view> command) {
  bool ours = false;
  AFI_TRY_VOID(tier.cluster().talk(
      name, {.lane = RemoteLane::kControl, .time = 5 * tier.cluster().servers().timeout},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        const auto say = [&](std::initializer_list<std::string_view> parts) -> Result<RespValue> {
          auto said = connection.ask(parts, deadline);
          if (said.has_value() && said->kind == RespKind::kError) {
            // Whatever was begun on this connection is not ended on it.
            connection.give_up();
            refusal = said->text;
          }
          return said;
        };
        ours = false;
        if (AFI_STEP("turn.watch")) AFI_TRY_VOID(say({"WATCH", name}));
        if (!refusal.empty()) return {};
        AFI_TRY(RespValue said, say({"GET", name}));
        if (!refusal.empty()) return {};
        if (!AFI_GUARD("turn.token", said.kind == RespKind::kBulk && said.text == token)) {
          AFI_TRY_VOID(say({"UNWATCH"}));
          return {};
        }
        AFI_POINT("turn.compared");
        AFI_TRY(said, say({"MULTI"}));
        if (!refusal.empty()) return {};
        AFI_TRY(said, say(command));
        if (!refusal.empty()) return {};
        AFI_TRY(said, say({"EXEC"}));
        // A list of one answer: done. Nothing: the name changed between.
        ours = AFI_GUARD("turn.done", said.kind == RespKind::kList && said.items.size() == 1);
        return {};
      }));
  return ours;
}

void RedisLeases::State::run() {
  while (true) {
    {
      const MutexLock lock(mutex);
      changed.wait_for(mutex, options.lease / 3, [this] { return stopping; });
      if (stopping) return;
    }
    if (AFI_STEP("turn.renew")) renew();
  }
}

void RedisLeases::State::renew() {
  std::map<std::string, std::string> mine;
  {
    const MutexLock lock(mutex);
    mine = held;
  }
  const std::string time = milliseconds_text(options.lease);
  for (const auto& [token, name] : mine) {
    const auto ours = if_ours(name, token, {"PEXPIRE", name, time});
    if (!ours.has_value() || *ours) continue;
    const MutexLock lock(mutex);
    stats.expired += held.erase(token);
  }
}

void RedisLeases::State::give_back(const std::string& token) {
  std::string name;
  {
    const MutexLock lock(mutex);
    const auto mine = held.find(token);
    if (mine == held.end()) return;
    name = mine->second;
    held.erase(mine);
  }
  const auto ours = if_ours(name, token, {"DEL", name});
  if (!ours.has_value() || *ours) return;
  const MutexLock lock(mutex);
  ++stats.expired;
}

LeaseService::Claim RedisLeases::claim(const TierKey& turn, const TierKey& entry) {
  State& s = *state_;
  const std::string name = turn_name(turn);
  const auto unknown = [&] {
    const MutexLock lock(s.mutex);
    ++s.stats.unknown;
    return Claim{};
  };
  const auto random = random_secret();
  if (!random.has_value()) return unknown();
  std::string token = to_hex(*random);
  // The hour is for who tries what a turn is that does not end.
  const std::string time =
      milliseconds_text(AFI_STEP("turn.ends") ? s.options.lease : std::chrono::hours(1));
  const std::string command = AFI_STEP("turn.if.none")
                                  ? resp_command({"SET", name, token, "NX", "PX", time})
                                  : resp_command({"SET", name, token, "PX", time});
  bool ours = false;
  const auto asked = s.tier.cluster().talk(
      name, {.lane = RemoteLane::kControl, .time = s.tier.cluster().servers().timeout},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        const std::string_view piece = command;
        AFI_TRY_VOID(connection.send(std::span(&piece, 1), deadline));
        AFI_TRY(RespHead head, connection.read_head(deadline));
        if (head.kind == RespKind::kError) {
          refusal = std::move(head.text);
        } else if (!AFI_GUARD("turn.reply",
                              head.kind == RespKind::kNil || head.kind == RespKind::kText)) {
          connection.give_up();
          return fail(ErrorCode::kCorruption, connection.name() + ": it answers something else");
        }
        ours = AFI_GUARD("turn.free", head.kind == RespKind::kText);
        return {};
      });
  if (!asked.has_value()) return unknown();
  const MutexLock lock(s.mutex);
  if (!ours) {
    ++s.stats.elsewhere;
    return {.status = LeaseStatus::kTheirs, .lease = nullptr};
  }
  ++s.stats.taken;
  s.held.emplace(token, name);
  return {.status = LeaseStatus::kOurs,
          .lease = std::make_unique<Held>(state_, entry, std::move(token))};
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

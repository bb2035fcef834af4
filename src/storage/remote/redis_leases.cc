// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/redis_leases.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
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

/// What we ask Redis to do with leases that we still hold.
enum class LeaseUpdate : unsigned char { kRenew, kRelease };

struct RedisLeases::State {
  /// A lease of this process: its key on the servers, and what is stored there.
  struct Held {
    std::string name;
    std::string token;
  };

  State(RemoteTier& its_tier, RedisLeasesOptions its_options)
      : tier(its_tier), options(its_options), renewer([this] { renew_all(); }) {
    for (unsigned i = 0; i < kReleasers; ++i) releasers.emplace_back([this] { release_all(); });
  }
  ~State() {
    {
      const MutexLock lock(mutex);
      stopping = true;
      for (const auto& [token, name] : held) releasing.push_back({.name = name, .token = token});
      held.clear();
    }
    changed.notify_all();
    released.notify_all();
    renewer.join();
    for (std::thread& thread : releasers) thread.join();
  }

  /// Updates those leases that still hold our tokens, each at most once; of a standalone server all
  /// in one transaction. Counts those that do not. What no server answered stays as it is.
  void update(std::span<const Held> leases, LeaseUpdate what);
  /// The same in one transaction: of each lease whether it was ours. nullopt: one of them changed
  /// meanwhile, and nothing was done.
  Result<std::optional<std::vector<bool>>> update_together(std::span<const Held> leases,
                                                           LeaseUpdate what);
  void renew_all();
  void release_all();
  void renew();
  void release(const std::string& token);

  static constexpr unsigned kReleasers = 3;
  static constexpr std::size_t kMostTogether = 64;
  static constexpr int kTries = 3;

  RemoteTier& tier;
  const RedisLeasesOptions options;
  mutable Mutex mutex;
  TimedCondition changed;
  Condition released;
  std::map<std::string, std::string> held AFI_GUARDED_BY(mutex);  // token to lease key
  std::deque<Held> releasing AFI_GUARDED_BY(mutex);
  RedisLeasesStats stats AFI_GUARDED_BY(mutex);
  bool stopping AFI_GUARDED_BY(mutex) = false;
  std::thread renewer;  // last, with the others: they use the rest
  std::vector<std::thread> releasers;
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

/// Two round trips: WATCH and GET, then MULTI, the update and EXEC. A connection on which something
/// unexpected was said may have a WATCH or MULTI open, and is not used again.
class RedisLeases::Transaction {
 public:
  Transaction(RespConnection& connection, Duration deadline, std::string& refusal)
      : connection_(connection), deadline_(deadline), refusal_(refusal) {}

  Result<void> send(const std::string& commands) {
    const std::string_view piece = commands;
    return connection_.send(std::span(&piece, 1), deadline_);
  }
  /// An error reply becomes the refusal: then nothing else is to be read.
  Result<RespValue> read() {
    auto reply = connection_.read_value(deadline_);
    if (reply.has_value() && reply->kind == RespKind::kError) {
      connection_.abandon();
      refusal_ = reply->text;
    }
    return reply;
  }
  [[nodiscard]] bool refused() const { return !refusal_.empty(); }

 private:
  RespConnection& connection_;
  const Duration deadline_;
  std::string& refusal_;
};

Result<std::optional<std::vector<bool>>> RedisLeases::State::update_together(
    std::span<const Held> leases, LeaseUpdate what) {
  std::vector<std::string_view> watch{"WATCH"};
  std::string look;
  for (const Held& lease : leases) {
    watch.push_back(lease.name);
    look += resp_command({"GET", lease.name});
  }
  const bool watches = AFI_STEP("turn.watch");
  if (watches) look.insert(0, resp_command(watch));
  const std::string time = milliseconds_text(options.lease);
  const auto command = [&](const std::string& name) {
    return what == LeaseUpdate::kRelease ? resp_command({"DEL", name})
                                         : resp_command({"PEXPIRE", name, time});
  };
  std::optional<std::vector<bool>> ours;
  AFI_TRY_VOID(tier.cluster().call(
      leases.front().name,
      {.lane = RemoteLane::kLease, .time = 2 * tier.cluster().servers().timeout},
      [&](RespConnection& connection, Duration deadline, std::string& refusal) -> Result<void> {
        Transaction server(connection, deadline, refusal);
        ours.emplace();
        AFI_TRY_VOID(server.send(look));
        if (watches) AFI_TRY_VOID(server.read());
        if (server.refused()) return {};
        std::size_t many = 0;
        std::string update = resp_command({"MULTI"});
        for (const Held& lease : leases) {
          AFI_TRY(const RespValue token, server.read());
          if (server.refused()) return {};
          ours->push_back(
              AFI_GUARD("turn.token", token.kind == RespKind::kBulk && token.text == lease.token));
          if (!ours->back()) continue;
          update += command(lease.name);
          ++many;
        }
        if (many == 0) {
          AFI_TRY_VOID(server.send(resp_command({"UNWATCH"})));
          AFI_TRY_VOID(server.read());
          return {};
        }
        AFI_POINT("turn.compared");
        AFI_TRY_VOID(server.send(update + resp_command({"EXEC"})));
        for (std::size_t i = 0; i < many + 1; ++i) {  // OK, and QUEUED for each
          AFI_TRY_VOID(server.read());
          if (server.refused()) return {};
        }
        AFI_TRY(const RespValue done, server.read());
        // As many replies as commands: executed. Nil: a key changed after WATCH.
        if (!AFI_GUARD("turn.done", done.kind == RespKind::kList && done.items.size() == many)) {
          ours.reset();
        }
        return {};
      }));
  return ours;
}

void RedisLeases::State::update(std::span<const Held> leases, LeaseUpdate what) {
  const std::size_t most = tier.cluster().is_cluster() ? 1 : kMostTogether;
  while (!leases.empty()) {
    const auto some = leases.first(std::min(most, leases.size()));
    leases = leases.subspan(some.size());
    auto ours = update_together(some, what);
    // Renewing a lease may be what came between: it is compared again.
    for (int again = 0; some.size() == 1 && again < kTries && ours.has_value(); ++again) {
      if (ours->has_value()) break;
      ours = update_together(some, what);
    }
    if (!ours.has_value()) continue;
    if (!ours->has_value() && some.size() > 1) {
      for (const Held& one : some) update({&one, 1}, what);
      continue;
    }
    const MutexLock lock(mutex);
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (ours->has_value() && (**ours)[i]) continue;
      // Of a renewal only if it was not released meanwhile.
      stats.expired += what == LeaseUpdate::kRelease ? 1 : held.erase(some[i].token);
    }
  }
}

void RedisLeases::State::renew_all() {
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
  std::vector<Held> leases;
  {
    const MutexLock lock(mutex);
    for (const auto& [token, name] : held) leases.push_back({.name = name, .token = token});
  }
  update(leases, LeaseUpdate::kRenew);
}

/// Releases what waits when it comes to it: the more wait, the more go together.
void RedisLeases::State::release_all() {
  while (true) {
    std::vector<Held> leases;
    {
      const MutexLock lock(mutex);
      while (!stopping && releasing.empty()) released.wait(mutex);
      if (releasing.empty()) return;
      const std::size_t most = tier.cluster().is_cluster() ? 1 : kMostTogether;
      while (!releasing.empty() && leases.size() < most) {
        leases.push_back(std::move(releasing.front()));
        releasing.pop_front();
      }
    }
    update(leases, LeaseUpdate::kRelease);
  }
}

void RedisLeases::State::release(const std::string& token) {
  {
    const MutexLock lock(mutex);
    const auto lease = held.find(token);
    if (lease == held.end()) return;
    releasing.push_back({.name = lease->second, .token = token});
    held.erase(lease);
  }
  released.notify_one();
}

LeaseService::Claim RedisLeases::claim(const TierKey& lease_key, const TierKey& entry) {
  MemoryBudget nothing{0_B};
  return claim_and_prefetch(lease_key, entry, {}, nothing);
}

LeaseService::Claim RedisLeases::claim_and_prefetch(const TierKey& lease_key, const TierKey& entry,
                                                    std::span<const TierKey> keys,
                                                    MemoryBudget& room) {
  State& s = *state_;
  const std::string name = lease_name(lease_key, entry);
  const auto random = random_secret();
  std::string token = random.has_value() ? to_hex(*random) : "";
  // The hour is for the fault test that takes away lease expiry.
  const std::string time =
      milliseconds_text(AFI_STEP("turn.ends") ? s.options.lease : std::chrono::hours(1));
  std::string command = AFI_STEP("turn.if.none")
                            ? resp_command({"SET", name, token, "NX", "PX", time})
                            : resp_command({"SET", name, token, "PX", time});
  RemoteTier::ClaimedLease asked;
  if (random.has_value()) {
    asked = s.tier.claim_and_prefetch(name, std::move(command), keys, room);
  }
  Claim claimed;
  claimed.prefetched = std::move(asked.prefetched);
  const MutexLock lock(s.mutex);
  if (!asked.granted.has_value()) {
    ++s.stats.unavailable;
    return claimed;
  }
  if (!*asked.granted) {
    ++s.stats.elsewhere;
    claimed.status = LeaseStatus::kElsewhere;
    return claimed;
  }
  ++s.stats.acquired;
  s.held.emplace(token, name);
  claimed.status = LeaseStatus::kAcquired;
  claimed.lease = std::make_unique<HeldLease>(state_, entry, std::move(token));
  return claimed;
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

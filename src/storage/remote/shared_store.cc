// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/shared_store.h"

#include <utility>

#include "afterimage/memory_budget.h"
#include "storage/redis/remote_address.h"
#include "storage/remote/redis_leases.h"
#include "storage/remote/remote_tier.h"

namespace afterimage {

struct SharedStore::State {
  explicit State(Bytes room) : in_flight(room) {}

  MemoryBudget in_flight;
  std::unique_ptr<RemoteTier> tier;
  std::unique_ptr<RedisLeases> leases;
};

SharedStore::SharedStore(std::unique_ptr<State> state) : state_(std::move(state)) {}

SharedStore::~SharedStore() = default;

Tier& SharedStore::tier() { return *state_->tier; }
const Tier& SharedStore::tier() const { return *state_->tier; }
LeaseService& SharedStore::leases() { return *state_->leases; }
RemoteTier& SharedStore::remote_tier() { return *state_->tier; }
const RemoteTier& SharedStore::remote_tier() const { return *state_->tier; }
const RedisLeases& SharedStore::redis_leases() const { return *state_->leases; }

Result<std::unique_ptr<SharedStore>> SharedStore::open(const SharedStoreOptions& options,
                                                       const Clock& clock) {
  AFI_TRY(RemoteUrl url, parse_remote_url(options.url));
  auto state = std::make_unique<State>(options.in_flight);
  RemoteTierOptions how{.ttl = options.ttl, .put_timeout = options.put_timeout};
  how.servers.seeds = std::move(url.servers);
  how.servers.user = std::move(url.user);
  how.servers.password = options.password;
  how.servers.timeout = options.timeout;
  how.servers.connect_timeout = 4 * options.timeout;
  AFI_TRY(state->tier, RemoteTier::open(std::move(how), state->in_flight, clock));
  state->leases = std::make_unique<RedisLeases>(*state->tier);
  return std::unique_ptr<SharedStore>(new SharedStore(std::move(state)));
}

}  // namespace afterimage

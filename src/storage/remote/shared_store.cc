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

namespace {

Result<RemoteServers> servers_of(const SharedStoreOptions& options) {
  AFI_TRY(RemoteUrl url, parse_remote_url(options.url));
  RemoteServers servers;
  servers.seeds = std::move(url.servers);
  servers.user = std::move(url.user);
  servers.password = options.password;
  servers.database = url.database;
  servers.sentinel_name = std::move(url.sentinel_name);
  servers.sentinel_password = options.sentinel_password;
  servers.timeout = options.timeout;
  servers.connect_timeout = 4 * options.timeout;
  const RemoteTlsOptions tls{.ca_file = options.tls_ca_file,
                             .certificate_file = options.tls_certificate_file,
                             .key_file = options.tls_key_file,
                             .server_name = options.tls_server_name};
  if (url.tls) {
    AFI_TRY(servers.tls, RemoteTls::load(tls));
  } else if (tls != RemoteTlsOptions()) {
    return fail(ErrorCode::kInvalidArgument,
                "files or a name for TLS are given, and the URL asks for none: write rediss:// or "
                "rediss+sentinel://");
  }
  return servers;
}

}  // namespace

Result<std::unique_ptr<SharedStore>> SharedStore::open(const SharedStoreOptions& options,
                                                       const Clock& clock) {
  AFI_TRY(RemoteServers servers, servers_of(options));
  auto state = std::make_unique<State>(options.in_flight);
  RemoteTierOptions how{
      .servers = std::move(servers), .ttl = options.ttl, .put_timeout = options.put_timeout};
  AFI_TRY(state->tier, RemoteTier::open(std::move(how), state->in_flight, clock));
  state->leases = std::make_unique<RedisLeases>(*state->tier);
  return std::unique_ptr<SharedStore>(new SharedStore(std::move(state)));
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/shared_store.h"

#include <utility>

#include "storage/redis/remote_address.h"

namespace afterimage {

Result<std::unique_ptr<SharedStore>> SharedStore::open(const SharedStoreOptions& options,
                                                       const Clock& clock) {
  AFI_TRY(RemoteUrl url, parse_remote_url(options.url));
  std::unique_ptr<SharedStore> store(new SharedStore(options.in_flight));
  RemoteTierOptions how{.ttl = options.ttl, .put_timeout = options.put_timeout};
  how.servers.seeds = std::move(url.servers);
  how.servers.user = std::move(url.user);
  how.servers.password = options.password;
  how.servers.timeout = options.timeout;
  how.servers.connect_timeout = 4 * options.timeout;
  AFI_TRY(store->tier_, RemoteTier::open(std::move(how), store->in_flight_, clock));
  store->turns_ = std::make_unique<RedisLeases>(*store->tier_);
  return store;
}

}  // namespace afterimage

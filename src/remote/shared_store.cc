// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/remote/shared_store.h"

#include <utility>

#include "afterimage/remote/remote_address.h"

namespace afterimage {

Result<std::unique_ptr<SharedStore>> SharedStore::open(const SharedStoreOptions& options,
                                                       const Clock& clock) {
  AFI_TRY(RemoteUrl url, parse_remote_url(options.url));
  std::unique_ptr<SharedStore> store(new SharedStore(options.in_flight));
  RemoteTierOptions how{.ttl = options.ttl, .put_patience = options.put_patience};
  how.servers.seeds = std::move(url.servers);
  how.servers.user = std::move(url.user);
  how.servers.password = options.password;
  how.servers.timeout = options.timeout;
  how.servers.connect_timeout = 4 * options.timeout;
  AFI_TRY(store->tier_, RemoteTier::open(std::move(how), store->in_flight_, clock));
  store->turns_ = std::make_unique<RemoteTurns>(*store->tier_);
  return store;
}

}  // namespace afterimage

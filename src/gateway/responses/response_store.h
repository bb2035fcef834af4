// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "gateway/protocol/tenant_store.h"

namespace afterimage {

/// A response, as previous_response_id needs it.
struct StoredResponse {
  std::string response;  // the response object
  std::string items;     // the request's input items, a JSON array
  std::string messages;  // of the whole conversation as a chat, without instructions: "{…},{…}"
  std::string first_instructions;  // of its first items: what `instructions` says now stands before
};

/// Responses by id, as TenantStore keeps them.
///
/// Errors   find, erase: kNotFound: there is none, it has left, or it is another tenant's; which of
///          these, nobody learns.
/// Threads  Any.
class ResponseStore {
 public:
  /// `capacity` 0: nothing is kept. `clock` outlives it.
  ResponseStore(Bytes capacity, Duration ttl, const Clock& clock) : kept_(capacity, ttl, clock) {}

  /// False: it is larger than the capacity, and is not kept.
  bool put(const std::string& tenant, const std::string& id, StoredResponse response);
  [[nodiscard]] Result<std::shared_ptr<const StoredResponse>> find(const std::string& tenant,
                                                                   std::string_view id);
  Result<void> erase(const std::string& tenant, std::string_view id);
  /// Erases conversations with media: whose they are, they do not say. Returns how many.
  std::uint64_t erase_with_media();
  std::uint64_t erase_tenants(const std::function<bool(std::string_view tenant)>& chosen);
  [[nodiscard]] bool is_enabled() const { return kept_.capacity() > Bytes(0); }

 private:
  TenantStore<StoredResponse> kept_;
};

}  // namespace afterimage

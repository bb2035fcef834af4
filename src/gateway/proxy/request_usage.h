// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/proxy/gateway.h"
#include "gateway/proxy/refusal.h"
#include "gateway/proxy/request_terms.h"
#include "gateway/proxy/shared_response.h"

namespace afterimage {

/// Of a key with a budget of money: a refusal if nobody knows what the request costs. A model without a
/// price would not count, and a request that cannot be read (`why` not) could name any.
[[nodiscard]] std::optional<Refusal> price_refusal(const RequestSubject& asked,
                                                   const PriceTable& prices,
                                                   std::string_view why = {});
/// Of a path whose answers are not reused.
[[nodiscard]] std::optional<Refusal> path_price_refusal(const RequestSubject& asked,
                                                        std::string_view method);

/// Charges a request's key with what the request used. Does nothing for who has no account.
struct RequestUsage {
  const RequestSubject& asked;
  const ConfigSnapshot& config;
  KeyStore& keys;

  /// Whose tokens have to be counted.
  [[nodiscard]] bool is_counted() const { return asked.tenant.account != nullptr; }
  /// What the call of the backend used that this request led; nothing if the backend failed.
  void charge_call(const SharedResponse& response, const Result<ApiRecord>& record) const;
  /// What it did not use, because the answer was there or somebody else asked.
  void charge_saved(std::uint64_t prompt_tokens, std::uint64_t output_tokens) const;
};

}  // namespace afterimage

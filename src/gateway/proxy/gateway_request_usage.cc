// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What a request used: counted for its key, and checked against budgets of money.
#include <algorithm>
#include <cmath>

#include "gateway/proxy/gateway_request.h"

namespace afterimage {
namespace {

constexpr std::uint64_t kBytesOfAToken = 4;  // of text, where the model's server says nothing

}  // namespace

/// A model without a price would not count, and a request that cannot be read could name any.
std::optional<GatewayRequest::Refusal> GatewayRequest::check_price() const {
  if (tenant_.account == nullptr || !tenant_.account->has_money_budget()) return std::nullopt;
  if (!operation_.has_value()) {
    const bool reads = request_.method == "GET" || request_.method == "HEAD";
    if (reads || request_.method == "DELETE") return std::nullopt;
    return Refusal{403,
                   "the API key " + tenant_.name +
                       " has a budget of money, and what this path costs is not known",
                   "invalid_request_error", "price_unknown"};
  }
  if (api_ == nullptr) {
    return Refusal{400,
                   "the API key " + tenant_.name +
                       " has a budget of money, and the request cannot be read: " + decision_.why,
                   "invalid_request_error", "invalid_body"};
  }
  if (config_->prices.has(api_->model)) return std::nullopt;
  return Refusal{403,
                 "the API key " + tenant_.name + " has a budget of money, and the model '" +
                     api_->model + "' has no price: the operator can add it to tenancy.prices",
                 "invalid_request_error", "price_unknown"};
}

/// Of the body's text; media are not counted, as nobody knows how many tokens a server makes of them.
std::uint64_t GatewayRequest::estimated_prompt_tokens() const {
  std::uint64_t bytes = body_->size();
  if (api_ != nullptr) {
    for (const ApiMedia& media : api_->media) {
      const std::uint64_t base64 = media.bytes == nullptr ? 0 : media.bytes->size() / 3 * 4;
      bytes -= std::min(bytes, base64);
    }
  }
  return std::max<std::uint64_t>(1, bytes / kBytesOfAToken);
}

void GatewayRequest::charge_call(const SharedResponse& response, const Result<ApiRecord>& record) {
  if (tenant_.account == nullptr || response.status() != 200) return;
  const SharedResponse::Usage usage = response.usage();
  Spending spent;
  if (record.has_value() && record->prompt_tokens().value() > 0) {
    spent.prompt_tokens = record->prompt_tokens().value();
    spent.output_tokens = record->output_tokens().value();
  } else if (usage.prompt_tokens.has_value()) {
    spent.prompt_tokens = *usage.prompt_tokens;
    spent.output_tokens = usage.output_tokens.value_or(0);
  } else if (operation_.has_value()) {
    spent.prompt_tokens = estimated_prompt_tokens();
    spent.output_tokens = usage.events;
    spent.estimated = true;
  }
  const std::string_view model = api_ == nullptr ? std::string_view() : api_->model;
  spent.cost_nano = config_->prices.cost_nano(model, spent.prompt_tokens, spent.output_tokens);
  tenant_.account->spend(spent, gateway_.keys().now());
}

void GatewayRequest::charge_saved(std::uint64_t prompt_tokens, std::uint64_t output_tokens) {
  if (tenant_.account == nullptr) return;
  const double share = config_->settings.tenancy.hit_price;
  const auto full =
      static_cast<double>(config_->prices.cost_nano(api_->model, prompt_tokens, output_tokens));
  tenant_.account->spend({.saved_prompt_tokens = prompt_tokens,
                          .saved_output_tokens = output_tokens,
                          .cost_nano = static_cast<std::uint64_t>(std::round(full * share))},
                         gateway_.keys().now());
}

/// At the end: only then a stream says how many tokens it was.
void GatewayRequest::charge_joined() {
  const bool joined = tenant_.account != nullptr && subscriber_ != nullptr && !leads_ &&
                      decision_.outcome == Outcome::kJoined;
  if (!joined || response().status() != 200) return;
  const SharedResponse::Usage usage = response().usage();
  charge_saved(usage.prompt_tokens.value_or(0), usage.output_tokens.value_or(0));
}

}  // namespace afterimage

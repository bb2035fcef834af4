// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/request_usage.h"

#include <algorithm>
#include <cmath>

namespace afterimage {
namespace {

constexpr std::uint64_t kBytesOfAToken = 4;  // of text, where the model's server says nothing

bool has_money_budget(const RequestSubject& asked) {
  return asked.tenant.account != nullptr && asked.tenant.account->has_money_budget();
}

std::string of_the_key(const RequestSubject& asked) {
  return "the API key " + asked.tenant.name + " has a budget of money, and ";
}

/// Of the body's text; media are not counted, as nobody knows how many tokens a server makes of them.
std::uint64_t estimated_prompt_tokens(const RequestSubject& asked) {
  std::uint64_t bytes = asked.body->size();
  if (asked.api != nullptr) {
    for (const ApiMedia& media : asked.api->media) {
      const std::uint64_t base64 = media.bytes == nullptr ? 0 : media.bytes->size() / 3 * 4;
      bytes -= std::min(bytes, base64);
    }
  }
  return std::max<std::uint64_t>(1, bytes / kBytesOfAToken);
}

}  // namespace

std::optional<Refusal> price_refusal(const RequestSubject& asked, const PriceTable& prices,
                                     std::string_view why) {
  if (!has_money_budget(asked)) return std::nullopt;
  if (asked.api == nullptr) {
    return refused(400, Reason::kInvalidBody,
                   of_the_key(asked) + "the request cannot be read: " + std::string(why));
  }
  if (prices.has(asked.api->model)) return std::nullopt;
  return refused(403, Reason::kPriceUnknown,
                 of_the_key(asked) + "the model '" + asked.api->model +
                     "' has no price: the operator can add it to tenancy.prices");
}

std::optional<Refusal> path_price_refusal(const RequestSubject& asked, std::string_view method) {
  const bool is_free = method == "GET" || method == "HEAD" || method == "DELETE";
  if (is_free || !has_money_budget(asked)) return std::nullopt;
  return refused(403, Reason::kPriceUnknown,
                 of_the_key(asked) + "what this path costs is not known");
}

void RequestUsage::charge_call(const SharedResponse& response,
                               const Result<ApiRecord>& record) const {
  // Its client asks again, and the answer is charged then.
  if (!is_counted() || response.status() != 200 || response.has_failed()) return;
  const SharedResponse::Usage usage = response.usage();
  KeyUsage spent;
  if (record.has_value() && record->prompt_tokens().value() > 0) {
    spent.prompt_tokens = record->prompt_tokens().value();
    spent.output_tokens = record->output_tokens().value();
  } else if (usage.prompt_tokens.has_value()) {
    spent.prompt_tokens = *usage.prompt_tokens;
    spent.output_tokens = usage.output_tokens.value_or(0);
  } else if (asked.operation.has_value() && !is_verbatim(*asked.operation)) {
    spent.prompt_tokens = estimated_prompt_tokens(asked);
    spent.output_tokens = usage.events;
    spent.estimated = 1;
  }
  const std::string_view model =
      asked.api == nullptr ? std::string_view() : std::string_view(asked.api->model);
  spent.cost_nano = config.prices.cost_nano(model, spent.prompt_tokens, spent.output_tokens);
  asked.tenant.account->spend(spent, keys.now());
}

void RequestUsage::charge_saved(std::uint64_t prompt_tokens, std::uint64_t output_tokens) const {
  if (!is_counted()) return;
  const double share = config.settings.tenancy.hit_price;
  const auto full =
      static_cast<double>(config.prices.cost_nano(asked.api->model, prompt_tokens, output_tokens));
  asked.tenant.account->spend({.saved_prompt_tokens = prompt_tokens,
                               .saved_output_tokens = output_tokens,
                               .cost_nano = static_cast<std::uint64_t>(std::round(full * share))},
                              keys.now());
}

}  // namespace afterimage

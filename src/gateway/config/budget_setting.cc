// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/config/budget_setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace afterimage {
namespace {

constexpr double kMostCounted = 1e15;
constexpr double kMostMoney = 1e9;
constexpr double kMostPrice = 1e6;
constexpr std::size_t kLongestPattern = 256;

constexpr std::array<std::string_view, kBudgetKinds> kKindNames{"requests", "tokens", "money"};
constexpr std::array<std::string_view, kBudgetWindows> kWindowNames{"minute", "day", "month"};

std::unexpected<Error> invalid_budget(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

template <typename Name, std::size_t kCount>
std::optional<Name> named(const std::array<std::string_view, kCount>& names,
                          std::string_view name) {
  const auto it = std::ranges::find(names, name);
  if (it == names.end()) return std::nullopt;
  return static_cast<Name>(it - names.begin());
}

/// A decimal number from 0 to `most`; nullopt: it is none.
std::optional<double> number_up_to(std::string_view text, double most) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  // Written so that NaN is out of range. "-0" would be printed as such.
  const bool fits = value >= 0 && value <= most && !std::signbit(value);
  return read.ec == std::errc() && read.ptr == end && fits ? std::optional(value) : std::nullopt;
}

std::string_view next_word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const std::size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

}  // namespace

std::string_view to_string(BudgetKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

std::string_view to_string(BudgetWindow window) {
  return kWindowNames[static_cast<std::size_t>(window)];
}

Result<Budget> parse_budget(std::string_view text) {
  std::string_view rest = text;
  const std::string_view amount = next_word(rest);
  const std::string_view what = next_word(rest);
  const bool is_whole = next_word(rest).empty();
  const std::size_t slash = std::min(what.find('/'), what.size());
  const auto kind = named<BudgetKind>(kKindNames, what.substr(0, slash));
  const auto window =
      named<BudgetWindow>(kWindowNames, what.substr(std::min(slash + 1, what.size())));
  if (!is_whole || !kind.has_value() || !window.has_value()) {
    return invalid_budget(
        "this is not a budget: write \"1000 requests/day\", with requests, tokens or money, and "
        "minute, day or month");
  }
  const double most = *kind == BudgetKind::kMoney ? kMostMoney : kMostCounted;
  const auto limit = number_up_to(amount, most);
  const bool counts = *kind != BudgetKind::kMoney;
  if (!limit.has_value() || (counts && *limit != std::floor(*limit))) {
    return invalid_budget(fmt::format("the limit of this budget is not {} between 0 and {}",
                                      counts ? "a whole number" : "a number", most));
  }
  return Budget{.kind = *kind, .window = *window, .limit = *limit};
}

std::string to_text(const Budget& budget) {
  // Whole numbers without an exponent.
  return fmt::format("{} {}/{}",
                     budget.kind == BudgetKind::kMoney ? fmt::format("{}", budget.limit)
                                                       : fmt::format("{:.0f}", budget.limit),
                     to_string(budget.kind), to_string(budget.window));
}

bool has_money_budget(std::span<const std::string> budgets) {
  return std::ranges::any_of(budgets, [](const std::string& text) {
    const auto budget = parse_budget(text);
    return budget.has_value() && budget->kind == BudgetKind::kMoney;
  });
}

Result<ModelPrice> parse_price(std::string_view text) {
  const auto refuse = [] {
    return invalid_budget(
        "this is not a price: write \"qwen* prompt=0.15 output=0.6\", the prices of a million "
        "tokens, each between 0 and 1000000");
  };
  std::string_view rest = text;
  ModelPrice price{.model = std::string(next_word(rest))};
  if (price.model.empty() || price.model.size() > kLongestPattern || price.model.contains('=')) {
    return refuse();
  }
  std::optional<double> prompt;
  std::optional<double> output;
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view name = word.substr(0, equals);
    std::optional<double>* const place = name == "prompt"   ? &prompt
                                         : name == "output" ? &output
                                                            : nullptr;
    if (place == nullptr || place->has_value()) return refuse();
    *place = number_up_to(word.substr(std::min(equals + 1, word.size())), kMostPrice);
    if (!place->has_value()) return refuse();
  }
  if (!prompt.has_value() || !output.has_value()) return refuse();
  price.prompt = *prompt;
  price.output = *output;
  return price;
}

}  // namespace afterimage

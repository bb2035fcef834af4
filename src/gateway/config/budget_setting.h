// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

enum class BudgetKind : unsigned char { kRequests, kTokens, kMoney };
inline constexpr std::size_t kBudgetKinds = 3;
/// Of the calendar, in UTC.
enum class BudgetWindow : unsigned char { kMinute, kDay, kMonth };
inline constexpr std::size_t kBudgetWindows = 3;

/// "requests", "tokens", "money".
[[nodiscard]] std::string_view to_string(BudgetKind kind);
/// "minute", "day", "month".
[[nodiscard]] std::string_view to_string(BudgetWindow window);

/// How much an API key may use in each minute, day or month.
struct Budget {
  BudgetKind kind = BudgetKind::kRequests;
  BudgetWindow window = BudgetWindow::kDay;
  double limit = 0;  // requests and tokens: whole numbers; money: in the currency of the prices

  bool operator==(const Budget&) const = default;
};

/// Shape    "1000 requests/day", "2000000 tokens/month", "19.5 money/month".
/// Errors   kInvalidArgument: not such a text, or a limit that is not between 0 and 1e15 (money: 1e9).
/// Threads  Any.
[[nodiscard]] Result<Budget> parse_budget(std::string_view text);
/// What parse_budget() reads.
[[nodiscard]] std::string to_text(const Budget& budget);
/// Whether one of these texts, each of which parse_budget() reads, is about money.
[[nodiscard]] bool has_money_budget(std::span<const std::string> budgets);

/// What a million tokens of a model cost.
struct ModelPrice {
  std::string model;  // a pattern; each * stands for any text
  double prompt = 0;
  double output = 0;

  bool operator==(const ModelPrice&) const = default;
};

/// Shape    "qwen* prompt=0.15 output=0.6": a pattern, then both prices.
/// Errors   kInvalidArgument: not such a text, or a price that is not between 0 and 1e6.
/// Threads  Any.
[[nodiscard]] Result<ModelPrice> parse_price(std::string_view text);

}  // namespace afterimage

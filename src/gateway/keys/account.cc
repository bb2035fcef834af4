// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/keys/account.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "gateway/config/replica_setting.h"

namespace afterimage {
namespace {

constexpr double kNano = 1e9;
constexpr double kTokensOfAPrice = 1e6;

/// Sums stop at the largest number instead of beginning again at 0.
void add_up(std::uint64_t& sum, std::uint64_t more) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  sum = more > kMost - sum ? kMost : sum + more;
}

std::uint64_t rounded(double value) {
  constexpr double kMost = 9e18;  // below 2^63, so that the conversion is defined
  return static_cast<std::uint64_t>(std::clamp(std::round(value), 0.0, kMost));
}

std::chrono::year_month month_of(WallTime at) {
  const std::chrono::year_month_day date(std::chrono::floor<std::chrono::days>(at));
  return {date.year(), date.month()};
}

WallTime begin_of(std::chrono::year_month month) {
  return std::chrono::sys_days(month / std::chrono::day(1));
}

}  // namespace

std::int64_t window_number(BudgetWindow window, WallTime at) {
  switch (window) {
    case BudgetWindow::kMinute:
      return std::chrono::floor<std::chrono::minutes>(at).time_since_epoch().count();
    case BudgetWindow::kDay:
      return std::chrono::floor<std::chrono::days>(at).time_since_epoch().count();
    case BudgetWindow::kMonth:
      break;
  }
  return (month_of(at) - std::chrono::year(1970) / std::chrono::January).count();
}

Duration window_left(BudgetWindow window, WallTime at) {
  switch (window) {
    case BudgetWindow::kMinute:
      return std::chrono::floor<std::chrono::minutes>(at) + std::chrono::minutes(1) - at;
    case BudgetWindow::kDay:
      return std::chrono::floor<std::chrono::days>(at) + std::chrono::days(1) - at;
    case BudgetWindow::kMonth:
      break;
  }
  return begin_of(month_of(at) + std::chrono::months(1)) - at;
}

void Account::set_budgets(std::span<const Budget> budgets) {
  std::vector<Limited> limits;
  for (const Budget& budget : budgets) {
    const bool money = budget.kind == BudgetKind::kMoney;
    limits.push_back(
        {.budget = budget, .limit = rounded(money ? budget.limit * kNano : budget.limit)});
  }
  const MutexLock lock(mutex_);
  for (Limited& limit : limits) {
    const auto before = std::ranges::find(limits_, limit.budget, &Limited::budget);
    if (before != limits_.end()) limit.refused = before->refused;
  }
  limits_ = std::move(limits);
}

/// Another number, earlier ones included: a clock that was set back must not lock a key out.
WindowUsage& Account::window(BudgetWindow which, WallTime now) {
  WindowUsage& usage = state_.windows[static_cast<std::size_t>(which)];
  const std::int64_t number = window_number(which, now);
  if (usage.number != number) usage = {.number = number, .used = {}};
  return usage;
}

std::optional<BudgetExceeded> Account::admit(WallTime now) {
  const MutexLock lock(mutex_);
  Limited* exceeded = nullptr;
  Duration wait{0};
  for (Limited& limit : limits_) {
    const std::uint64_t used =
        window(limit.budget.window, now).used[static_cast<std::size_t>(limit.budget.kind)];
    if (used < limit.limit) continue;
    const Duration left = window_left(limit.budget.window, now);
    if (exceeded != nullptr && left <= wait) continue;
    exceeded = &limit;
    wait = left;
  }
  if (exceeded != nullptr) {
    ++exceeded->refused;
    return BudgetExceeded{.budget = exceeded->budget, .wait = wait};
  }
  add_up(state_.total.requests, 1);
  for (std::size_t i = 0; i < kBudgetWindows; ++i) {
    add_up(window(static_cast<BudgetWindow>(i), now)
               .used[static_cast<std::size_t>(BudgetKind::kRequests)],
           1);
  }
  return std::nullopt;
}

void Account::uncount(WallTime admitted) {
  const auto one_less = [](std::uint64_t& count) { count -= count > 0 ? 1 : 0; };
  const MutexLock lock(mutex_);
  one_less(state_.total.requests);
  for (std::size_t i = 0; i < kBudgetWindows; ++i) {
    WindowUsage& usage = state_.windows[i];
    // Of a window that has ended nothing is kept.
    if (usage.number != window_number(static_cast<BudgetWindow>(i), admitted)) continue;
    one_less(usage.used[static_cast<std::size_t>(BudgetKind::kRequests)]);
  }
}

void Account::spend(const KeyUsage& spent, WallTime now) {
  const MutexLock lock(mutex_);
  add_up(state_.total.prompt_tokens, spent.prompt_tokens);
  add_up(state_.total.output_tokens, spent.output_tokens);
  add_up(state_.total.saved_prompt_tokens, spent.saved_prompt_tokens);
  add_up(state_.total.saved_output_tokens, spent.saved_output_tokens);
  add_up(state_.total.cost_nano, spent.cost_nano);
  add_up(state_.total.estimated, spent.estimated);
  for (std::size_t i = 0; i < kBudgetWindows; ++i) {
    auto& used = window(static_cast<BudgetWindow>(i), now).used;
    std::uint64_t& tokens = used[static_cast<std::size_t>(BudgetKind::kTokens)];
    add_up(tokens, spent.prompt_tokens);
    add_up(tokens, spent.output_tokens);
    add_up(used[static_cast<std::size_t>(BudgetKind::kMoney)], spent.cost_nano);
  }
}

bool Account::has_money_budget() const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(
      limits_, [](const Limited& limit) { return limit.budget.kind == BudgetKind::kMoney; });
}

AccountState Account::state() const {
  const MutexLock lock(mutex_);
  return state_;
}

std::vector<BudgetStatus> Account::budgets(WallTime now) const {
  std::vector<BudgetStatus> all;
  const MutexLock lock(mutex_);
  for (const Limited& limit : limits_) {
    const Budget& budget = limit.budget;
    const WindowUsage& usage = state_.windows[static_cast<std::size_t>(budget.window)];
    const bool current = usage.number == window_number(budget.window, now);
    const double used =
        current ? static_cast<double>(usage.used[static_cast<std::size_t>(budget.kind)]) : 0;
    all.push_back({.budget = budget,
                   .used = budget.kind == BudgetKind::kMoney ? used / kNano : used,
                   .renewed_in = window_left(budget.window, now),
                   .refused = limit.refused});
  }
  return all;
}

PriceTable::PriceTable(std::span<const std::string> prices) {
  for (const std::string& text : prices) {
    if (auto price = parse_price(text); price.has_value()) prices_.push_back(*std::move(price));
  }
}

const ModelPrice* PriceTable::find(std::string_view model) const {
  const auto it = std::ranges::find_if(
      prices_, [&](const ModelPrice& price) { return fits_pattern(price.model, model); });
  return it == prices_.end() ? nullptr : &*it;
}

std::uint64_t PriceTable::cost_nano(std::string_view model, std::uint64_t prompt_tokens,
                                    std::uint64_t output_tokens) const {
  const ModelPrice* const price = find(model);
  if (price == nullptr) return 0;
  const double sum = static_cast<double>(prompt_tokens) * price->prompt +
                     static_cast<double>(output_tokens) * price->output;
  return rounded(sum / kTokensOfAPrice * kNano);
}

}  // namespace afterimage

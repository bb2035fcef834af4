// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/keys/account.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using namespace std::chrono;
using testing::for_each_seed;

WallTime at(year_month_day date, Duration time_of_day = 0s) {
  return WallTime(sys_days(date)) + time_of_day;
}

Budget budget(std::string_view text) { return parse_budget(text).value(); }

std::unique_ptr<Account> make_account(const std::vector<std::string>& texts) {
  auto account = std::make_unique<Account>();
  std::vector<Budget> budgets;
  for (const auto& text : texts) budgets.push_back(budget(text));
  account->set_budgets(budgets);
  return account;
}

TEST(BudgetWindows, AreThoseOfTheCalendar) {
  const WallTime leap = at(2028y / February / 29, 23h + 59min + 30s);
  EXPECT_EQ(window_left(BudgetWindow::kMinute, leap), 30s);
  EXPECT_EQ(window_left(BudgetWindow::kDay, leap), 30s);
  EXPECT_EQ(window_left(BudgetWindow::kMonth, leap), 30s);
  EXPECT_EQ(window_number(BudgetWindow::kMonth, leap), 58 * 12 + 1);
  EXPECT_EQ(window_number(BudgetWindow::kMonth, leap + 30s), 58 * 12 + 2);
  EXPECT_EQ(window_left(BudgetWindow::kMonth, at(2026y / December / 1)), 31 * 24h);
  EXPECT_EQ(window_left(BudgetWindow::kMinute, at(2026y / December / 1)), 60s);
  EXPECT_EQ(window_number(BudgetWindow::kDay, at(1970y / January / 2)), 1);
}

TEST(Account, RefusesBeyondTheLimitUntilTheWindowEnds) {
  const auto account = make_account({"2 requests/minute"});
  const WallTime now = at(2026y / November / 26, 10s);
  EXPECT_FALSE(account->admit(now).has_value());
  EXPECT_FALSE(account->admit(now).has_value());
  const auto exceeded = account->admit(now);
  ASSERT_TRUE(exceeded.has_value());
  EXPECT_EQ(exceeded->budget, budget("2 requests/minute"));
  EXPECT_EQ(exceeded->wait, 50s);
  EXPECT_TRUE(account->admit(now + 50s - 1ns).has_value());
  EXPECT_FALSE(account->admit(now + 50s).has_value());
  EXPECT_EQ(account->state().total.requests, 3U) << "refused requests are not counted";
  EXPECT_EQ(account->budgets(now + 50s).at(0).refused, 2U);
}

TEST(Account, OfSeveralBudgetsNamesTheOneThatIsRenewedLast) {
  const auto account = make_account({"0 requests/minute", "0 requests/month", "0 requests/day"});
  EXPECT_EQ(account->admit(at(2026y / November / 26))->budget.window, BudgetWindow::kMonth);
}

TEST(Account, TokensAndMoneyAreKnownAfterwards) {
  const auto account = make_account({"100 tokens/day", "0.5 money/month"});
  const WallTime now = at(2026y / November / 30);
  EXPECT_FALSE(account->admit(now).has_value());
  EXPECT_FALSE(account->admit(now).has_value()) << "the first is still running";
  account->spend({.prompt_tokens = 60, .output_tokens = 39, .cost_nano = 499'999'999}, now);
  EXPECT_FALSE(account->admit(now).has_value());
  account->spend({.output_tokens = 1}, now);
  EXPECT_EQ(account->admit(now)->budget.kind, BudgetKind::kTokens);
  account->spend({.cost_nano = 1}, now + 24h);
  EXPECT_FALSE(account->admit(now + 24h).has_value()) << "a new month, and a new day";
}

TEST(Account, SavedTokensAreCountedApartAndNotAgainstTheBudget) {
  const auto account = make_account({"10 tokens/day"});
  const WallTime now = at(2026y / November / 26);
  account->spend({.saved_prompt_tokens = 1000, .saved_output_tokens = 500}, now);
  EXPECT_FALSE(account->admit(now).has_value());
  EXPECT_EQ(account->state().total.saved_prompt_tokens, 1000U);
  EXPECT_EQ(account->state().total.prompt_tokens, 0U);
}

TEST(Account, NewBudgetsApplyToWhatWasUsedBefore) {
  const auto account = make_account({});
  const WallTime now = at(2026y / November / 26);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(account->admit(now).has_value());
  account->set_budgets(std::vector{budget("5 requests/day")});
  EXPECT_TRUE(account->admit(now).has_value());
}

TEST(Account, AClockThatIsSetBackDoesNotLockAKeyOut) {
  const auto account = make_account({"1 requests/day"});
  EXPECT_FALSE(account->admit(at(2036y / January / 1)).has_value());
  EXPECT_FALSE(account->admit(at(2026y / November / 26)).has_value());
  EXPECT_TRUE(account->admit(at(2026y / November / 26)).has_value());
}

TEST(Account, SumsStopAtTheLargestNumber) {
  const auto account = make_account({"5 tokens/day"});
  const WallTime now = at(2026y / November / 26);
  account->spend({.prompt_tokens = ~0ULL}, now);
  account->spend({.prompt_tokens = 100}, now);
  EXPECT_EQ(account->state().total.prompt_tokens, ~0ULL);
  EXPECT_TRUE(account->admit(now).has_value()) << "an overflow would renew the budget";
}

TEST(Account, ARequestThatIsTakenBackWasNotCounted) {
  const auto account = make_account({"1 requests/minute", "2 requests/day"});
  const WallTime late = at(2026y / November / 26, 23h + 59min + 50s);
  EXPECT_FALSE(account->admit(late).has_value());
  EXPECT_TRUE(account->admit(late).has_value());
  account->uncount(late);
  EXPECT_EQ(account->state().total.requests, 0U);
  EXPECT_FALSE(account->admit(late).has_value());
  // It ends on the next day, of which it was not counted.
  EXPECT_FALSE(account->admit(late + 10s).has_value());
  account->uncount(late);
  EXPECT_TRUE(account->admit(late + 10s).has_value()) << "the minute's one is used";
  EXPECT_EQ(account->budgets(late + 10s).at(1).used, 1);
  EXPECT_EQ(account->state().total.requests, 1U);
  account->uncount(late + 10s);
  account->uncount(late + 10s);
  EXPECT_EQ(account->budgets(late + 10s).at(1).used, 0) << "never below nothing";
}

TEST(Account, ConcurrentRequestsNeverExceedABudget) {
  const auto account = make_account({"1000 requests/day"});
  const WallTime now = at(2026y / November / 26);
  std::atomic<int> admitted = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 400; ++i) {
        if (!account->admit(now).has_value()) ++admitted;
        account->spend({.prompt_tokens = 1}, now);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admitted, 1000);
  EXPECT_EQ(account->state().total.requests, 1000U);
  EXPECT_EQ(account->state().total.prompt_tokens, 3200U);
}

/// Obvious, and slow: keeps every event.
struct ModelAccount {
  struct Event {
    WallTime at;
    BudgetKind kind;
    std::uint64_t amount;
  };
  std::vector<Event> events;
  std::vector<Budget> budgets;

  [[nodiscard]] bool admits(WallTime now) const {
    for (const Budget& one : budgets) {
      std::uint64_t used = 0;
      for (const Event& event : events) {
        const bool same = window_number(one.window, event.at) == window_number(one.window, now);
        if (event.kind == one.kind && same) used += event.amount;
      }
      const double unit = one.kind == BudgetKind::kMoney ? 1e9 : 1;
      if (static_cast<double>(used) >= one.limit * unit) return false;
    }
    return true;
  }
};

TEST(AccountProperty, AgreesWithAnObviousModel) {
  for_each_seed(40, [](Rng& rng) {
    ModelAccount model;
    Account account;
    for (std::uint64_t i = rng.below(4); i > 0; --i) {
      model.budgets.push_back({.kind = static_cast<BudgetKind>(rng.below(kBudgetKinds)),
                               .window = static_cast<BudgetWindow>(rng.below(kBudgetWindows)),
                               .limit = static_cast<double>(rng.below(40))});
    }
    account.set_budgets(model.budgets);
    std::vector<WallTime> admitted;
    WallTime now = at(2026y / November / 30, 23h);
    for (int step = 0; step < 200; ++step) {
      now += Duration(static_cast<Duration::rep>(rng.below(20'000'000'000)));
      if (rng.chance(0.02)) now += 20h;
      if (!admitted.empty() && rng.chance(0.2)) {
        const std::size_t which = rng.below(admitted.size());
        const auto gone = std::ranges::find_if(model.events, [&](const ModelAccount::Event& event) {
          return event.kind == BudgetKind::kRequests && event.at == admitted[which];
        });
        account.uncount(admitted[which]);
        model.events.erase(gone);
        admitted.erase(admitted.begin() + static_cast<std::ptrdiff_t>(which));
      } else if (rng.chance(0.5)) {
        const bool admits = model.admits(now);
        ASSERT_EQ(!account.admit(now).has_value(), admits) << "step " << step;
        if (admits) model.events.push_back({now, BudgetKind::kRequests, 1});
        if (admits) admitted.push_back(now);
      } else {
        const KeyUsage spent{.prompt_tokens = rng.below(3),
                             .output_tokens = rng.below(3),
                             .cost_nano = rng.below(2'000'000'000)};
        account.spend(spent, now);
        model.events.push_back(
            {now, BudgetKind::kTokens, spent.prompt_tokens + spent.output_tokens});
        model.events.push_back({now, BudgetKind::kMoney, spent.cost_nano});
      }
    }
  });
}

TEST(PriceTable, TheFirstModelThatFitsHolds) {
  const std::vector<std::string> texts{"qwen3-vl-2b prompt=1 output=2",
                                       "qwen* prompt=0.15 output=0.6"};
  const PriceTable prices(texts);
  EXPECT_EQ(prices.cost_nano("qwen3-vl-2b", 1'000'000, 0), 1'000'000'000U);
  EXPECT_EQ(prices.cost_nano("qwen2", 10, 100), 1'500U + 60'000U);
  EXPECT_TRUE(prices.has("qwen2"));
  EXPECT_FALSE(prices.has("llava"));
  EXPECT_EQ(prices.cost_nano("llava", 10, 100), 0U);
}

}  // namespace
}  // namespace afterimage

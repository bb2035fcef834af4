// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "foundation/platform/mutex.h"
#include "gateway/config/budget_setting.h"

namespace afterimage {

/// What a key has used since it was made, or one request of it.
struct KeyUsage {
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0;  // that a model read and wrote
  std::uint64_t output_tokens = 0;
  std::uint64_t saved_prompt_tokens = 0;  // of an answer that no model computed for it
  std::uint64_t saved_output_tokens = 0;
  std::uint64_t cost_nano = 0;  // billionths of the prices' currency
  std::uint64_t estimated = 0;  // requests of which the model's server did not say how many tokens

  bool operator==(const KeyUsage&) const = default;
};

/// What a key has used in one minute, day or month: by BudgetKind, money in billionths.
struct WindowUsage {
  std::int64_t number = -1;  // of the window, counted since 1970
  std::array<std::uint64_t, kBudgetKinds> used{};

  bool operator==(const WindowUsage&) const = default;
};

struct AccountState {
  KeyUsage total;
  std::array<WindowUsage, kBudgetWindows> windows;

  bool operator==(const AccountState&) const = default;
};

/// A budget that does not allow another request, and when it is renewed.
struct BudgetExceeded {
  Budget budget;
  Duration wait{0};
};

/// A budget with what was used of it, in its own unit.
struct BudgetStatus {
  Budget budget;
  double used = 0;
  Duration renewed_in{0};
  std::uint64_t refused = 0;  // requests, since the process began
};

/// The number of the minute, day or month (UTC) of a time, counted since 1970.
[[nodiscard]] std::int64_t window_number(BudgetWindow window, WallTime at);
/// How long that window lasts from `at` on; more than 0.
[[nodiscard]] Duration window_left(BudgetWindow window, WallTime at);

/// The usage and the budgets of one API key, or of one tenant of the settings.
///
/// A request is counted when it is admitted, exactly: of any number of concurrent requests no more
/// are admitted than the budget has left. Tokens and money are known afterwards: requests that run
/// when a budget is used up are finished, and the next is refused.
///
/// Threads  Any. Cost: one lock, held for a few additions.
class Account {
 public:
  explicit Account(const AccountState& state = {}) : state_(state) {}

  /// Replaces the budgets. The usage stays.
  void set_budgets(std::span<const Budget> budgets);
  /// Counts a request, or says which budget forbids it; of several, the one that is renewed last.
  std::optional<BudgetExceeded> admit(WallTime now);
  /// Takes back what admit() counted at that time.
  void uncount(WallTime admitted);
  /// Adds what an admitted request, which is counted already, has used.
  void spend(const KeyUsage& spent, WallTime now);

  [[nodiscard]] bool has_money_budget() const;
  [[nodiscard]] AccountState state() const;
  [[nodiscard]] std::vector<BudgetStatus> budgets(WallTime now) const;

 private:
  struct Limited {
    Budget budget;
    std::uint64_t limit = 0;
    std::uint64_t refused = 0;
  };
  WindowUsage& window(BudgetWindow which, WallTime now) AFI_REQUIRES(mutex_);

  mutable Mutex mutex_;
  AccountState state_ AFI_GUARDED_BY(mutex_);
  std::vector<Limited> limits_ AFI_GUARDED_BY(mutex_);
};

/// Prices by model. An empty table has none.
///
/// Threads  Any.
class PriceTable {
 public:
  PriceTable() = default;
  /// `prices` that parse_price() does not read are left out: settings were checked before.
  explicit PriceTable(std::span<const std::string> prices);

  [[nodiscard]] bool has(std::string_view model) const { return find(model) != nullptr; }
  /// In billionths; 0 for a model without a price.
  [[nodiscard]] std::uint64_t cost_nano(std::string_view model, std::uint64_t prompt_tokens,
                                        std::uint64_t output_tokens) const;

 private:
  [[nodiscard]] const ModelPrice* find(std::string_view model) const;
  std::vector<ModelPrice> prices_;
};

}  // namespace afterimage

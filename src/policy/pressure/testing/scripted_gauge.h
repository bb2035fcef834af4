// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <deque>
#include <string_view>
#include <utility>

#include "policy/pressure/gauges.h"

namespace afterimage::testing {

/// Returns the given readings in order, and then repeats the last one.
class ScriptedGauge final : public PressureGauge {
 public:
  explicit ScriptedGauge(std::deque<Result<GaugeReading>> readings)
      : readings_(std::move(readings)) {}
  [[nodiscard]] std::string_view name() const override { return "scripted"; }
  Result<GaugeReading> read() override {
    if (readings_.empty()) {
      return fail(ErrorCode::kUnavailable, "the scripted gauge has no readings");
    }
    const Result<GaugeReading> reading = readings_.front();
    if (readings_.size() > 1) readings_.pop_front();
    AFI_TRY(const GaugeReading shown, reading);
    return checked(shown, name());
  }

 private:
  std::deque<Result<GaugeReading>> readings_;
};

}  // namespace afterimage::testing

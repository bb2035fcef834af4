// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "afterimage/pressure.h"
#include "afterimage/result.h"
#include "policy/pressure/gauges.h"
#include "policy/pressure/governor.h"

namespace afterimage {

Result<GaugeReading> checked(const GaugeReading& reading, std::string_view gauge) {
  if (reading.total == 0_B || reading.used > reading.total) {
    return fail(ErrorCode::kCorruption,
                fmt::format("the {} gauge reports {} of {} bytes used: the reading is ignored",
                            gauge, reading.used.value(), reading.total.value()));
  }
  if (!(reading.stall >= 0 && reading.stall <= 1)) {
    return fail(ErrorCode::kCorruption,
                fmt::format("the {} gauge reports a stall of {}, which must be from 0 to 1", gauge,
                            reading.stall));
  }
  return reading;
}

Result<void> take_reading(PressureGauge& gauge, const Clock& clock, GovernorInputs& inputs) {
  // Taken before the reading, so that the sample of a gauge that hangs counts as old.
  const Duration taken_at = clock.now();
  const auto reading = gauge.read();
  inputs.now = clock.now();
  inputs.sample.reset();
  inputs.stall = 0;
  AFI_TRY(const GaugeReading shown, reading);
  inputs.sample = MemorySample{
      .taken_at = taken_at, .total = shown.total, .used = shown.used, .ours = inputs.ledger.used};
  inputs.stall = shown.stall;
  return {};
}

TightestGauge::TightestGauge(std::vector<std::shared_ptr<PressureGauge>> gauges)
    : gauges_(std::move(gauges)) {
  AFI_CHECK(!gauges_.empty());
  for (const auto& gauge : gauges_) {
    if (!name_.empty()) name_ += "+";
    name_ += gauge->name();
  }
}

Result<GaugeReading> TightestGauge::read() {
  std::optional<GaugeReading> tightest;
  double stall = 0;
  for (const auto& gauge : gauges_) {
    AFI_TRY(const GaugeReading reading, gauge->read());
    stall = std::max(stall, reading.stall);
    const bool less_left =
        !tightest.has_value() || reading.total - reading.used < tightest->total - tightest->used;
    if (less_left) tightest = reading;
  }
  tightest->stall = stall;
  return *tightest;
}

Result<GaugeReading> EngineGauge::read() {
  AFI_TRY(const GaugeReading shown, ask_());
  return checked(shown, name());
}

}  // namespace afterimage

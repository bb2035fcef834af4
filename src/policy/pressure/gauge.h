// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <deque>
#include <functional>
#include <string_view>
#include <utility>

#include "afterimage/result.h"
#include "afterimage/units.h"
#include "foundation/platform/clock.h"
#include "policy/pressure/governor.h"

namespace afterimage {

/// One reading of a gauge.
struct GaugeReading {
  Bytes total;
  Bytes used;        // by all programs, ourselves included; at most total
  double stall = 0;  // share of the last seconds in which work waited for memory; 0: not measured
};

/// Measures how full a memory is. An extension point: one class per source; every gauge must pass
/// tests/testing/gauge_conformance.h.
///
/// Errors   kUnavailable: the source does not exist or cannot be read now; kCorruption: its numbers
///          contradict each other. A gauge never makes up a number: the governor fails closed.
/// Cost     Microseconds to a millisecond: read it on a thread that may block, not under a lock.
/// Threads  One at a time.
class PressureGauge {
 public:
  virtual ~PressureGauge() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  virtual Result<GaugeReading> read() = 0;
};

/// kCorruption: impossible numbers: no memory, more used than the total, or a stall that is not
/// between 0 and 1.
Result<GaugeReading> checked(const GaugeReading& reading, std::string_view gauge);

/// Reads the gauge for the governor: sets `now`, `sample` and `stall`, and takes inputs.ledger.used
/// as our share of the bytes in use. If the gauge fails, there is no sample and its Error is
/// returned for the log; the governor can still step.
Result<void> take_reading(PressureGauge& gauge, const Clock& clock, GovernorInputs& inputs);

/// Returns the given readings in order, and then repeats the last one; for tests and drills.
class ScriptedGauge final : public PressureGauge {
 public:
  explicit ScriptedGauge(std::deque<Result<GaugeReading>> readings)
      : readings_(std::move(readings)) {}
  [[nodiscard]] std::string_view name() const override { return "scripted"; }
  Result<GaugeReading> read() override;

 private:
  std::deque<Result<GaugeReading>> readings_;
};

/// Readings from the engine, which knows its own memory pools better than the driver.
class EngineGauge final : public PressureGauge {
 public:
  explicit EngineGauge(std::function<Result<GaugeReading>()> ask) : ask_(std::move(ask)) {}
  [[nodiscard]] std::string_view name() const override { return "engine"; }
  Result<GaugeReading> read() override;

 private:
  std::function<Result<GaugeReading>()> ask_;
};

}  // namespace afterimage

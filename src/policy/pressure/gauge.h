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

/// What a gauge shows.
struct GaugeReading {
  Bytes total;
  Bytes used;        // by anybody, ourselves included; at most total
  double stall = 0;  // share of the last seconds in which work waited for memory; 0: not measured
};

/// Reads how full a memory is. An extension point: one class a source, held to
/// tests/testing/gauge_conformance.h.
///
/// Errors   kUnavailable: the source is not there, or does not answer now; kCorruption: it answers
///          nonsense. A gauge never makes up a number: who reads it fails closed.
/// Cost     Microseconds to a millisecond: read it on a thread that may wait, not under a lock.
/// Threads  One at a time.
class PressureGauge {
 public:
  virtual ~PressureGauge() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  virtual Result<GaugeReading> read() = 0;
};

/// Fails with kCorruption if the numbers cannot be: no memory at all, more used than there is, a
/// stall that is no share.
Result<GaugeReading> checked(const GaugeReading& reading, std::string_view gauge);

/// Reads the gauge for the governor: sets `now`, `sample` and `stall`, with inputs.ledger.used as
/// what is ours of the bytes it shows. A gauge that fails leaves no sample, and its Error is
/// returned for the log; stepping goes on without.
Result<void> take_reading(PressureGauge& gauge, const Clock& clock, GovernorInputs& inputs);

/// Shows what it was told, in order, and the last of it for ever; for tests and drills.
class ScriptedGauge final : public PressureGauge {
 public:
  explicit ScriptedGauge(std::deque<Result<GaugeReading>> readings)
      : readings_(std::move(readings)) {}
  [[nodiscard]] std::string_view name() const override { return "scripted"; }
  Result<GaugeReading> read() override;

 private:
  std::deque<Result<GaugeReading>> readings_;
};

/// The engine's own word: it knows its pools better than any driver does.
class EngineGauge final : public PressureGauge {
 public:
  explicit EngineGauge(std::function<Result<GaugeReading>()> ask) : ask_(std::move(ask)) {}
  [[nodiscard]] std::string_view name() const override { return "engine"; }
  Result<GaugeReading> read() override;

 private:
  std::function<Result<GaugeReading>()> ask_;
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "afterimage/clock.h"
#include "afterimage/governor.h"
#include "bindings.h"
#include "foundation/platform/files.h"
#include "policy/pressure/linux_gauges.h"

namespace afterimage::python {

namespace {

struct PyGovernor {
  GovernorOptions options;
  GovernorState state;
};

Duration seconds(double count) { return Duration(static_cast<std::int64_t>(count * 1e9)); }

GovernorActions step_of(PyGovernor& self, double now_seconds, std::uint64_t ours_bytes,
                        std::optional<std::uint64_t> total_bytes,
                        std::optional<std::uint64_t> used_bytes, std::uint64_t clean_bytes,
                        std::uint64_t planned_bytes, std::uint64_t refused_bytes, double stall) {
  GovernorInputs inputs{.now = seconds(now_seconds),
                        .ledger = {.used = Bytes(ours_bytes), .clean = Bytes(clean_bytes)},
                        .planned = Bytes(planned_bytes),
                        .refused = Bytes(refused_bytes),
                        .stall = stall};
  if (clean_bytes > ours_bytes) {
    raise(ErrorCode::kInvalidArgument, "expected clean_bytes to be at most ours_bytes");
  }
  if (total_bytes.has_value() && used_bytes.has_value()) {
    inputs.sample = MemorySample{.taken_at = inputs.now,
                                 .total = Bytes(*total_bytes),
                                 .used = Bytes(*used_bytes),
                                 .ours = Bytes(ours_bytes)};
  }
  GovernorStep next = step(self.state, inputs, self.options);
  self.state = std::move(next.state);
  return next.actions;
}

/// A gauge of this process's memory.
struct HostGauge {
  SystemFiles files;
  std::unique_ptr<PressureGauge> gauge;
};

}  // namespace

void bind_pressure(nb::module_& module) {
  nb::class_<GovernorActions>(module, "GovernorActions", "What to do now, in bytes.")
      .def_prop_ro(
          "mode", [](const GovernorActions& a) { return std::string(to_string(a.mode)); },
          "relaxed, normal, pressure, critical or emergency.")
      .def_prop_ro(
          "trust", [](const GovernorActions& a) { return std::string(to_string(a.trust)); },
          "How far the gauge's reading is trusted.")
      .def_prop_ro("admits",
                   [](const GovernorActions& a) { return a.admission == Admission::kOpen; })
      .def_prop_ro(
          "budget_bytes", [](const GovernorActions& a) { return a.budget.value(); },
          "Hard limit for the cache once the actions are done.")
      .def_prop_ro("target_bytes", [](const GovernorActions& a) { return a.target.value(); })
      .def_prop_ro(
          "release_bytes", [](const GovernorActions& a) { return a.release.value(); },
          "Clean entries to release now.")
      .def_prop_ro(
          "drop_bytes", [](const GovernorActions& a) { return a.drop.value(); },
          "Other entries to drop now.")
      .def_prop_ro("next_step_seconds", [](const GovernorActions& a) {
        return static_cast<double>(a.next_step.count()) * 1e-9;
      });

  nb::class_<PyGovernor>(module, "Governor",
                         "Decides how much to evict under memory pressure, from the byte "
                         "deficit.\n"
                         "\n"
                         "Threads  Any: each call holds the GIL.")
      .def(
          "__init__",
          [](PyGovernor* self, std::uint64_t cap_bytes, std::uint64_t reserve_bytes) {
            GovernorOptions options{.cap = Bytes(cap_bytes), .reserve = Bytes(reserve_bytes)};
            or_raise(check(options));
            new (self) PyGovernor{options, {}};
          },
          nb::arg("cap_bytes"), nb::arg("reserve_bytes"),
          "cap_bytes: maximum size of the cache. reserve_bytes: free memory to leave to other "
          "programs.")
      .def("step", step_of, nb::arg("now_seconds"), nb::arg("ours_bytes"), nb::kw_only(),
           nb::arg("total_bytes") = nb::none(), nb::arg("used_bytes") = nb::none(),
           nb::arg("clean_bytes") = 0, nb::arg("planned_bytes") = 0, nb::arg("refused_bytes") = 0,
           nb::arg("stall") = 0.0,
           "total_bytes, used_bytes: a gauge's reading, the cache included; without it the "
           "governor fails\n"
           "closed. clean_bytes: the part of ours_bytes that is free to evict. stall: share of "
           "time stalled on\n"
           "memory.");

  nb::class_<HostGauge>(module, "MemoryGauge",
                        "A gauge of this process's memory: that of its control group, or of the "
                        "machine.")
      .def("__init__",
           [](HostGauge* self) {
             new (self) HostGauge();
             auto gauge = without_gil([&] { return open_host_gauge(self->files); });
             if (!gauge.has_value()) {
               self->~HostGauge();
               raise(gauge.error());
             }
             self->gauge = *std::move(gauge);
           })
      .def(
          "read",
          [](HostGauge& self) {
            const GaugeReading reading = or_raise(self.gauge->read());
            return nb::make_tuple(reading.total.value(), reading.used.value(), reading.stall);
          },
          nb::sig("def read(self) -> tuple[int, int, float]"),
          "Total bytes, used bytes (by all programs), and the share of time stalled on memory.");
}

}  // namespace afterimage::python

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/pressure.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <mutex>
#include <set>

#include "afterimage/clock.h"
#include "bindings.h"
#include "budget_pool.h"
#include "foundation/platform/files.h"
#include "policy/pressure/governor.h"
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
                        std::optional<std::uint64_t> used_bytes, std::uint64_t evictable_bytes,
                        std::uint64_t planned_bytes, std::uint64_t refused_bytes, double stall) {
  GovernorInputs inputs{.now = seconds(now_seconds),
                        .ledger = {.used = Bytes(ours_bytes), .evictable = Bytes(evictable_bytes)},
                        .planned = Bytes(planned_bytes),
                        .refused = Bytes(refused_bytes),
                        .stall = stall};
  if (evictable_bytes > ours_bytes) {
    raise(ErrorCode::kInvalidArgument, "expected evictable_bytes to be at most ours_bytes");
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

struct PyBudget {
  std::shared_ptr<BudgetPool> pool;

  [[nodiscard]] nb::dict stats() const {
    nb::dict stats;
    stats["budget_bytes"] = pool->budget().capacity().value();
    stats["used_bytes"] = pool->budget().used().value();
    stats["peak_bytes"] = pool->budget().peak().value();
    return stats;
  }
};

/// A Python callable that any thread may call and drop.
std::shared_ptr<nb::callable> shared_callable(nb::callable callable) {
  return {new nb::callable(std::move(callable)), [](nb::callable* it) {
            const nb::gil_scoped_acquire held;
            delete it;
          }};
}

Result<GaugeReading> reading_of(const nb::callable& gauge) {
  const nb::gil_scoped_acquire held;
  try {
    const auto reading = nb::cast<nb::tuple>(gauge());
    if (reading.size() != 2 && reading.size() != 3) {
      return fail(ErrorCode::kUnavailable,
                  "expected the gauge to return (total_bytes, used_bytes) or (total_bytes, "
                  "used_bytes, stall)");
    }
    return GaugeReading{.total = Bytes(nb::cast<std::uint64_t>(reading[0])),
                        .used = Bytes(nb::cast<std::uint64_t>(reading[1])),
                        .stall = reading.size() == 3 ? nb::cast<double>(reading[2]) : 0.0};
  } catch (const std::exception& raised) {
    return fail(ErrorCode::kUnavailable, std::string("the gauge failed: ") + raised.what());
  }
}

Result<std::shared_ptr<PressureGauge>> gauge_of(std::shared_ptr<nb::callable> callable) {
  if (callable == nullptr) {
    AFI_TRY(std::shared_ptr<PressureGauge> gauge, open_host_gauge());
    return gauge;
  }
  return std::make_shared<EngineGauge>(
      [callable = std::move(callable)] { return reading_of(*callable); });
}

/// A controller with everything it uses.
struct Controlled {
  Controlled() = default;
  Controlled(const Controlled&) = delete;
  Controlled& operator=(const Controlled&) = delete;
  ~Controlled() { stop(); }

  void stop() {
    if (std::exchange(controller, nullptr) != nullptr) pool->end_control();
  }

  SystemClock clock;
  std::shared_ptr<BudgetPool> pool;
  std::unique_ptr<PressureController> controller;
};

/// Controllers whose threads may call Python: they are stopped before the interpreter ends.
class LiveControllers {
 public:
  void add(const std::shared_ptr<Controlled>& one) {
    const std::lock_guard lock(mutex_);
    std::erase_if(live_, [](const auto& each) { return each.expired(); });
    live_.insert(one);
  }
  /// Requires that the caller does not hold the GIL.
  void stop_all() {
    std::set<std::weak_ptr<Controlled>, std::owner_less<>> live;
    {
      const std::lock_guard lock(mutex_);
      live.swap(live_);
    }
    for (const auto& each : live) {
      if (const auto controlled = each.lock()) controlled->stop();
    }
  }

 private:
  std::mutex mutex_;
  std::set<std::weak_ptr<Controlled>, std::owner_less<>> live_;
};
LiveControllers& live_controllers() {
  static LiveControllers live;
  return live;
}

class PyPressureController {
 public:
  PyPressureController(const PyBudget& budget, std::optional<nb::callable> gauge,
                       std::uint64_t reserve_bytes, bool own_thread,
                       std::optional<double> idle_limit_seconds, const std::string& modes) {
    auto callable = gauge.has_value() ? shared_callable(*std::move(gauge)) : nullptr;
    auto controlled = std::make_shared<Controlled>();
    controlled->pool = budget.pool;
    or_raise(without_gil([&]() -> Result<void> {
      PressureOptions options{.gauge = nullptr,
                              .governor = {.cap = {}, .reserve = Bytes(reserve_bytes)},
                              .own_thread = own_thread};
      if (idle_limit_seconds.has_value()) {
        if (!(*idle_limit_seconds > 0) || *idle_limit_seconds > 1e9) {
          return fail(ErrorCode::kInvalidArgument, "expected idle_limit above 0 seconds");
        }
        options.governor.idle = IdleLimits::of(seconds(*idle_limit_seconds));
      }
      AFI_TRY(options.governor.modes, parse_modes(modes));
      AFI_TRY(options.gauge, gauge_of(std::move(callable)));
      if (!budget.pool->begin_control()) {
        return fail(ErrorCode::kInvalidArgument,
                    "this SharedBudget has a PressureController already: close that one first");
      }
      auto created = PressureController::create(options, budget.pool->shared(), controlled->clock);
      if (!created.has_value()) {
        budget.pool->end_control();
        return std::unexpected(created.error());
      }
      controlled->controller = *std::move(created);
      return {};
    }));
    live_controllers().add(controlled);
    controlled_ = std::move(controlled);
  }
  PyPressureController(PyPressureController&&) = default;
  ~PyPressureController() { close(); }

  [[nodiscard]] PressureController& open() const {
    if (controlled_ == nullptr || controlled_->controller == nullptr) {
      raise(ErrorCode::kInvalidArgument, "this pressure controller is closed");
    }
    return *controlled_->controller;
  }

  GovernorActions tick(std::uint64_t refused_bytes) {
    static_cast<void>(open());
    const std::shared_ptr<Controlled> busy = controlled_;
    return without_gil([&] { return busy->controller->tick(Bytes(refused_bytes)); });
  }

  /// The thread may be waiting for the GIL in order to call the gauge.
  void close() {
    std::shared_ptr<Controlled> gone = std::exchange(controlled_, nullptr);
    if (gone == nullptr) return;
    const nb::gil_scoped_release released;
    gone.reset();
  }

  [[nodiscard]] nb::dict stats() const {
    const PressureControllerStats now = open().stats();
    nb::dict stats;
    stats["gauge"] = now.gauge;
    stats["ticks"] = now.ticks;
    stats["failed_readings"] = now.failed_readings;
    stats["transitions"] = now.transitions;
    stats["blocked_ticks"] = now.blocked_ticks;
    stats["mode"] = std::string(to_string(now.mode));
    stats["is_blocked"] = now.mode == PressureMode::kEmergency;  // nothing new is admitted
    stats["trust"] = std::string(to_string(now.trust));
    stats["memory_bytes"] = now.memory.value();
    stats["external_bytes"] = now.external.value();
    stats["budget_bytes"] = now.budget.value();
    stats["lowest_budget_bytes"] = now.lowest_budget.value();
    stats["evicted_bytes"] = now.given_back.value();
    stats["idle_bytes"] = now.idle.value();
    stats["longest_tick_seconds"] = static_cast<double>(now.longest_tick.count()) * 1e-9;
    return stats;
  }

 private:
  std::shared_ptr<Controlled> controlled_;  // nullptr: closed
};

void bind_controller(nb::module_& module) {
  nb::class_<PyBudget>(module, "SharedBudget",
                       "One memory budget for several caches: pass it as their budget_bytes. A "
                       "cache that needs space\n"
                       "evicts the entries of least worth of all of them.\n"
                       "\n"
                       "Threads  Any. At most 64 open caches.")
      .def(
          "__init__",
          [](PyBudget* self, std::uint64_t capacity_bytes) {
            new (self) PyBudget{std::make_shared<BudgetPool>(Bytes(capacity_bytes))};
          },
          nb::arg("capacity_bytes"))
      .def("stats", &PyBudget::stats, nb::sig("def stats(self) -> dict[str, int]"),
           "The budget now (a PressureController lowers and raises it), and the bytes in use.");

  nb::class_<PyPressureController>(
      module, "PressureController",
      "Keeps the caches of a SharedBudget within the memory that other programs leave free: it "
      "reads a\n"
      "gauge, steps the governor, lowers or raises the budget, makes the caches evict to it, and "
      "blocks their\n"
      "admission in an emergency.\n"
      "\n"
      "Errors   A gauge that fails, freezes or reports wrong numbers makes nothing grow; stats() "
      "says so.\n"
      "Threads  Any. It has a thread of its own, which ends with close() and with the "
      "interpreter.")
      .def(
          nb::init<const PyBudget&, std::optional<nb::callable>, std::uint64_t, bool,
                   std::optional<double>, const std::string&>(),
          nb::arg("budget"), nb::kw_only(), nb::arg("gauge") = nb::none(),
          nb::arg("reserve_bytes") = 0, nb::arg("own_thread") = true,
          nb::arg("idle_limit") = nb::none(), nb::arg("modes") = "headroom",
          nb::sig(
              "def __init__(self, budget: SharedBudget, *, gauge: "
              "collections.abc.Callable[[], tuple[int, int] | tuple[int, int, float]] | None "
              "= None, reserve_bytes: int = 0, own_thread: bool = True, idle_limit: float | None = "
              "None, modes: str = 'headroom') -> None"),
          "gauge: returns (total_bytes, used_bytes[, stall]), the caches included; default: "
          "MemoryGauge's\n"
          "memory. It runs on the controller's thread. reserve_bytes: free memory to leave to "
          "other programs;\n"
          "0: a sixteenth of the total. own_thread: False: call tick() yourself. idle_limit: "
          "seconds after which\n"
          "entries that nobody used are evicted; a fifth of it once memory is not plenty, a "
          "twentieth in an emergency.\n"
          "modes: when they begin: headroom, by the bytes needed soon; seed, at 70, 85, 92 and 96 "
          "% of "
          "the memory in\n"
          "use; or four percentages of your own, such as 60,75,85,95.\n"
          "\n"
          "Unavailable: the gauge cannot be read and reserve_bytes is 0.")
      .def("tick", &PyPressureController::tick, nb::arg("refused_bytes") = 0,
           "Reads the gauge and acts once. refused_bytes: an allocation that has just failed; as "
           "much as\n"
           "possible of it is free on return.")
      .def("stats", &PyPressureController::stats,
           nb::sig("def stats(self) -> dict[str, int | float | str]"))
      .def("close", &PyPressureController::close,
           "Stops the thread, after which the budget is as it was created. May be called twice.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> PressureController"))
      .def(
          "__exit__",
          [](PyPressureController& self, nb::handle, nb::handle, nb::handle) { self.close(); },
          nb::arg().none(), nb::arg().none(), nb::arg().none());
  const auto stop = [] { without_gil([] { live_controllers().stop_all(); }); };
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(stop));
}

}  // namespace

CacheBudget budget_of(nb::handle object) {
  if (nb::isinstance<PyBudget>(object)) {
    return {.pool = nb::cast<const PyBudget&>(object).pool, .is_shared = true};
  }
  std::uint64_t bytes = 0;
  if (!nb::try_cast(object, bytes)) {
    throw nb::type_error("expected budget_bytes to be an int of at least 0, or a SharedBudget");
  }
  return {.pool = std::make_shared<BudgetPool>(Bytes(bytes))};
}

void bind_pressure(nb::module_& module) {
  bind_controller(module);
  nb::class_<GovernorActions>(module, "GovernorActions", "What to do now, in bytes.")
      .def_prop_ro(
          "mode", [](const GovernorActions& a) { return std::string(to_string(a.mode)); },
          "relaxed, normal, pressure, critical or emergency.")
      .def_prop_ro(
          "trust", [](const GovernorActions& a) { return std::string(to_string(a.trust)); },
          "How far the gauge's reading is trusted.")
      .def_prop_ro("admits", [](const GovernorActions& a) { return a.admits; })
      .def_prop_ro(
          "budget_bytes", [](const GovernorActions& a) { return a.budget.value(); },
          "Hard limit for the cache once the actions are done.")
      .def_prop_ro("target_bytes", [](const GovernorActions& a) { return a.target.value(); })
      .def_prop_ro(
          "release_bytes", [](const GovernorActions& a) { return a.release.value(); },
          "To evict now.")
      .def_prop_ro(
          "overrun_bytes", [](const GovernorActions& a) { return a.overrun.value(); },
          "Still beyond the budget then: pinned.")
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
           nb::arg("evictable_bytes") = 0, nb::arg("planned_bytes") = 0,
           nb::arg("refused_bytes") = 0, nb::arg("stall") = 0.0,
           "total_bytes, used_bytes: a gauge's reading, the cache included; without it the "
           "governor fails\n"
           "closed. evictable_bytes: the part of ours_bytes that is not pinned. stall: share of "
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

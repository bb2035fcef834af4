// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "afterimage/context_cache.h"
#include "bindings.h"
#include "budget_pool.h"

namespace afterimage::python {

namespace {

/// A cache with everything it uses.
struct Contexts {
  SystemClock clock;
  CacheBudget budget;
  std::unique_ptr<ContextCache> cache;
  BudgetPool::Place place;  // last: left first
};

class PyContextCache {
 public:
  PyContextCache(const CacheBudget& budget, const ContextCache::Options& options, nb::object dumps,
                 nb::object loads)
      : dumps_(std::move(dumps)), loads_(std::move(loads)) {
    contexts_ = std::make_unique<Contexts>();
    contexts_->budget = budget;
    contexts_->cache = or_raise(
        ContextCache::create(options, budget.pool->budget(), contexts_->clock, budget.shared()));
    contexts_->place = or_raise(budget.join(contexts_->cache->client()));
  }

  bool set(const std::string& key, nb::handle value, std::uint64_t token_count, double cost_seconds,
           WorkflowHint step) {
    const nb::object bytes = dumps_.is_none() ? nb::borrow(value) : dumps_(value);
    const BorrowedTensor borrowed = borrow_tensor(bytes);
    const auto stored = without_gil([&] {
      return contexts_->cache->set(key, borrowed.view.bytes(),
                                   {.tokens = token_count,
                                    .cost = Duration(static_cast<std::int64_t>(cost_seconds * 1e9)),
                                    .step = std::move(step)});
    });
    if (stored.has_value()) return true;
    const ErrorCode code = stored.error().code;
    if (code != ErrorCode::kNoSpace && code != ErrorCode::kUnavailable) raise(stored.error());
    return false;
  }

  nb::object get(const std::string& key, const WorkflowHint& step) {
    const auto held = without_gil([&] { return contexts_->cache->get(key, step); });
    if (!held.has_value()) return nb::none();
    const std::span<const std::byte> found = held->bytes();
    const nb::bytes bytes(found.data(), found.size());
    return loads_.is_none() ? nb::object(bytes) : loads_(bytes);
  }

  [[nodiscard]] ContextCache& cache() const { return *contexts_->cache; }

  [[nodiscard]] nb::dict stats() const {
    const EncoderCacheStats now = contexts_->cache->stats();
    nb::dict stats;
    stats["size"] = now.entries.value();
    stats["total_tokens"] = now.tokens;
    stats["resident_bytes"] = now.resident.value();
    stats["hits"] = now.hits;
    stats["misses"] = now.misses;
    stats["evictions"] = now.evictions;
    stats["refused"] = now.refused_oversize + now.refused_in_use;
    stats["blocked"] = now.blocked;
    return stats;
  }

 private:
  std::unique_ptr<Contexts> contexts_;
  nb::object dumps_, loads_;  // None: bytes
};

WorkflowHint step_of(std::string workflow, std::string step, std::vector<std::string> next_steps) {
  return {.workflow = std::move(workflow),
          .step = std::move(step),
          .next_steps = std::move(next_steps)};
}

}  // namespace

void bind_contexts(nb::module_& module) {
  using Names = std::vector<std::string>;
  nb::class_<PyContextCache>(
      module, "ContextCache",
      "What agents keep between their steps and could make again (retrieved documents, results of "
      "tools, the state\n"
      "of a conversation), under a name, within a budget of bytes and one of tokens.\n"
      "\n"
      "Unit     Bytes, and tokens as the caller counts them.\n"
      "Errors   None for a full cache: set() returns False.\n"
      "Threads  Any. The GIL is released while copying.")
      .def(
          "__init__",
          [](PyContextCache* self, const nb::object& budget_bytes, std::uint64_t max_tokens,
             std::uint64_t max_entries, std::string policy, nb::object dumps, nb::object loads) {
            const CacheBudget budget = budget_of(budget_bytes);
            new (self) PyContextCache(budget,
                                      {.max_tokens = max_tokens,
                                       .max_entries = EntryCount(max_entries),
                                       .policy = std::move(policy),
                                       .keep_idle_order = budget.keeps_times()},
                                      std::move(dumps), std::move(loads));
          },
          nb::arg("budget_bytes"), nb::kw_only(), nb::arg("max_tokens") = UINT64_MAX,
          nb::arg("max_entries") = 1'000'000, nb::arg("policy") = "worth",
          nb::arg("dumps") = nb::none(), nb::arg("loads") = nb::none(),
          nb::sig("def __init__(self, budget_bytes: int | SharedBudget, *, max_tokens: int = "
                  "18446744073709551615, max_entries: int = 1000000, policy: str = 'worth', dumps: "
                  "collections.abc.Callable[[object], bytes] | None = None, loads: "
                  "collections.abc.Callable[[bytes], object] | None = None) -> None"),
          "dumps, loads: a codec, such as that of pickle, msgpack or json for your types; None: "
          "values are bytes.")
      .def(
          "set",
          [](PyContextCache& self, const std::string& key, nb::handle value,
             std::uint64_t token_count, double cost_seconds, std::string workflow, std::string step,
             Names next_steps) {
            return self.set(key, value, token_count, cost_seconds,
                            step_of(std::move(workflow), std::move(step), std::move(next_steps)));
          },
          nb::arg("key"), nb::arg("value"), nb::arg("token_count") = 0, nb::kw_only(),
          nb::arg("cost_seconds") = 0.0, nb::arg("workflow") = "", nb::arg("step") = "",
          nb::arg("next_steps") = Names(),
          nb::sig("def set(self, key: str, value: object, token_count: int = 0, *, cost_seconds: "
                  "float = 0.0, workflow: str = '', step: str = '', next_steps: "
                  "collections.abc.Sequence[str] = ()) -> bool"),
          "Stores a value in place of the key's old one. False: it does not fit, or admission is "
          "blocked because\n"
          "memory is short.\n"
          "\n"
          "cost_seconds: how long making it took. workflow, step, next_steps: values of the step "
          "that comes last\n"
          "leave first.")
      .def(
          "get",
          [](PyContextCache& self, const std::string& key, std::string workflow, std::string step,
             Names next_steps) {
            return self.get(key,
                            step_of(std::move(workflow), std::move(step), std::move(next_steps)));
          },
          nb::arg("key"), nb::kw_only(), nb::arg("workflow") = "", nb::arg("step") = "",
          nb::arg("next_steps") = Names(),
          nb::sig("def get(self, key: str, *, workflow: str = '', step: str = '', next_steps: "
                  "collections.abc.Sequence[str] = ()) -> typing.Any"),
          "The value, or None.")
      .def(
          "delete",
          [](PyContextCache& self, const std::string& key) { return self.cache().erase(key); },
          nb::arg("key"), "False: it was not there.")
      .def("clear", [](PyContextCache& self) { self.cache().clear(); })
      .def("__contains__",
           [](const PyContextCache& self, const std::string& key) {
             return self.cache().info(key).has_value();
           })
      .def("__len__",
           [](const PyContextCache& self) { return self.cache().stats().entries.value(); })
      .def("stats", &PyContextCache::stats, nb::sig("def stats(self) -> dict[str, int]"));
}

}  // namespace afterimage::python

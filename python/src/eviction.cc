// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "afterimage/eviction_policy.h"
#include "bindings.h"

namespace afterimage::python {

namespace {

/// A policy and the slots that it knows, so that a call with an unknown slot raises.
class PyPolicy {
 public:
  explicit PyPolicy(const std::string& name) : policy_(or_raise(make_policy(name))) {}

  std::uint32_t insert(std::uint64_t bytes, double cost_seconds, std::uint64_t key) {
    std::uint32_t index = static_cast<std::uint32_t>(slots_.size());
    if (free_.empty()) {
      slots_.push_back({});
    } else {
      index = free_.back();
      free_.pop_back();
    }
    Slot& slot = slots_[index];
    slot.present = true;
    slot.parked = false;
    ++slot.generation;
    policy_->insert({index, slot.generation},
                    {.bytes = Bytes(bytes),
                     .cost = Duration(static_cast<std::int64_t>(cost_seconds * 1e9)),
                     .key = key});
    return index;
  }
  void touch(std::uint32_t index) { policy_->touch(id(index)); }
  void begin_request(double now_seconds) {
    const Duration now(static_cast<std::int64_t>(now_seconds * 1e9));
    now_ = std::max(now_, now);
    policy_->begin_request({.now = now_});
  }
  void erase(std::uint32_t index, bool evicted) {
    policy_->erase(id(index), evicted ? RemovalReason::kEvicted : RemovalReason::kErased);
    slots_[index].present = false;
    free_.push_back(index);
  }
  void park(std::uint32_t index) {
    const SlotId slot = id(index);
    if (!std::exchange(slots_[index].parked, true)) policy_->park(slot);
  }
  void unpark(std::uint32_t index) {
    const SlotId slot = id(index);
    if (std::exchange(slots_[index].parked, false)) policy_->unpark(slot);
  }
  std::optional<std::uint32_t> victim() {
    const std::optional<SlotId> slot = policy_->victim();
    return slot.has_value() ? std::optional(slot->index) : std::nullopt;
  }

 private:
  struct Slot {
    std::uint32_t generation = 0;
    bool present = false;
    bool parked = false;
  };
  [[nodiscard]] SlotId id(std::uint32_t index) const {
    if (index >= slots_.size() || !slots_[index].present) {
      raise(ErrorCode::kNotFound, "there is no entry " + std::to_string(index));
    }
    return {index, slots_[index].generation};
  }

  std::unique_ptr<EvictionPolicy> policy_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  Duration now_{0};
};

}  // namespace

void bind_eviction(nb::module_& module) {
  nb::class_<PyPolicy>(module, "EvictionPolicy",
                       "Decides which entry to evict: one of the library's policies, by name.\n"
                       "\n"
                       "Threads  Any: each call holds the GIL.")
      .def(nb::init<const std::string&>(), nb::arg("name") = "worth")
      .def("insert", &PyPolicy::insert, nb::arg("bytes"), nb::arg("cost_seconds"),
           nb::arg("key") = 0,
           "Adds an entry and returns its number. cost_seconds: what a hit saves. key: "
           "identifies the content,\n"
           "so that the policy recognises it if it returns; 0: unknown.")
      .def("begin_request", &PyPolicy::begin_request, nb::arg("now_seconds"),
           "Starts a request; the calls up to the next begin_request belong to it.")
      .def("touch", &PyPolicy::touch, nb::arg("entry"), "The entry was used.")
      .def("erase", &PyPolicy::erase, nb::arg("entry"), nb::arg("evicted"),
           "Removes the entry; its number may be reused.")
      .def("park", &PyPolicy::park, nb::arg("entry"), "Marks the entry as not evictable.")
      .def("unpark", &PyPolicy::unpark, nb::arg("entry"), "Marks it as evictable again.")
      .def("victim", &PyPolicy::victim, "The entry to evict first. None: all are parked.");
  module.def(
      "policy_names",
      [] {
        std::vector<std::string> names;
        for (const std::string_view name : policy_names()) names.emplace_back(name);
        return names;
      },
      "Names that EvictionPolicy and the caches accept, the default first.");
}

}  // namespace afterimage::python

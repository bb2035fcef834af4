// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "afterimage/eviction_policy.h"
#include "bindings.h"

namespace afterimage::python {

namespace {

/// A policy and the places that it knows, so that no call can name one that is not there.
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

void bind_residency(nb::module_& module) {
  nb::class_<PyPolicy>(module, "EvictionPolicy",
                       "Which entry leaves first: one of the library's policies by name.\n\n"
                       "Threads  Any: each call is one step under the GIL.")
      .def(nb::init<const std::string&>(), nb::arg("name") = "worth")
      .def("insert", &PyPolicy::insert, nb::arg("bytes"), nb::arg("cost_seconds"),
           nb::arg("key") = 0,
           "A new entry; returns its number. cost_seconds: what a hit saves. key: names the "
           "content, so that it\nis known again when it comes back; 0: not known.")
      .def("begin_request", &PyPolicy::begin_request, nb::arg("now_seconds"),
           "What follows up to the next call is of one request.")
      .def("touch", &PyPolicy::touch, nb::arg("entry"), "The entry was used.")
      .def("erase", &PyPolicy::erase, nb::arg("entry"), nb::arg("evicted"),
           "The entry is gone; its number is used again.")
      .def("park", &PyPolicy::park, nb::arg("entry"), "The entry cannot leave now.")
      .def("unpark", &PyPolicy::unpark, nb::arg("entry"), "It can.")
      .def("victim", &PyPolicy::victim, "The entry that should leave first. None: all are parked.");
  module.def(
      "policy_names",
      [] {
        std::vector<std::string> names;
        for (const std::string_view name : policy_names()) names.emplace_back(name);
        return names;
      },
      "What EvictionPolicy and the caches take, the default first.");
}

}  // namespace afterimage::python

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "afterimage/disk/disk_tier.h"
#include "afterimage/memory/checksum.h"
#include "afterimage/memory/packed_tensors.h"
#include "afterimage/platform/clock.h"
#include "afterimage/residency/policies.h"
#include "bindings.h"

namespace afterimage::python {

namespace {

/// A disk tier with the clock and the memory that it stands on.
struct DiskStore {
  explicit DiskStore(Bytes memory) : memory(memory) {}

  SystemClock clock;
  MemoryBudget memory;
  std::unique_ptr<DiskTier> tier;
};
using DiskPtr = std::shared_ptr<DiskStore>;

TierKey key_of(EntryClass entry_class, const nb::bytes& bytes) {
  TierKey key{.entry_class = entry_class};
  if (bytes.size() != key.bytes.size()) {
    raise(ErrorCode::kInvalidArgument,
          "expected a key of 32 bytes, got " + std::to_string(bytes.size()));
  }
  std::memcpy(key.bytes.data(), bytes.data(), key.bytes.size());
  return key;
}

/// Tensors as they were read, and the tier whose memory they lie in.
struct HeldEntry {
  DiskPtr store;
  TierEntry entry;
};

class PyDiskTier {
 public:
  PyDiskTier(const std::string& folder, std::uint64_t capacity, std::uint64_t memory,
             const std::string& holds) {
    if (holds != "encoder_output" && holds != "prefix_kv") {
      raise(ErrorCode::kInvalidArgument,
            "expected holds to be encoder_output or prefix_kv, got '" + holds + "'");
    }
    class_ = holds == "prefix_kv" ? EntryClass::kPrefixKv : EntryClass::kEncoderOutput;
    store_ = or_raise(without_gil([&]() -> Result<DiskPtr> {
      auto store = std::make_shared<DiskStore>(Bytes(memory));
      DiskTierOptions options;
      options.log.capacity = Bytes(capacity);
      AFI_TRY(store->tier, DiskTier::open(folder, options, store->memory, store->clock));
      return store;
    }));
  }

  [[nodiscard]] DiskPtr open() const {
    if (store_ == nullptr) raise(ErrorCode::kInvalidArgument, "this disk tier is closed");
    return store_;
  }

  bool put(const nb::bytes& name, nb::handle tensors, double cost_seconds) {
    const DiskPtr store = open();
    const TierKey key = key_of(class_, name);
    const std::vector<BorrowedTensor> borrowed = borrow_tensors(tensors);
    const TensorViews views = views_of(borrowed);
    return without_gil([&] {
      const Duration cost(static_cast<std::int64_t>(cost_seconds * 1e9));
      if (views.size() == 1) {  // as it lies; several are packed first
        return store->tier
            ->put(key, {.tensors = {{views[0].dtype(), views[0].shape()}}, .cost = cost},
                  views[0].bytes())
            .has_value();
      }
      PackedTensors packed = pack(views);
      return store->tier->put(key, {.tensors = std::move(packed.forms), .cost = cost}, packed.bytes)
          .has_value();
    });
  }

  nb::object get(const nb::bytes& name) {
    const DiskPtr store = open();
    const TierKey key = key_of(class_, name);
    auto found = without_gil([&]() -> std::optional<std::pair<TierEntry, TensorViews>> {
      auto entry = store->tier->get(key, store->memory);
      if (!entry.has_value() || !entry->has_value()) return std::nullopt;
      auto views = unpack(**entry);
      if (!views.has_value()) return std::nullopt;
      return std::pair(std::move(**entry), *std::move(views));
    });
    if (!found.has_value()) return nb::none();
    const auto held = std::make_shared<const HeldEntry>(HeldEntry{store, std::move(found->first)});
    return lend(held, found->second);
  }

  bool get_into(const nb::bytes& name, const nb::ndarray<nb::c_contig, nb::device::cpu>& into) {
    const DiskPtr store = open();
    const TierKey key = key_of(class_, name);
    const std::span<std::byte> room(static_cast<std::byte*>(into.data()), into.nbytes());
    return without_gil([&] {
      const auto entry = store->tier->get(key, store->memory);
      if (!entry.has_value() || !entry->has_value()) return false;
      if ((*entry)->bytes.size() != room.size()) return false;
      std::ranges::copy((*entry)->bytes, room.begin());
      return true;
    });
  }

  bool may_hold(const nb::bytes& name) const {
    return open()->tier->may_hold(key_of(class_, name));
  }

  void erase(const nb::bytes& name) {
    const DiskPtr store = open();
    const TierKey key = key_of(class_, name);
    or_raise(without_gil([&] { return store->tier->erase(key); }));
  }

  void flush() {
    const DiskPtr store = open();
    or_raise(without_gil([&] { return store->tier->flush(); }));
  }

  void close() {
    DiskPtr store = std::exchange(store_, nullptr);
    const nb::gil_scoped_release released;  // it commits what was put
    store.reset();
  }

  [[nodiscard]] nb::dict stats() const {
    const TierStats tier = open()->tier->stats();
    nb::dict stats;
    stats["hits"] = tier.hits;
    stats["misses"] = tier.misses;
    stats["puts"] = tier.puts;
    stats["refused"] = tier.refused;
    stats["evicted"] = tier.evicted;
    stats["damaged"] = tier.damaged;
    stats["entries"] = tier.entries.value();
    stats["used_bytes"] = tier.used.value();
    stats["capacity_bytes"] = tier.capacity.value();
    stats["trouble"] = tier.trouble;
    return stats;
  }

 private:
  EntryClass class_ = EntryClass::kEncoderOutput;
  DiskPtr store_;
};

void bind_disk(nb::module_& module) {
  nb::class_<PyDiskTier>(
      module, "DiskTier",
      "Tensors in a folder on disk, under keys of 32 bytes: a hard cap, and every read is "
      "verified.\n\n"
      "Errors   A miss is none, and so is whatever cannot be read or is not what was stored.\n"
      "         Unavailable: the folder cannot be used, or another process uses it.\n"
      "Threads  Any. The GIL is released while the disk works.")
      .def(nb::init<const std::string&, std::uint64_t, std::uint64_t, const std::string&>(),
           nb::arg("folder"), nb::kw_only(), nb::arg("capacity_bytes"),
           nb::arg("memory_bytes") = 256ULL << 20U, nb::arg("holds") = "encoder_output",
           "memory_bytes: for what is on its way to the disk (16 MiB) and for what was read and is "
           "held.\nholds: encoder_output or prefix_kv.")
      .def("put", &PyDiskTier::put, nb::arg("key"), nb::arg("tensors"),
           nb::arg("cost_seconds") = 0.0,
           "Takes a copy of a tensor or a list of them. False: it was not taken in; stats() says "
           "why.")
      .def("get", &PyDiskTier::get, nb::arg("key"),
           nb::sig("def get(self, key: bytes) -> tuple[Tensor, ...] | None"),
           "A verified copy, or None.")
      .def("get_into", &PyDiskTier::get_into, nb::arg("key"), nb::arg("buffer").noconvert(),
           nb::sig("def get_into(self, key: bytes, buffer: object) -> bool"),
           "The same into a writable, C-contiguous buffer of exactly as many bytes. False: it is "
           "untouched.")
      .def("may_hold", &PyDiskTier::may_hold, nb::arg("key"), "A hint without I/O.")
      .def("erase", &PyDiskTier::erase, nb::arg("key"),
           "Once it returned the entry never comes back.")
      .def("flush", &PyDiskTier::flush, "What was put before is safe from a power failure.")
      .def("close", &PyDiskTier::close, "Twice is fine.")
      .def("stats", &PyDiskTier::stats, nb::sig("def stats(self) -> dict[str, int | str]"))
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> DiskTier"))
      .def(
          "__exit__", [](PyDiskTier& self, nb::handle, nb::handle, nb::handle) { self.close(); },
          nb::arg().none(), nb::arg().none(), nb::arg().none());
}

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
    policy_->erase(id(index), evicted ? Leaving::kEvicted : Leaving::kErased);
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

void bind_policy(nb::module_& module) {
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

}  // namespace

void bind_tiers(nb::module_& module) {
  bind_disk(module);
  bind_policy(module);
  module.def(
      "checksum",
      [](nb::handle data) {
        const BorrowedTensor tensor = borrow_tensor(data);
        const Checksum sum = without_gil([&] { return Checksum::of(tensor.view.bytes()); });
        return nb::bytes(&sum, sizeof sum);
      },
      nb::arg("data"), "XXH3-128 of bytes, 16 bytes: against accidents, not against an attacker.");
}

}  // namespace afterimage::python

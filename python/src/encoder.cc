// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <stop_token>

#include "afterimage/clock.h"
#include "afterimage/disk_tier.h"
#include "afterimage/encode_once.h"
#include "afterimage/eviction_policy.h"
#include "bindings.h"
#include "caches/encoder/encoder_archive.h"

namespace afterimage::python {

namespace {

/// A cache with all that it stands on. Whatever came out of it keeps it alive, also past close().
struct EncoderStore {
  explicit EncoderStore(Bytes capacity) : budget(capacity), transfer(std::max(capacity, 64_MiB)) {}

  SystemClock clock;
  MemoryBudget budget;
  MemoryBudget transfer;  // pays for what is on its way to the disk and back; batches are 16 MiB
  std::shared_ptr<Tier> below;  // nullptr: none
  LoadOrCompute quicker{clock};
  std::unique_ptr<EncoderArchive> archive;
  std::unique_ptr<EncoderCache> cache;
  std::unique_ptr<EncodeOnce> front;
};
using StorePtr = std::shared_ptr<EncoderStore>;

struct OpenCall {
  std::uint64_t budget_bytes;
  std::string policy;
  std::uint64_t max_entries;
  std::optional<std::string> disk;
  std::uint64_t disk_bytes;
  bool verify_hits;
  std::shared_ptr<Tier> tier;
};

Result<StorePtr> open_store(const OpenCall& call) {
  auto store = std::make_shared<EncoderStore>(Bytes(call.budget_bytes));
  AFI_TRY(auto policy, make_policy(call.policy));
  AFI_TRY(store->cache, EncoderCache::create({.max_entries = EntryCount(call.max_entries),
                                              .policy = std::move(policy)},
                                             store->budget));
  if (call.disk.has_value() && call.tier != nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                "expected disk or tier, got both: a TierStack has several");
  }
  store->below = call.tier;
  if (call.disk.has_value()) {
    DiskTierOptions options;
    options.log.capacity = Bytes(call.disk_bytes);
    AFI_TRY(store->below, DiskTier::open(*call.disk, options, store->transfer, store->clock));
  }
  if (store->below != nullptr) {
    store->archive =
        std::make_unique<EncoderArchive>(*store->below, store->transfer, &store->quicker);
  }
  store->front = std::make_unique<EncodeOnce>(*store->cache, store->clock,
                                              EncodeOnceOptions{.verify_hits = call.verify_hits});
  return store;
}

/// Embeddings, and the store that they pin.
struct HeldEmbeddings {
  StorePtr store;
  Embeddings embeddings;
};
struct PyEmbeddings {
  std::shared_ptr<const HeldEmbeddings> held;  // nullptr: released

  [[nodiscard]] const HeldEmbeddings& get() const {
    if (held == nullptr) {
      raise(ErrorCode::kInvalidArgument, "these embeddings were released: look them up again");
    }
    return *held;
  }
  [[nodiscard]] nb::tuple tensors() const { return lend(held, get().embeddings.tensors()); }
};

PyEmbeddings embeddings_of(StorePtr store, Embeddings embeddings) {
  return {std::make_shared<const HeldEmbeddings>(
      HeldEmbeddings{std::move(store), std::move(embeddings)})};
}

/// Keys that this thread is encoding in get_or_encode: to wait for one of them is to wait for ever.
thread_local std::vector<EncoderKey> encoding;

struct PyFlightLeader {
  StorePtr store;
  EncoderKey key;
  std::optional<FlightLeader> turn;  // empty: published or given up
  Duration began;

  [[nodiscard]] FlightLeader take() {
    if (!turn.has_value()) {
      raise(ErrorCode::kInvalidArgument, "this turn is over: it was published or given up before");
    }
    FlightLeader taken = std::move(*turn);
    turn.reset();
    return taken;
  }
};

/// Two copies, neither with the GIL: out of the caller's hands, and into the cache.
Result<Embeddings> publish(EncoderStore& store, const EncoderKey& key, FlightLeader turn,
                           const TensorViews& views, const EncoderEntryFacts& facts) {
  EncoderOutput output;
  for (const TensorView& view : views) {
    output.push_back({.dtype = view.dtype(),
                      .shape = view.shape(),
                      .bytes = {view.bytes().begin(), view.bytes().end()}});
  }
  AFI_TRY(Embeddings embeddings, std::move(turn).publish(std::move(output), facts));
  if (store.archive != nullptr) store.archive->keep(key, embeddings.tensors(), facts.cost);
  return embeddings;
}

/// What is on disk needs no encoding: the turn is published with it.
std::optional<Result<Embeddings>> load(EncoderStore& store, const EncoderKey& key,
                                       std::optional<FlightLeader>& turn, Modality modality) {
  if (store.archive == nullptr) return std::nullopt;
  auto loaded = store.archive->load(key);
  if (!loaded.has_value()) return std::nullopt;
  FlightLeader taken = std::move(*turn);
  turn.reset();
  return std::move(taken).publish(std::move(loaded->output),
                                  {.modality = modality, .cost = loaded->cost});
}

nb::object as_python(const StorePtr& store, const EncoderKey& key, EncodeOnce::Claim claim);

struct PyFlightWaiter {
  StorePtr store;
  EncoderKey key;
  std::optional<FlightWaiter> ticket;
  std::stop_source stop;

  nb::object wait() {
    if (!ticket.has_value()) {
      raise(ErrorCode::kInvalidArgument, "this ticket was waited on before: claim again");
    }
    FlightWaiter taken = std::move(*ticket);
    ticket.reset();
    const StorePtr alive = store;
    auto got = or_raise(without_gil([&] { return std::move(taken).wait(stop.get_token()); }));
    return std::visit(
        [&](auto& found) { return as_python(alive, key, EncodeOnce::Claim(std::move(found))); },
        got);
  }
};

nb::object as_python(const StorePtr& store, const EncoderKey& key, EncodeOnce::Claim claim) {
  if (auto* found = std::get_if<Embeddings>(&claim); found != nullptr) {
    return nb::cast(embeddings_of(store, std::move(*found)));
  }
  if (auto* turn = std::get_if<FlightLeader>(&claim); turn != nullptr) {
    return nb::cast(PyFlightLeader{store, key, std::move(*turn), store->clock.now()});
  }
  return nb::cast(PyFlightWaiter{store, key, std::move(std::get<FlightWaiter>(claim)), {}});
}

class PyEncoderCache {
 public:
  explicit PyEncoderCache(StorePtr store) : store_(std::move(store)) {}

  [[nodiscard]] StorePtr open() const {
    if (store_ == nullptr) raise(ErrorCode::kInvalidArgument, "this encoder cache is closed");
    return store_;
  }

  nb::object claim(const EncoderKey& key, std::uint32_t agent, std::string_view modality) {
    const StorePtr store = open();
    const Modality kind = modality_named(modality);
    auto claim = without_gil([&] {
      EncodeOnce::Claim found = store->front->claim(key, AgentId(agent));
      if (auto* turn = std::get_if<FlightLeader>(&found); turn != nullptr) {
        std::optional<FlightLeader> held = std::move(*turn);
        if (auto loaded = load(*store, key, held, kind); loaded && loaded->has_value()) {
          return EncodeOnce::Claim(*std::move(*loaded));
        }
        if (!held.has_value()) return store->front->claim(key, AgentId(agent));
        return EncodeOnce::Claim(*std::move(held));
      }
      return found;
    });
    return as_python(store, key, std::move(claim));
  }

  nb::object find(const EncoderKey& key, std::uint32_t agent) {
    const nb::object found = claim(key, agent, "image");
    return nb::isinstance<PyEmbeddings>(found) ? found : nb::none();
  }

  nb::object get_or_encode(const EncoderKey& key, const nb::callable& encode,
                           std::string_view modality, std::uint32_t agent) {
    if (std::ranges::find(encoding, key) != encoding.end()) {
      raise(ErrorCode::kInvalidArgument,
            "the encoder of " + key.hex() + " asks for its own output: that would wait for ever");
    }
    nb::object found = claim(key, agent, modality);
    while (nb::isinstance<PyFlightWaiter>(found)) found = nb::cast<PyFlightWaiter&>(found).wait();
    if (nb::isinstance<PyEmbeddings>(found)) return found;
    auto& mine = nb::cast<PyFlightLeader&>(found);
    encoding.push_back(key);
    const struct Done {
      ~Done() { encoding.pop_back(); }
    } done;
    try {
      return nb::cast(publish_turn(mine, encode(), modality, std::nullopt));
    } catch (...) {
      mine.turn.reset();  // one of those who wait tries
      throw;
    }
  }

  static PyEmbeddings publish_turn(PyFlightLeader& self, nb::handle tensors,
                                   std::string_view modality, std::optional<double> cost_seconds) {
    const std::vector<BorrowedTensor> borrowed = borrow_tensors(tensors);
    const TensorViews views = views_of(borrowed);
    const StorePtr store = self.store;
    const Duration cost = cost_seconds.has_value()
                              ? Duration(static_cast<std::int64_t>(*cost_seconds * 1e9))
                              : store->clock.now() - self.began;
    const EncoderEntryFacts facts{.modality = modality_named(modality), .cost = cost};
    FlightLeader turn = self.take();
    auto embeddings = or_raise(
        without_gil([&] { return publish(*store, self.key, std::move(turn), views, facts); }));
    return embeddings_of(store, std::move(embeddings));
  }

  bool erase(const EncoderKey& key) {
    const StorePtr store = open();
    return without_gil([&] {
      if (store->below != nullptr) {
        (void)store->below->erase(TierKey::of(EntryClass::kEncoderOutput, key));
      }
      return store->front->erase(key);
    });
  }

  void flush() {
    const StorePtr store = open();
    or_raise(without_gil([&]() -> Result<void> {
      return store->below == nullptr ? Result<void>() : store->below->flush();
    }));
  }

  void close() {
    StorePtr store = std::exchange(store_, nullptr);
    const nb::gil_scoped_release released;  // the disk may have something to write
    store.reset();
  }

  [[nodiscard]] nb::dict stats() const {
    const StorePtr store = open();
    const EncoderCacheStats cache = store->front->cache_stats();
    const EncodeOnceStats once = store->front->stats();
    nb::dict stats;
    stats["hits"] = cache.hits;
    stats["misses"] = cache.misses;
    stats["insertions"] = cache.insertions;
    stats["evictions"] = cache.evictions;
    stats["refused"] = cache.refused_oversize + cache.refused_in_use + cache.refused_by_floor;
    stats["entries"] = cache.entries.value();
    stats["resident_bytes"] = cache.resident.value();
    stats["budget_bytes"] = store->budget.capacity().value();
    stats["bytes_reused"] = cache.bytes_reused.value();
    stats["seconds_saved"] = static_cast<double>(cache.encode_time_saved.count()) * 1e-9;
    stats["encoded"] = once.led;
    stats["waited"] = once.followed;
    stats["uncached"] = once.uncached;
    stats["damaged"] = once.corrupt;
    if (store->archive != nullptr) {
      const EncoderArchiveStats archive = store->archive->stats();
      stats["disk_kept"] = archive.kept;
      stats["disk_loaded"] = archive.loaded;
      stats["disk_refused"] = archive.refused;
      stats["disk_declined"] = archive.declined;
    }
    return stats;
  }

 private:
  StorePtr store_;
};

void bind_held(nb::module_& module) {
  nb::class_<PyEmbeddings>(module, "Embeddings",
                           "One encoder output: a tuple of tensors, pinned while this or one of "
                           "them lives.\n\nShape    As the encoder gave it; tensors[0] usually "
                           "[embeddings, hidden_size].")
      .def_prop_ro("tensors", &PyEmbeddings::tensors,
                   nb::sig("def tensors(self) -> tuple[Tensor, ...]"))
      .def_prop_ro(
          "resident", [](const PyEmbeddings& self) { return self.get().embeddings.resident(); },
          "False: it did not fit the budget and lives only as long as those who use it.")
      .def(
          "release", [](PyEmbeddings& self) { self.held.reset(); },
          "Unpins the entry as soon as nobody reads its tensors; twice is fine.")
      .def("__len__",
           [](const PyEmbeddings& self) { return self.get().embeddings.tensors().size(); })
      .def(
          "__getitem__",
          [](const PyEmbeddings& self, Py_ssize_t index) {
            return nb::object(nb::object(self.tensors())[nb::cast(index)]);
          },
          nb::sig("def __getitem__(self, index: int, /) -> Tensor"))
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> Embeddings"))
      .def(
          "__exit__",
          [](PyEmbeddings& self, nb::handle, nb::handle, nb::handle) { self.held.reset(); },
          nb::arg().none(), nb::arg().none(), nb::arg().none());

  nb::class_<PyFlightLeader>(
      module, "FlightLeader",
      "The duty to encode one item for everybody who waits for it.\n\nLetting go of "
      "it without publishing hands it to one who waits.")
      .def("publish", &PyEncoderCache::publish_turn, nb::arg("tensors"), nb::kw_only(),
           nb::arg("modality") = "image", nb::arg("cost_seconds") = nb::none(),
           "Copies the output (a tensor or a list of them) into the cache and wakes those who "
           "wait.\n\ncost_seconds: what encoding took; by default the time since the claim. "
           "Releases the GIL.")
      .def(
          "give_up", [](PyFlightLeader& self) { self.turn.reset(); },
          "One of those who wait tries.")
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Turn"))
      .def(
          "__exit__",
          [](PyFlightLeader& self, nb::handle, nb::handle, nb::handle) { self.turn.reset(); },
          nb::arg().none(), nb::arg().none(), nb::arg().none());

  nb::class_<PyFlightWaiter>(module, "FlightWaiter",
                             "A place in the queue for an item that is being encoded.")
      .def("wait", &PyFlightWaiter::wait, nb::sig("def wait(self) -> Embeddings | Turn"),
           "Blocks, without the GIL, until the item is there or it is our turn. Once a ticket.\n\n"
           "Cancelled: cancel() was called.")
      .def(
          "cancel", [](PyFlightWaiter& self) { self.stop.request_stop(); },
          "Ends wait() in whatever thread it is.");
}

}  // namespace

void bind_encoder(nb::module_& module) {
  bind_held(module);
  nb::class_<PyEncoderCache>(
      module, "EncoderCache",
      "Encode once: outputs of media encoders under a hard budget of bytes, for many threads.\n\n"
      "An item is encoded once, however many ask for it at the same time, also when the one who\n"
      "encodes fails. With disk= or tier=, what was encoded outlives the process.\n\n"
      "Unit     Bytes of tensors, each rounded up to 64.\n"
      "Errors   No room is none: see Embeddings.resident. A disk in trouble costs hits.\n"
      "Threads  Any. The GIL is released while waiting, copying and checking.")
      .def(
          "__init__",
          [](PyEncoderCache* self, std::uint64_t budget_bytes, std::string policy,
             std::uint64_t max_entries, std::optional<std::string> disk, std::uint64_t disk_bytes,
             bool verify_hits, const nb::object& tier) {
            const OpenCall call{.budget_bytes = budget_bytes,
                                .policy = std::move(policy),
                                .max_entries = max_entries,
                                .disk = std::move(disk),
                                .disk_bytes = disk_bytes,
                                .verify_hits = verify_hits,
                                .tier = tier.is_none() ? nullptr : tier_of(tier)};
            new (self) PyEncoderCache(or_raise(without_gil([&] { return open_store(call); })));
          },
          nb::arg("budget_bytes"), nb::kw_only(), nb::arg("policy") = "worth",
          nb::arg("max_entries") = 1'000'000, nb::arg("disk") = nb::none(),
          nb::arg("disk_bytes") = 1ULL << 30U, nb::arg("verify_hits") = true,
          nb::arg("tier") = nb::none(),
          nb::sig(
              "def __init__(self, budget_bytes: int, *, policy: str = 'worth', max_entries: int = "
              "1000000, disk: str | None = None, disk_bytes: int = 1073741824, verify_hits: bool = "
              "True, tier: Tier | None = None) -> None"),
          "policy: worth, lru, … as the command line has them. disk: a folder, used by one "
          "process at a time,\nand disk_bytes its hard cap; on its way to the disk are 64 MiB at "
          "most, or budget_bytes if that is\nmore. tier instead: a DiskTier, a RemoteTier or a "
          "TierStack. verify_hits: recompute the checksum\nof what is found.")
      .def("get_or_encode", &PyEncoderCache::get_or_encode, nb::arg("key"), nb::arg("encode"),
           nb::kw_only(), nb::arg("modality") = "image", nb::arg("agent") = 0xFFFFFFFFU,
           nb::sig("def get_or_encode(self, key: EncoderKey, encode: collections.abc.Callable[[], "
                   "object], *, "
                   "modality: str = 'image', agent: int = 4294967295) -> Embeddings"),
           "What is cached, or what somebody else is encoding, or encode(): a tensor or a list of "
           "them.\n\nWhat encode raises is raised here, and one of those who wait tries.")
      .def("claim", &PyEncoderCache::claim, nb::arg("key"), nb::kw_only(),
           nb::arg("agent") = 0xFFFFFFFFU, nb::arg("modality") = "image",
           nb::sig("def claim(self, key: EncoderKey, *, agent: int = 4294967295, modality: str = "
                   "'image') -> Embeddings | Turn | Ticket"),
           "The same in steps, never blocking for another: there, or our turn, or a ticket.")
      .def("find", &PyEncoderCache::find, nb::arg("key"), nb::kw_only(),
           nb::arg("agent") = 0xFFFFFFFFU,
           nb::sig("def find(self, key: EncoderKey, *, agent: int = 4294967295) -> Embeddings | "
                   "None"),
           "What is there now.")
      .def("erase", &PyEncoderCache::erase, nb::arg("key"),
           "Removes an entry here and on disk. False: memory held none.")
      .def("flush", &PyEncoderCache::flush, "What was encoded before is safe on disk.")
      .def("close", &PyEncoderCache::close,
           "Ends the cache; embeddings that are held stay readable. Twice is fine.")
      .def("stats", &PyEncoderCache::stats, nb::sig("def stats(self) -> dict[str, int | float]"),
           "Counters of the cache's whole life.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> EncoderCache"))
      .def(
          "__exit__",
          [](PyEncoderCache& self, nb::handle, nb::handle, nb::handle) { self.close(); },
          nb::arg().none(), nb::arg().none(), nb::arg().none());
}

}  // namespace afterimage::python

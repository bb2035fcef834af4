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
#include "afterimage/encode_once.h"
#include "afterimage/eviction_policy.h"
#include "bindings.h"
#include "budget_pool.h"
#include "caches/encoder/encoder_archive.h"
#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"
#include "policy/eviction/governed_policy.h"
#include "tier_names.h"
#include "tiers.h"

namespace afterimage::python {

namespace {

/// A cache with everything it uses. Its tensors and leaders keep it alive, even past close().
struct EncoderStore {
  explicit EncoderStore(const CacheBudget& memory)
      : budget(memory),
        transfer(std::max(memory.is_shared ? 0_B : memory.pool->budget().capacity(), 64_MiB)) {}

  SystemClock clock;
  CacheBudget budget;
  MemoryBudget transfer;  // for transfers to and from the tier; batches are 16 MiB
  TierPtr below;          // nullptr: none
  LoadOrCompute load_or_compute{clock};
  std::unique_ptr<EncoderArchive> archive;
  std::unique_ptr<EncoderCache> cache;
  std::unique_ptr<EncodeOnce> front;
  BudgetPool::Place place;
  std::unique_ptr<TierNames> names;  // nullptr: keys in the tier are the cache's own

  /// nullopt: the tier must not be used now.
  [[nodiscard]] std::optional<EncoderKey> key_below(const EncoderKey& key) const {
    if (names == nullptr) return key;
    const auto secret = names->secret_of(nullptr);
    if (!secret.has_value()) return std::nullopt;
    FieldWriter fields("afterimage/erasable-encoder-key/1");
    fields.bytes("key", key.bytes);
    return EncoderKey{hmac_sha256(*secret, fields.message())};
  }
};
using StorePtr = std::shared_ptr<EncoderStore>;

struct OpenArgs {
  CacheBudget budget;
  std::string policy;
  std::uint64_t max_entries;
  BelowArgs below;
  bool verify_hits;
  bool erasable;
  Secret secret;
};

Result<StorePtr> open_store(const OpenArgs& args) {
  auto store = std::make_shared<EncoderStore>(args.budget);
  AFI_TRY(auto policy, make_governed_policy(
                           {.policy = args.policy, .keep_idle_order = args.budget.keeps_times()}));
  AFI_TRY(store->cache, EncoderCache::create({.max_entries = EntryCount(args.max_entries),
                                              .policy = std::move(policy)},
                                             store->budget.pool->budget()));
  AFI_TRY(store->below, open_below(args.below, store->transfer.capacity()));
  if (store->below != nullptr) {
    store->archive = std::make_unique<EncoderArchive>(*store->below->tier, store->transfer,
                                                      &store->load_or_compute);
  }
  store->front = std::make_unique<EncodeOnce>(
      *store->cache, store->clock,
      EncodeOnceOptions{.verify_hits = args.verify_hits, .shared = args.budget.shared()});
  AFI_TRY(store->place, args.budget.join(*store->cache));
  if (!args.erasable || store->below == nullptr) return store;
  const auto erase_memory = [it = store.get()](const NamespaceId*) { it->front->cache().clear(); };
  AFI_TRY(store->names, TierNames::open(store->below, "encodings", args.secret, erase_memory));
  return store;
}

/// Embeddings, and the store that they keep alive.
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

double seconds_of(Duration time) { return std::chrono::duration<double>(time).count(); }

/// Keys that this thread is encoding in get_or_encode: waiting for one of them would deadlock.
thread_local std::vector<EncoderKey> encoding;

struct PyFlightLeader {
  StorePtr store;
  EncoderKey key;
  std::optional<FlightLeader> leader;  // empty: published or abandoned
  Duration began;

  [[nodiscard]] FlightLeader take() {
    if (!leader.has_value()) {
      raise(ErrorCode::kInvalidArgument, "this FlightLeader was already published or given up");
    }
    FlightLeader taken = std::move(*leader);
    leader.reset();
    return taken;
  }
};

/// For idle limits: when it was used.
void note_use(EncoderStore& store, const Embeddings& embeddings) {
  if (!store.budget.keeps_times()) return;
  const Embeddings* const used = &embeddings;
  store.front->note_request({.now = store.clock.now()}, {&used, 1});
}

/// Makes two copies without the GIL: out of the caller's tensors, and into the cache.
Result<Embeddings> publish(EncoderStore& store, const EncoderKey& key, FlightLeader leader,
                           const TensorViews& views, const EncoderEntryFacts& facts) {
  EncoderOutput output;
  for (const TensorView& view : views) {
    output.push_back({.dtype = view.dtype(),
                      .shape = view.shape(),
                      .bytes = {view.bytes().begin(), view.bytes().end()}});
  }
  AFI_TRY(Embeddings embeddings, std::move(leader).publish(std::move(output), facts));
  const auto below = store.archive == nullptr ? std::nullopt : store.key_below(key);
  if (below.has_value()) store.archive->keep(*below, embeddings.tensors(), facts.cost);
  note_use(store, embeddings);
  return embeddings;
}

/// If the tier holds the entry, publishes that instead of encoding.
std::optional<Result<Embeddings>> load(EncoderStore& store, const EncoderKey& key,
                                       std::optional<FlightLeader>& leader, Modality modality) {
  const auto below = store.archive == nullptr ? std::nullopt : store.key_below(key);
  if (!below.has_value()) return std::nullopt;
  auto loaded = store.archive->load(*below);
  if (!loaded.has_value()) return std::nullopt;
  FlightLeader taken = std::move(*leader);
  leader.reset();
  auto published = std::move(taken).publish(std::move(loaded->output),
                                            {.modality = modality, .cost = loaded->cost});
  if (store.key_below(key) != below) store.front->cache().erase(key);  // erased while it was loaded
  return published;
}

nb::object as_python(const StorePtr& store, const EncoderKey& key, EncodeOnce::Claim claim);

struct PyFlightWaiter {
  StorePtr store;
  EncoderKey key;
  std::optional<FlightWaiter> waiter;
  std::stop_source stop;

  nb::object wait() {
    if (!waiter.has_value()) {
      raise(ErrorCode::kInvalidArgument, "this FlightWaiter was already waited on: claim again");
    }
    FlightWaiter taken = std::move(*waiter);
    waiter.reset();
    const StorePtr alive = store;
    auto got = or_raise(without_gil([&] { return std::move(taken).wait(stop.get_token()); }));
    return std::visit(
        [&](auto& found) { return as_python(alive, key, EncodeOnce::Claim(std::move(found))); },
        got);
  }
};

nb::object as_python(const StorePtr& store, const EncoderKey& key, EncodeOnce::Claim claim) {
  if (auto* found = std::get_if<Embeddings>(&claim); found != nullptr) {
    note_use(*store, *found);
    return nb::cast(embeddings_of(store, std::move(*found)));
  }
  if (auto* leader = std::get_if<FlightLeader>(&claim); leader != nullptr) {
    return nb::cast(PyFlightLeader{store, key, std::move(*leader), store->clock.now()});
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
      if (auto* leader = std::get_if<FlightLeader>(&found); leader != nullptr) {
        std::optional<FlightLeader> held = std::move(*leader);
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
            "encode() for " + key.hex() + " requested its own output: that would deadlock");
    }
    nb::object found = claim(key, agent, modality);
    while (nb::isinstance<PyFlightWaiter>(found)) found = nb::cast<PyFlightWaiter&>(found).wait();
    if (nb::isinstance<PyEmbeddings>(found)) return found;
    auto& flight = nb::cast<PyFlightLeader&>(found);
    encoding.push_back(key);
    const struct Done {
      ~Done() { encoding.pop_back(); }
    } done;
    try {
      return nb::cast(publish_flight(flight, encode(), modality, std::nullopt));
    } catch (...) {
      flight.leader.reset();  // a waiter takes over
      throw;
    }
  }

  static PyEmbeddings publish_flight(PyFlightLeader& self, nb::handle tensors,
                                     std::string_view modality,
                                     std::optional<double> cost_seconds) {
    const std::vector<BorrowedTensor> borrowed = borrow_tensors(tensors);
    const TensorViews views = views_of(borrowed);
    const StorePtr store = self.store;
    const Duration cost = cost_seconds.has_value()
                              ? Duration(static_cast<std::int64_t>(*cost_seconds * 1e9))
                              : store->clock.now() - self.began;
    const EncoderEntryFacts facts{.modality = modality_named(modality), .cost = cost};
    FlightLeader leader = self.take();
    auto embeddings = or_raise(
        without_gil([&] { return publish(*store, self.key, std::move(leader), views, facts); }));
    return embeddings_of(store, std::move(embeddings));
  }

  [[nodiscard]] nb::object info(const EncoderKey& key) const {
    const StorePtr store = open();
    const auto known = store->front->cache().info(key);
    if (!known.has_value()) return nb::none();
    nb::dict info;
    info["modality"] = std::string(to_string(known->facts.modality));
    info["bytes"] = known->bytes.value();
    info["uses"] = known->access_count;
    info["agents"] = known->agents;
    info["in_use"] = known->pins > 0;
    info["age_seconds"] =
        seconds_of(store->clock.now() - known->facts.stored_at.value_or(Duration(0)));
    info["encode_seconds"] = seconds_of(known->facts.cost);
    return info;
  }

  bool erase(const EncoderKey& key) {
    const StorePtr store = open();
    return or_raise(without_gil([&]() -> Result<bool> {
      const auto below = erase_below(*store, key);
      const bool had = store->front->cache().erase(key);
      if (below.has_value()) return had;
      return fail(below.error().code,
                  "erased from memory only; the tier may still have it: " + below.error().message);
    }));
  }

  void clear() {
    const StorePtr store = open();
    if (store->below != nullptr && store->names == nullptr) raise_not_erasable();
    or_raise(without_gil([&]() -> Result<void> {
      if (store->names != nullptr) return store->names->erase(nullptr);
      store->front->cache().clear();
      return {};
    }));
  }

  [[nodiscard]] std::string degraded_reason() const {
    const StorePtr store = open();
    return store->names == nullptr ? "" : store->names->degraded_reason();
  }

  void flush() {
    const StorePtr store = open();
    or_raise(without_gil([&]() -> Result<void> {
      return store->below == nullptr ? Result<void>() : store->below->tier->flush();
    }));
  }

  void close() {
    StorePtr store = std::exchange(store_, nullptr);
    const nb::gil_scoped_release released;  // closing may flush to disk
    store.reset();
  }

  [[nodiscard]] nb::dict stats() const {
    const StorePtr store = open();
    const EncoderCacheStats cache = store->front->cache().stats();
    const EncodeOnceStats once = store->front->stats();
    nb::dict stats;
    stats["hits"] = cache.hits;
    stats["misses"] = cache.misses;
    stats["covered"] = cache.covered;
    stats["insertions"] = cache.insertions;
    stats["evictions"] = cache.evictions;
    stats["refused"] = cache.refused_oversize + cache.refused_in_use + cache.refused_by_floor;
    stats["entries"] = cache.entries.value();
    stats["resident_bytes"] = cache.resident.value();
    stats["budget_bytes"] = store->budget.pool->budget().capacity().value();
    stats["bytes_reused"] = cache.bytes_reused.value();
    stats["bytes_covered"] = cache.bytes_covered.value();
    stats["seconds_saved"] = static_cast<double>(cache.encode_time_saved.count()) * 1e-9;
    stats["encoded"] = once.led;
    stats["waited"] = once.followed;
    stats["uncached"] = once.uncached;
    stats["damaged"] = once.corrupt;
    for (const auto& [name, value] : seed_named_stats(cache)) stats[nb::cast(name)] = value;
    stats["dp_mode_recommendations"] = data_mode_recommendations();
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
  static Result<void> erase_below(EncoderStore& store, const EncoderKey& key) {
    if (store.below == nullptr) return {};
    const auto below = store.key_below(key);
    if (!below.has_value()) return fail(ErrorCode::kUnavailable, store.names->degraded_reason());
    return store.below->tier->erase(EncoderArchive::place(*below));
  }

  StorePtr store_;
};

void bind_held(nb::module_& module) {
  nb::class_<PyEmbeddings>(module, "Embeddings",
                           "One encoder output: a tuple of tensors, pinned while this object or "
                           "one of them lives.\n"
                           "\n"
                           "Shape    The encoder's; tensors[0] is usually [embeddings, "
                           "hidden_size].")
      .def_prop_ro("tensors", &PyEmbeddings::tensors,
                   nb::sig("def tensors(self) -> tuple[Tensor, ...]"))
      .def_prop_ro(
          "resident", [](const PyEmbeddings& self) { return self.get().embeddings.resident(); },
          "False: it did not fit the budget and is freed when it is no longer referenced.")
      .def(
          "release", [](PyEmbeddings& self) { self.held.reset(); },
          "Unpins the entry once none of its tensors is referenced. May be called twice.")
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
      "The leader of a flight: it encodes one item, and concurrent callers wait for it.\n"
      "\n"
      "Dropping it without publish() makes one of the waiters the leader.")
      .def("publish", &PyEncoderCache::publish_flight, nb::arg("tensors"), nb::kw_only(),
           nb::arg("modality") = "image", nb::arg("cost_seconds") = nb::none(),
           "Copies the output (a tensor or a list of them) into the cache and wakes the "
           "waiters.\n"
           "\n"
           "cost_seconds: how long encoding took; default: the time since the claim. Releases "
           "the GIL.")
      .def(
          "give_up", [](PyFlightLeader& self) { self.leader.reset(); },
          "Stops leading; one of the waiters becomes the leader.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> FlightLeader"))
      .def(
          "__exit__",
          [](PyFlightLeader& self, nb::handle, nb::handle, nb::handle) { self.leader.reset(); },
          nb::arg().none(), nb::arg().none(), nb::arg().none());

  nb::class_<PyFlightWaiter>(module, "FlightWaiter",
                             "Waits for an item that another caller is encoding.")
      .def("wait", &PyFlightWaiter::wait, nb::sig("def wait(self) -> Embeddings | FlightLeader"),
           "Blocks, without the GIL, until the item is published or this caller becomes the "
           "leader.\n"
           "May be called once.\n"
           "\n"
           "Cancelled: cancel() was called.")
      .def(
          "cancel", [](PyFlightWaiter& self) { self.stop.request_stop(); },
          "Ends wait(), from any thread.");
}

}  // namespace

void bind_encoder(nb::module_& module) {
  bind_held(module);
  nb::class_<PyEncoderCache>(
      module, "EncoderCache",
      "Encode once: a cache of media encoder outputs under a hard byte budget, for many "
      "threads.\n"
      "\n"
      "Concurrent requests for one item encode it once; if the leader fails, a waiter takes "
      "over.\n"
      "With disk= or tier=, entries outlive the process.\n"
      "\n"
      "Unit     Bytes of tensors, each rounded up to 64.\n"
      "Errors   A full cache is not an error: see Embeddings.resident. A failing disk or server\n"
      "         reduces hits only.\n"
      "Threads  Any. The GIL is released while waiting, copying and verifying.")
      .def(
          "__init__",
          [](PyEncoderCache* self, const nb::object& budget_bytes, std::string policy,
             std::uint64_t max_entries, std::optional<std::string> disk, std::uint64_t disk_bytes,
             bool verify_hits, const nb::object& tier, bool erasable, const nb::bytes& secret) {
            const OpenArgs args{.budget = budget_of(budget_bytes),
                                .policy = std::move(policy),
                                .max_entries = max_entries,
                                .below = {.disk = std::move(disk),
                                          .disk_bytes = disk_bytes,
                                          .tier = tier.is_none() ? nullptr : tier_store_of(tier)},
                                .verify_hits = verify_hits,
                                .erasable = erasable,
                                .secret = secret_of(secret)};
            new (self) PyEncoderCache(or_raise(without_gil([&] { return open_store(args); })));
          },
          nb::arg("budget_bytes"), nb::kw_only(), nb::arg("policy") = "worth",
          nb::arg("max_entries") = 1'000'000, nb::arg("disk") = nb::none(),
          nb::arg("disk_bytes") = 1ULL << 30U, nb::arg("verify_hits") = true,
          nb::arg("tier") = nb::none(), nb::arg("erasable") = false,
          nb::arg("secret") = nb::bytes(Secret{}.data(), Secret{}.size()),
          nb::sig(
              "def __init__(self, budget_bytes: int | SharedBudget, *, policy: str = 'worth', "
              "max_entries: int = "
              "1000000, disk: str | None = None, disk_bytes: int = 1073741824, verify_hits: bool = "
              "True, tier: Tier | None = None, erasable: bool = False, secret: bytes = ...) -> "
              "None"),
          "policy: one of policy_names(). disk: a folder, used by one process at a time, with "
          "disk_bytes as\n"
          "its hard cap; reads and writes take up to 64 MiB of memory each, or budget_bytes if "
          "that "
          "is more.\n"
          "tier instead of disk: a DiskTier, a RemoteTier or a TierStack. verify_hits: verify the "
          "checksum of\n"
          "every hit. erasable: clear() holds in the tier, too, where entries then have other "
          "keys; "
          "secret: 32\n"
          "bytes, with servers the same in all processes that share entries.")
      .def("get_or_encode", &PyEncoderCache::get_or_encode, nb::arg("key"), nb::arg("encode"),
           nb::kw_only(), nb::arg("modality") = "image", nb::arg("agent") = 0xFFFFFFFFU,
           nb::sig("def get_or_encode(self, key: EncoderKey, encode: collections.abc.Callable[[], "
                   "object], *, "
                   "modality: str = 'image', agent: int = 4294967295) -> Embeddings"),
           "The cached output, or the one that another caller is encoding, or that of encode(): "
           "a tensor or\n"
           "a list of them.\n"
           "\n"
           "An exception of encode() is raised here, and one of the waiters becomes the leader.")
      .def("claim", &PyEncoderCache::claim, nb::arg("key"), nb::kw_only(),
           nb::arg("agent") = 0xFFFFFFFFU, nb::arg("modality") = "image",
           nb::sig("def claim(self, key: EncoderKey, *, agent: int = 4294967295, modality: str = "
                   "'image') -> Embeddings | FlightLeader | FlightWaiter"),
           "Like get_or_encode in steps, without waiting: a hit, the leader's role, or a waiter.")
      .def("find", &PyEncoderCache::find, nb::arg("key"), nb::kw_only(),
           nb::arg("agent") = 0xFFFFFFFFU,
           nb::sig("def find(self, key: EncoderKey, *, agent: int = 4294967295) -> Embeddings | "
                   "None"),
           "The entry if it is cached or in the tier; does not wait for a running encode.")
      .def("info", &PyEncoderCache::info, nb::arg("key"),
           nb::sig("def info(self, key: EncoderKey) -> dict[str, str | int | float | bool] | None"),
           "Of an entry in memory: its modality, bytes, uses since it was stored, how many agents "
           "stored or used it\n"
           "(agent= of the calls, counted up to 1,024), whether somebody uses it now, its age, and "
           "how "
           "long encoding took.\n"
           "No use itself.")
      .def("erase", &PyEncoderCache::erase, nb::arg("key"),
           "Removes an entry from memory and the tier. False: memory did not hold it. Other "
           "processes that share\n"
           "the servers may keep it in their memory until they evict it.\n"
           "\n"
           "Unavailable: the tier may still have it.")
      .def("clear", &PyEncoderCache::clear,
           "Removes all entries. With erasable=True also from the tier, for later processes and "
           "for those that\n"
           "share its servers: when the call returns, after 2.2 seconds with servers, none that "
           "reaches them uses\n"
           "the entries. The tier's space is reclaimed by eviction.\n"
           "\n"
           "Unsupported: with a tier and without erasable. Unavailable: it could not be recorded.")
      .def_prop_ro("degraded_reason", &PyEncoderCache::degraded_reason,
                   "Why an erasable cache does not use its tier; empty: it does.")
      .def("flush", &PyEncoderCache::flush,
           "On return, everything encoded before is durable in "
           "the tier.")
      .def("close", &PyEncoderCache::close,
           "Closes the cache; referenced embeddings stay readable. May be called twice.")
      .def("stats", &PyEncoderCache::stats, nb::sig("def stats(self) -> dict[str, int | float]"),
           "Counters since the cache was created. Those named visual_... are the same under the "
           "names of the original\n"
           "VisualKVCache, as is dp_mode_recommendations: how often this process's calls of\n"
           "advise_encoder_parallelism() recommended data.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> EncoderCache"))
      .def(
          "__exit__",
          [](PyEncoderCache& self, nb::handle, nb::handle, nb::handle) { self.close(); },
          nb::arg().none(), nb::arg().none(), nb::arg().none());
}

}  // namespace afterimage::python

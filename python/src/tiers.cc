// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "tiers.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "bindings.h"
#include "foundation/platform/parallel_for.h"
#include "storage/memory/checksum.h"
#include "storage/memory/packed_tensors.h"

namespace afterimage::python {

namespace {

/// Uses the tier directly, or through encryption if there is a key file.
Result<void> make_usable(TierStore& store, Tier& tier, const std::optional<std::string>& key_file) {
  store.tier = &tier;
  store.key_file = key_file;
  if (!key_file.has_value()) return {};
  AFI_TRY(EncryptionKeys keys, EncryptionKeys::read(*key_file));
  store.encrypted = std::make_unique<EncryptedTier>(tier, std::move(keys), store.memory);
  store.tier = store.encrypted.get();
  return {};
}

EntryClass class_named(const std::string& holds) {
  if (holds == "prefix_kv") return EntryClass::kPrefixKv;
  if (holds == "encoder_output") return EntryClass::kEncoderOutput;
  raise(ErrorCode::kInvalidArgument,
        "expected holds to be encoder_output or prefix_kv, got '" + holds + "'");
}

/// An entry that was read, and the tier that owns its memory.
struct HeldEntry {
  TierPtr store;
  TierEntry entry;
};

class PyTier {
 public:
  explicit PyTier(std::pair<EntryClass, TierPtr> opened)
      : class_(opened.first), store_(std::move(opened.second)) {}

  [[nodiscard]] TierPtr open() const {
    if (store_ == nullptr) raise(ErrorCode::kInvalidArgument, "this tier is closed");
    return store_;
  }
  [[nodiscard]] EntryClass entry_class() const { return class_; }

  bool put(const nb::bytes& name, nb::handle tensors, double cost_seconds) {
    const TierPtr store = open();
    const TierKey key = key_of(name);
    const std::vector<BorrowedTensor> borrowed = borrow_tensors(tensors);
    const TensorViews views = views_of(borrowed);
    return without_gil([&] {
      const Duration cost(static_cast<std::int64_t>(cost_seconds * 1e9));
      if (views.size() == 1) {  // stored as is; several are packed first
        return store->tier
            ->put(key, {.tensors = {{views[0].dtype(), views[0].shape()}}, .cost = cost},
                  views[0].bytes())
            .has_value();
      }
      PackedTensors packed = pack(views);
      return store->tier
          ->put_pieces(key, {.tensors = std::move(packed.forms), .cost = cost}, packed.pieces)
          .has_value();
    });
  }

  nb::object get(const nb::bytes& name) {
    const TierPtr store = open();
    const TierKey key = key_of(name);
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
    const TierPtr store = open();
    const TierKey key = key_of(name);
    const std::span<std::byte> target(static_cast<std::byte*>(into.data()), into.nbytes());
    return without_gil([&] {
      const auto entry = store->tier->get(key, store->memory);
      if (!entry.has_value() || !entry->has_value()) return false;
      if ((*entry)->bytes.size() != target.size()) return false;
      std::ranges::copy((*entry)->bytes, target.begin());
      return true;
    });
  }

  std::vector<bool> get_into_all(const std::vector<nb::bytes>& names,
                                 const nb::ndarray<nb::c_contig, nb::device::cpu>& into,
                                 const std::vector<std::size_t>& offsets, std::size_t bytes) {
    const TierPtr store = open();
    if (offsets.size() != names.size()) {
      raise(ErrorCode::kInvalidArgument, "expected as many offsets as keys");
    }
    std::vector<TierKey> keys;
    for (const nb::bytes& name : names) keys.push_back(key_of(name));
    const std::span<std::byte> target(static_cast<std::byte*>(into.data()), into.nbytes());
    for (const std::size_t offset : offsets) {
      if (offset > target.size() || bytes > target.size() - offset) {
        raise(ErrorCode::kInvalidArgument,
              "expected the buffer to have " + std::to_string(bytes) + " bytes at offset " +
                  std::to_string(offset) + ", it has " + std::to_string(target.size()) + " in all");
      }
    }
    std::vector<char> found(keys.size());
    without_gil([&] {
      parallel_for(store->readers, TierStore::kReaders, keys.size(), [&](std::size_t i) {
        found[i] = store->read_into(keys[i], target.subspan(offsets[i], bytes)) ? 1 : 0;
      });
    });
    return {found.begin(), found.end()};
  }

  bool may_contain(const nb::bytes& name) const { return open()->tier->may_contain(key_of(name)); }
  bool holds(const nb::bytes& name) const { return open()->tier->holds(key_of(name)); }

  void probe(const std::vector<nb::bytes>& names) {
    const TierPtr store = open();
    std::vector<TierKey> keys;
    for (const nb::bytes& name : names) keys.push_back(key_of(name));
    without_gil([&] { store->tier->probe(keys); });
  }

  void erase(const nb::bytes& name) {
    const TierPtr store = open();
    const TierKey key = key_of(name);
    or_raise(without_gil([&] { return store->tier->erase(key); }));
  }

  void flush() {
    const TierPtr store = open();
    or_raise(without_gil([&] { return store->tier->flush(); }));
  }

  void close() {
    TierPtr store = std::exchange(store_, nullptr);
    const nb::gil_scoped_release released;  // closing commits pending puts
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
    stats["failures"] = tier.failures;
    stats["entries"] = tier.entries.value();
    stats["used_bytes"] = tier.used.value();
    stats["capacity_bytes"] = tier.capacity.value();
    stats["degraded_reason"] = tier.degraded_reason;
    return stats;
  }

 private:
  [[nodiscard]] TierKey key_of(const nb::bytes& bytes) const {
    TierKey key{.entry_class = class_};
    if (bytes.size() != key.bytes.size()) {
      raise(ErrorCode::kInvalidArgument,
            "expected a key of 32 bytes, got " + std::to_string(bytes.size()));
    }
    std::memcpy(key.bytes.data(), bytes.data(), key.bytes.size());
    return key;
  }

  EntryClass class_;
  TierPtr store_;
};

/// Rejects an unknown class before anything is opened.
template <std::invocable Open>
std::pair<EntryClass, TierPtr> opened(const std::string& holds, Open&& open) {
  const EntryClass entry_class = class_named(holds);
  return {entry_class, or_raise(without_gil(std::forward<Open>(open)))};
}

struct PyDiskTier : PyTier {
  PyDiskTier(const std::string& folder, std::uint64_t capacity, std::uint64_t memory,
             const std::string& holds, double put_timeout,
             const std::optional<std::string>& key_file, double flush_interval)
      : PyTier(opened(holds, [&, timeout = checked_seconds(put_timeout, "put_timeout_seconds"),
                              flush = checked_seconds(flush_interval, "flush_interval_seconds")] {
          return open_disk_store(
              folder,
              {.capacity = Bytes(capacity), .put_timeout = timeout, .flush_interval = flush},
              Bytes(memory), key_file);
        })) {}
};

struct PyRemoteTier : PyTier {
  PyRemoteTier(const std::string& url, const std::string& password, const std::string& holds,
               double ttl, double put_timeout, double timeout, std::uint64_t memory,
               const std::optional<std::string>& key_file, const std::string& sentinel_password,
               const std::string& ca_file, const std::string& certificate_file,
               const std::string& tls_key_file, const std::string& server_name)
      : PyTier(opened(
            holds,
            [&, options = SharedStoreOptions{
                    .url = url,
                    .password = password,
                    .sentinel_password = sentinel_password,
                    .tls_ca_file = ca_file,
                    .tls_certificate_file = certificate_file,
                    .tls_key_file = tls_key_file,
                    .tls_server_name = server_name,
                    .ttl = checked_seconds(ttl, "ttl_seconds"),
                    .put_timeout = checked_seconds(put_timeout, "put_timeout_seconds"),
                    .timeout = checked_seconds(timeout, "timeout_seconds")}]() -> Result<TierPtr> {
              if (options.timeout == Duration(0)) {
                return fail(ErrorCode::kInvalidArgument,
                            "expected timeout_seconds to be more than 0");
              }
              auto store = std::make_shared<TierStore>(Bytes(memory));
              store->ttl = options.ttl;
              AFI_TRY(store->shared, SharedStore::open(options, store->clock));
              AFI_TRY_VOID(make_usable(*store, store->shared->tier(), key_file));
              return store;
            })) {}
};

struct PyTierStack : PyTier {
  PyTierStack(const std::vector<PyTier*>& tiers, std::uint64_t memory)
      : PyTier(stacked(tiers, memory)) {}

 private:
  static std::pair<EntryClass, TierPtr> stacked(const std::vector<PyTier*>& tiers,
                                                std::uint64_t memory) {
    if (tiers.empty()) raise(ErrorCode::kInvalidArgument, "expected at least one tier");
    auto store = std::make_shared<TierStore>(Bytes(memory));
    std::vector<Tier*> nearest_first;
    for (const PyTier* tier : tiers) {
      if (tier == nullptr) raise(ErrorCode::kInvalidArgument, "expected tiers, got None");
      if (tier->entry_class() != tiers.front()->entry_class()) {
        raise(ErrorCode::kInvalidArgument, "expected tiers that hold the same kind of entry");
      }
      store->stacked.push_back(tier->open());
      nearest_first.push_back(store->stacked.back()->tier);
    }
    store->stack = std::make_unique<TierStack>(std::move(nearest_first));
    store->tier = store->stack.get();
    return {tiers.front()->entry_class(), store};
  }
};

void bind_tier(nb::module_& module) {
  nb::class_<PyTier>(
      module, "Tier",
      "Tensors outside this process's memory, under keys of 32 bytes; every read is verified.\n"
      "\n"
      "Errors   A miss is not an error; an unreadable or damaged entry is a miss.\n"
      "Threads  Any. The GIL is released during I/O.")
      .def("put", &PyTier::put, nb::arg("key"), nb::arg("tensors"), nb::arg("cost_seconds") = 0.0,
           "Copies a tensor or a list of them into the tier. False: it was refused; stats() says "
           "why.")
      .def("get", &PyTier::get, nb::arg("key"),
           nb::sig("def get(self, key: bytes) -> tuple[Tensor, ...] | None"),
           "A verified copy, or None.")
      .def("get_into", &PyTier::get_into, nb::arg("key"), nb::arg("buffer").noconvert(),
           nb::sig("def get_into(self, key: bytes, buffer: object) -> bool"),
           "Like get, into a writable, C-contiguous buffer of exactly the entry's size. False: a "
           "miss, and\n"
           "the buffer is unchanged.")
      .def("get_into_all", &PyTier::get_into_all, nb::arg("keys"), nb::arg("buffer").noconvert(),
           nb::arg("offsets"), nb::arg("size"),
           nb::sig("def get_into_all(self, keys: collections.abc.Sequence[bytes], buffer: object, "
                   "offsets: collections.abc.Sequence[int], size: int) -> list[bool]"),
           "Reads entries of `size` bytes each into parts of one writable, C-contiguous buffer, "
           "several at a time;\n"
           "returns when none of them is being read. False: a miss, or an entry of another size; "
           "its part of\n"
           "the buffer may have been changed.")
      .def("may_contain", &PyTier::may_contain, nb::arg("key"),
           "A hint without I/O. False: a get would miss.")
      .def("holds", &PyTier::holds, nb::arg("key"),
           "Whether the entry is known to be present, without I/O. probe() asks servers.")
      .def("probe", &PyTier::probe, nb::arg("keys"),
           "Asks the servers which of these keys exist, where unknown; holds() and may_contain() "
           "then know\n"
           "for a while.")
      .def("erase", &PyTier::erase, nb::arg("key"),
           "On return the entry is gone for good.\n"
           "\n"
           "Unavailable: the tier cannot guarantee that.")
      .def("flush", &PyTier::flush,
           "On return, earlier puts are visible; on a disk, they also survive a power failure.")
      .def("close", &PyTier::close, "May be called twice. A TierStack keeps its tiers open.")
      .def("stats", &PyTier::stats, nb::sig("def stats(self) -> dict[str, int | str]"))
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Tier"))
      .def(
          "__exit__", [](PyTier& self, nb::handle, nb::handle, nb::handle) { self.close(); },
          nb::arg().none(), nb::arg().none(), nb::arg().none());
}

}  // namespace

bool TierStore::read_into(const TierKey& key, std::span<std::byte> target) {
  // The nearest tier, if it is a disk whose entries are not encrypted: a copy less.
  const TierStore& nearest = stacked.empty() ? *this : *stacked.front();
  DiskTier* const direct = nearest.tier == nearest.disk.get() ? nearest.disk.get() : nullptr;
  if (direct != nullptr) {
    const auto found = direct->read_into(key, target, memory);
    if (found.has_value() && *found) return true;
    if (tier == disk.get()) return false;
  }
  const auto entry = tier->get(key, memory);
  if (!entry.has_value() || !entry->has_value()) return false;
  if ((*entry)->bytes.size() != target.size()) return false;
  std::ranges::copy((*entry)->bytes, target.begin());
  return true;
}

Duration checked_seconds(double seconds, const char* what) {
  constexpr double kMost = 3.2e9;  // a century
  if (!(seconds >= 0 && seconds <= kMost)) {
    raise(ErrorCode::kInvalidArgument,
          std::string("expected ") + what + " to be 0 to 3.2e9 seconds");
  }
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

Result<TierPtr> open_disk_store(const std::string& folder, const DiskLimits& limits, Bytes memory,
                                const std::optional<std::string>& key_file) {
  auto store = std::make_shared<TierStore>(memory);
  DiskTierOptions options;
  options.log.capacity = limits.capacity;
  options.log.append_timeout = limits.put_timeout;
  options.flush_interval = limits.flush_interval;
  AFI_TRY(store->disk, DiskTier::open(folder, options, store->memory, store->clock));
  store->folder = std::filesystem::absolute(folder).string();
  AFI_TRY_VOID(make_usable(*store, *store->disk, key_file));
  return store;
}

void raise_not_erasable() {
  raise(ErrorCode::kUnsupported,
        "a tier cannot list its entries, so they cannot be erased there: open the cache with "
        "erasable=True, or use a Namespace with another weights_epoch");
}

TierPtr tier_store_of(nb::handle object) {
  if (!nb::isinstance<PyTier>(object)) {
    throw nb::type_error("expected tier to be a DiskTier, a RemoteTier or a TierStack");
  }
  return nb::cast<const PyTier&>(object).open();
}

Result<TierPtr> open_below(const BelowArgs& args, Bytes memory) {
  if (args.disk.has_value() && args.tier != nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                "expected disk or tier, got both: combine tiers in a TierStack");
  }
  if (!args.disk.has_value()) return args.tier;
  return open_disk_store(*args.disk,
                         {.capacity = Bytes(args.disk_bytes), .put_timeout = args.put_timeout},
                         memory, std::nullopt);
}

void bind_tiers(nb::module_& module) {
  bind_tier(module);
  nb::class_<PyDiskTier, PyTier>(
      module, "DiskTier",
      "A tier in a folder on disk, with a hard capacity.\n"
      "\n"
      "Errors   Unavailable: the folder is unusable, or another process uses it.")
      .def(
          nb::init<const std::string&, std::uint64_t, std::uint64_t, const std::string&, double,
                   const std::optional<std::string>&, double>(),
          nb::arg("folder"), nb::kw_only(), nb::arg("capacity_bytes"),
          nb::arg("memory_bytes") = 256ULL << 20U, nb::arg("holds") = "encoder_output",
          nb::arg("put_timeout_seconds") = 0.01, nb::arg("encrypt_key_file") = nb::none(),
          nb::arg("flush_interval_seconds") = 1.0,
          "memory_bytes: for write buffers (16 MiB) and for entries that were read and are "
          "referenced.\n"
          "holds: encoder_output or prefix_kv, the entries of put() and get(); caches may share a "
          "tier whatever\n"
          "it is. put_timeout_seconds: how long a put waits for a write buffer before it is "
          "refused.\n"
          "encrypt_key_file: encrypt with AES-256-GCM and "
          "the key in this\n"
          "file (`openssl rand -hex 32`, mode 0600). flush_interval_seconds: the longest time that "
          "a put waits\n"
          "to be written, which is what kill -9 can lose.");
  nb::class_<PyRemoteTier, PyTier>(
      module, "RemoteTier",
      "A tier on Redis or Valkey, standalone or a cluster, shared by processes and machines "
      "(docs/remote.md).\n"
      "\n"
      "Errors   InvalidArgument: the address. Unreachable servers are not an error: their keys "
      "miss at\n"
      "         once, puts are refused, and stats()['degraded_reason'] says why.\n"
      "Time     Every call is bounded: see timeout_seconds.")
      .def(nb::init<const std::string&, const std::string&, const std::string&, double, double,
                    double, std::uint64_t, const std::optional<std::string>&, const std::string&,
                    const std::string&, const std::string&, const std::string&,
                    const std::string&>(),
           nb::arg("url"), nb::kw_only(), nb::arg("password") = "",
           nb::arg("holds") = "encoder_output", nb::arg("ttl_seconds") = 86'400.0,
           nb::arg("put_timeout_seconds") = 0.0, nb::arg("timeout_seconds") = 0.05,
           nb::arg("memory_bytes") = 256ULL << 20U, nb::arg("encrypt_key_file") = nb::none(),
           nb::arg("sentinel_password") = "", nb::arg("tls_ca_file") = "",
           nb::arg("tls_certificate_file") = "", nb::arg("tls_key_file") = "",
           nb::arg("tls_server_name") = "",
           "url: redis://[user@]host:port[,host:port…][/database], rediss:// for TLS, "
           "redis+sentinel://host:port[,…]/name\n"
           "or unix:///path. ttl_seconds: time to live of entries on the servers.\n"
           "put_timeout_seconds: how long a put waits for space in the 64 MiB of pending "
           "writes.\n"
           "timeout_seconds: of one call, plus a second for each 50 MiB; four times that to "
           "connect.\n"
           "memory_bytes: for entries that were read and are referenced. tls_…: PEM files of the "
           "authorities trusted\n"
           "(else the system's) and of a client certificate with its key, and the name that the "
           "servers' certificates\n"
           "must have (else the URL's).");
  nb::class_<PyTierStack, PyTier>(
      module, "TierStack",
      "Several tiers as one, the nearest first: an entry found in a farther tier is copied into "
      "the nearer\n"
      "ones.")
      .def(nb::init<const std::vector<PyTier*>&, std::uint64_t>(), nb::arg("tiers"), nb::kw_only(),
           nb::arg("memory_bytes") = 256ULL << 20U,
           "memory_bytes: for entries that were read "
           "and are referenced.");
  module.def(
      "checksum",
      [](nb::handle data) {
        const BorrowedTensor tensor = borrow_tensor(data);
        const Checksum sum = without_gil([&] { return Checksum::of(tensor.view.bytes()); });
        return nb::bytes(&sum, sizeof sum);
      },
      nb::arg("data"), "XXH3-128 of bytes, 16 bytes: detects accidental damage, not tampering.");
}

}  // namespace afterimage::python

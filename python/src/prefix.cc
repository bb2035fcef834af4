// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "afterimage/eviction_policy.h"
#include "afterimage/prefill_once.h"
#include "bindings.h"
#include "budget_pool.h"
#include "caches/identity/fields.h"
#include "caches/prefix/prefix_archive.h"
#include "caches/prefix/prefix_draft.h"
#include "caches/prefix/prefix_explanation.h"
#include "foundation/crypto/sha256.h"
#include "policy/eviction/governed_policy.h"
#include "tier_names.h"
#include "tiers.h"

namespace afterimage::python {

namespace {

struct PrefixStore {
  explicit PrefixStore(const CacheBudget& memory)
      : budget(memory),
        transfer(std::max(memory.is_shared ? 0_B : memory.pool->budget().capacity(), 64_MiB)) {}

  SystemClock clock;
  CacheBudget budget;
  MemoryBudget transfer;  // for transfers from the tier
  TierPtr below;          // nullptr: none
  std::unique_ptr<PrefixArchive> archive;
  std::unique_ptr<PrefixCache> cache;
  std::unique_ptr<PrefillOnce> front;
  BudgetPool::Place place;
  std::unique_ptr<TierNames> names;  // nullptr: keys in the tier are the namespace's own

  /// The root from which keys in the tier are made. nullopt: the tier must not be used now.
  [[nodiscard]] std::optional<NamespaceId> root_below(const NamespaceId& root) const {
    if (names == nullptr) return root;
    const auto secret = names->secret_of(&root);
    if (!secret.has_value()) return std::nullopt;
    FieldWriter fields("afterimage/erasable-prefix-root/1");
    fields.bytes("root", root.bytes);
    return NamespaceId{hmac_sha256(*secret, fields.message())};
  }
};
using StorePtr = std::shared_ptr<PrefixStore>;

constexpr Duration kDiskPutTimeout = std::chrono::seconds(2);  // a prompt's KV exceeds the buffers

struct OpenArgs {
  CacheBudget budget;
  std::string policy;
  std::uint64_t max_sequences;
  std::uint64_t max_tokens;
  bool verify_hits;
  BelowArgs below;
  bool erasable;
  Secret secret;
};

Result<StorePtr> open_store(const OpenArgs& args) {
  auto store = std::make_shared<PrefixStore>(args.budget);
  AFI_TRY(auto policy, make_governed_policy(
                           {.policy = args.policy, .keep_idle_order = args.budget.keeps_times()}));
  AFI_TRY(store->cache, PrefixCache::create({.max_sequences = EntryCount(args.max_sequences),
                                             .max_tokens = args.max_tokens,
                                             .policy = std::move(policy),
                                             .shared = args.budget.shared()},
                                            store->budget.pool->budget()));
  AFI_TRY(store->below, open_below(args.below, store->transfer.capacity()));
  if (store->below != nullptr) {
    store->archive = std::make_unique<PrefixArchive>(*store->below->tier, store->transfer);
  }
  store->front = std::make_unique<PrefillOnce>(*store->cache,
                                               PrefillOnceOptions{.verify_hits = args.verify_hits});
  AFI_TRY(store->place, args.budget.join(*store->cache));
  if (!args.erasable || store->below == nullptr) return store;
  const auto erase_memory = [it = store.get()](const NamespaceId* space) {
    space == nullptr ? it->cache->clear() : static_cast<void>(it->cache->erase(*space));
  };
  AFI_TRY(store->names, TierNames::open(store->below, "prefixes", args.secret, erase_memory));
  return store;
}

KvKind kind_named(std::string_view name) {
  for (const KvKind kind : {KvKind::kFull, KvKind::kSliding, KvKind::kShared, KvKind::kRecurrent}) {
    if (to_string(kind) == name) return kind;
  }
  raise(
      ErrorCode::kInvalidArgument,
      "expected a kind of KV (full, sliding, shared, recurrent), got '" + std::string(name) + "'");
}

/// Token ids from a tensor of i32 or i64, or from any sequence of ints.
std::vector<TokenId> tokens_of(nb::handle object) {
  std::vector<TokenId> tokens;
  const auto add = [&](std::int64_t id) {
    if (id < 0 || id > INT32_MAX) {
      raise(ErrorCode::kInvalidArgument,
            "expected token ids from 0 to 2^31 - 1, got " + std::to_string(id));
    }
    tokens.push_back(TokenId(static_cast<std::int32_t>(id)));
  };
  if (nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object)) {
    for (const nb::handle id : nb::borrow<nb::sequence>(object)) add(nb::cast<std::int64_t>(id));
    return tokens;
  }
  const BorrowedTensor ids = borrow_tensor(object);
  const auto bytes = ids.view.bytes();
  const auto read = [&]<typename Id>(Id id) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof id) {
      std::memcpy(&id, bytes.data() + at, sizeof id);
      add(id);
    }
  };
  if (ids.view.dtype() == DType::kI64) {
    read(std::int64_t{});
  } else if (ids.view.dtype() == DType::kI32) {
    read(std::int32_t{});
  } else {
    raise(ErrorCode::kInvalidArgument, "expected token ids of i32 or i64, got a tensor of " +
                                           std::string(to_string(ids.view.dtype())));
  }
  return tokens;
}

/// A claim, with the layout and the prompt that it refers to and that must outlive it.
struct Prefill {
  StorePtr store;
  KvLayout layout;
  Sequence prompt;
  std::optional<NamespaceId> root_below;   // if there is a tier and it may be used
  std::optional<ArchivedPrompt> archived;  // the same
  std::optional<PrefillLeader> leader;
};

/// Loads the part of the prompt that the tier has and memory lacks.
Result<void> load(Prefill& prefill, const NamespaceId& root) {
  if (!prefill.archived.has_value()) return {};
  const PrefixMatch& match = prefill.leader->match();
  PrefixMatch own(TokenCount(0), {});  // matches nothing: it says whose insertion this is
  const bool loaded = prefill.store->archive->promote(
      *prefill.archived, match.matched(), match.resume(),
      [&](const KvSlice& kv, std::vector<LoadedKv> memory) -> Result<void> {
        AFI_TRY_VOID(prefill.store->cache->insert(root, prefill.layout, prefill.prompt, kv, &own,
                                                  std::move(memory)));
        return {};
      });
  if (!loaded) return {};
  // Erased while it was loaded: this request may use it, later ones may not.
  const bool erased = prefill.store->root_below(root) != prefill.root_below;
  auto found = prefill.leader->look_again();
  if (erased) prefill.store->cache->erase(root);
  return found;
}

class PyPrefillLeader {
 public:
  explicit PyPrefillLeader(std::shared_ptr<Prefill> prefill) : prefill_(std::move(prefill)) {}

  [[nodiscard]] PrefillLeader& leader() const {
    if (prefill_ == nullptr || !prefill_->leader.has_value()) {
      raise(ErrorCode::kInvalidArgument, "this PrefillLeader was released: claim again");
    }
    return *prefill_->leader;
  }

  [[nodiscard]] PrefillLeader take() const {
    PrefillLeader taken = std::move(leader());
    prefill_->leader.reset();
    return taken;
  }

  [[nodiscard]] std::uint32_t resume() const { return leader().match().resume().value(); }

  [[nodiscard]] std::uint32_t capture_from() const {
    const TokenCount resume = leader().match().resume();
    return (prefill_->archived.has_value() ? PrefixArchive::capture_from(resume) : resume).value();
  }

  [[nodiscard]] std::vector<std::uint32_t> snapshots() const {
    std::vector<std::uint32_t> positions;
    for (const TokenCount at : leader().snapshots()) positions.push_back(at.value());
    return positions;
  }

  /// Per group: rows as (first, count, bytes), and the state or None.
  [[nodiscard]] nb::list kv() const {
    nb::list groups;
    if (!leader().match().holds()) return groups;
    const KvSlice kv = prefill_->store->cache->kv(leader().match());
    for (std::size_t g = 0; g < prefill_->layout.groups.size(); ++g) {
      const KvKind kind = prefill_->layout.groups[g].kind;
      const bool in_rows = kind == KvKind::kFull || kv.snapshots.empty();
      nb::list rows;
      nb::object state = nb::none();
      for (const KvRows& piece : in_rows ? kv.rows[g] : kv.snapshots.back().groups[g]) {
        if (kind == KvKind::kRecurrent) {
          state = lend_bytes(piece.bytes);
        } else {
          rows.append(
              nb::make_tuple(piece.first.value(), piece.count.value(), lend_bytes(piece.bytes)));
        }
      }
      groups.append(nb::make_tuple(rows, state));
    }
    return groups;
  }

  nb::dict commit(std::uint32_t covered, std::uint32_t first_row,
                  const std::vector<nb::object>& rows, const nb::sequence& snapshots,
                  double cost_seconds) {
    std::vector<BorrowedTensor> alive;
    static_cast<void>(leader());  // raises if it was released
    const std::vector<LayerGroup>& layout = prefill_->layout.groups;
    const auto borrow = [&](TokenCount end, const std::vector<nb::object>& given) {
      std::vector<std::vector<KvRows>> pieces(given.size());
      for (std::size_t g = 0; g < given.size(); ++g) {
        if (given[g].is_none()) continue;
        alive.push_back(borrow_tensor(given[g]));
        const auto bytes = alive.back().view.bytes();
        if (bytes.empty()) continue;
        // More groups than the layout has are rejected with the slice.
        pieces[g].push_back(rows_before(end, g < layout.size() ? layout[g] : LayerGroup{}, bytes));
      }
      return pieces;
    };
    KvSlice captured{.begin = TokenCount(first_row),
                     .end = TokenCount(covered),
                     .rows = borrow(TokenCount(covered), rows),
                     .cost = Duration(static_cast<std::int64_t>(cost_seconds * 1e9))};
    for (const nb::handle snapshot : snapshots) {
      const auto [at, groups] =
          nb::cast<std::pair<std::uint32_t, std::vector<nb::object>>>(snapshot);
      captured.snapshots.push_back({TokenCount(at), borrow(TokenCount(at), groups)});
    }
    const std::shared_ptr<Prefill> busy = prefill_;
    PrefillLeader taken = take();  // no other thread may use it meanwhile
    const auto done = without_gil([&] {
      auto committed = taken.commit(captured);
      if (busy->archived.has_value()) busy->store->archive->keep(*busy->archived, captured);
      return committed;
    });
    busy->leader = std::move(taken);
    const PrefixInsertion added = or_raise(done);
    nb::dict report;
    report["had"] = added.had.value();
    report["added"] = added.added.value();
    report["snapshots"] = added.snapshots;
    report["bytes"] = added.bytes.value();
    return report;
  }

  /// Tensors of kv() that are still referenced keep the claim alive.
  void release() {
    std::shared_ptr<Prefill> gone = std::move(prefill_);
    const nb::gil_scoped_release released;
    gone.reset();
  }

 private:
  [[nodiscard]] nb::object lend_bytes(std::span<const std::byte> bytes) const {
    const std::uint64_t extent = bytes.size();
    return nb::cast(LentTensor{
        prefill_,
        or_raise(TensorView::over(DType::kU8, or_raise(Shape::of({&extent, 1})), bytes))});
  }

  std::shared_ptr<Prefill> prefill_;
};

Sequence prompt_of(nb::handle tokens, std::vector<MediaSpan> spans) {
  Sequence prompt{tokens_of(tokens), std::move(spans)};
  or_raise(check_sequence(prompt));
  return prompt;
}

class PyPrefixCache {
 public:
  explicit PyPrefixCache(StorePtr store) : store_(std::move(store)) {}

  [[nodiscard]] StorePtr open() const {
    if (store_ == nullptr) raise(ErrorCode::kInvalidArgument, "this prefix cache is closed");
    return store_;
  }

  PyPrefillLeader claim(const NamespaceId& space, const KvLayout& layout, nb::handle tokens,
                        std::vector<MediaSpan> spans, bool wait, const SpaceHolder* within) {
    or_raise(check_layout(layout));
    auto prefill = std::make_shared<Prefill>(Prefill{.store = open(),
                                                     .layout = layout,
                                                     .prompt = prompt_of(tokens, std::move(spans)),
                                                     .root_below = {},
                                                     .archived = {},
                                                     .leader = {}});
    if (prefill->store->archive != nullptr) {
      if (within == nullptr) {
        raise(ErrorCode::kInvalidArgument,
              "expected within=, the Namespace of the prefix: keys in a tier are made with its "
              "secret");
      }
      prefill->root_below = prefill->store->root_below(space);
      if (prefill->root_below.has_value()) {
        prefill->archived.emplace(or_raise(ArchivedPrompt::of(within->space, *prefill->root_below,
                                                              prefill->layout, prefill->prompt)));
      }
    }
    const PrefillRequest request{
        .space = space,
        .layout = &prefill->layout,
        .prompt = &prefill->prompt,
        .facts = {.now = prefill->store->budget.keeps_times() ? prefill->store->clock.now()
                                                              : Duration(0)}};
    PrefillOnce& front = *prefill->store->front;
    or_raise(without_gil([&]() -> Result<void> {
      AFI_TRY(PrefillLeader leader, wait ? front.wait_and_lead(request) : front.lead(request));
      prefill->leader.emplace(std::move(leader));
      return load(*prefill, space);
    }));
    return PyPrefillLeader(std::move(prefill));
  }

  [[nodiscard]] std::string explain(const NamespaceId& space, nb::handle tokens,
                                    std::vector<MediaSpan> spans) const {
    const StorePtr store = open();
    const Sequence prompt = prompt_of(tokens, std::move(spans));
    return to_string(or_raise(without_gil([&] { return store->cache->explain(space, prompt); })));
  }

  bool erase(const NamespaceId& space) {
    const StorePtr store = open();
    if (store->below != nullptr && store->names == nullptr) raise_not_erasable();
    return or_raise(without_gil([&]() -> Result<bool> {
      const bool had = store->cache->erase(space);
      if (store->names != nullptr) AFI_TRY_VOID(store->names->erase(&space));
      return had;
    }));
  }

  void clear() {
    const StorePtr store = open();
    if (store->below != nullptr && store->names == nullptr) raise_not_erasable();
    or_raise(without_gil([&]() -> Result<void> {
      if (store->names != nullptr) return store->names->erase(nullptr);
      store->cache->clear();
      return {};
    }));
  }

  void flush() {
    const StorePtr store = open();
    or_raise(without_gil([&]() -> Result<void> {
      return store->below == nullptr ? Result<void>() : store->below->tier->flush();
    }));
  }

  [[nodiscard]] std::string degraded_reason() const {
    const StorePtr store = open();
    return store->names == nullptr ? "" : store->names->degraded_reason();
  }

  void close() {
    StorePtr store = std::exchange(store_, nullptr);
    const nb::gil_scoped_release released;  // closing may flush to disk
    store.reset();
  }

  [[nodiscard]] nb::dict stats() const {
    const StorePtr store = open();
    const PrefixCacheStats cache = store->cache->stats();
    nb::dict stats;
    stats["hits"] = cache.hits;
    stats["misses"] = cache.misses;
    stats["tokens_reused"] = cache.tokens_reused;
    stats["insertions"] = cache.insertions;
    stats["refused"] = cache.refused;
    stats["evictions"] = cache.evictions;
    stats["damaged"] = cache.damaged;
    stats["sequences"] = cache.sequences.value();
    stats["tokens"] = cache.tokens;
    stats["resident_bytes"] = cache.resident.value();
    stats["budget_bytes"] = store->budget.pool->budget().capacity().value();
    stats["waited"] = store->front->stats().followed;
    const PrefixArchiveStats archive =
        store->archive == nullptr ? PrefixArchiveStats() : store->archive->stats();
    stats["promoted"] = archive.promoted;
    stats["size"] = cache.sequences.value();
    stats["total_tokens"] = cache.tokens;
    return stats;
  }

 private:
  StorePtr store_;
};

void bind_layout(nb::module_& module) {
  nb::class_<MediaSpan>(module, "MediaSpan",
                        "A run of placeholder tokens whose rows come from an encoder.\n"
                        "\n"
                        "offset, length: in tokens. splittable: whether a prefix may end inside; "
                        "False for models with\n"
                        "bidirectional attention in it.")
      .def(
          "__init__",
          [](MediaSpan* self, std::uint32_t offset, std::uint32_t length,
             const ContentDigest& content, std::string_view modality, bool splittable) {
            new (self) MediaSpan{TokenCount(offset), TokenCount(length), modality_named(modality),
                                 content, splittable};
          },
          nb::arg("offset"), nb::arg("length"), nb::arg("content"), nb::kw_only(),
          nb::arg("modality") = "image", nb::arg("splittable") = true)
      .def_prop_ro("offset", [](const MediaSpan& self) { return self.offset.value(); })
      .def_prop_ro("length", [](const MediaSpan& self) { return self.length.value(); });

  nb::class_<LayerGroup>(
      module, "LayerGroup",
      "Layers with the same kind of KV.\n"
      "\n"
      "kind         full, sliding, shared or recurrent.\n"
      "window       sliding: rows before a token that it attends to, besides its own.\n"
      "row_bytes    full, sliding: one token's rows in all layers of the group.\n"
      "state_bytes  recurrent: the state of all layers of the group.")
      .def(
          "__init__",
          [](LayerGroup* self, std::string_view kind, std::uint32_t layers, std::uint32_t window,
             std::uint32_t owner, std::uint64_t row_bytes, std::uint64_t state_bytes) {
            new (self)
                LayerGroup{kind_named(kind),  layers, TokenCount(window), owner, Bytes(row_bytes),
                           Bytes(state_bytes)};
          },
          nb::arg("kind") = "full", nb::kw_only(), nb::arg("layers") = 1, nb::arg("window") = 0,
          nb::arg("owner") = 0, nb::arg("row_bytes") = 0, nb::arg("state_bytes") = 0);

  nb::class_<KvLayout>(module, "KvLayout",
                       "The layer groups of a model's KV; resume points are multiples of "
                       "alignment, in tokens.")
      .def(
          "__init__",
          [](KvLayout* self, std::vector<LayerGroup> groups, std::uint32_t alignment) {
            KvLayout layout{std::move(groups), TokenCount(alignment)};
            or_raise(check_layout(layout));
            new (self) KvLayout(std::move(layout));
          },
          nb::arg("groups"), nb::arg("alignment") = 1);
}

}  // namespace

void bind_prefix(nb::module_& module) {
  bind_layout(module);
  nb::class_<PyPrefillLeader>(
      module, "PrefillLeader",
      "The resume point of a prompt, pinned, and the leader's role: it prefills the rest, and "
      "concurrent\n"
      "callers wait for it.")
      .def_prop_ro("resume", &PyPrefillLeader::resume, "Tokens whose KV is restored; 0: none.")
      .def_prop_ro("capture_from", &PyPrefillLeader::capture_from,
                   "The first row to commit: with a tier, which stores whole blocks, it may lie "
                   "before resume.")
      .def_prop_ro("snapshots", &PyPrefillLeader::snapshots,
                   "Lengths at which sliding and recurrent groups should be captured.")
      .def("kv", &PyPrefillLeader::kv,
           nb::sig("def kv(self) -> list[tuple[list[tuple[int, int, Tensor]], Tensor | None]]"),
           "For each group of the layout, its rows as (first, count, bytes), and its state. "
           "Empty: no hit.")
      .def("commit", &PyPrefillLeader::commit, nb::arg("covered"), nb::arg("first_row"),
           nb::arg("rows"), nb::arg("snapshots") = nb::make_tuple(), nb::arg("cost_seconds") = 0.0,
           nb::sig("def commit(self, covered: int, first_row: int, rows: "
                   "collections.abc.Sequence[object], snapshots: "
                   "collections.abc.Sequence[tuple[int, collections.abc.Sequence[object]]] = (), "
                   "cost_seconds: float = 0.0) -> dict[str, int]"),
           "Copies what is not cached yet into the cache and wakes the waiters. Call it once.\n"
           "\n"
           "covered: tokens whose KV exists. rows: for each group the bytes of rows [first_row, "
           "covered), or\n"
           "None. snapshots: (length, for each group the last rows before it, the state, or "
           "None).")
      .def("release", &PyPrefillLeader::release,
           "Unpins the entries once the tensors of kv() are no longer referenced. May be called "
           "twice.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> PrefillLeader"))
      .def(
          "__exit__",
          [](PyPrefillLeader& self, nb::handle, nb::handle, nb::handle) { self.release(); },
          nb::arg().none(), nb::arg().none(), nb::arg().none());

  nb::class_<PyPrefixCache>(
      module, "PrefixCache",
      "Prefill once: a cache of KV, looked up by the longest common prefix of prompts, media "
      "included.\n"
      "\n"
      "With tier=, KV outlives the process and is shared with those that use the tier.\n"
      "\n"
      "Shape    The layout's: bytes of rows and states, in the engine's format.\n"
      "Unit     Bytes, under a hard budget.\n"
      "Threads  Any. The GIL is released while waiting, copying and verifying.")
      .def(
          "__init__",
          [](PyPrefixCache* self, const nb::object& budget_bytes, std::string policy,
             std::uint64_t max_sequences, bool verify_hits, std::optional<std::string> disk,
             std::uint64_t disk_bytes, const nb::object& tier, bool erasable,
             const nb::bytes& secret, std::uint64_t max_tokens) {
            const OpenArgs args{.budget = budget_of(budget_bytes),
                                .policy = std::move(policy),
                                .max_sequences = max_sequences,
                                .max_tokens = max_tokens,
                                .verify_hits = verify_hits,
                                .below = {.disk = std::move(disk),
                                          .disk_bytes = disk_bytes,
                                          .tier = tier.is_none() ? nullptr : tier_store_of(tier),
                                          .put_timeout = kDiskPutTimeout},
                                .erasable = erasable,
                                .secret = secret_of(secret)};
            new (self) PyPrefixCache(or_raise(without_gil([&] { return open_store(args); })));
          },
          nb::arg("budget_bytes"), nb::kw_only(), nb::arg("policy") = "worth",
          nb::arg("max_sequences") = EntryCount::max().value(), nb::arg("verify_hits") = true,
          nb::arg("disk") = nb::none(), nb::arg("disk_bytes") = 1ULL << 30U,
          nb::arg("tier") = nb::none(), nb::arg("erasable") = false,
          nb::arg("secret") = nb::bytes(Secret{}.data(), Secret{}.size()),
          nb::arg("max_tokens") = UINT64_MAX,
          nb::sig(
              "def __init__(self, budget_bytes: int | SharedBudget, *, policy: str = 'worth', "
              "max_sequences: int = 18446744073709551615, verify_hits: bool = True, disk: str | "
              "None = None, disk_bytes: int = 1073741824, tier: Tier | None = None, erasable: "
              "bool = False, secret: bytes = ..., max_tokens: int = 18446744073709551615) -> None"),
          "max_sequences: most sequences that no other cached one continues. max_tokens: most "
          "tokens "
          "with KV; shared\n"
          "prefixes count once. disk: a folder, used by one process at a time, with disk_bytes as "
          "its hard cap. tier "
          "instead of\n"
          "disk: a DiskTier, a RemoteTier or a TierStack. With either, claims need within=. "
          "erasable: erase()\n"
          "and clear() hold in the tier, too, where entries then have other keys; secret: 32 "
          "bytes, "
          "with servers\n"
          "the same in all processes that share KV.")
      .def("claim", &PyPrefixCache::claim, nb::arg("space"), nb::arg("layout"), nb::arg("tokens"),
           nb::arg("spans") = std::vector<MediaSpan>(), nb::kw_only(), nb::arg("wait") = true,
           nb::arg("within") = nb::none(),
           nb::sig(
               "def claim(self, space: NamespaceId, layout: KvLayout, tokens: object, spans: "
               "collections.abc.Sequence[MediaSpan] = (), *, wait: bool = True, within: Namespace "
               "| None = None) -> PrefillLeader"),
           "The longest legal resume point. wait: wait for a caller that is prefilling more of "
           "this prompt.\n"
           "\n"
           "tokens: a tensor of i32 or i64, or ints. within: with a tier, the Namespace whose "
           "prefix_root()\n"
           "space is.")
      .def("explain", &PyPrefixCache::explain, nb::arg("space"), nb::arg("tokens"),
           nb::arg("spans") = std::vector<MediaSpan>(),
           nb::sig("def explain(self, space: NamespaceId, tokens: object, spans: "
                   "collections.abc.Sequence[MediaSpan] = ()) -> str"),
           "Explains, as text, where a prompt would resume and why.")
      .def(
          "erase", &PyPrefixCache::erase, nb::arg("space"),
          "Removes all entries of the namespace. False: memory had none. With erasable=True also "
          "from the tier,\n"
          "for later processes and for those that share its servers: when the call returns, after "
          "2.2 seconds\n"
          "with servers, none that reaches them uses the entries. The tier's space is reclaimed by "
          "eviction.\n"
          "\n"
          "Unsupported: with a tier and without erasable. Unavailable: it could not be recorded.")
      .def("clear", &PyPrefixCache::clear, "Removes all entries of all namespaces, like erase().")
      .def("flush", &PyPrefixCache::flush,
           "On return, everything committed before is durable in the tier.")
      .def_prop_ro("degraded_reason", &PyPrefixCache::degraded_reason,
                   "Why an erasable cache does not use its tier; empty: it does.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> PrefixCache"))
      .def(
          "__exit__", [](PyPrefixCache& self, nb::handle, nb::handle, nb::handle) { self.close(); },
          nb::arg().none(), nb::arg().none(), nb::arg().none())
      .def("close", &PyPrefixCache::close,
           "Closes the cache; existing leaders stay usable. May "
           "be called twice.")
      .def("stats", &PyPrefixCache::stats, nb::sig("def stats(self) -> dict[str, int]"),
           "Counters since the cache was created. size and total_tokens are the names of the "
           "original VRAMAwareCache for\n"
           "sequences and tokens.");
}

}  // namespace afterimage::python

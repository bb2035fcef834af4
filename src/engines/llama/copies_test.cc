// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// How often KV is copied between the engine and a tier. A copy needs memory to lie in, so the test
// counts memory: bytes allocated in large blocks, by anyone in the process, for each byte of KV.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "afterimage/disk_tier.h"
#include "afterimage/encrypted_tier.h"
#include "afterimage/tier.h"
#include "caches/prefix/prefix_archive.h"
#include "caches/prefix/prefix_draft.h"
#include "engines/llama/llama_engine.h"
#include "testing/demo_models.h"
#include "testing/temporary_folder.h"

namespace {

std::atomic<std::size_t> smallest_counted = SIZE_MAX;
std::atomic<std::uint64_t> allocated = 0;

void* allocate(std::size_t size, std::size_t alignment) {
  if (size >= smallest_counted) allocated += size;
  const std::size_t rounded =
      (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, rounded);
}
void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* const memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
constexpr std::size_t kUsual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

// The array forms call these.
void* operator new(std::size_t size) { return allocate_or_throw(size, kUsual); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return allocate(size, kUsual);
}
void* operator new(std::size_t size, std::align_val_t alignment,
                   const std::nothrow_t& /*tag*/) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

namespace afterimage {
namespace {

using testing::demo_options;
using testing::TemporaryFolder;

constexpr std::uint32_t kTokens = 768;  // six of the archive's blocks

/// Bytes allocated in blocks of at least `smallest` bytes while `work` runs.
std::uint64_t allocated_by(std::size_t smallest, const std::function<void()>& work) {
  smallest_counted = smallest;
  const std::uint64_t before = allocated;
  work();
  smallest_counted = SIZE_MAX;
  return allocated - before;
}

Sequence prompt_of(std::uint32_t tokens, std::uint32_t first = 0) {
  Sequence prompt;
  for (std::uint32_t i = first; i < first + tokens; ++i) {
    prompt.tokens.push_back(TokenId(static_cast<std::int32_t>(3 + i * 7 % 200)));
  }
  return prompt;
}

struct Engines {
  explicit Engines(const std::string& model) {
    LlamaOptions options = demo_options(model);
    options.lanes = 1;
    engine = LlamaEngine::create(std::move(options)).value();
    layout = engine->kv_layout();
    origin = kv_origin(engine->identity(), *layout);
    row = layout->groups.front().row_bytes.value();
  }
  Generation run(const Sequence& prompt, const KvUse& use) const {
    return engine->generate_from(prompt, {}, {.max_tokens = TokenCount(1)}, use).value();
  }
  [[nodiscard]] ArchivedPrompt archived(const Sequence& prompt) const {
    return ArchivedPrompt::of(space, root, *layout, prompt).value();
  }

  std::unique_ptr<LlamaEngine> engine;
  const KvLayout* layout = nullptr;
  KvOrigin origin;
  std::uint64_t row = 0;
  Namespace space = Namespace::of({.model = "m", .weights_epoch = "1", .encoder = "none"},
                                  TenantId("t"), Secret{})
                        .value();
  NamespaceId root{};
};

/// Copies of the KV of a prompt, each way.
struct Copies {
  double capture = 0;  // model to slice
  double keep = 0;     // slice to tier
  double promote = 0;  // tier to cache
  double restore = 0;  // cache to model; its last copy needs no memory: the model has it already
};

enum class Keeps : bool { kCopies, kMemory };

Copies copies_through(Tier& tier, Keeps keeps = Keeps::kMemory) {
  const Engines llama("plain");
  const Sequence prompt = prompt_of(kTokens + 1);
  const ArchivedPrompt archived = llama.archived(prompt);
  const auto kv_bytes = static_cast<double>(kTokens * llama.row);
  const std::size_t smallest = PrefixArchive::kBlock.value() * llama.row / 2;
  const auto copies = [&](const std::function<void()>& work) {
    return static_cast<double>(allocated_by(smallest, work)) / kv_bytes;
  };
  Copies counted;
  llama.run(prompt, {});  // what the engine allocates once
  const double without = copies([&] { llama.run(prompt, {}); });
  Generation cold;
  counted.capture =
      copies([&] {
        cold = llama.run(prompt, {.wanted = {.rows_to = TokenCount(kTokens), .snapshots = {}}});
      }) -
      without;

  MemoryBudget transfer(64_MiB);
  PrefixArchive archive(tier, transfer);
  counted.keep = copies([&] { archive.keep(archived, cold.kv); });
  EXPECT_EQ(archive.stats().kept, kTokens / PrefixArchive::kBlock.value());
  EXPECT_TRUE(tier.flush().has_value());

  MemoryBudget memory(64_MiB);
  const auto cache = PrefixCache::create({}, memory).value();
  // The cache's tables begin with a huge page each, which is no copy: let them exist.
  const Sequence other = prompt_of(PrefixArchive::kBlock.value(), 1);
  KvSlice block{.end = PrefixArchive::kBlock, .rows = {}};
  block.rows.push_back(rows_between(cold.kv.rows.front(), TokenCount(0), block.end));
  EXPECT_TRUE(cache->insert(llama.root, *llama.layout, other, block).has_value());
  counted.promote = copies([&] {
    archive.promote(archived, TokenCount(0), TokenCount(0),
                    [&](const KvSlice& kv, std::vector<LoadedKv> loaded) -> Result<void> {
                      if (keeps == Keeps::kCopies) {
                        AFI_TRY_VOID(cache->insert(llama.root, *llama.layout, prompt, kv));
                        return {};
                      }
                      AFI_TRY_VOID(cache->insert(llama.root, *llama.layout, prompt, kv, nullptr,
                                                 std::move(loaded)));
                      return {};
                    });
  });
  EXPECT_EQ(transfer.used(), 0_B);
  {
    const PrefixMatch match = cache->match(llama.root, prompt).value();
    EXPECT_EQ(match.resume(), TokenCount(kTokens));
    KvSlice kv = cache->kv(match);
    kv.origin = llama.origin;
    // So that the lane holds nothing of the prompt; and what computing one token allocates.
    const double one_token = copies([&] { llama.run(prompt_of(1, 1), {}); });
    Generation resumed;
    counted.restore =
        copies([&] { resumed = llama.run(prompt, {.resume_from = &kv}); }) - one_token;
    EXPECT_EQ(resumed.completion.resumed_from, TokenCount(kTokens));
    EXPECT_EQ(resumed.completion.logits, cold.completion.logits);
  }
  return counted;
}

constexpr double kNothing = 0.02;

TEST(Copies, HostMemory) {
  MemoryBudget budget(64_MiB);
  HostTier tier(budget);
  const Copies copies = copies_through(tier);
  EXPECT_NEAR(copies.capture, 1, kNothing);
  EXPECT_NEAR(copies.keep, 1, kNothing);
  EXPECT_NEAR(copies.promote, 1, kNothing);
  EXPECT_NEAR(copies.restore, 0, kNothing);
}

// Writes go through buffers that the tier keeps, so the copy into them allocates nothing; reads come
// from the device into memory that the cache keeps.
TEST(Copies, Disk) {
  const TemporaryFolder folder;
  MemoryBudget memory(128_MiB);
  const SystemClock clock;
  const DiskTierOptions options{.log = {.capacity = 64_MiB,
                                        .batch_bytes = 8_MiB,
                                        .read_timeout = std::chrono::seconds(20),
                                        .append_timeout = std::chrono::seconds(20)}};
  const auto tier = DiskTier::open(folder.path(), options, memory, clock).value();
  ASSERT_TRUE(tier->put({}, {}, std::vector<std::byte>(1)).has_value());
  const Copies copies = copies_through(*tier);
  EXPECT_NEAR(copies.capture, 1, kNothing);
  EXPECT_NEAR(copies.keep, 0, kNothing);
  EXPECT_NEAR(copies.promote, 1, 0.1) << "a block's header, and the rest of its last 4 KiB";
  EXPECT_NEAR(copies.restore, 0, kNothing);
}

// Encryption writes its own copy; decryption needs none.
TEST(Copies, EncryptedHostMemory) {
  MemoryBudget budget(64_MiB);
  HostTier host(budget);
  EncryptedTier tier(host, EncryptionKeys::parse(std::string(64, '1') + "\n", "test").value(),
                     budget);
  const Copies copies = copies_through(tier);
  EXPECT_NEAR(copies.capture, 1, kNothing);
  EXPECT_NEAR(copies.keep, 2, kNothing);
  EXPECT_NEAR(copies.promote, 1, kNothing);
  EXPECT_NEAR(copies.restore, 0, kNothing);
}

/// A tier that takes entries in one piece only.
class OnePieceTier final : public Tier {
 public:
  explicit OnePieceTier(Tier& inner) : inner_(inner) {}
  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    return inner_.put(key, meta, bytes);
  }
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override {
    return inner_.get(key, room);
  }
  Result<void> erase(const TierKey& key) override { return inner_.erase(key); }
  Result<void> flush() override { return inner_.flush(); }
  [[nodiscard]] bool may_contain(const TierKey& key) const override {
    return inner_.may_contain(key);
  }
  [[nodiscard]] TierStats stats() const override { return inner_.stats(); }

 private:
  Tier& inner_;
};

// The count is worth something only if it sees a copy too many.
TEST(Copies, AreCountedWhereverTheyAreMade) {
  MemoryBudget budget(64_MiB);
  HostTier host(budget);
  OnePieceTier tier(host);
  const Copies copies = copies_through(tier, Keeps::kCopies);
  EXPECT_NEAR(copies.keep, 2, kNothing) << "joined first";
  EXPECT_NEAR(copies.promote, 3, kNothing) << "joins two blocks, and copies them to one piece";
}

// The cost of a capture grows with what is new, not with the conversation.
TEST(Copies, ACaptureCopiesOnlyNewRows) {
  const Engines llama("plain");
  const Sequence prompt = prompt_of(kTokens);
  const auto bytes = [&](std::uint32_t from) {
    const KvWanted wanted{
        .rows_from = TokenCount(from), .rows_to = TokenCount(kTokens), .snapshots = {}};
    // The positions of all cells, which are written first, need less than 32 rows.
    return allocated_by(32 * llama.row, [&] { llama.run(prompt, {.wanted = wanted}); });
  };
  bytes(kTokens - 32);  // what the engine allocates once
  const std::uint64_t without = bytes(kTokens);
  EXPECT_EQ(bytes(kTokens - 32) - without, 32 * llama.row);
  EXPECT_EQ(bytes(kTokens - 256) - without, 256 * llama.row);
}

}  // namespace
}  // namespace afterimage

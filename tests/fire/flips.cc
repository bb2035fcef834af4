// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Flipped bits at rest: on disk, singly and several together, and in memory.
#include "afterimage/secret.h"
#include "afterimage/tier.h"
#include "caches/invalidation/invalidations.h"
#include "fire/golden_segment.h"

namespace afterimage::fire {
namespace {

void flip(std::span<std::byte> bytes, std::uint64_t bit) {
  bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
}

/// Reads records as the log does, each with some bits flipped.
class DamagedReads {
 public:
  DamagedReads(const GoldenSegment& golden, Tally& tally, const FireRun& run)
      : golden_(golden), tally_(tally), run_(run) {
    for (std::size_t i = 0; i < golden.places().size(); ++i) {
      const auto record = golden.record(i);
      bytes_.emplace_back(record.begin(), record.end());
      good_.push_back(check_record(record, golden.places()[i], golden.identity().epoch).meta);
    }
  }
  void read(std::size_t i, std::span<const std::uint64_t> bits) {
    const std::span<std::byte> bytes = bytes_[i];
    for (const std::uint64_t bit : bits) flip(bytes, bit);
    const CheckedRecord read = check_record(bytes, golden_.places()[i], golden_.identity().epoch);
    ++tally_.injected;
    ++tally_.answers;
    if (read.state != RecordState::kIntact) {
      ++tally_.detected;
    } else if (!(read.meta == good_[i]) || !is_value(i, read.value)) {
      ++tally_.wrong;
      tally_.miss("wrong bytes: record " + std::to_string(i) + ", bit " +
                  std::to_string(bits.front()) + " and " + std::to_string(bits.size() - 1) +
                  " more, --only flips --seed " + std::to_string(run_.seed));
    }
    for (const std::uint64_t bit : bits) flip(bytes, bit);
  }
  [[nodiscard]] std::uint64_t bits_of(std::size_t i) const { return 8 * bytes_[i].size(); }

 private:
  [[nodiscard]] bool is_value(std::size_t i, std::span<const std::byte> value) const {
    const auto at = static_cast<std::size_t>(value.data() - bytes_[i].data());
    return std::ranges::equal(value, golden_.record(i).subspan(at, value.size()));
  }

  const GoldenSegment& golden_;
  Tally& tally_;
  const FireRun& run_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<EntryMeta> good_;
};

void flip_in_reads(const FireRun& run, const GoldenSegment& golden, Tally& tally) {
  DamagedReads reads(golden, tally, run);
  Rng rng(run.seed);
  const std::uint64_t step = run.of(1, 61);
  std::uint64_t all = 0;
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < GoldenSegment::kKeys; ++i) all += reads.bits_of(i);
  for (std::size_t i = 0; i < GoldenSegment::kKeys; ++i) {
    for (std::uint64_t bit = 0; bit < reads.bits_of(i); bit += step) {
      reads.read(i, std::span(&bit, 1));
      if (((done += step) & 0xFFFFU) < step) run.tell(done, all);
    }
    // The header is small, so it is tested in full even in brief runs.
    for (std::uint64_t bit = 0; step > 1 && bit < 8 * 192; ++bit) reads.read(i, std::span(&bit, 1));
  }
  for (std::uint64_t n = run.of(200'000, 2'000); n > 0; --n) {
    const std::size_t i = rng.below(GoldenSegment::kKeys);
    std::vector<std::uint64_t> bits(2 + rng.below(63));
    const std::uint64_t first = rng.below(reads.bits_of(i));
    const bool near = rng.chance(0.5);
    for (std::uint64_t& bit : bits) {
      bit = near ? std::min(first + rng.below(512), reads.bits_of(i) - 1)
                 : rng.below(reads.bits_of(i));
    }
    // Flipping the same bit twice changes nothing.
    std::ranges::sort(bits);
    bits.erase(std::unique(bits.begin(), bits.end()), bits.end());
    reads.read(i, bits);
  }
}

/// A restart after each flip: one outside records loses nothing, one inside loses only that record.
void flip_and_restart(const FireRun& run, GoldenSegment& golden, Tally& tally) {
  Rng rng(run.seed + 1);
  const std::uint64_t size = golden.segment().size();
  for (std::uint64_t n = run.of(6'000, 300); n > 0; --n) {
    golden.restore();
    const std::uint64_t outside = size - golden.records_end();
    std::uint64_t byte = 0;
    const bool in_name = rng.chance(0.1);
    if (in_name) {
      byte = rng.below(2 * kDiskBlock);
    } else if (rng.chance(0.3)) {
      byte = rng.below(size);
    } else {
      byte = rng.chance(0.3) ? rng.below(64) : golden.records_end() + rng.below(outside);
    }
    auto& content = in_name ? golden.disk.files().at("store.afi")->content : golden.content();
    flip(content, 8 * byte + rng.below(8));
    const std::uint64_t before = golden.missing;
    const Duration began = run.clock.now();
    golden.look(tally,
                (in_name ? "byte of the store's id " : "byte ") + std::to_string(byte) +
                    ", then a restart, --only flips --seed " + std::to_string(run.seed),
                in_name ? std::nullopt : golden.record_at(byte));
    tally.recoveries.push_back(run.clock.now() - began);
    ++tally.injected;
    tally.detected += golden.missing - before;
  }
}

void flip_in_memory(const FireRun& run, Tally& tally) {
  MemoryBudget budget(4_MiB);
  HostTier tier(budget);
  Rng rng(run.seed + 2);
  for (std::uint64_t n = run.of(50'000, 1'000); n > 0; --n) {
    const std::size_t size = 1 + rng.below(rng.chance(0.1) ? 60'000 : 300);
    const TierKey key = testing::tier_key(n % 7);
    static_cast<void>(tier.put(key, {}, testing::tier_bytes(n, size)));
    flip(tier.bytes_for_test(key), rng.below(8 * size));
    const auto found = tier.get(key, budget);
    ++tally.injected;
    const bool served = found.has_value() && found->has_value();
    tally.detected += served ? 0 : 1;
    tally.note(served ? Finding::kWrongBytes : Finding::kFine, "in host memory");
  }
}

/// The invalidation log: a damaged one must not be believed.
void flip_in_erasures(const FireRun& run, Tally& tally) {
  Rng rng(run.seed + 3);
  InvalidationList list(random_secret().value());
  for (int i = 0; i < 5; ++i) static_cast<void>(list.add({.tag = "tag" + std::to_string(i)}));
  std::vector<std::byte> bytes = list.to_bytes();
  for (std::uint64_t bit = 0; bit < 8 * bytes.size(); bit += run.of(1, 7)) {
    flip(bytes, bit);
    ++tally.injected;
    const bool believed = InvalidationList::from_bytes(bytes).has_value();
    tally.detected += believed ? 0 : 1;
    tally.note(believed ? Finding::kWrongBytes : Finding::kFine,
               "bit " + std::to_string(bit) + " of the invalidation log");
    flip(bytes, bit);
  }
}

}  // namespace

Tally run_flips(const FireRun& run) {
  Tally tally;
  GoldenSegment golden(run.seed);
  flip_in_reads(run, golden, tally);
  flip_and_restart(run, golden, tally);
  flip_in_memory(run, tally);
  flip_in_erasures(run, tally);
  tally.notes.emplace_back("undetected flips fell into padding and had no effect");
  return tally;
}

}  // namespace afterimage::fire

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Intact bytes with good checksums that are not what was requested: from another place, another
// segment generation or another store.
#include <cstring>

#include "fire/forged_remote.h"
#include "fire/golden_segment.h"
#include "storage/memory/checksum.h"
#include "testing/forgeries.h"

namespace afterimage::fire {

using testing::DiskFault;
using testing::FakeDisk;
using testing::Forgery;

namespace {

constexpr std::size_t kRecordChecksumAt = 16;
constexpr std::size_t kVersionAt = 8;

class Forger {
 public:
  Forger(const FireRun& run, Tally& tally) : run_(run), tally_(tally), golden_(run.seed) {}

  /// Changes each field of each record, with a good checksum: the requested key misses, all others
  /// are found.
  void every_field() {
    for (std::size_t i = 0; i < GoldenSegment::kKeys; ++i) {
      for (const Forgery& forgery : testing::kForgeries) {
        golden_.restore();
        RecordHeader header = decode_record_header(golden_.record(i)).value();
        forgery.change(header);
        std::ranges::copy(encode_record_header(header), at(i).begin());
        must_miss(i, std::string("a forged ") + forgery.name);
      }
      golden_.restore();
      resign(i, [](std::span<std::byte> header) { header[4] = std::byte{2}; });
      must_miss(i, "a record of version 2");
      golden_.restore();
      RecordHeader header = decode_record_header(golden_.record(i)).value();
      const std::size_t room = std::size_t{header.blocks} * kDiskBlock;
      header.value_bytes = room - record_header_bytes(header.meta) + 1;
      std::ranges::copy(encode_record_header(header), at(i).begin());
      must_miss(i, "a value that extends past its record");
      larger_header(i);
    }
  }
  /// Uses its own buffer, so that nothing readable lies behind the record.
  void half_read() {
    for (std::size_t i = 0; i < GoldenSegment::kKeys; ++i) {
      for (const std::size_t missing : {std::size_t{512}, kDiskBlock}) {
        const auto record = golden_.record(i);
        if (record.size() <= missing) continue;
        const std::vector<std::byte> read(record.begin(),
                                          record.end() - static_cast<long>(missing));
        const auto state = check_record(read, golden_.places()[i], golden_.identity().epoch).state;
        count(state != RecordState::kIntact, "a partially read record");
      }
    }
  }
  /// An intact footer that points elsewhere is not believed and loses nothing: the segment is
  /// scanned instead.
  void footers() {
    const auto lists = [&](const char* what, auto change) {
      std::vector<FooterEntry> entries = golden_.places();
      change(entries);
      with_footer(golden_.identity(), entries);
      const std::uint64_t before = golden_.missing;
      look(what);
      count(golden_.missing == before, what);
    };
    lists("a footer that points behind the records", [](auto& e) { e[1].block = 1'000'000; });
    lists("a footer with an entry of no blocks", [](auto& e) { e[2].blocks = 0; });
    lists("a footer that points at the header", [](auto& e) { e[0].block = 0; });
    SegmentIdentity other = golden_.identity();
    other.epoch.front() ^= std::byte{1};
    // A footer of an earlier generation lists records that this one does not have.
    std::vector<FooterEntry> earlier = golden_.places();
    for (std::size_t i = 0; i < earlier.size(); ++i) earlier[i].key = testing::tier_key(9'000 + i);
    with_footer(other, earlier);
    const std::uint64_t before = golden_.missing;
    look("a footer of an earlier generation");
    count(golden_.missing == before, "a footer of an earlier generation");
  }
  /// An intact block of an unknown version.
  void versions() {
    golden_.restore();
    auto& content = golden_.content();
    resign_block(std::span(content).first(kDiskBlock));
    resign_block(std::span(content).last(kDiskBlock));
    const auto log = golden_.open();
    count(log.has_value() && (*log)->recovery().foreign_files == 1, "a segment of version 2");
    golden_.disk.fail(DiskFault::kCrash, 1);
  }
  /// The older of two versions comes after the newer one in the list.
  void order() {
    golden_.restore();
    std::vector<FooterEntry> entries = golden_.places();
    const std::size_t n = GoldenSegment::kKeys - 1;
    // The record of key n, as if it had been put before, with the content of key n - 1.
    RecordHeader older = decode_record_header(golden_.record(n - 1)).value();
    older.key = golden_.oracle.key(n);
    older.sequence = 1;
    std::ranges::copy(encode_record_header(older), at(n - 1).begin());
    FooterEntry old = entries[n - 1];
    old.key = entries[n].key;
    old.sequence = 1;
    entries.erase(entries.begin() + static_cast<long>(n) - 1);
    entries.push_back(old);
    with_footer(golden_.identity(), entries, false);
    const auto log = golden_.open();
    const auto found = (*log)->read(golden_.oracle.key(n), room_);
    count(found && *found && golden_.oracle.judge(n, *found, true) == Finding::kFine,
          "an older version listed after the newer");
    golden_.disk.fail(DiskFault::kCrash, 1);
  }

  /// A misdirected write: a copy of a record that lies in the middle of another one is ignored.
  void copies() {
    for (std::size_t i = 1; i < GoldenSegment::kKeys; ++i) {
      if (golden_.record(i).size() > golden_.record(i - 1).size()) continue;
      golden_.restore();
      // Without a footer, so that the segment is scanned.
      golden_.content().resize(golden_.records_end());
      std::ranges::copy(golden_.record(i), at(i - 1).begin());
      must_miss(i - 1, "a record in another record's place");
    }
  }

 private:
  std::span<std::byte> at(std::size_t i) {
    return std::span(golden_.content())
        .subspan(std::size_t{golden_.places()[i].block} * kDiskBlock, golden_.record(i).size());
  }
  void resign(std::size_t i, const std::function<void(std::span<std::byte>)>& change) {
    const RecordHeader header = decode_record_header(golden_.record(i)).value();
    sign(at(i).first(record_header_bytes(header.meta)), change);
  }
  static void sign(std::span<std::byte> header,
                   const std::function<void(std::span<std::byte>)>& change) {
    change(header);
    std::ranges::fill(header.subspan(kRecordChecksumAt, 8), std::byte{0});
    const std::uint64_t sum = short_checksum(header);
    std::memcpy(header.data() + kRecordChecksumAt, &sum, sizeof sum);
  }
  static void resign_block(std::span<std::byte> block) {
    block[kVersionAt] = std::byte{2};
    const std::uint64_t sum = short_checksum(block.first(kDiskBlock - 8));
    std::memcpy(block.data() + kDiskBlock - 8, &sum, sizeof sum);
  }
  /// A header that claims a larger size than its own; the value is where it always was.
  void larger_header(std::size_t i) {
    golden_.restore();
    const RecordHeader header = decode_record_header(golden_.record(i)).value();
    const std::size_t size = record_header_bytes(header.meta) + 64;
    if (at(i).size() < size + header.value_bytes) return;
    sign(at(i).first(size), [size](std::span<std::byte> bytes) {
      const auto said = static_cast<std::uint32_t>(size);
      std::memcpy(bytes.data() + 8, &said, sizeof said);
    });
    must_miss(i, "a header of another size");
  }
  void with_footer(const SegmentIdentity& identity, std::span<const FooterEntry> entries,
                   bool restores = true) {
    if (restores) golden_.restore();
    auto& content = golden_.content();
    content.resize(golden_.records_end());
    const auto footer = encode_footer(identity, golden_.records_end(), entries);
    content.insert(content.end(), footer.begin(), footer.end());
  }
  void must_miss(std::size_t i, const std::string& what) {
    const std::uint64_t before = golden_.missing;
    look(what, i);
    count(golden_.missing == before + 1, what);
  }
  void look(const std::string& what, std::optional<std::size_t> not_spared = {}) {
    golden_.look(tally_, what + ", --only forged --seed " + std::to_string(run_.seed), not_spared);
  }
  void count(bool noticed, const std::string& what) {
    ++tally_.injected;
    tally_.detected += noticed ? 1 : 0;
    tally_.expect(noticed, what + " was accepted as the real one");
  }

  const FireRun& run_;
  Tally& tally_;
  GoldenSegment golden_;
  MemoryBudget room_{4_MiB};
};

}  // namespace

Tally run_forged(const FireRun& run) {
  Tally tally;
  for (std::uint64_t n = 0; n < run.of(20, 1); ++n) {
    FireRun each = run;
    each.seed = run.seed * 1'000 + n;
    Forger forger(each, tally);
    forger.every_field();
    forger.half_read();
    forger.footers();
    forger.versions();
    forger.order();
    forger.copies();
    run.tell(n + 1, run.of(20, 1));
  }
  forge_remote(tally);
  forge_encrypted(tally);
  return tally;
}

namespace {

/// A segment file that was copied under another name before one of its entries was erased.
void copy_and_erase(const FireRun& run, Tally& tally) {
  GoldenSegment golden(run.seed);
  golden.restore();
  auto copy = std::make_shared<testing::FakeDisk::File>();
  copy->content = golden.segment();
  {
    const auto log = golden.open().value();
    static_cast<void>(log->erase(golden.oracle.key(1)));
    static_cast<void>(log->commit());
  }
  golden.disk.files()["segment-0000000000000000.afi"] = copy;
  const auto log = golden.open().value();
  MemoryBudget room(4_MiB);
  const auto found = log->read(golden.oracle.key(1), room);
  const bool came_back = found && *found;
  ++tally.injected;
  ++tally.answers;
  tally.detected += came_back ? 0 : 1;
  tally.wrong += came_back ? 1 : 0;
  tally.expect(!came_back, "an erased entry came back with a copy of its file");
}

}  // namespace

/// A new segment overwrites an older file: behind its end lie records of an earlier generation, of
/// another segment or of another store, exactly where its own next records would be.
Tally run_stale(const FireRun& run) {
  Tally tally;
  copy_and_erase(run, tally);
  Rng rng(run.seed);
  GoldenSegment golden(run.seed);
  GoldenSegment before(run.seed + 1);
  const std::uint64_t rounds = run.of(2'000, 60);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    golden.restore();
    auto& content = golden.content();
    const std::vector<std::byte>& old = before.segment();
    const std::string where =
        "round " + std::to_string(round) + ", --only stale --seed " + std::to_string(run.seed);
    // Ours up to some record, or not even its header; theirs from there on, with or without footer.
    const std::size_t own = rng.below(GoldenSegment::kKeys + 1);
    const std::uint64_t cut =
        own == 0 ? (rng.chance(0.5) ? 0 : kDiskBlock)
                 : std::uint64_t{golden.places()[own - 1].block + golden.places()[own - 1].blocks} *
                       kDiskBlock;
    const std::uint64_t end = rng.chance(0.5) ? old.size() : before.records_end();
    content.resize(std::max<std::uint64_t>(cut, end));
    if (cut < end) {
      std::copy(old.begin() + static_cast<long>(cut), old.begin() + static_cast<long>(end),
                content.begin() + static_cast<long>(cut));
    }
    // And whole files under the wrong names.
    if (rng.chance(0.3)) {
      auto copy = std::make_shared<testing::FakeDisk::File>();
      copy->content = rng.chance(0.5) ? old : golden.segment();
      golden.disk.files()["segment-000000000000000" + std::to_string(2 + rng.below(7)) + ".afi"] =
          copy;
    }
    const Duration began = run.clock.now();
    const auto log = golden.open();
    tally.recoveries.push_back(run.clock.now() - began);
    ++tally.injected;
    if (!log) {
      tally.miss("the log does not open: " + where);
      continue;
    }
    MemoryBudget room(4_MiB);
    std::uint64_t theirs = 0;
    for (std::size_t n = 0; n < GoldenSegment::kKeys; ++n) {
      if ((*log)->contains(before.oracle.key(n))) ++theirs;
      const auto found = (*log)->read(golden.oracle.key(n), room);
      tally.note(golden.oracle.judge(n, found.value_or(std::nullopt), n < own), where);
    }
    tally.wrong += theirs;
    tally.expect(theirs == 0, "entries of an earlier generation came back: " + where);
    if (theirs == 0) ++tally.detected;
    tally.expect((*log)->recovery().entries.value() <= GoldenSegment::kKeys,
                 "more entries than were put: " + where);
    golden.disk.fail(DiskFault::kCrash, 1);
    run.tell(round + 1, rounds);
  }
  return tally;
}

}  // namespace afterimage::fire

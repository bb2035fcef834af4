// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "fire/fire.h"
#include "storage/disk/segments.h"
#include "testing/log_story.h"

namespace afterimage::fire {

/// One sealed segment of about 512 KiB and the store's id, to be damaged again and again.
class GoldenSegment {
 public:
  static constexpr std::size_t kKeys = 12;
  static constexpr std::array<std::size_t, 6> kSizes = {1, 3'904, 4'097, 20'000, 60'000, 70'000};
  static constexpr const char* kName = "segment-0000000000000001.afi";

  explicit GoldenSegment(std::uint64_t seed) : oracle(keys_, kSizes, seed) {
    {
      const auto log = open().value();
      for (std::size_t n = 0; n < kKeys; ++n) {
        const std::uint32_t version = oracle.begin_put(n);
        static_cast<void>(
            log->append(oracle.key(n), oracle.meta(n, version), oracle.value(n, version)));
        oracle.put_done(n, version);
      }
    }
    oracle.flushed();
    for (const auto& [name, file] : disk.files()) golden_[name] = file->content;
    const auto& bytes = segment();
    identity_ = decode_segment_header(std::span(bytes).first(kDiskBlock)).value();
    const auto trailer = decode_trailer(std::span(bytes).last(kDiskBlock)).value();
    places_ = decode_footer(trailer, std::span(bytes).subspan(
                                         trailer.entries_offset,
                                         bytes.size() - kDiskBlock - trailer.entries_offset))
                  .value();
    records_end_ = trailer.entries_offset;
  }

  Result<std::unique_ptr<SegmentLog>> open() {
    SegmentLogOptions options = testing::small_log(4_MiB);
    options.segment_bytes = 1_MiB;
    return SegmentLog::open(std::make_unique<testing::FakeBlockFolder>(disk), options, memory_);
  }
  /// Restores everything to what was written.
  void restore() {
    disk.restart();
    std::erase_if(disk.files(), [&](const auto& each) { return !golden_.contains(each.first); });
    for (const auto& [name, content] : golden_) {
      auto& file = disk.files()[name];
      if (file == nullptr) file = std::make_shared<testing::FakeDisk::File>();
      file->content = content;
    }
  }
  /// Opens the log, reads every key and closes without writing. `spared`: every entry must be found
  /// except these.
  void look(Tally& tally, const std::string& where, std::optional<std::size_t> not_spared = {}) {
    const auto log = open();
    if (!log) return tally.miss("the log does not open: " + to_string(log.error()) + "; " + where);
    for (std::size_t n = 0; n < kKeys; ++n) {
      const auto found = (*log)->read(oracle.key(n), room_);
      tally.note(oracle.judge(n, found.value_or(std::nullopt), n != not_spared), where);
      if (!found || !*found) ++missing;
    }
    (*log)->check_invariants();
    disk.fail(testing::DiskFault::kCrash, 1);
  }

  [[nodiscard]] const std::vector<std::byte>& segment() const { return golden_.at(kName); }
  [[nodiscard]] std::vector<std::byte>& content() { return disk.files().at(kName)->content; }
  [[nodiscard]] const SegmentIdentity& identity() const { return identity_; }
  [[nodiscard]] const std::vector<FooterEntry>& places() const { return places_; }
  [[nodiscard]] std::uint64_t records_end() const { return records_end_; }
  /// The index in places() of the record that contains a byte; it is also the index of its key.
  [[nodiscard]] std::optional<std::size_t> record_at(std::uint64_t byte) const {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const std::uint64_t at = std::uint64_t{places_[i].block} * kDiskBlock;
      if (byte >= at && byte < at + std::uint64_t{places_[i].blocks} * kDiskBlock) return i;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::span<const std::byte> record(std::size_t i) const {
    return std::span(segment()).subspan(std::size_t{places_[i].block} * kDiskBlock,
                                        std::size_t{places_[i].blocks} * kDiskBlock);
  }

  testing::FakeDisk disk;
  std::uint64_t missing = 0;  // entries that the last look did not find

 private:
  std::array<testing::KeyState, kKeys> keys_;

 public:
  testing::TierOracle oracle;

 private:
  MemoryBudget memory_{16_MiB};
  MemoryBudget room_{4_MiB};
  std::map<std::string, std::vector<std::byte>> golden_;
  SegmentIdentity identity_;
  std::vector<FooterEntry> places_;
  std::uint64_t records_end_ = 0;
};

}  // namespace afterimage::fire

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/disk/segment_format.h"
#include "storage/disk/segment_log.h"

namespace afterimage {

struct InspectedClass {
  EntryCount entries;
  Bytes on_disk;     // whole records
  Duration cost{0};  // that hits on all of them would save
};

struct InspectedSegment {
  std::string name;
  Bytes size;
  bool sealed = false;  // not: it was read through
  EntryCount entries;
  EntryCount replaced;               // older records of keys that stand elsewhere too
  std::uint64_t first_sequence = 0;  // of its entries; the log counts upwards
  std::uint64_t last_sequence = 0;
};

/// What a tier would find in its folder.
struct DiskInspection {
  std::string folder;
  std::optional<std::string> store;  // its name in hexadecimal digits; none: lost
  DiskRecovery found;                // as an opening would say, before the cap
  Bytes used;                        // by the store's own files
  std::map<EntryClass, InspectedClass> classes;
  std::vector<InspectedSegment> segments;  // oldest first
  std::vector<std::string> foreign;        // named like segments, but another store's or none
  std::vector<std::string> unreadable;     // an opening would remove them
};

/// One entry that is not what its segment says.
struct BadEntry {
  std::string segment;
  std::uint64_t offset = 0;
  TierKey key;
  std::string problem;
};

struct DiskVerification {
  EntryCount intact;
  EntryCount erased;   // overwritten after the footer was written: as it should be
  EntryCount damaged;  // would be a miss
  EntryCount unreadable;
  Bytes read;
  std::vector<BadEntry> bad;  // damaged and unreadable ones
};

/// Looks at a disk tier's folder while nobody uses it, and changes nothing: no file is written,
/// made or repaired. Only remove() removes.
///
/// Errors   kNotFound: no disk tier is there; kUnavailable: a process uses it, or it cannot be
/// read. Threads  One. Source   docs/formats/segment.md.
class DiskInspector {
 public:
  /// Bytes done, of bytes to do.
  using Progress = std::function<void(Bytes, Bytes)>;

  /// Reads what an opening reads: footers, and segments without a good one whole.
  static Result<DiskInspector> open(const std::string& folder, MemoryBudget& memory);
  static Result<DiskInspector> open(std::unique_ptr<BlockFolder> folder, MemoryBudget& memory);

  [[nodiscard]] const DiskInspection& inspection() const { return inspection_; }
  /// Reads every entry and compares everything.
  Result<DiskVerification> verify(const Progress& progress = {});
  /// Removes the store's own files, `lock` last; what is foreign stays. Which were removed.
  Result<std::vector<std::string>> remove();
  /// The store's own files.
  [[nodiscard]] std::vector<std::string> own_files() const;

 private:
  struct Found {
    std::string name;
    DiskId epoch{};
    std::vector<FooterEntry> entries;  // the newest of their keys
  };
  DiskInspector(std::unique_ptr<BlockFolder> folder, MemoryBudget& memory)
      : folder_(std::move(folder)), memory_(&memory) {}
  Result<void> look();
  Result<std::optional<DiskId>> store_name();
  Result<void> look_at(const std::string& name, std::uint64_t number, const DiskId& store);
  void count();

  std::unique_ptr<BlockFolder> folder_;
  MemoryBudget* memory_;
  DiskInspection inspection_;
  std::vector<std::string> names_;
  std::vector<Found> found_;
};

}  // namespace afterimage

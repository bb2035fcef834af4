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
  Duration cost{0};  // time that one hit on each of them would save
};

struct InspectedSegment {
  std::string name;
  Bytes size;
  bool sealed = false;  // false: it had no valid footer and was scanned
  EntryCount entries;
  EntryCount replaced;               // older records of keys that have a newer one
  std::uint64_t first_sequence = 0;  // sequence numbers of its entries; the log counts upwards
  std::uint64_t last_sequence = 0;
};

/// What DiskTier::open would find in the folder.
struct DiskInspection {
  std::string folder;
  std::optional<std::string> store;  // the store id in hexadecimal digits; nullopt: lost
  DiskRecovery found;                // as DiskTier::open would report, before it enforces the cap
  Bytes used;                        // by the store's own files
  std::map<EntryClass, InspectedClass> classes;
  std::vector<InspectedSegment> segments;  // oldest first
  std::vector<std::string> foreign;        // named like segments, but not of this store
  std::vector<std::string> unreadable;     // DiskTier::open would remove them
};

/// One entry that differs from what its segment says.
struct BadEntry {
  std::string segment;
  std::uint64_t offset = 0;
  TierKey key;
  std::string problem;
};

struct DiskVerification {
  EntryCount intact;
  EntryCount erased;   // overwritten after the footer was written, as erase() does
  EntryCount damaged;  // a get would miss
  EntryCount unreadable;
  Bytes read;
  std::vector<BadEntry> bad;  // damaged and unreadable ones
};

/// Inspects the folder of a disk tier that is not in use. Changes nothing: no file is written,
/// created or repaired. Only remove() removes files.
///
/// Errors   kNotFound: there is no disk tier; kUnavailable: a process uses it, or it cannot be
///          read; kUnsupported: another version of this program wrote it.
/// Threads  One.
/// Source   docs/formats/segment.md.
class DiskInspector {
 public:
  /// Called with the bytes done and the bytes to do.
  using Progress = std::function<void(Bytes, Bytes)>;

  /// Reads what DiskTier::open reads: footers, and whole segments that have no valid footer.
  static Result<DiskInspector> open(const std::string& folder, MemoryBudget& memory);
  static Result<DiskInspector> open(std::unique_ptr<BlockFolder> folder, MemoryBudget& memory);

  [[nodiscard]] const DiskInspection& inspection() const { return inspection_; }
  /// Reads every entry and verifies headers and checksums.
  Result<DiskVerification> verify(const Progress& progress = {});
  /// Removes the store's own files, `lock` last; foreign files stay. Returns the removed names.
  Result<std::vector<std::string>> remove();
  /// The store's own files.
  [[nodiscard]] std::vector<std::string> own_files() const;

 private:
  struct Found {
    std::string name;
    DiskId epoch{};
    std::vector<FooterEntry> entries;  // the newest record of each key
  };
  DiskInspector(std::unique_ptr<BlockFolder> folder, MemoryBudget& memory)
      : folder_(std::move(folder)), memory_(&memory) {}
  Result<void> inspect();
  Result<std::optional<DiskId>> read_store_id();
  Result<void> inspect_segment(const std::string& name, std::uint64_t number, const DiskId& store);
  void count();

  std::unique_ptr<BlockFolder> folder_;
  MemoryBudget* memory_;
  DiskInspection inspection_;
  std::vector<std::string> names_;
  std::vector<Found> found_;
};

}  // namespace afterimage

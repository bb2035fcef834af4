// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "afterimage/tier.h"
#include "testing/tier_entries.h"

/// Judges a tier's results without storing values: they are regenerated from (seed, key, version).
namespace afterimage::testing {

/// State of one key, in plain words that can be in memory shared with a process that is killed. It
/// is updated before and after each operation with what may be found and what must be.
struct KeyState {
  std::atomic<std::uint32_t> given{0};      // version numbers assigned
  std::atomic<std::uint32_t> attempted{0};  // the newest that may be found
  std::atomic<std::uint32_t> gone{0};       // no version up to this one may be found again
  std::atomic<std::uint32_t> newest{0};     // accepted and pending, as far as known; 0: none
  std::atomic<std::uint32_t> certain{0};    // this or a newer version must be found; 0: none must
  std::atomic<std::uint32_t> seen{0};       // the newest that was read since the last restart
};

enum class Finding : std::uint8_t {
  kFine,
  kWrongBytes,  // never put under this key, or with another spec or cost
  kCameBack,    // erased, or replaced by a durable version
  kOlder,       // older than a version read before
  kLost,        // durable, but not found
};

inline std::string_view to_string(Finding finding) {
  switch (finding) {
    case Finding::kFine:
      return "fine";
    case Finding::kWrongBytes:
      return "wrong bytes";
    case Finding::kCameBack:
      return "an erased or replaced version came back";
    case Finding::kOlder:
      return "an older version after a newer one";
    case Finding::kLost:
      return "an acknowledged entry is lost";
  }
  return "";
}

/// Threads  One at a time.
class TierOracle {
 public:
  /// `keys` and `sizes` outlive it; each value has one of the sizes.
  TierOracle(std::span<KeyState> keys, std::span<const std::size_t> sizes, std::uint64_t seed)
      : keys_(keys), sizes_(sizes), seed_(seed) {}

  [[nodiscard]] std::size_t size() const { return keys_.size(); }
  [[nodiscard]] TierKey key(std::size_t n) const { return tier_key(seed_ * 1'000'003 + n); }
  [[nodiscard]] std::size_t size_of(std::size_t n, std::uint32_t version) const {
    return sizes_[Rng(mixed(n, version)).below(sizes_.size())];
  }
  [[nodiscard]] std::vector<std::byte> value(std::size_t n, std::uint32_t version) const {
    return tier_bytes(mixed(n, version), size_of(n, version));
  }
  [[nodiscard]] EntryMeta meta(std::size_t n, std::uint32_t version) const {
    return {.tensors = {{DType::kU8, Shape{size_of(n, version)}}},
            .cost = Duration(1 + mixed(n, version) % 1'000'000'000)};
  }

  /// The next version to put.
  std::uint32_t begin_put(std::size_t n) {
    KeyState& key = keys_[n];
    key.attempted = ++key.given;
    return key.attempted;
  }
  void put_done(std::size_t n, std::uint32_t version) { keys_[n].newest = version; }
  void begin_erase(std::size_t n) {
    keys_[n].certain = 0;
    keys_[n].newest = 0;
  }
  void erase_done(std::size_t n) { keys_[n].gone = keys_[n].given.load(); }
  /// Everything pending is durable, and the versions it replaced are gone.
  void flushed() {
    for (KeyState& key : keys_) {
      if (key.newest == 0) continue;
      key.certain = key.newest.load();
      key.gone = key.newest - 1;
      key.attempted = key.newest.load();
    }
  }
  /// Some pending entry is lost, and it is unknown which.
  void lost_on_the_way() {
    for (KeyState& key : keys_) key.newest = 0;
  }
  /// An entry was evicted and counted. Checks what is still stored and what is pending.
  void some_left(const auto& is_there, const auto& is_awaited) {
    for (std::size_t n = 0; n < keys_.size(); ++n) {
      KeyState& state = keys_[n];
      if (state.certain == 0 && state.newest == 0) continue;
      const bool there = is_there(key(n));
      // What is found may be a newer version that is not durable yet.
      if (!there || state.attempted != state.certain) state.certain = 0;
      if (!there && !is_awaited(key(n))) state.newest = 0;
    }
  }
  /// Any entry may have been evicted.
  void all_left() {
    for (KeyState& state : keys_) state.certain = state.newest = 0;
  }
  void process_ended() {
    lost_on_the_way();
    for (KeyState& key : keys_) key.seen = 0;
  }

  /// Judges one result. `complete`: nothing prevents the tier from finding a stored entry.
  Finding judge(std::size_t n, const std::optional<TierEntry>& found, bool complete) {
    version_ = 0;
    KeyState& key = keys_[n];
    if (!found) return complete && key.certain != 0 ? Finding::kLost : Finding::kFine;
    for (std::uint32_t version = key.given; version > 0; --version) {
      if (!is(n, version, *found)) continue;
      if (version <= key.gone || version > key.attempted) return Finding::kCameBack;
      if (version < key.seen) return Finding::kOlder;
      key.seen = version;
      version_ = version;
      return Finding::kFine;
    }
    return Finding::kWrongBytes;
  }
  /// Judges a result after a restart, and takes it as the stored state from now on.
  Finding settle(std::size_t n, const std::optional<TierEntry>& found, bool complete) {
    const Finding finding = judge(n, found, complete);
    KeyState& key = keys_[n];
    key.certain = key.newest = version_;
    key.gone = version_ == 0 ? key.given.load() : version_ - 1;
    if (version_ != 0) key.attempted = version_;
    return finding;
  }
  /// Whether a hit is guaranteed.
  [[nodiscard]] bool expects(std::size_t n) const { return keys_[n].certain != 0; }

 private:
  [[nodiscard]] std::uint64_t mixed(std::size_t n, std::uint32_t version) const {
    return Rng((seed_ << 40U) ^ (n << 24U) ^ version).next();
  }
  [[nodiscard]] bool is(std::size_t n, std::uint32_t version, const TierEntry& entry) const {
    return entry.bytes.size() == size_of(n, version) && entry.meta == meta(n, version) &&
           std::ranges::equal(entry.bytes, value(n, version));
  }

  std::span<KeyState> keys_;
  std::span<const std::size_t> sizes_;
  std::uint64_t seed_;
  std::uint32_t version_ = 0;  // the version that was judged last
};

}  // namespace afterimage::testing

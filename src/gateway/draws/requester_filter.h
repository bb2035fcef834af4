// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace afterimage {

/// Who asks: a hash of the key and of what tells its users apart. Two requesters with one hash count
/// as one, which costs hits and nothing else.
struct RequesterId {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const RequesterId&) const = default;
};

/// A set of requesters that forgets nobody: a Bloom filter that grows. It may take a stranger for a
/// member, never a member for a stranger.
///
/// Shape    Layers, each for twice as many requesters as the one before; 12 bits for a requester.
/// Errors   At most 3 of 100 strangers are taken for members, when it is full.
/// Cost     Nanoseconds; 6 KiB when it is full, 24 bytes for the first 16 requesters.
/// Threads  Not thread-safe.
class RequesterFilter {
 public:
  /// How many requesters it holds.
  static constexpr std::size_t kCapacity = 4080;

  [[nodiscard]] bool may_contain(const RequesterId& who) const;
  /// False: it is full, and `who` was not added.
  [[nodiscard]] bool add(const RequesterId& who);
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Layer {
    std::size_t capacity = 0;
    std::size_t size = 0;
    std::vector<std::uint64_t> words;
  };
  [[nodiscard]] static bool has(const Layer& layer, const RequesterId& who);

  std::vector<Layer> layers_;
  std::size_t size_ = 0;
};

}  // namespace afterimage

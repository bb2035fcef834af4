// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>

#include "afterimage/units.h"
#include "foundation/types/digest_hash.h"
#include "gateway/prompts/content_chain.h"

namespace afterimage {

struct ResidencyLimits {
  std::size_t links = 32'768;
  std::size_t media = 8'192;
  /// Nothing is expected to be resident for longer without being used.
  Duration max_age = std::chrono::minutes(30);
  /// What every engine is expected to hold, whatever its reports seem to say.
  double least_capacity = 4'096;
};

/// What one replica's caches are expected to hold of one request.
struct Resident {
  std::size_t links = 0;
  double tokens = 0;            // of the prompt, from its beginning
  double confirmed_tokens = 0;  // of those, that the engine itself reported for an earlier request
  double named_tokens = 0;      // of those, that its events name
  std::size_t media = 0;        // beyond those tokens, whose encoder outputs are there
  /// Tokens that were computed there since the least recently used of these links was used.
  double distance = 0;
  // The same, whatever the capacity that was learnt:
  double recorded_tokens = 0;
  double recorded_distance = 0;
};

/// A bounded record of what a replica's prefix cache and encoder cache hold, made from the requests
/// that it answered. Entries are assumed until the engine reports cached tokens for them; then they
/// are confirmed. The least recently used are dropped first, a prompt's end before its beginning.
///
/// Unit     Tokens, as the caller estimates them: a span with one number for each link.
/// Threads  Not thread-safe.
class Residency {
 public:
  explicit Residency(const ResidencyLimits& limits = {}) : limits_(limits) {}

  /// Cost: one look-up for each link that is there.
  [[nodiscard]] Resident find(const ContentChain& chain, std::span<const float> tokens,
                              Duration now) const;
  /// The request's answer began here: all of the prompt is resident.
  void assume(const ContentChain& chain, std::span<const float> tokens, Duration now);
  /// The engine says how much of the prompt was cached. `before` is what find() said when the
  /// request was sent. Confirms links, and learns how much the engine's cache holds.
  void learn(const ContentChain& chain, std::span<const float> tokens, double cached_tokens,
             const Resident& before);
  /// Whether that report contradicts the engine's events: most of what they named when the request was
  /// sent, and still name, was computed all the same.
  [[nodiscard]] bool is_contradicted(const ContentChain& chain, std::span<const float> tokens,
                                     double cached_tokens, const Resident& before,
                                     Duration now) const;
  /// The engine names its content, and says that it holds this link, or holds it no more. Such a link
  /// is confirmed, however old it is, until the engine says that it is gone.
  void report_held(const ChainKey& key, float tokens, Duration now);
  void report_lost(const ChainKey& key);
  /// The engine evicted this share of its cache: of the links that it does not name, the least recently
  /// used are no longer expected.
  void forget_share(double share);
  /// The engine may have restarted: nothing is assumed. What it named stays until it says otherwise.
  void forget_assumed();
  /// The engine restarted or cleared its caches.
  void clear();

  [[nodiscard]] std::size_t links() const { return links_.size(); }
  [[nodiscard]] std::size_t media() const { return media_.size(); }
  [[nodiscard]] double tokens() const { return tokens_; }
  /// Learnt: about how many tokens may be computed until a prefix is gone.
  [[nodiscard]] double capacity() const { return capacity_; }
  void limit_capacity(double tokens) { capacity_ = std::max(tokens, limits_.least_capacity); }

 private:
  static constexpr double kUnlimited = 1e18;
  struct Entry {
    ChainKey key;
    float tokens = 0;
    bool confirmed = false;
    bool reported = false;  // by its key, in an event of the engine
    Duration used{0};
    double stamp = 0;  // computed_ when it was last used
  };
  using Order = std::list<Entry>;  // the most recently used first

  [[nodiscard]] const Entry* find_link(const ChainKey& key) const;
  void use_media(const ContentDigest& digest, Duration now);
  void drop(Order::iterator entry);

  ResidencyLimits limits_;
  Order order_;
  std::unordered_map<ChainKey, Order::iterator, DigestHash> links_;
  Order media_order_;
  std::unordered_map<ChainKey, Order::iterator, DigestHash> media_;
  double tokens_ = 0;           // of all links
  double reported_tokens_ = 0;  // of those that the engine named
  double computed_ = 0;         // tokens that were not resident when they were asked for, ever
  double capacity_ = kUnlimited;
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "afterimage/ids.h"
#include "afterimage/request.h"

namespace afterimage {

/// Learns how much each owner's hints are worth: the likelihood ratio P(hint | the conversation
/// continues) ÷ P(hint | it ends), by which Bayes' rule multiplies the odds.
///
/// Counts   Separate for each owner: what one hints changes no ratio of another. Separate for each
///          range of the probability that is believed without the hint: a hint that repeats what is
///          known counts for nothing. A conversation counts as ended after kPatience seconds, until
///          it continues after all; before, how often ended ones had the hint follows from how often
///          all and continued ones had it.
/// Cost     O(1). At most kMostOwners owners and kMostPending requests are remembered.
class HintTrust {
 public:
  static constexpr std::size_t kMostOwners = 4096;
  static constexpr std::size_t kMostPending = 65536;
  static constexpr double kPatience = 300;  // most conversations that continue do so earlier

  /// One hinted request, until its conversation continues.
  struct Bet {
    EntryLabel owner;
    ContinuationHint hint = ContinuationHint::kNone;  // kNone: no bet
    std::uint8_t range = 0;
    std::uint64_t number = 0;
  };

  /// The logarithm of the likelihood ratio, in quarters of a nat, which keeps classes of runs few.
  /// `probability`: that the conversation continues, without the hint.
  [[nodiscard]] int evidence(EntryLabel owner, ContinuationHint hint, double probability) const;
  /// A request of the owner came with the hint, at `now` in seconds, which must not decrease.
  Bet open(EntryLabel owner, ContinuationHint hint, double probability, double now);
  /// The conversation of the request continues. Call it once at most.
  void continues(const Bet& bet);

  [[nodiscard]] std::size_t owners() const { return owners_.size(); }

 private:
  static constexpr std::size_t kRanges = 4;
  struct Counts {  // of requests: those that hint that they go on, and those that end
    std::array<double, 2> hinted{};
    std::array<double, 2> continued{};
    std::array<double, 2> ended{};
  };
  using Owner = std::array<Counts, kRanges>;
  struct Pending {
    Bet bet;
    double since = 0;
    bool continued = false;
  };

  static std::uint8_t range_of(double probability);
  static std::size_t index_of(ContinuationHint hint);
  Counts& counts_of(const Bet& bet);
  void count(std::array<double, 2> Counts::* outcome, const Bet& bet);
  void resolve(double now);

  boost::unordered_flat_map<std::uint64_t, Owner> owners_;  // by EntryLabel::bits
  std::deque<Pending> pending_;                             // the oldest first
  std::uint64_t next_ = 0;                                  // number of the next bet
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "afterimage/answer_cache.h"
#include "afterimage/answer_once.h"
#include "afterimage/encode_once.h"
#include "afterimage/encoder_cache.h"
#include "afterimage/prefill_once.h"
#include "afterimage/prefix_cache.h"
#include "afterimage/pressure.h"
#include "afterimage/tier.h"
#include "afterimage/units.h"

namespace afterimage {

/// What a tenant holds of the memory.
struct TenantMemory {
  std::string tenant;  // empty: everybody without a share
  Bytes share;         // now
  Bytes used;          // in all caches; more than the share while others leave it unused
};

/// KV of media used at other positions (ReuseOptions::moved).
struct MovedMediaStats {
  bool on = false;            // false: the samples showed that too much is lost
  std::uint64_t entries = 0;  // items whose KV is kept
  Bytes used;                 // by them
  std::uint64_t answers = 0;  // that used moved KV: bounded ones
  std::uint64_t tokens = 0;   // prompt tokens that were not computed
  std::uint64_t samples = 0;  // bounded answers that were compared with exact ones
  std::uint64_t same = 0;     // tokens of those that were the same
  std::uint64_t other = 0;    // first tokens that differed
  double loss_at_least = 0;   // lower 95 % bound of the share that differs; valid at any time
};

/// Counters since the start.
struct ReuseStats {
  EncoderCacheStats encoder;
  EncodeOnceStats encodes;
  PrefixCacheStats prefix;
  PrefillOnceStats prefills;
  AnswerCacheStats answers;
  AnswerOnceStats answering;
  EncoderArchiveStats encoder_archive;
  PrefixArchiveStats prefix_archive;
  LoadOrComputeStats loads;                         // from the tier
  std::uint64_t agents = 0;                         // that requests have named
  std::optional<PressureControllerStats> governed;  // nullopt: no gauge was given
  std::optional<MovedMediaStats> moved;             // nullopt: off
  std::vector<TenantMemory> shares;                 // empty: no tenant has a share
  Bytes budget;
  Bytes used;
  Bytes peak;
};

}  // namespace afterimage

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
#include "afterimage/pressure_controller.h"
#include "afterimage/tier.h"
#include "afterimage/units.h"

namespace afterimage {

/// What a tenant holds of the memory.
struct TenantMemory {
  std::string tenant;  // empty: everybody without a share
  Bytes share;         // now
  Bytes used;          // in all caches; more than the share while others leave it unused
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
  std::vector<TenantMemory> shares;                 // empty: no tenant has a share
  Bytes budget;
  Bytes used;
  Bytes peak;
};

}  // namespace afterimage

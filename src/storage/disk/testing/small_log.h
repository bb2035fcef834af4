// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "storage/disk/segment_log.h"

/// Logs so small that a few entries fill a batch and a few more fill a segment.
namespace afterimage::testing {

inline SegmentLogOptions small_log(Bytes capacity) {
  return {.capacity = capacity,
          .segment_bytes = 64_KiB,
          .batch_bytes = 8_KiB,
          .batches = 3,
          .commit_bytes = 32_KiB,
          .append_timeout = std::chrono::seconds(10)};
}

/// The same with the append timeout of a request's thread.
inline SegmentLogOptions hurried_log(Bytes capacity) {
  SegmentLogOptions options = small_log(capacity);
  options.append_timeout = std::chrono::milliseconds(10);
  return options;
}

}  // namespace afterimage::testing

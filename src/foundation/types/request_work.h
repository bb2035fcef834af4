// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <cstdint>

namespace afterimage {

/// How often this process has read bytes of requests and responses. Each request is to be parsed,
/// decoded, hashed and identified once; tests hold it to that.
/// Threads  Any; relaxed.
struct RequestWork {
  using Count = std::atomic<std::uint64_t>;
  Count json_parses = 0;     // JSON texts that JsonReader read
  Count base64_decodes = 0;  // texts that decode_base64() decoded
  Count media_hashes = 0;    // files that content_digest() hashed
  Count event_parses = 0;    // server-sent events that EventStreamReader read
  Count namespaces = 0;      // secrets of namespaces that Namespace::of() derived
  Count prepared = 0;        // requests that an engine made a prompt of

  static void add(Count& count) { count.fetch_add(1, std::memory_order_relaxed); }
};

/// Of this process.
inline RequestWork& request_work() {
  static constinit RequestWork work;
  return work;
}

}  // namespace afterimage

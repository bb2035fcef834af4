// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "gateway/prompts/content_chain.h"

namespace afterimage {

/// A link of a request's content chain that an engine holds.
struct HeldLink {
  ChainKey key = {};
  std::optional<ChainKey> parent = std::nullopt;  // the link before it
  std::uint32_t tokens = 0;                       // that it adds, about
  ContentDigest media = {};                       // zeros: text
};

/// Writes one batch of KV events as vLLM does: MessagePack of [time, events], each event an array.
/// block_hashes are the 32 bytes of chain keys, extra_keys of a block begin with kContentMark.
///
/// Source   docs/fleet.md; vllm/distributed/kv_events.py.
class KvBatch {
 public:
  void cleared();
  void stored(const HeldLink& link);
  void removed(const ChainKey& key);
  [[nodiscard]] bool empty() const { return events_ == 0; }
  [[nodiscard]] std::string payload(double unix_seconds) const;

 private:
  std::string bytes_;
  std::uint32_t events_ = 0;
};

}  // namespace afterimage

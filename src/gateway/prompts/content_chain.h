// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "afterimage/digest.h"
#include "foundation/platform/made_once.h"
#include "gateway/openai/request.h"
#include "gateway/prompts/prompt_parts.h"

namespace afterimage {

/// Identifies everything of a prompt up to one place: two prompts with the same key there begin with
/// the same content.
using ChainKey = Digest<struct ChainKeyTag>;

struct ChainLink {
  ChainKey key = {};
  std::uint32_t text_bytes = 0;  // that this link adds
  bool is_media = false;
  ContentDigest media = {};  // zeros: the media are known by their address only
  PartPlace part = {};       // that it belongs to
  std::uint32_t begin = 0;   // of its text within that part
};

/// The content of a request as a chain: each key is the SHA-256 of the one before it and of what
/// follows. The first covers the model, then come parameters of the template, each tool, roles, text in
/// blocks, and media in their places. Tenants and sampling parameters are no part of it: an engine's
/// prefix cache does not know them, except a cache_salt, which is. Nor is a tool_choice, which templates
/// do not render, unless it is "none": servers then leave out the tools.
///
/// Unit     Blocks of 256 bytes in the first 64 KiB of a prompt, 1 KiB in its first MiB, then 16 KiB.
struct ContentChain {
  std::vector<ChainLink> links;
};

/// Bytes of text that a link has at this place of a prompt's text.
[[nodiscard]] std::size_t link_bytes(std::size_t offset);

/// Cost     Linear in the request: each byte is hashed once, except media, which have digests.
/// Threads  Any.
[[nodiscard]] ContentChain content_chain(const ApiRequest& request);

/// The chain of a request, made once, when it is first needed.
/// Threads  Any.
class SharedChain {
 public:
  explicit SharedChain(std::shared_ptr<const ApiRequest> request) : request_(std::move(request)) {}
  [[nodiscard]] const std::shared_ptr<const ContentChain>& get();

 private:
  const std::shared_ptr<const ApiRequest> request_;
  MadeOnce<std::shared_ptr<const ContentChain>> chain_;
};

}  // namespace afterimage

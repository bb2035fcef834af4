// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Whatever a replica publishes: a batch or an error, counts within bounds; contents that come and go as
// they are held; a ZeroMQ stream cut at any place gives the same messages, or an error. Whatever it says
// of a prompt's tokens: ends of links within its blocks, or an error.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "gateway/fleet/kv_events.h"
#include "gateway/fleet/prompt_tokens.h"
#include "gateway/fleet/zmtp.h"
#include "gateway/openai/usage_scan.h"

namespace afterimage {
namespace {

void fuzz_batch(std::span<const std::byte> bytes) {
  const auto batch = parse_kv_events(bytes);
  if (!batch.has_value()) return;
  std::size_t blocks = 0;
  for (const KvEvent& event : batch->events) blocks += event.blocks.size();
  AFI_CHECK(blocks <= bytes.size() && batch->events.size() <= bytes.size());
  EngineBlocks engine;
  for (int i = 0; i < 2; ++i) {
    const EngineBlocks::Effect effect = engine.apply(*batch);
    AFI_CHECK(effect.evicted_share >= 0 && effect.evicted_share <= 1);
    AFI_CHECK(engine.tokens() >= 0 && engine.blocks() <= blocks);
    for (const auto& [content, held] : effect.contents) AFI_CHECK(content != 0);
    if (!effect.contents.empty()) {
      const auto& [content, held] = effect.contents.back();
      AFI_CHECK(engine.holds(content) == held);
    }
  }
}

void fuzz_tokens(std::string_view response) {
  const auto prompt = read_prompt_tokens(response);
  if (!prompt.has_value()) return;
  ContentChain chain;
  for (std::size_t i = 0; i <= prompt->media.size(); ++i) {
    chain.links.push_back({.key = {}, .text_bytes = 7, .media = {}});
    if (i < prompt->media.size()) {
      chain.links.push_back({.key = {}, .text_bytes = 0, .is_media = true, .media = {}});
    }
  }
  for (const std::uint32_t block : {1U, 16U}) {
    AFI_CHECK(block_contents(*prompt, block).size() == prompt->tokens.size() / block);
    AFI_CHECK(link_ends(chain, *prompt, block).size() <= chain.links.size());
  }
}

using Messages = std::vector<std::vector<std::string>>;

Messages messages_of(std::string_view bytes, std::size_t piece, bool& valid) {
  ZmtpClient client("SUB");
  Messages messages;
  valid = true;
  for (std::size_t at = 0; at < bytes.size() && valid; at += piece) {
    valid = client.feed(bytes.substr(at, piece)).has_value();
    while (auto message = client.take()) messages.push_back(*std::move(message));
  }
  return messages;
}

}  // namespace
}  // namespace afterimage

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace afterimage;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  fuzz_batch(std::as_bytes(std::span(data, size)));
  fuzz_tokens(bytes);
  bool valid = true;
  bool again = true;
  const Messages whole = messages_of(bytes, std::max<std::size_t>(size, 1), valid);
  const Messages parts = messages_of(bytes, 3, again);
  AFI_CHECK(valid == again);
  AFI_CHECK(whole == parts);
  UsageScan scan;
  scan.feed(bytes);
  return 0;
}

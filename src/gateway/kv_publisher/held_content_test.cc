// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/kv_publisher/held_content.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <span>

#include "gateway/fleet/kv_events.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

ChainKey key_of(std::uint8_t text, std::uint8_t link) {
  ChainKey key;
  key.bytes[0] = std::byte{text};
  key.bytes[1] = std::byte{link};
  return key;
}

/// A chain of links of 10 bytes. Texts share their first `common` links.
ContentChain chain_of(std::uint8_t text, std::size_t links, std::size_t common = 0) {
  ContentChain chain;
  for (std::size_t i = 0; i < links; ++i) {
    chain.links.push_back(
        {.key = key_of(i < common ? 0 : text, static_cast<std::uint8_t>(i)), .text_bytes = 10});
  }
  return chain;
}

/// A prompt of so many tokens; `name` is its first token.
std::shared_ptr<const HeldPrompt> prompt_of(std::uint8_t name, std::size_t tokens) {
  auto prompt = std::make_shared<HeldPrompt>();
  prompt->sequence.tokens.assign(tokens, TokenId{name});
  return prompt;
}

/// What a subscriber knows after it read the batch.
void follow(const KvBatch& batch, std::set<ChainKey>& known) {
  const std::string payload = batch.payload(1.5);
  const KvEventBatch read = parse_kv_events(std::as_bytes(std::span(payload))).value();
  EXPECT_EQ(read.unknown, 0U);
  for (const KvEvent& event : read.events) {
    if (event.kind == KvEvent::Kind::kCleared) known.clear();
    for (const ChainKey& key : event.keys) {
      if (event.kind == KvEvent::Kind::kStored) {
        EXPECT_TRUE(event.names_content);
        EXPECT_TRUE(known.insert(key).second);
      } else {
        EXPECT_EQ(known.erase(key), 1U);
      }
    }
  }
}

struct Cache {
  std::map<std::uint8_t, std::uint64_t> matched;  // by name
  HeldContent held{HeldLimits{.records = 4, .links = 100}, [this](const HeldPrompt& prompt) {
                     return matched[static_cast<std::uint8_t>(prompt.sequence.tokens.front())];
                   }};
  std::set<ChainKey> known;

  void add(std::uint8_t name, const ContentChain& chain, std::uint64_t tokens) {
    KvBatch batch;
    held.add(chain, prompt_of(name, tokens), batch);
    follow(batch, known);
  }
  void check() {
    KvBatch batch;
    held.check(batch);
    follow(batch, known);
  }
};

TEST(HeldContent, AnnouncesOnlyWhatTheCacheHas) {
  Cache cache;
  cache.matched[1] = 100;
  cache.add(1, chain_of(1, 10), 100);
  EXPECT_EQ(cache.known.size(), 10U);
  cache.matched[2] = 39;  // a prompt that did not fit
  cache.add(2, chain_of(2, 10), 100);
  EXPECT_EQ(cache.known.size(), 13U);
  EXPECT_TRUE(cache.known.contains(key_of(2, 2)));
  EXPECT_FALSE(cache.known.contains(key_of(2, 3)));
}

TEST(HeldContent, AnnouncesEvictionsAndKeepsWhatOthersHold) {
  Cache cache;
  cache.matched[1] = cache.matched[2] = 100;
  cache.add(1, chain_of(1, 10, 4), 100);
  cache.add(2, chain_of(2, 10, 4), 100);
  EXPECT_EQ(cache.known.size(), 16U);
  cache.matched[1] = 0;
  cache.check();
  EXPECT_EQ(cache.known.size(), 10U);
  EXPECT_TRUE(cache.known.contains(key_of(0, 3)));
  EXPECT_EQ(cache.held.records(), 1U);
  cache.matched[2] = 0;
  cache.check();
  EXPECT_TRUE(cache.known.empty());
}

TEST(HeldContent, MediaEndWhereTheirTokensDo) {
  ContentChain chain = chain_of(1, 3);
  chain.links[1] = {.key = key_of(1, 1), .text_bytes = 0, .is_media = true, .media = {}};
  chain.links[1].media.bytes[5] = std::byte{7};
  auto prompt = std::make_shared<HeldPrompt>();
  prompt->sequence.tokens.assign(70, TokenId{1});
  prompt->sequence.spans.push_back({.offset = TokenCount(10), .length = TokenCount(50)});
  Cache cache;
  KvBatch batch;
  cache.matched[1] = 59;
  cache.held.add(chain, prompt, batch);
  follow(batch, cache.known);
  EXPECT_EQ(cache.known.size(), 1U);
  cache.matched[1] = 60;
  cache.check();
  EXPECT_EQ(cache.known.size(), 2U);
}

TEST(HeldContentProperty, ASubscriberThatComesLateKnowsTheSame) {
  testing::for_each_seed(10, [](Rng& rng) {
    Cache cache;
    for (int step = 0; step < 60; ++step) {
      const auto name = static_cast<std::uint8_t>(1 + rng.below(9));
      if (rng.chance(0.6)) {
        cache.matched[name] = 10 * rng.below(12);
        cache.add(name, chain_of(name, 1 + rng.below(12), rng.below(5)), 120);
      } else {
        cache.matched[name] = 10 * rng.below(4);
        cache.check();
      }
      KvBatch all;
      all.cleared();
      cache.held.write_all(all);
      std::set<ChainKey> late;
      follow(all, late);
      ASSERT_EQ(late, cache.known) << "step " << step;
      ASSERT_EQ(cache.held.links(), late.size());
      ASSERT_LE(cache.held.records(), 4U);
    }
  });
}

}  // namespace
}  // namespace afterimage

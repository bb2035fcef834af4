// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/kv_events.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/fleet/msgpack_reader.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using nlohmann::json;

std::vector<std::byte> packed(const json& value) {
  const auto bytes = json::to_msgpack(value);
  const auto raw = std::as_bytes(std::span(bytes));
  return {raw.begin(), raw.end()};
}
KvEventBatch parse(const json& value) { return parse_kv_events(packed(value)).value(); }
json list_of(std::initializer_list<json> items) {
  json list = json::array();
  for (const json& item : items) list.push_back(item);
  return list;
}
json batch(std::initializer_list<json> events) { return json::array({1.5, list_of(events), 0}); }
json stored(std::initializer_list<json> hashes, int block_size = 16) {
  return json::array({"BlockStored", list_of(hashes), nullptr, json::array({1, 2, 3}), block_size,
                      nullptr, "GPU", nullptr});
}
json removed(std::initializer_list<json> hashes, const std::string& medium = "GPU") {
  return json::array({"BlockRemoved", list_of(hashes), medium});
}

TEST(KvEvents, ReadsArraysAndMaps) {
  const KvEventBatch arrays =
      parse(batch({stored({1, 2}), removed({1}), json::array({"AllBlocksCleared"})}));
  ASSERT_EQ(arrays.events.size(), 3U);
  EXPECT_EQ(arrays.events[0].kind, KvEvent::Kind::kStored);
  EXPECT_EQ(arrays.events[0].blocks.size(), 2U);
  EXPECT_EQ(arrays.events[0].block_tokens, 16U);
  EXPECT_EQ(arrays.events[1].kind, KvEvent::Kind::kRemoved);
  EXPECT_EQ(arrays.events[1].blocks[0], arrays.events[0].blocks[0]);
  EXPECT_EQ(arrays.events[2].kind, KvEvent::Kind::kCleared);
  const KvEventBatch maps = parse({{"ts", 1.5},
                                   {"data_parallel_rank", 0},
                                   {"events",
                                    {{{"type", "BlockStored"},
                                      {"block_hashes", {1, 2}},
                                      {"parent_block_hash", nullptr},
                                      {"token_ids", {5, 6}},
                                      {"block_size", 16},
                                      {"medium", "GPU"},
                                      {"extra_keys", {{{"a", 3}}, nullptr}},
                                      {"new_field", {{"deep", {1}}}}},
                                     {{"type", "AllBlocksCleared"}}}}});
  ASSERT_EQ(maps.events.size(), 2U);
  EXPECT_EQ(maps.events[0].blocks, arrays.events[0].blocks);
  EXPECT_EQ(maps.events[0].block_tokens, 16U);
}

TEST(KvEvents, BlockHashesAreNumbersOrBytes) {
  const auto bytes = json::binary({1, 2, 3});
  const KvEventBatch read = parse(batch({stored({-5, 5, 70000, bytes, "text"})}));
  ASSERT_EQ(read.events[0].blocks.size(), 5U);
  EXPECT_NE(read.events[0].blocks[0], read.events[0].blocks[1]);
  EXPECT_EQ(parse(batch({removed({bytes})})).events[0].blocks[0], read.events[0].blocks[3]);
}

TEST(KvEvents, ContentKeysAreNamedByTheirMark) {
  const auto key = json::binary(std::vector<std::uint8_t>(32, 7));
  const auto event = [&](const json& extra) {
    return json::array({"BlockStored", list_of({key}), nullptr, json::array(), 16, nullptr, "CPU",
                        nullptr, extra});
  };
  const std::string mark(kContentMark);
  const KvEventBatch read =
      parse(batch({event(json::array({json::array({mark, "digest"})})),
                   event(json::array({json::array({"salt"})})), event(json::array({nullptr})),
                   event(nullptr), event(json::array({json::array({"x", mark})}))}));
  ASSERT_EQ(read.events.size(), 5U);
  EXPECT_TRUE(read.events[0].names_content);
  for (std::size_t i = 1; i < 5; ++i) EXPECT_FALSE(read.events[i].names_content) << i;
  ASSERT_EQ(read.events[0].keys.size(), 1U);
  EXPECT_EQ(read.events[0].keys[0].bytes[31], std::byte{7});
  // Hashes of another size are no keys.
  EXPECT_TRUE(parse(batch({stored({1, json::binary({1, 2})})})).events[0].keys.empty());
}

TEST(KvEvents, OtherEventsAreCountedAndLeftOut) {
  const KvEventBatch read =
      parse(batch({json::array({"Surprise", 1}), 7, json::array(), stored({2})}));
  EXPECT_EQ(read.events.size(), 1U);
  EXPECT_EQ(read.unknown, 3U);
}

json in_group(json event, int group, const json& kind = nullptr) {
  const bool is_stored = event[0] == "BlockStored";
  if (is_stored) event.push_back(nullptr);  // extra_keys
  event.push_back(group);
  if (is_stored) event.push_back(kind);
  return event;
}

/// Models whose first group of layers slides were taken for replicas that hold whole prompts.
TEST(EngineBlocks, ASlidingWindowIsNotResidency) {
  EngineBlocks blocks;
  const auto apply = [&](std::initializer_list<json> events) {
    static_cast<void>(blocks.apply(parse(batch(events))));
    return blocks.blocks();
  };
  EXPECT_EQ(apply({in_group(stored({1, 2}), 0, "sliding_window")}), 0U);
  EXPECT_EQ(apply({in_group(stored({1, 2, 3}), 1, "full_attention")}), 3U);
  EXPECT_EQ(apply({in_group(stored({7}), 2, "full_attention")}), 3U) << "one group counts";
  EXPECT_EQ(apply({in_group(stored({8}), 3, "mamba")}), 3U);
  EXPECT_EQ(apply({in_group(removed({1}), 0)}), 3U) << "gone from the window only";
  EXPECT_EQ(apply({in_group(removed({1}), 1)}), 2U);
  EXPECT_EQ(apply({json::array({"AllBlocksCleared"})}), 0U);
  const json by_name = {{"type", "BlockStored"},   {"block_hashes", {1}},
                        {"block_size", 16},        {"group_idx", 0},
                        {"parent_block_hash", {}}, {"kv_cache_spec_kind", "sliding_window_mla"}};
  EXPECT_EQ(apply({by_name}), 0U);
}

TEST(EngineBlocks, WithoutKindsTheFirstGroupCounts) {
  EngineBlocks blocks;
  static_cast<void>(
      blocks.apply(parse(batch({in_group(stored({1}), 1), in_group(stored({2}), 0)}))));
  EXPECT_EQ(blocks.blocks(), 1U);
}

TEST(KvEvents, RefusesWhatIsNoBatch) {
  EXPECT_FALSE(parse_kv_events({}).has_value());
  EXPECT_FALSE(parse_kv_events(packed(7)).has_value());
  auto bytes = packed(batch({stored({1, 2})}));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(parse_kv_events(std::span(bytes).first(size)).has_value()) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(parse_kv_events(bytes).has_value()) << "bytes are left";
}

TEST(KvEvents, DepthAndSizesOfTheSenderCostNothing) {
  const std::vector<std::byte> deep(1U << 20U, std::byte{0x91});  // an array in an array in …
  EXPECT_FALSE(parse_kv_events(deep).has_value());
  // An array that says it has four billion elements.
  const std::vector<std::byte> huge{std::byte{0xDD}, std::byte{0xFF}, std::byte{0xFF},
                                    std::byte{0xFF}, std::byte{0xFF}};
  EXPECT_FALSE(parse_kv_events(huge).has_value());
}

TEST(MsgpackReader, SkipsValuesOfEveryKind) {
  const json value = {nullptr,
                      true,
                      -1,
                      300,
                      -300,
                      1ULL << 60U,
                      0.5,
                      std::string(40, 'x'),
                      std::string(300, 'x'),
                      std::string(70000, 'x'),
                      json::binary(std::vector<std::uint8_t>(300)),
                      json::binary({1, 2, 3, 4}, 5),
                      json::binary({1, 2, 3}, 5),
                      {{"a", {1, 2}}, {"b", json::object()}}};
  const auto bytes = packed(value);
  MsgpackReader reader(bytes);
  reader.skip();
  EXPECT_FALSE(reader.broken());
  EXPECT_TRUE(reader.at_end());
}

TEST(MsgpackReader, ReadsIntegersOfEveryWidth) {
  for (const std::int64_t value : {0L, 127L, 128L, 255L, 256L, 65535L, 65536L, 1L << 40, -1L, -32L,
                                   -33L, -128L, -129L, -40000L, -(1L << 40)}) {
    const auto bytes = packed(value);
    MsgpackReader reader(bytes);
    EXPECT_EQ(reader.integer(), static_cast<std::uint64_t>(value)) << value;
    EXPECT_TRUE(reader.at_end());
  }
}

TEST(EngineBlocks, CountsWhatIsThereOnceAndWhatGoes) {
  EngineBlocks blocks;
  EXPECT_EQ(blocks.apply(parse(batch({stored({1, 2, 3, 4}), stored({1, 2})}))).evicted_share, 0);
  EXPECT_EQ(blocks.blocks(), 4U);
  EXPECT_EQ(blocks.tokens(), 64);
  EXPECT_EQ(blocks.apply(parse(batch({removed({1, 9})}))).evicted_share, 0.25);
  EXPECT_EQ(blocks.tokens(), 48);
  EXPECT_TRUE(blocks.apply(parse(batch({json::array({"AllBlocksCleared"})}))).cleared);
  EXPECT_EQ(blocks.blocks(), 0U);
}

TEST(EngineBlocks, ABlockIsThereUntilItIsInNoMemory) {
  EngineBlocks blocks;
  json offloaded = stored({1});
  offloaded[6] = "CPU";
  EXPECT_EQ(blocks.apply(parse(batch({stored({1}), offloaded, removed({1})}))).evicted_share, 0);
  EXPECT_EQ(blocks.tokens(), 16);
  EXPECT_EQ(blocks.apply(parse(batch({removed({1}, "CPU")}))).evicted_share, 1);
}

TEST(EngineBlocks, LiesAreBounded) {
  EngineBlocks blocks;
  for (int round = 0; round < 40; ++round) {
    json hashes = json::array();
    for (int i = 0; i < 10'000; ++i) hashes.push_back(round * 10'000 + i);
    json event = stored({}, 1 << 30);
    event[1] = hashes;
    static_cast<void>(blocks.apply(parse(batch({event}))));
  }
  EXPECT_EQ(blocks.blocks(), EngineBlocks::kMostBlocks);
}

TEST(KvSequence, KnowsOrderGapsAndRestarts) {
  KvSequence sequence;
  EXPECT_EQ(sequence.see(41), KvSequence::Step::kNext);
  sequence.applied(41);
  EXPECT_EQ(sequence.see(42), KvSequence::Step::kNext);
  EXPECT_EQ(sequence.see(44), KvSequence::Step::kGap);
  EXPECT_EQ(sequence.see(0), KvSequence::Step::kRestarted);
  EXPECT_EQ(sequence.expected(), 42U);
}

/// Blocks of two tokens each, after `parent`.
json named(std::initializer_list<json> hashes, const json& parent, const json& tokens,
           const json& extra = nullptr, const json& adapter = nullptr) {
  return {{"type", "BlockStored"},
          {"block_hashes", list_of(hashes)},
          {"parent_block_hash", parent},
          {"token_ids", tokens},
          {"block_size", 2},
          {"lora_id", nullptr},
          {"medium", "GPU"},
          {"lora_name", adapter},
          {"extra_keys", extra},
          {"group_idx", 0}};
}
using Contents = std::vector<std::pair<BlockContent, bool>>;
Contents apply(EngineBlocks& blocks, std::initializer_list<json> events) {
  // Texts are views of the payload.
  const auto payload = packed({{"ts", 1.5}, {"events", list_of(events)}});
  return blocks.apply(parse_kv_events(payload).value()).contents;
}
PromptTokens prompt(std::initializer_list<std::uint32_t> tokens) {
  return {.tokens = tokens, .media = {}, .adapter = {}, .cache_salt = {}};
}

TEST(EngineBlocks, BlocksHaveTheContentOfThePromptWithTheSameTokens) {
  EngineBlocks blocks;
  const auto wanted = block_contents(prompt({1, 2, 3, 4, 5, 6}), 2);
  EXPECT_EQ(blocks.block_tokens(), 0U);
  EXPECT_EQ(apply(blocks, {named({11, 12}, nullptr, {1, 2, 3, 4})}),
            (Contents{{wanted[0], true}, {wanted[1], true}}));
  EXPECT_EQ(blocks.block_tokens(), 2U);
  EXPECT_EQ(apply(blocks, {named({13}, 12, {5, 6})}), (Contents{{wanted[2], true}}));
  EXPECT_TRUE(apply(blocks, {named({11, 12}, nullptr, {1, 2, 3, 4})}).empty()) << "again";
  EXPECT_EQ(apply(blocks, {removed({13, 12})}), (Contents{{wanted[2], false}, {wanted[1], false}}));
  EXPECT_TRUE(blocks.holds(wanted[0]));
  EXPECT_FALSE(blocks.holds(wanted[1]));
  EXPECT_TRUE(apply(blocks, {json::array({"AllBlocksCleared"})}).empty());
  EXPECT_FALSE(blocks.holds(wanted[0]));
}

TEST(EngineBlocks, AnAdapterMediaAndASaltAreParts) {
  EngineBlocks blocks;
  PromptTokens wanted = prompt({1, 2, 3, 4});
  wanted.adapter = "lora";
  wanted.cache_salt = "salt";
  wanted.media = {{.offset = 1, .length = 2, .identifier = "picture"}};
  const json extra = {{"lora", {"picture", 1}, "salt"}, {"lora", {"picture", -1}}};
  const auto contents = block_contents(wanted, 2);
  EXPECT_EQ(apply(blocks, {named({1, 2}, nullptr, {1, 2, 3, 4}, extra, "lora")}),
            (Contents{{contents[0], true}, {contents[1], true}}));
  // Of an engine that does not say it in its extra_keys, these blocks are not those of the model.
  EXPECT_TRUE(apply(blocks, {named({3}, nullptr, {7, 8}, nullptr, "lora")}).empty());
  // Nor are placeholder tokens a picture.
  EXPECT_NE(apply(blocks, {named({4, 5}, nullptr, {1, 2, 3, 4})}).at(0).first, contents[0]);
}

TEST(EngineBlocks, WhatIsNotWhollyKnownHasNoContent) {
  EngineBlocks blocks;
  EXPECT_TRUE(apply(blocks, {named({2}, 1, {3, 4})}).empty()) << "its parent was not announced";
  EXPECT_TRUE(apply(blocks, {named({3}, nullptr, {1})}).empty()) << "too few tokens";
  EXPECT_TRUE(apply(blocks, {named({4}, nullptr, {1, 2, 3})}).empty()) << "too many";
  EXPECT_TRUE(apply(blocks, {named({5}, nullptr, {"a", -1})}).at(0).first != 0) << "any numbers";
  EXPECT_TRUE(apply(blocks, {named({6}, 6, {1, 2})}).empty()) << "its own parent";
  EXPECT_EQ(blocks.blocks(), 5U);
  // Announced from the beginning, later.
  const auto wanted = block_contents(prompt({1, 2, 3, 4}), 2);
  EXPECT_EQ(apply(blocks, {named({1, 2}, nullptr, {1, 2, 3, 4})}),
            (Contents{{wanted[0], true}, {wanted[1], true}}));
  // A hash stands for one content, whatever is said of it later.
  EXPECT_TRUE(apply(blocks, {named({1}, nullptr, {9, 9})}).empty());
  EXPECT_TRUE(blocks.holds(wanted[0]));
}

TEST(EngineBlocks, ABlockOfTwoHashesIsHeldUntilBothAreGone) {
  EngineBlocks blocks;
  const auto wanted = block_contents(prompt({1, 2}), 2);
  EXPECT_EQ(apply(blocks, {named({1}, nullptr, {1, 2})}).size(), 1U);
  EXPECT_TRUE(apply(blocks, {named({2}, nullptr, {1, 2})}).empty());
  EXPECT_TRUE(apply(blocks, {removed({1})}).empty());
  EXPECT_EQ(apply(blocks, {removed({2})}), (Contents{{wanted[0], false}}));
}

TEST(KvEvents, MessagesThatNoEngineSendsAreRefused) {
  json many = json::array();
  for (int i = 0; i < 70'000; ++i) many.push_back(json::array({"AllBlocksCleared"}));
  EXPECT_FALSE(parse_kv_events(packed(json::array({1.5, many}))).has_value());
  json keys = json::array();
  for (int i = 0; i < 300'000; ++i) keys.push_back(nullptr);
  EXPECT_FALSE(parse_kv_events(packed(batch({named({1}, nullptr, {1, 2}, keys)}))).has_value());
}

TEST(KvEventsProperty, AnyBytesAreABatchOrAnError) {
  testing::for_each_seed(300, [](Rng& rng) {
    auto bytes =
        packed(batch({stored({1, 2, 3}), removed({4}), json::array({"AllBlocksCleared"}),
                      named({5, 6}, nullptr, {1, 2, 3, 4}, {{"a", {"b", 1}}, nullptr}, "a")}));
    for (std::uint64_t i = 1 + rng.below(6); i > 0; --i) {
      bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.below(256));
    }
    const auto read = parse_kv_events(bytes);
    EngineBlocks blocks;
    if (!read.has_value()) return;
    const auto effect = blocks.apply(*read);
    ASSERT_GE(effect.evicted_share, 0);
    ASSERT_LE(effect.evicted_share, 1);
    ASSERT_LE(blocks.blocks(), bytes.size());
  });
}

}  // namespace
}  // namespace afterimage

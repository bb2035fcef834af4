// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/block_keys.h"

namespace afterimage {
namespace {

using Golden = std::map<std::string, std::vector<std::string>>;

// Printed by tests/golden/vllm_block_hashes.py for the same requests.
const Golden kBare = {
    {"text",
     {"dc918a88b139e5afe60b88eda27508d4aee16c10fdc354791efea06206ac0749",
      "c300ec275d7bf08af8fc63e76cdc0086911bbc7091e03c5cf892553bef84ef0c",
      "117dad852830e0103c12d7c7f8b7cf58434ea8751d1f42ee07b1c93711e4da6c"}},
    {"images",
     {"5895bff66933ae013b0332f284e6ddaf7281a74d27c1a75c354736e56a866cbf",
      "d3a2e06e2703434f9e5fc88d643378ff0dc82d75dbafff6acb539c835f4ccc93",
      "e8e47bb75c6edd6a2321156a4f1430249791adee68a7ca74eaa7af911863f349",
      "5d52b38abbcac643f2db4db8c2fd887564aaa479b5858fcb718ef995e6b75eb4"}},
    {"adapter",
     {"713550f029bffc245899976da25b45272515d0d3296703658c93da57e85d50b1",
      "f74ee90d325abe953fccac4074725c001eab093cb2e373fd920dd9cf41f25f7b",
      "3d3d6227dd989dd0d6bbbdf474b2377be7a40e8413c0dbbd7a0d9b073b8cb080",
      "9a34a7457211d5bd8143ec082971b30b9f9e71996ac49c1389a911e958db5f4c"}},
    {"salt",
     {"3f09c11bbc023ae4b7c4baff4e144929e8943c307b3ee932f47d00af227039e6",
      "89f5263a18151b8743579a0bd381821fe0b72c15e4cf466f24f284656014327d",
      "4f7612ab477cc17edcecf9f3a1e0e6781ed733fca1d9457fef9b2f0e945577c0",
      "803d59fa3b360bca475f78dec95f897c15840488e09090873a5a563f862a3933"}},
    {"embeds",
     {"e3e0bc7cb50220d823f65ab1aca0641301b1421d99eb2b2a8ac54ee1814f39cd",
      "213a6069002e319676ce53b7131062f28586394075e69e28256e02828159f2d5",
      "dca3cea1199db2c33da5c572f810fed49f71a66ff062dd557110925be3cd8850"}},
    {"all",
     {"5190053bf79a539af14ffc0478a93af65b963e5958ec4a7827ac8b061073302a",
      "4843022105c20d6428ea508791c5808c148614721f81e5443dfc21834b744266",
      "c822de3af1d2bc96d7ef0b0cec46dfe66368b6935786c6bb09ed23348e1ab4be",
      "47052b8b15b24e9cd87f5eaf645afcb94affda787d8d66f1bddc6e4dc1b4d2b2"}},
};
const Golden kTagged = {
    {"text",
     {"dc918a88b139e5afe60b88eda27508d4aee16c10fdc354791efea06206ac0749",
      "c300ec275d7bf08af8fc63e76cdc0086911bbc7091e03c5cf892553bef84ef0c",
      "117dad852830e0103c12d7c7f8b7cf58434ea8751d1f42ee07b1c93711e4da6c"}},
    {"images",
     {"eab22f02d65c24c7978548a300896ea5464dac421aba83c7620519eaa0f2bd95",
      "29fb7b5077d874cc4949f3a3f9a5870dba0a5665a5b4127da0aba1b0c1810045",
      "14934bba68445ca03e77c6b93aaff5483aa5735c26f07f16c1b156c501fd834a",
      "de0a03204d196a7b272fdeedd1511091f01992d03049e5bb6ef38e82e7ea4822"}},
    {"adapter",
     {"aadabb2aa550f089c6047c6c261412c643499be03b28c09db13e4197de759ba7",
      "d8c02cc04cccc488ba5054aa815087acba06a1fc7b777005b991d81b5ed122d0",
      "d225a69fa821497d76743b980fcbe54e016a2e70beca6ea5d49563010537f573",
      "1edc4f28df61914939788f5497ffb8fd8b4df50e90bf6a2fb285ca62fc3e9ca3"}},
    {"salt",
     {"d43674327051406443171782a31c33cc38bdb56477d70bc06103852526794157",
      "f5df55de438d9dfa70aaf527978e9808e5e14575416252efb682594107325af0",
      "bca99ddebcb82dcc9e0240f2c74a02be0162e493c8419722e73b2b80a98d4431",
      "91d5358f5347d6cda14bc5af05cfcb60db7e8a59989fdc007299cf71255a58de"}},
    {"embeds",
     {"6a7494d170c0c499b7379ec241ca8b84c035acd34d5318af872d6c4af2192f1c",
      "3bdd991f3245aab0099f912bb6e01bead10776f983364d0afaf636e92c0e0a32",
      "0b6e9413f45cf16d3ae97ce05589a6064815003255da887946c7ca84a65db8d5"}},
    {"all",
     {"e205a38934fa7b4c47745a12453d41fbd8ea9c03d963ab3a7ddc9a486ac5d13c",
      "4d71daeeef23685029b36721f44f089aebd1cfa5e771624d4afe198031df2b5b",
      "d1f74d562bb47b53eb3c777205e58b27eedb0e0b456da670149566b343602204",
      "c82443def27c79fd7a2dc3203bfa211e3f8488f4edd3d1e6c2c7929f96f3b5df"}},
};

std::vector<TokenId> tokens(const std::vector<std::int64_t>& ids) {
  std::vector<TokenId> result;
  for (const std::int64_t id : ids) result.push_back(TokenId(static_cast<std::int32_t>(id)));
  return result;
}

std::vector<TokenId> counted(std::int32_t first, std::size_t count) {
  std::vector<std::int64_t> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return tokens(ids);
}

/// Every width of an integer, two images, three full blocks and a bit.
std::vector<TokenId> mixed_tokens() {
  std::vector<std::int64_t> ids = {0, 1, 23, 24, 255, 256, 65535, 65536, 2147483647, 9, 10};
  ids.insert(ids.end(), 14, -1);
  for (int id = 100; id < 107; ++id) ids.push_back(id);
  ids.insert(ids.end(), 20, -1);
  for (int id = 0; id < 12; ++id) ids.push_back(id);
  ids.push_back(7);
  return tokens(ids);
}

VllmItem item(const char* identifier, std::uint32_t offset, std::uint32_t length) {
  return {
      .identifier = ItemId(identifier), .offset = TokenCount(offset), .length = TokenCount(length)};
}

const std::vector<std::byte>& twenty_rows() {
  static const std::vector<std::byte> kRows = [] {
    std::vector<std::byte> rows(80);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::byte>(i);
    return rows;
  }();
  return kRows;
}

std::map<std::string, VllmSequence> requests() {
  const std::vector<VllmItem> items = {item("aaa", 11, 14), item("bbb", 30, 22)};
  const VllmLora lora{.name = "adapter", .path = "/adapters/1"};
  const VllmPromptEmbeds embeds{.rows = twenty_rows(), .row_bytes = 4};
  return {
      {"text", {.tokens = counted(0, 48)}},
      {"images", {.tokens = mixed_tokens(), .items = items}},
      {"adapter", {.tokens = mixed_tokens(), .lora = lora}},
      {"salt", {.tokens = mixed_tokens(), .cache_salt = "s\u00e4lt"}},
      {"embeds", {.tokens = std::vector<TokenId>(48), .prompt_embeds = embeds}},
      {"all",
       {.tokens = mixed_tokens(),
        .items = items,
        .lora = lora,
        .cache_salt = "s\u00e4lt",
        .prompt_embeds = embeds}},
  };
}

VllmBlockChain chain_of(std::uint32_t block_tokens, VllmExtraKeys extra_keys,
                        std::string seed = std::string(kVllmNoneHashSeed)) {
  return VllmBlockChain::open({.block_tokens = TokenCount(block_tokens),
                               .none_hash_seed = std::move(seed),
                               .extra_keys = extra_keys})
      .value();
}

std::vector<BlockKey> keys_of(const VllmBlockChain& chain, const VllmSequence& sequence) {
  std::vector<BlockKey> keys;
  const auto extended = chain.extend(sequence, keys);
  EXPECT_TRUE(extended.has_value()) << to_string(extended.error());
  return keys;
}

TEST(VllmBlockChain, MatchesItsGoldenVectors) {
  for (const auto& [name, request] : requests()) {
    for (const bool tagged : {false, true}) {
      const auto chain = chain_of(16, tagged ? VllmExtraKeys::kTagged : VllmExtraKeys::kBare);
      std::vector<std::string> keys;
      for (const BlockKey& key : keys_of(chain, request)) keys.push_back(key.hex());
      EXPECT_EQ(keys, (tagged ? kTagged : kBare).at(name))
          << name << (tagged ? " tagged" : " bare");
    }
  }
}

/// Recorded from vLLM itself, and published in the tests of routers that reproduce its keys.
TEST(VllmBlockChain, MatchesKeysRecordedFromVllm) {
  const auto standard = chain_of(128, VllmExtraKeys::kBare);
  EXPECT_EQ(standard.none_hash().hex(),
            "9bd96a485ad84efdafb72ee48a1d7a69bcead0f8f0433173941b276b9581eef0");
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 300; ++i) ids.push_back((i * 7919 + 13) % 152'064);
  const auto text = keys_of(standard, {.tokens = tokens(ids)});
  ASSERT_EQ(text.size(), 2U);
  EXPECT_EQ(text[1].hex(), "2e69fa8c8aebe362593b51b8b212f1aeb45f9bb56c4258c0bf2a94f1e384e2a5");
  EXPECT_EQ(vllm_event_hash(text[0]), 8'263'819'412'558'533'880U);
  EXPECT_EQ(vllm_event_hash(text[1]), 13'774'986'176'891'249'317U);

  const auto seeded = chain_of(128, VllmExtraKeys::kBare, "0");
  EXPECT_EQ(seeded.none_hash().hex(),
            "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e");
  const auto salted = keys_of(
      seeded,
      {.tokens = counted(1000, 128), .items = {item("aaaa", 3, 9)}, .cache_salt = "my-salt"});
  EXPECT_EQ(salted[0].hex(), "3f56ea40d074550a58b6ddadba236109d86356a3cc0aeca8a0c70c4be0df5cc0");
  std::vector<TokenId> twice = counted(1000, 128);
  for (const TokenId token : counted(1000, 128)) twice.push_back(token);
  const auto images =
      keys_of(seeded, {.tokens = twice, .items = {item("aaaa", 128, 9), item("bbbb", 192, 9)}});
  EXPECT_EQ(images[0].hex(), "199e2f20e73a6e2cc3e0e6fdf521eff7b636122d5e122320c22c380d95e5863e");
  EXPECT_EQ(images[1].hex(), "2ea9f0275be48f4499ccdd95ca2d8cd26c5a995c2a9b08d7aa4ef2a5902569fc");
}

TEST(VllmBlockChain, TheSaltChangesTheFirstBlockAndItsChain) {
  const auto chain = chain_of(16, VllmExtraKeys::kTagged);
  const auto keys = keys_of(chain, {.tokens = counted(0, 48), .cache_salt = "s"});
  VllmSequence rest{.tokens = counted(0, 48)};
  std::vector<BlockKey> continued = {keys[0]};
  ASSERT_TRUE(chain.extend(rest, continued).has_value());
  EXPECT_EQ(continued, keys) << "the salt is in a later block";
  EXPECT_NE(keys_of(chain, rest)[0], keys[0]);
}

TEST(VllmBlockChain, BareKeysConfuseAnAdapterWithASaltAndTaggedOnesDoNot) {
  const VllmSequence adapter{.tokens = counted(0, 16), .lora = VllmLora{.name = "x", .path = "p"}};
  const VllmSequence salt{.tokens = counted(0, 16), .cache_salt = "x"};
  const auto bare = chain_of(16, VllmExtraKeys::kBare);
  const auto tagged = chain_of(16, VllmExtraKeys::kTagged);
  EXPECT_EQ(keys_of(bare, adapter), keys_of(bare, salt));
  EXPECT_NE(keys_of(tagged, adapter), keys_of(tagged, salt));
}

TEST(VllmBlockChain, GrowsWithItsSequence) {
  const auto chain = chain_of(16, VllmExtraKeys::kTagged);
  const VllmSequence whole = requests().at("all");
  std::vector<BlockKey> grown;
  for (std::size_t length = 52; length <= whole.tokens.size(); ++length) {
    VllmSequence part = whole;
    part.tokens.resize(length);
    ASSERT_TRUE(chain.extend(part, grown).has_value());
    ASSERT_EQ(grown.size(), length / 16) << length;
  }
  EXPECT_EQ(grown, keys_of(chain, whole));
}

TEST(VllmBlockChain, RefusesInvalidSequences) {
  const struct {
    const char* name;
    VllmSequence sequence;
  } kCases[] = {
      {"empty item", {.tokens = counted(0, 16), .items = {item("a", 3, 0)}}},
      {"item past the end", {.tokens = counted(0, 16), .items = {item("a", 10, 7)}}},
      {"item far past the end", {.tokens = counted(0, 16), .items = {item("a", ~0U, ~0U)}}},
      {"overlap", {.tokens = counted(0, 16), .items = {item("a", 1, 4), item("b", 4, 2)}}},
      {"out of order", {.tokens = counted(0, 16), .items = {item("a", 8, 4), item("b", 1, 2)}}},
      {"rows of nothing",
       {.tokens = counted(0, 16), .prompt_embeds = VllmPromptEmbeds{twenty_rows(), 0}}},
      {"half a row",
       {.tokens = counted(0, 16), .prompt_embeds = VllmPromptEmbeds{twenty_rows(), 12}}},
      {"more rows than tokens",
       {.tokens = counted(0, 16), .prompt_embeds = VllmPromptEmbeds{twenty_rows(), 4}}},
  };
  for (const auto& c : kCases) {
    std::vector<BlockKey> keys;
    const auto result = chain_of(16, VllmExtraKeys::kTagged).extend(c.sequence, keys);
    ASSERT_FALSE(result.has_value()) << c.name;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument) << c.name;
    EXPECT_TRUE(keys.empty()) << c.name;
  }
  std::vector<BlockKey> too_many(2);
  const auto chain = chain_of(16, VllmExtraKeys::kBare);
  EXPECT_FALSE(chain.extend({.tokens = counted(0, 31)}, too_many).has_value());
  EXPECT_FALSE(VllmBlockChain::open({.block_tokens = TokenCount(0)}).has_value());
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/identity/block_keys.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

ContentDigest content(std::string_view text) {
  return ContentDigest{sha256(std::as_bytes(std::span(text)))};
}

MediaSpan span(std::uint32_t offset, std::uint32_t length, Modality modality,
               std::string_view shows, bool splittable) {
  return {.offset = TokenCount(offset),
          .length = TokenCount(length),
          .modality = modality,
          .content = content(shows),
          .splittable = splittable};
}

/// Everything that a chain depends on, so that a test can change one thing at a time. The same as
/// in tests/golden/block_keys.py: four full blocks of four, one more token, an image and a sound.
struct Inputs {
  Secret root = [] {
    Secret bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
    return bytes;
  }();
  TenantId tenant{"acme"};
  ModelIdentity model{.model = "m",
                      .weights_epoch = "1",
                      .encoder = "e",
                      .adapter = "",
                      .chat_template = "t",
                      .kv_dtype = DType::kF32};
  BlockScope scope{
      .block_tokens = TokenCount(4),
      .layout = {.groups = {{.kind = KvKind::kFull, .layers = 2, .row_bytes = Bytes(64)},
                            {.kind = KvKind::kSliding,
                             .layers = 1,
                             .window = TokenCount(8),
                             .row_bytes = Bytes(32)}},
                 .alignment = TokenCount(4)},
      .preprocessing = "p"};
  Sequence sequence{
      .tokens = {TokenId(1), TokenId(-1), TokenId(2147483647), TokenId(300), TokenId(7), TokenId(7),
                 TokenId(7), TokenId(7), TokenId(7), TokenId(9), TokenId(9), TokenId(5), TokenId(6),
                 TokenId(8), TokenId(10), TokenId(11), TokenId(12)},
      .spans = {span(3, 6, Modality::kImage, "abc", false),
                span(9, 2, Modality::kAudio, "", true)}};

  [[nodiscard]] BlockChain chain() const {
    return BlockChain::open(Namespace::of(model, tenant, root).value(), scope).value();
  }
  [[nodiscard]] std::vector<BlockKey> keys() const {
    std::vector<BlockKey> result;
    EXPECT_TRUE(chain().extend(sequence, result).has_value());
    return result;
  }
};

std::vector<std::string> hex(const std::vector<BlockKey>& keys) {
  std::vector<std::string> result;
  for (const BlockKey& key : keys) result.push_back(key.hex());
  return result;
}

TEST(BlockChain, MatchesItsGoldenVectors) {
  Inputs inputs;
  EXPECT_EQ(hex(inputs.keys()),
            (std::vector<std::string>{
                "66b9dfdf881f6a340437043e1a00bcc3948a92dd9ce482641d0d94d921718de9",
                "942e818b70e960aae8dc447b78987781a6fff8f4be0829965ccfb595a1e00d55",
                "056fba70617be9c58add91b95713a711fffc5aa0f94b7b50303f4b2fac261a9d",
                "74c8b8937d957d555df59b2453690ba661918b153d32e6e684b9dbe3fe877030"}));
  inputs.sequence.spans.clear();
  inputs.sequence.tokens.resize(8);
  EXPECT_EQ(hex(inputs.keys()),
            (std::vector<std::string>{
                "479839ffb47e53b622c9024ab31af2350c679bda70a051dae719f963d3e598ef",
                "f05242e310a0b313272d19207af653f39064bed918c9f31a8002b764561a23d4"}));
}

TEST(BlockChain, APrefixInsideABlockHasItsOwnKey) {
  const Inputs inputs;
  const std::vector<BlockKey> keys = inputs.keys();
  const auto ends = [&](std::uint32_t first, std::uint32_t last) {
    return hex(inputs.chain()
                   .keys_of_ends(inputs.sequence, keys, TokenCount(first), TokenCount(last))
                   .value());
  };
  EXPECT_EQ(ends(3, 4), (std::vector<std::string>{
                            "62ffc5d94b7e372da4d2fd556e525c9803d6be37e9667824d091effe36c840d2",
                            "66b9dfdf881f6a340437043e1a00bcc3948a92dd9ce482641d0d94d921718de9"}));
  EXPECT_EQ(ends(7, 7), (std::vector<std::string>{
                            "66d84d7f1afe518feb71c1e257920ebbb859fc9ddb1da0832273311f6c453e77"}));
  EXPECT_EQ(ends(17, 17), (std::vector<std::string>{
                              "174b91a162189580aedb134f2a56a654f722e084af7d3481169de8cfddf82996"}));
  EXPECT_EQ(ends(5, 8).back(), keys[1].hex());
}

TEST(BlockChain, RefusesPrefixesOutsideOneBlockOrTheSequence) {
  const Inputs inputs;
  const std::vector<BlockKey> keys = inputs.keys();
  const auto refuses = [&](std::span<const BlockKey> known, std::uint32_t first,
                           std::uint32_t last) {
    const auto ends =
        inputs.chain().keys_of_ends(inputs.sequence, known, TokenCount(first), TokenCount(last));
    return !ends.has_value() && ends.error().code == ErrorCode::kInvalidArgument;
  };
  EXPECT_TRUE(refuses(keys, 0, 2));
  EXPECT_TRUE(refuses(keys, 3, 2));
  EXPECT_TRUE(refuses(keys, 4, 5));
  EXPECT_TRUE(refuses(keys, 17, 18));
  EXPECT_TRUE(refuses(std::span(keys).first(1), 9, 10));
  EXPECT_FALSE(refuses(std::span(keys).first(2), 9, 10));
}

TEST(BlockChain, EveryKeyChangesWithEveryFieldOfNamespaceAndScope) {
  const struct {
    const char* name;
    std::function<void(Inputs&)> change;
  } kCases[] = {
      {"root secret", [](Inputs& i) { i.root[31] ^= std::byte{1}; }},
      {"tenant", [](Inputs& i) { i.tenant = TenantId("acme2"); }},
      {"model", [](Inputs& i) { i.model.model = "m2"; }},
      {"weights epoch", [](Inputs& i) { i.model.weights_epoch = "2"; }},
      {"adapter", [](Inputs& i) { i.model.adapter = "lora"; }},
      {"adapter named like the tenant",
       [](Inputs& i) { i.model.adapter = "acme", i.tenant = TenantId(); }},
      {"chat template", [](Inputs& i) { i.model.chat_template = ""; }},
      {"kv dtype", [](Inputs& i) { i.model.kv_dtype = DType::kF16; }},
      {"block size", [](Inputs& i) { i.scope.block_tokens = TokenCount(5); }},
      {"preprocessing", [](Inputs& i) { i.scope.preprocessing = ""; }},
      {"kind", [](Inputs& i) { i.scope.layout.groups[1].kind = KvKind::kFull; }},
      {"layers", [](Inputs& i) { i.scope.layout.groups[0].layers = 3; }},
      {"window", [](Inputs& i) { i.scope.layout.groups[1].window = TokenCount(9); }},
      {"row bytes", [](Inputs& i) { i.scope.layout.groups[0].row_bytes = Bytes(65); }},
      {"one group less", [](Inputs& i) { i.scope.layout.groups.pop_back(); }},
      {"alignment", [](Inputs& i) { i.scope.layout.alignment = TokenCount(8); }},
  };
  std::set<BlockKey> seen;
  const std::vector<BlockKey> original = Inputs().keys();
  seen.insert(original.begin(), original.end());
  for (const auto& c : kCases) {
    Inputs inputs;
    c.change(inputs);
    for (const BlockKey& key : inputs.keys()) EXPECT_TRUE(seen.insert(key).second) << c.name;
  }
}

TEST(BlockChain, KeysChangeFromTheFirstBlockThatDiffers) {
  const struct {
    const char* name;
    std::size_t same;  // blocks before the change
    std::function<void(Sequence&)> change;
  } kCases[] = {
      {"first token", 0, [](Sequence& s) { s.tokens[0] = TokenId(2); }},
      {"last token of the third block", 2, [](Sequence& s) { s.tokens[11] = TokenId(2); }},
      {"token after the last full block", 4, [](Sequence& s) { s.tokens[16] = TokenId(2); }},
      {"content of the image", 0, [](Sequence& s) { s.spans[0].content = content("abd"); }},
      {"last byte of a digest", 2,
       [](Sequence& s) { s.spans[1].content.bytes[31] ^= std::byte{1}; }},
      {"modality", 2, [](Sequence& s) { s.spans[1].modality = Modality::kVideo; }},
      {"splittable", 2, [](Sequence& s) { s.spans[1].splittable = false; }},
      {"image a token earlier", 0, [](Sequence& s) { s.spans[0].offset = TokenCount(2); }},
      {"image a token shorter", 0, [](Sequence& s) { s.spans[0].length = TokenCount(5); }},
      {"sound a token later and shorter", 2,
       [](Sequence& s) { s.spans[1].offset = TokenCount(10), s.spans[1].length = TokenCount(1); }},
      {"no sound", 2, [](Sequence& s) { s.spans.pop_back(); }},
      {"no media", 0, [](Sequence& s) { s.spans.clear(); }},
  };
  const std::vector<BlockKey> original = Inputs().keys();
  for (const auto& c : kCases) {
    Inputs inputs;
    c.change(inputs.sequence);
    const std::vector<BlockKey> keys = inputs.keys();
    ASSERT_EQ(keys.size(), original.size()) << c.name;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(keys[i] == original[i], i < c.same) << c.name << ", block " << i;
    }
  }
}

TEST(BlockChain, OnlyWholeBlocksHaveKeys) {
  Inputs inputs;
  inputs.sequence.spans.clear();
  for (const std::size_t length : {0U, 1U, 3U, 4U, 5U, 7U, 8U, 9U}) {
    inputs.sequence.tokens.resize(length);
    EXPECT_EQ(inputs.keys().size(), length / 4) << length;
  }
}

TEST(BlockChain, GrowsWithItsSequence) {
  const Inputs inputs;
  std::vector<BlockKey> grown;
  for (std::size_t length = 11; length <= inputs.sequence.tokens.size(); ++length) {
    Sequence part = inputs.sequence;
    part.tokens.resize(length);
    ASSERT_TRUE(inputs.chain().extend(part, grown).has_value());
    ASSERT_EQ(grown.size(), length / 4);
  }
  EXPECT_EQ(grown, inputs.keys());
}

TEST(BlockChain, RefusesInvalidInputAndChangesNothing) {
  const Inputs inputs;
  std::vector<BlockKey> keys;
  Sequence bad = inputs.sequence;
  bad.spans[1].offset = TokenCount(8);
  EXPECT_EQ(inputs.chain().extend(bad, keys).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(keys.empty());
  keys.resize(5);
  EXPECT_EQ(inputs.chain().extend(inputs.sequence, keys).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(keys.size(), 5U);

  const Namespace space = Namespace::of(inputs.model, inputs.tenant, inputs.root).value();
  BlockScope scope = inputs.scope;
  scope.block_tokens = TokenCount(0);
  EXPECT_EQ(BlockChain::open(space, scope).error().code, ErrorCode::kInvalidArgument);
  scope = inputs.scope;
  scope.layout.groups.clear();
  EXPECT_EQ(BlockChain::open(space, scope).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace afterimage

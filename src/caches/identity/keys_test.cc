// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <set>

#include "afterimage/identity.h"
#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

Secret root_secret() {
  Secret root;
  for (std::size_t i = 0; i < root.size(); ++i) root[i] = static_cast<std::byte>(i);
  return root;
}

/// Everything that a key depends on, so that a test can change one thing at a time.
struct Inputs {
  Secret root = root_secret();
  TenantId tenant{"acme"};
  ModelIdentity model{.model = "m",
                      .weights_epoch = "1",
                      .encoder = "e",
                      .adapter = "",
                      .chat_template = "t",
                      .kv_dtype = DType::kF32};
  Modality modality = Modality::kImage;
  std::vector<std::string> files = {"abc"};
  std::uint32_t file_frame_rate_mhz = 0;
  PreprocessRecipe recipe{.processor = "p",
                          .width = 224,
                          .height = 224,
                          .max_frames = 0,
                          .frame_rate_mhz = 0,
                          .sample_rate_hz = 0,
                          .output = DType::kF32,
                          .options = {{"a", "1"}, {"b", ""}}};

  [[nodiscard]] EncoderKey key() const {
    MediaItem item{
        .modality = modality, .files = {}, .frame_rate_mhz = file_frame_rate_mhz, .name = {}};
    for (const std::string& text : files) {
      const auto bytes = std::as_bytes(std::span(text));
      item.files.push_back(std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end()));
    }
    const Namespace space = Namespace::of(model, tenant, root).value();
    return space.encoder_key(item, content_digest(item), recipe);
  }
};

TEST(EncoderKey, MatchesItsGoldenVector) {
  EXPECT_EQ(Inputs().key().hex(),
            "252991095efa0efd75fc276eee70e6392afad6b7ea12900cfc3177f20eaa133c");
}

TEST(PartKey, MatchesItsGoldenVectorAndChangesWithEveryFieldAlone) {
  const Inputs inputs;
  const Namespace space = Namespace::of(inputs.model, inputs.tenant, inputs.root).value();
  const DecodedDigest input{sha256(std::as_bytes(std::span("abc", 3)))};
  const TokenCount rows(36);
  const EncoderKey key = space.part_key(Modality::kVideo, input, rows, inputs.recipe);
  EXPECT_EQ(key.hex(), "10f7842c216dfb1b557ac32243894f4145b0b67283295f60a109a30400be6079");
  PreprocessRecipe recipe = inputs.recipe;
  recipe.max_frames += 1;
  const Namespace other = Namespace::of(inputs.model, TenantId("other"), inputs.root).value();
  const std::set<EncoderKey> keys{
      key,
      space.part_key(Modality::kImage, input, rows, inputs.recipe),
      space.part_key(Modality::kVideo, DecodedDigest(), rows, inputs.recipe),
      space.part_key(Modality::kVideo, input, TokenCount(35), inputs.recipe),
      space.part_key(Modality::kVideo, input, rows, recipe),
      other.part_key(Modality::kVideo, input, rows, inputs.recipe),
      inputs.key()};
  EXPECT_EQ(keys.size(), 7U);
}

TEST(EntryLabels, OfAPartMatchTheErasureOfAnyItem) {
  const Inputs inputs;
  const Namespace space = Namespace::of(inputs.model, inputs.tenant, inputs.root).value();
  const EntryLabels labels(inputs.root);
  const ContentDigest any{sha256(std::as_bytes(std::span("some film", 9)))};
  EXPECT_TRUE(labels.made_from(any).matches(space.part_labels()));
  EXPECT_TRUE(EntryFilter{.any_of = {labels.model("m")}}.matches(space.part_labels()));
  EXPECT_FALSE(EntryFilter{.any_of = {labels.model("n")}}.matches(space.part_labels()));
}

TEST(PrefixRoot, MatchesItsGoldenVectorAndChangesWithEachRecipe) {
  const Inputs inputs;
  const Namespace space = Namespace::of(inputs.model, inputs.tenant, inputs.root).value();
  const PreprocessRecipe none;
  const NamespaceId root = space.prefix_root(inputs.recipe, none, none);
  EXPECT_EQ(root.hex(), "7955606d476927a7b8282e2acc59a20224ed113d303e758d224f3afef8499065");
  EXPECT_NE(root, space.prefix_root(none, inputs.recipe, none));
  EXPECT_NE(root, space.prefix_root(none, none, inputs.recipe));
  const Namespace other = Namespace::of(inputs.model, TenantId("other"), inputs.root).value();
  EXPECT_NE(root, other.prefix_root(inputs.recipe, none, none));
}

/// The first 16 digits of `label`, as it lies in memory.
std::string little_endian(EntryLabel label) {
  std::array<std::byte, kDigestBytes> bytes{};
  std::memcpy(bytes.data(), &label, sizeof label);
  return to_hex(bytes).substr(0, 2 * sizeof label);
}

TEST(EntryLabels, MatchTheirGoldenVectors) {
  const Inputs inputs;
  const EntryLabels labels(inputs.root);
  const ContentDigest content{sha256(std::as_bytes(std::span("abc", 3)))};
  EXPECT_EQ(little_endian(labels.tenant("acme")), "8ee364308e336fb6");
  EXPECT_EQ(little_endian(labels.model("m")), "e06a2c624c561d90");
  EXPECT_EQ(little_endian(labels.media(content)), "c6eafc525a90f397");
  EXPECT_EQ(little_endian(labels.any_media()), "bf4214394fc07b89");
  EXPECT_EQ(labels.tag("tenant:acme"), labels.tenant("acme"));
  Secret other = inputs.root;
  other[0] ^= std::byte{1};
  EXPECT_NE(EntryLabels(other).tenant("acme"), labels.tenant("acme"));
}

TEST(EntryLabels, SayTenantModelAndEachMediaItemOnce) {
  const Inputs inputs;
  const EntryLabels labels(inputs.root);
  const Namespace space = Namespace::of(inputs.model, inputs.tenant, inputs.root).value();
  const auto item = [](unsigned n) {
    ContentDigest content;
    content.bytes[3] = static_cast<std::byte>(n);
    return content;
  };
  const std::vector<ContentDigest> media{item(1), item(2), item(1)};
  EXPECT_EQ(space.labels(media),
            (std::vector{labels.tenant(inputs.tenant.text()), labels.model(inputs.model.model),
                         labels.media(item(1)), labels.media(item(2))}));
  EXPECT_TRUE(labels.made_from(item(2)).matches(space.labels(media)));
  EXPECT_FALSE(labels.made_from(item(3)).matches(space.labels(media)));
  const Namespace named = Namespace::of(inputs.model, inputs.tenant, inputs.root, "a team").value();
  EXPECT_EQ(named.labels(std::span<const EntryLabel>()).front(), labels.tenant("a team"));
  EXPECT_EQ(named.prefix_root({}, {}, {}), space.prefix_root({}, {}, {}))
      << "the name is in no key";
}

TEST(EntryLabels, OfMoreMediaThanFitStandForAnyItem) {
  const Inputs inputs;
  const Namespace space = Namespace::of(inputs.model, inputs.tenant, inputs.root).value();
  std::vector<ContentDigest> media(EntryLabels::kMax - 2);
  for (std::size_t i = 0; i < media.size(); ++i) media[i].bytes[0] = static_cast<std::byte>(i + 1);
  EXPECT_EQ(space.labels(media).size(), EntryLabels::kMax);
  media.emplace_back();
  EXPECT_EQ(space.labels(media).size(), 3U);
  const EntryLabels labels(inputs.root);
  EXPECT_TRUE(labels.made_from(media.front()).matches(space.labels(media)));
  EXPECT_TRUE(labels.made_from(media.back()).matches(space.labels(media)));
}

// The seed's key was the file's digest alone, so a hit could return another model's embeddings.
TEST(Seed000, V7_EncoderKeysDependOnModelWeightsProcessorDtypeAndModality) {
  const auto key_of = [](const std::function<void(Inputs&)>& change) {
    Inputs inputs;
    change(inputs);
    return inputs.key();
  };
  std::set<EncoderKey> keys{key_of([](Inputs&) {})};
  EXPECT_TRUE(keys.insert(key_of([](Inputs& i) { i.model.encoder = "e2"; })).second);
  EXPECT_TRUE(keys.insert(key_of([](Inputs& i) { i.model.weights_epoch = "2"; })).second);
  EXPECT_TRUE(keys.insert(key_of([](Inputs& i) { i.recipe.width = 448; })).second);
  EXPECT_TRUE(keys.insert(key_of([](Inputs& i) { i.recipe.output = DType::kF16; })).second);
  EXPECT_TRUE(keys.insert(key_of([](Inputs& i) { i.modality = Modality::kVideo; })).second);
}

TEST(Seed004, B12_PrefixesAreNotSharedAcrossAdaptersTemplatesDtypesOrTenants) {
  const auto root_of = [](const std::function<void(Inputs&)>& change) {
    Inputs inputs;
    change(inputs);
    return Namespace::of(inputs.model, inputs.tenant, inputs.root).value().prefix_root({}, {}, {});
  };
  std::set<NamespaceId> roots{root_of([](Inputs&) {})};
  EXPECT_TRUE(roots.insert(root_of([](Inputs& i) { i.model.adapter = "lora"; })).second);
  EXPECT_TRUE(roots.insert(root_of([](Inputs& i) { i.model.chat_template = "t2"; })).second);
  EXPECT_TRUE(roots.insert(root_of([](Inputs& i) { i.model.kv_dtype = DType::kF16; })).second);
  EXPECT_TRUE(roots.insert(root_of([](Inputs& i) { i.tenant = TenantId("acme2"); })).second);
}

TEST(EncoderKey, ChangesWithEveryFieldAlone) {
  const struct {
    const char* name;
    std::function<void(Inputs&)> change;
  } kCases[] = {
      {"root secret", [](Inputs& i) { i.root[31] ^= std::byte{1}; }},
      {"tenant", [](Inputs& i) { i.tenant = TenantId("acme2"); }},
      {"no tenant", [](Inputs& i) { i.tenant = TenantId(); }},
      {"model", [](Inputs& i) { i.model.model = "m2"; }},
      {"weights epoch", [](Inputs& i) { i.model.weights_epoch = "2"; }},
      {"encoder", [](Inputs& i) { i.model.encoder = "e2"; }},
      {"adapter", [](Inputs& i) { i.model.adapter = "lora"; }},
      {"chat template", [](Inputs& i) { i.model.chat_template = ""; }},
      {"kv dtype", [](Inputs& i) { i.model.kv_dtype = DType::kF16; }},
      {"modality", [](Inputs& i) { i.modality = Modality::kVideo; }},
      {"content", [](Inputs& i) { i.files = {"abd"}; }},
      {"a folder of one more", [](Inputs& i) { i.files = {"abc", "abc"}; }},
      {"frame rate of the folder", [](Inputs& i) { i.file_frame_rate_mhz = 1; }},
      {"processor", [](Inputs& i) { i.recipe.processor = "p2"; }},
      {"width", [](Inputs& i) { i.recipe.width = 448; }},
      {"height", [](Inputs& i) { i.recipe.height = 448; }},
      {"width and height swapped",
       [](Inputs& i) {
         i.recipe.width = 112;
         i.recipe.height = 448;
       }},
      {"height and width swapped",
       [](Inputs& i) {
         i.recipe.width = 448;
         i.recipe.height = 112;
       }},
      {"max frames", [](Inputs& i) { i.recipe.max_frames = 8; }},
      {"frame rate sampled", [](Inputs& i) { i.recipe.frame_rate_mhz = 2000; }},
      {"sample rate", [](Inputs& i) { i.recipe.sample_rate_hz = 16'000; }},
      {"output dtype", [](Inputs& i) { i.recipe.output = DType::kBF16; }},
      {"option value", [](Inputs& i) { i.recipe.options["a"] = "2"; }},
      {"option gone", [](Inputs& i) { i.recipe.options.erase("b"); }},
      {"option renamed", [](Inputs& i) { i.recipe.options = {{"a", "1"}, {"c", ""}}; }},
      {"option added", [](Inputs& i) { i.recipe.options["c"] = ""; }},
  };
  std::set<EncoderKey> keys{Inputs().key()};
  for (const auto& c : kCases) {
    Inputs changed;
    c.change(changed);
    EXPECT_TRUE(keys.insert(changed.key()).second) << c.name << " does not change the key";
  }
}

// vLLM hashed an adapter's name and the tenant's salt back to back, so "ab"+"c" equalled "a"+"bc".
TEST(EncoderKey, BordersBetweenFieldsCannotBeMoved) {
  Inputs one;
  one.model.model = "ab";
  one.model.weights_epoch = "c";
  Inputs two;
  two.model.model = "a";
  two.model.weights_epoch = "bc";
  EXPECT_NE(one.key(), two.key());
}

TEST(FieldWriter, DifferentFieldListsGiveDifferentMessages) {
  const auto same = [](const FieldWriter& a, const FieldWriter& b) {
    return std::ranges::equal(a.message(), b.message());
  };
  FieldWriter base("d");
  base.text("name", "value");
  EXPECT_FALSE(same(base, FieldWriter("d2").text("name", "value"))) << "domain";
  EXPECT_FALSE(same(base, FieldWriter("d").text("namev", "alue"))) << "border of name and value";
  EXPECT_FALSE(same(base, FieldWriter("d").bytes("name", std::as_bytes(std::span("value", 5)))))
      << "type";
  EXPECT_FALSE(same(FieldWriter("d").texts("m", {{"a", "b"}}),
                    FieldWriter("d").texts("m", {}).text("a", "b")))
      << "a map's entries and the fields after it";
  const std::vector<TextField> sorted{{"a", "b"}, {"c", ""}};
  EXPECT_TRUE(same(FieldWriter("d").texts("m", {{"c", ""}, {"a", "b"}}),
                   FieldWriter("d").sorted_texts("m", sorted)))
      << "a map that is not one";
}

TEST(Namespace, RefusesAnEngineWithoutModelOrEncoderName) {
  for (const char* missing : {"model", "encoder"}) {
    Inputs inputs;
    (std::string(missing) == "model" ? inputs.model.model : inputs.model.encoder) = "";
    const auto space = Namespace::of(inputs.model, inputs.tenant, inputs.root);
    ASSERT_FALSE(space.has_value()) << missing;
    EXPECT_EQ(space.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace afterimage

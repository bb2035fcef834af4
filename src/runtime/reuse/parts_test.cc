// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Media whose parts are cached one by one: serve() with an engine that splits videos.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "afterimage/reuse.h"
#include "afterimage/reuse_stats.h"
#include "afterimage/serve.h"
#include "afterimage/tier.h"
#include "engines/reference/reference_engine.h"
#include "engines/reference/testing/tiny_options.h"
#include "runtime/reuse/split_memory.h"
#include "testing/forwarding_engine.h"
#include "testing/media_files.h"

namespace afterimage {
namespace {

using testing::folder_item;
using testing::ForwardingEngine;
using testing::make_picture;
using testing::make_png;

constexpr std::uint32_t kFrames = 8;  // of a window: four slices

/// Frames first, first + 1, … of one film.
MediaItem window(std::uint32_t first, std::uint32_t frames = kFrames) {
  std::vector<testing::FileContent> files;
  for (std::uint32_t i = 0; i < frames; ++i) {
    files.push_back(make_png(make_picture(16, 16, 1 + first + i)));
  }
  return folder_item(std::move(files), 1'000, "film");
}

Request asking_about(std::vector<ContentPart> parts) {
  parts.emplace_back("what happens?");
  Request request;
  request.messages = {{.role = Role::kUser, .parts = std::move(parts)}};
  return request;
}
Request asking_about(MediaItem item) {
  return asking_about(std::vector<ContentPart>{std::move(item)});
}

const ReferenceEngine& reference() {
  static const auto kEngine = [] {
    ReferenceOptions options = ReferenceOptions::tiny();
    options.vision.max_frames = kFrames;
    return ReferenceEngine::create(std::move(options)).value();
  }();
  return *kEngine;
}

const ReferenceEngine& tiled() {
  static const auto kEngine = ReferenceEngine::create(testing::tiny_tiled()).value();
  return *kEngine;
}

/// Counts, and spoils on request.
class WatchedEngine final : public ForwardingEngine {
 public:
  explicit WatchedEngine(const Engine& engine = reference()) : ForwardingEngine(engine) {}

  Result<EncoderOutput> encode(const MediaItem& item) const override {
    ++wholes;
    auto output = ForwardingEngine::encode(item);
    if (spoil_wholes && output.has_value()) (*output)[0].bytes[0] ^= std::byte(1);
    return output;
  }
  [[nodiscard]] Result<std::shared_ptr<const SplitMedia>> split(
      const MediaItem& item) const override {
    ++splits;
    return ForwardingEngine::split(item);
  }
  void encode_parts(std::span<const PartToEncode> parts,
                    const std::function<void(std::vector<Encoded>)>& on_encoded) const override {
    ++calls;
    ForwardingEngine::encode_parts(parts, [&](std::vector<Encoded> some) {
      encoded += some.size();
      for (Encoded& one : some) {
        if (fail_at != encoded) continue;
        one.output = fail(ErrorCode::kUnavailable, "the encoder is away");
      }
      if (drop_a_row) {
        for (Encoded& one : some) {
          one.output = EncoderOutput{
              {.dtype = DType::kF32, .shape = {1, 32}, .bytes = std::vector<std::byte>(128)}};
        }
      }
      on_encoded(std::move(some));
    });
  }

  mutable std::atomic<std::uint64_t> wholes = 0, splits = 0, calls = 0, encoded = 0;
  std::uint64_t fail_at = 0;
  bool spoil_wholes = false;
  bool drop_a_row = false;
};

struct Fixture {
  explicit Fixture(ReuseOptions options = {}, const ReferenceEngine& of = reference())
      : honest(&of), engine(of) {
    options.weigh_loads = false;
    options.prefixes = false;
    reuse = Reuse::create(options, Secret{}).value();
  }
  Result<Served> serve(const Request& request) const {
    return afterimage::serve(request, engine, *reuse, {.max_tokens = TokenCount(4)});
  }
  /// serve(), whose answer must be that without reuse, bit for bit.
  Served expect_exact(const Request& request) const {
    const auto cold = serve_without_reuse(request, *honest, clock, {.max_tokens = TokenCount(4)});
    auto served = serve(request);
    EXPECT_TRUE(cold.has_value() && served.has_value());
    if (!served.has_value()) return {};
    EXPECT_EQ(served->completion.logits, cold->completion.logits);
    EXPECT_EQ(served->completion.tokens, cold->completion.tokens);
    return *std::move(served);
  }
  [[nodiscard]] std::uint64_t entries() const { return reuse->stats().encoder.entries.value(); }

  SystemClock clock;
  const ReferenceEngine* honest;
  WatchedEngine engine;
  std::unique_ptr<Reuse> reuse;
};

using Sources = std::vector<MediaSource>;

TEST(Parts, OverlappingVideosShareTheirSlices) {
  const Fixture f;
  const Served first = f.expect_exact(asking_about(window(0)));
  EXPECT_EQ(first.parts, 4U);
  EXPECT_EQ(first.encoded_parts, 4U);
  EXPECT_EQ(first.sources, (Sources{MediaSource::kEncoded}));
  const Served second = f.expect_exact(asking_about(window(2)));
  EXPECT_EQ(second.parts, 4U);
  EXPECT_EQ(second.encoded_parts, 1U);
  EXPECT_EQ(second.encoder_calls, 1U);
  EXPECT_EQ(second.sources, (Sources{MediaSource::kPartly}));
  const Served inside = f.expect_exact(asking_about(window(4, 4)));
  EXPECT_EQ(inside.encoded_parts, 0U);
  EXPECT_EQ(inside.sources, (Sources{MediaSource::kReused}));
  EXPECT_EQ(f.engine.encoded, 5U);
}

TEST(Parts, AVideoIsOneItemForPeople) {
  const Fixture f;
  f.expect_exact(asking_about(window(0)));
  EXPECT_EQ(f.entries(), 4U);
  EXPECT_EQ(f.reuse->stats().encoder.misses, 1U);
  f.expect_exact(asking_about(window(0)));
  EXPECT_EQ(f.reuse->stats().encoder.hits, 1U);
  f.expect_exact(asking_about(window(2)));  // three of its four slices are there
  EXPECT_EQ(f.reuse->stats().encoder.hits, 1U);
  EXPECT_EQ(f.reuse->stats().encoder.misses, 2U);
  const auto items = f.reuse->encoder().cache().most_shared(10);
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0].entries, 4U);
  EXPECT_EQ(items[0].access_count, 2U);
  EXPECT_EQ(items[0].facts.size,
            (MediaSize{.width = 16, .height = 16, .length = std::chrono::seconds(8)}));
  EXPECT_EQ(items[1].entries, 1U) << "the slice that only the second window has";
}

/// 2 x 2 tiles of the tiled model.
Image screenshot() { return make_picture(32, 32); }
MediaItem picture(testing::FileContent file) {
  return testing::media_item(Modality::kImage, std::move(file));
}

TEST(Parts, ScreenshotsThatDifferInOneRegionShareTheirOtherTiles) {
  const Fixture f({}, tiled());
  const Served first = f.expect_exact(asking_about(picture(make_png(screenshot()))));
  EXPECT_EQ(first.parts, 5U) << "four tiles and the whole";
  EXPECT_EQ(first.encoded_parts, 5U);
  Image changed = screenshot();
  for (std::size_t i = 0; i < 12; ++i) changed.rgb[changed.rgb.size() - 13 + i] ^= 0xFFU;
  const Served second = f.expect_exact(asking_about(picture(make_png(changed))));
  EXPECT_EQ(second.parts, 5U);
  EXPECT_EQ(second.encoded_parts, 2U) << "one tile and the whole";
  EXPECT_EQ(second.sources, (Sources{MediaSource::kPartly}));
}

TEST(Parts, TheSamePixelsInAnotherContainerAreTheSameTiles) {
  const Fixture f({}, tiled());
  static_cast<void>(f.expect_exact(asking_about(picture(make_png(screenshot())))));
  const Served copy = f.expect_exact(asking_about(picture(testing::make_webp(screenshot()))));
  EXPECT_EQ(copy.encoded_parts, 0U);
  EXPECT_EQ(copy.sources, (Sources{MediaSource::kReused}));
}

TEST(Parts, ARecordingThatGoesOnEncodesItsNewWindows) {
  const Fixture f({}, tiled());
  const std::size_t window = std::size_t{4} * 1'280;
  std::vector<float> samples(3 * window + 900);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<float>(i * 2'654'435'761U % 65'537) / 65'537.0F - 0.5F;
  }
  const auto heard_until = [&](std::size_t end) {
    const std::vector<float> so_far(samples.begin(),
                                    samples.begin() + static_cast<std::ptrdiff_t>(end));
    return asking_about(testing::media_item(Modality::kAudio, testing::make_wav(so_far, 16'000)));
  };
  EXPECT_EQ(f.expect_exact(heard_until(2 * window)).encoded_parts, 2U);
  const Served longer = f.expect_exact(heard_until(samples.size()));
  EXPECT_EQ(longer.parts, 4U);
  EXPECT_EQ(longer.encoded_parts, 2U);
  EXPECT_EQ(longer.sources, (Sources{MediaSource::kPartly}));
}

TEST(Parts, AWindowThatStartsBetweenSlicesSharesNone) {
  const Fixture f;
  static_cast<void>(f.expect_exact(asking_about(window(0))));
  EXPECT_EQ(f.expect_exact(asking_about(window(1))).encoded_parts, 4U);
}

TEST(Parts, TheWholeIsNotStoredBesidesItsParts) {
  const Fixture f;
  static_cast<void>(f.expect_exact(asking_about(window(0))));
  EXPECT_EQ(f.entries(), 4U);
  f.reuse->encoder().cache().check_invariants();
}

TEST(Parts, ARepeatedVideoIsNotDecodedAgain) {
  const Fixture f;
  static_cast<void>(f.expect_exact(asking_about(window(0))));
  ASSERT_EQ(f.engine.splits, 1U);
  EXPECT_EQ(f.expect_exact(asking_about(window(0))).encoded_parts, 0U);
  EXPECT_EQ(f.engine.splits, 1U);
  f.reuse->encoder().cache().clear();
  EXPECT_EQ(f.expect_exact(asking_about(window(0))).encoded_parts, 4U) << "known, and evicted";
  EXPECT_EQ(f.engine.splits, 2U);
}

TEST(Parts, OneCallEncodesWhatSeveralItemsLack) {
  const Fixture f;
  const Served served = f.expect_exact(
      asking_about(std::vector<ContentPart>{window(0), " and ", window(2), " and ", window(0)}));
  EXPECT_EQ(f.engine.calls, 1U);
  EXPECT_EQ(served.parts, 5U);
  EXPECT_EQ(served.encoded_parts, 5U);
  EXPECT_EQ(served.sources[2], MediaSource::kRepeated);
}

TEST(Parts, TheFirstVideoOfAModelIsComparedWithTheWhole) {
  const Fixture f;
  EXPECT_EQ(f.expect_exact(asking_about(window(0))).encoder_calls, 2U) << "parts, and the whole";
  EXPECT_EQ(f.expect_exact(asking_about(window(8))).encoder_calls, 1U);
  EXPECT_EQ(f.engine.wholes, 1U);
}

TEST(Parts, AnEngineWhosePartsAreNotExactIsNotSplit) {
  Fixture f;
  f.engine.spoil_wholes = true;  // so that the parts differ from them
  const auto first = f.serve(asking_about(window(0)));
  ASSERT_TRUE(first.has_value()) << to_string(first.error());
  EXPECT_EQ(first->parts, 0U);
  const auto whole = serve_without_reuse(asking_about(window(0)), f.engine, f.clock,
                                         {.max_tokens = TokenCount(4)});
  EXPECT_EQ(first->completion.logits, whole->completion.logits) << "the whole is what holds";
  const std::uint64_t splits = f.engine.splits;
  EXPECT_EQ(f.serve(asking_about(window(2)))->parts, 0U);
  EXPECT_EQ(f.engine.splits, splits) << "never again";
}

TEST(Parts, CanBeTurnedOff) {
  const Fixture f({.parts = false});
  EXPECT_EQ(f.expect_exact(asking_about(window(0))).parts, 0U);
  EXPECT_EQ(f.engine.splits, 0U);
  EXPECT_EQ(f.entries(), 1U);
}

TEST(Parts, AFailedPartFailsTheRequestAndKeepsTheOthers) {
  Fixture f;
  f.engine.fail_at = 3;
  const auto failed = f.serve(asking_about(window(0)));
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(f.entries(), 3U);
  EXPECT_EQ(f.expect_exact(asking_about(window(0))).encoded_parts, 1U);
}

TEST(Parts, APartOfOtherRowsThanDeclaredIsRefused) {
  Fixture f;
  f.engine.drop_a_row = true;
  const auto refused = f.serve(asking_about(window(0)));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorruption);
  EXPECT_NE(refused.error().message.find("part 0"), std::string::npos) << refused.error().message;
  EXPECT_EQ(f.entries(), 0U);
}

TEST(Parts, ADamagedVideoIsTheErrorOfItsDecoder) {
  const Fixture f;
  MediaItem broken = window(0);
  auto half = *broken.files[3];
  half.resize(half.size() / 2);
  broken.files[3] = std::make_shared<const std::vector<std::byte>>(std::move(half));
  const auto refused = f.serve(asking_about(broken));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorruption);
  EXPECT_EQ(f.entries(), 0U);
}

TEST(Parts, WhatDoesNotFitTheBudgetIsServedUncached) {
  const Fixture f({.budget = 64_B});
  EXPECT_EQ(f.expect_exact(asking_about(window(0))).sources, (Sources{MediaSource::kUncached}));
  EXPECT_EQ(f.entries(), 0U);
}

TEST(Parts, TenantsShareNone) {
  const Fixture f;
  Request request = asking_about(window(0));
  request.tenant = TenantId("acme");
  static_cast<void>(f.expect_exact(request));
  request.tenant = TenantId("other");
  EXPECT_EQ(f.expect_exact(request).encoded_parts, 4U);
}

/// A tier as a disk is: it outlives the caches above it.
struct Below {
  MemoryBudget budget{1_MiB};
  HostTier tier{budget};
};

TEST(Parts, AreLoadedFromATierByALaterProcess) {
  Below below;
  {
    const Fixture f({.tier = &below.tier});
    static_cast<void>(f.expect_exact(asking_about(window(0))));
  }
  EXPECT_EQ(below.tier.stats().entries, EntryCount(4));
  const Fixture f({.tier = &below.tier});
  const Served served = f.expect_exact(asking_about(window(0)));
  EXPECT_EQ(served.sources, (Sources{MediaSource::kLoaded}));
  EXPECT_EQ(served.encoded_parts, 0U);
}

TEST(Parts, AreErasedWithEveryItemThatContainsThem) {
  Below below;
  const Fixture f({.tier = &below.tier});
  static_cast<void>(f.expect_exact(asking_about(window(0))));
  static_cast<void>(f.expect_exact(asking_about(window(2))));
  ASSERT_EQ(f.entries(), 5U);
  // Of the second video, most parts were made from the first.
  ASSERT_TRUE(f.reuse->erase({.media = content_digest(window(2))}).has_value());
  EXPECT_EQ(below.tier.stats().entries, EntryCount(0));
  EXPECT_EQ(f.entries(), 0U);
  EXPECT_EQ(f.expect_exact(asking_about(window(2))).encoded_parts, 4U);
}

TEST(Parts, AreErasedWithTheirTenantOnly) {
  const Fixture f;
  Request request = asking_about(window(0));
  request.tenant = TenantId("acme");
  static_cast<void>(f.expect_exact(request));
  ASSERT_TRUE(f.reuse->erase({.tenant = "other"}).has_value());
  EXPECT_EQ(f.entries(), 4U);
  ASSERT_TRUE(f.reuse->erase({.tenant = "acme"}).has_value());
  EXPECT_EQ(f.entries(), 0U);
}

TEST(Parts, ConcurrentRequestsEncodeEachPartOnce) {
  const Fixture f;
  static_cast<void>(f.expect_exact(asking_about(window(100, 2))));  // the model is confirmed
  const std::uint64_t before = f.engine.encoded;
  std::vector<LogitsDigest> expected;
  for (std::uint32_t i = 0; i < 6; ++i) {
    expected.push_back(serve_without_reuse(asking_about(window(2 * i)), reference(), f.clock,
                                           {.max_tokens = TokenCount(4)})
                           ->completion.logits);
  }
  std::vector<std::thread> threads;
  std::vector<LogitsDigest> found(24);
  for (std::size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto first = static_cast<std::uint32_t>(2 * (i % 6));
      found[i] = f.serve(asking_about(window(first))).value().completion.logits;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], expected[i % 6]) << i;
  EXPECT_EQ(f.engine.encoded - before, 9U) << "slices of frames 0 to 17";
  f.reuse->encoder().cache().check_invariants();
}

TEST(SplitMemory, HoldsABoundedNumberOfParts) {
  SplitMemory memory;
  const auto key = [](std::uint64_t n) {
    EncoderKey made;
    std::memcpy(made.bytes.data(), &n, sizeof n);
    return made;
  };
  const std::vector<MediaPart> parts(1'000);
  for (std::uint64_t i = 0; i < 250; ++i) memory.remember(key(i), parts);
  std::uint64_t held = 0;
  for (std::uint64_t i = 0; i < 250; ++i) held += memory.find(key(i)).has_value() ? 1 : 0;
  EXPECT_LE(held * parts.size(), SplitMemory::kMaxParts);
  EXPECT_TRUE(memory.find(key(249)).has_value()) << "the newest is there";
  memory.remember(key(1'000), std::vector<MediaPart>(SplitMemory::kMaxParts + 1));
  EXPECT_FALSE(memory.find(key(1'000)).has_value()) << "too many";
  EXPECT_TRUE(memory.find(key(249)).has_value());
  memory.forget_parts();
  EXPECT_FALSE(memory.find(key(249)).has_value());
}

TEST(SplitMemory, OneWrongBitOutweighsEverything) {
  SplitMemory memory;
  const ModelIdentity model{.model = "m", .encoder = "e"};
  const ModelIdentity other{.model = "m", .encoder = "f"};
  EXPECT_EQ(memory.verdict(model), SplitMemory::Verdict::kUnknown);
  memory.judge(model, SplitMemory::Verdict::kExact);
  EXPECT_EQ(memory.verdict(model), SplitMemory::Verdict::kExact);
  memory.judge(model, SplitMemory::Verdict::kInexact);
  memory.judge(model, SplitMemory::Verdict::kExact);
  EXPECT_EQ(memory.verdict(model), SplitMemory::Verdict::kInexact);
  EXPECT_EQ(memory.verdict(other), SplitMemory::Verdict::kUnknown);
}

TEST(Parts, AWindowThatMovesCostsItsNewSlicesOnly) {
  const Fixture f;
  std::uint64_t encoded = 0;
  for (std::uint32_t first = 0; first < 40; first += 2) {
    encoded += f.expect_exact(asking_about(window(first))).encoded_parts;
  }
  EXPECT_EQ(encoded, 19U + 4U) << "(40 - 2 + 8) / 2 slices, each once";
}

}  // namespace
}  // namespace afterimage

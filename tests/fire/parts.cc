// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Parts of media in a store: lost, damaged, or another item's. A video joined of its slices, and a picture
// joined of its tiles, must be what it was, bit for bit, or be encoded again.
#include <fmt/format.h>

#include "afterimage/reuse.h"
#include "afterimage/serve.h"
#include "afterimage/tier.h"
#include "engines/reference/reference_engine.h"
#include "engines/reference/testing/tiny_options.h"
#include "fire/fire.h"
#include "testing/media_files.h"

namespace afterimage::fire {
namespace {

constexpr std::uint32_t kFrames = 8;
constexpr std::uint32_t kItems = 6;
GenerateOptions one_token() { return {.max_tokens = TokenCount(1)}; }

/// Frames first, first + 1, … of one film.
Request about_window(std::uint32_t first, std::uint32_t side = 16) {
  std::vector<testing::FileContent> files;
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    files.push_back(testing::make_png(testing::make_picture(side, 16, 1 + first + i)));
  }
  Request request;
  request.messages = {
      {.role = Role::kUser, .parts = {testing::folder_item(std::move(files), 1'000), "what?"}}};
  return request;
}

/// A screenshot of 2 x 2 tiles, one of which changes with `number`.
Request about_screenshot(std::uint32_t number) {
  Image picture = testing::make_picture(32, 32);
  const std::size_t tile = number % 4;
  const std::size_t pixel = (tile / 2 * 16 + 5) * 32 + tile % 2 * 16 + 5;
  picture.rgb[3 * pixel] ^= static_cast<std::uint8_t>(number);
  Request request;
  request.messages = {
      {.role = Role::kUser,
       .parts = {testing::media_item(Modality::kImage, testing::make_png(picture)), "what?"}}};
  return request;
}

/// Remembers the keys of what was put.
class RecordingTier final : public Tier {
 public:
  explicit RecordingTier(MemoryBudget& budget) : kept_(budget) {}
  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    keys.push_back(key);
    return kept_.put(key, meta, bytes);
  }
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override {
    return kept_.get(key, room);
  }
  Result<void> erase(const TierKey& key) override { return kept_.erase(key); }
  Result<void> flush() override { return kept_.flush(); }
  [[nodiscard]] bool may_contain(const TierKey& key) const override {
    return kept_.may_contain(key);
  }
  [[nodiscard]] TierStats stats() const override { return kept_.stats(); }
  [[nodiscard]] std::span<std::byte> bytes_of(const TierKey& key) {
    return kept_.bytes_for_test(key);
  }

  std::vector<TierKey> keys;

 private:
  HostTier kept_;
};

class Parts {
 public:
  Parts(const FireRun& run, Tally& tally, ReferenceOptions options, std::vector<Request> requests)
      : run_(run), tally_(tally), rng_(run.seed), requests_(std::move(requests)) {
    options.vision.max_frames = kFrames;
    engine_ = ReferenceEngine::create(std::move(options)).value();
    for (const Request& request : requests_) {
      truth_.push_back(
          serve_without_reuse(request, *engine_, run.clock, one_token())->completion.logits);
    }
    fill_with_others();
  }

  /// A store of all parts with one fault, read by a process that has nothing in memory.
  void round() {
    MemoryBudget budget(4_MiB);
    RecordingTier tier(budget);
    for (const Request& request : requests_) static_cast<void>(ask(tier, request));
    damage(tier, budget, tier.keys[rng_.below(tier.keys.size())]);
    const auto reuse = fresh(tier);
    std::uint64_t encoded = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const auto served = serve(requests_[i], *engine_, *reuse, one_token());
      const bool right = served.has_value() && served->completion.logits == truth_[i];
      tally_.note(
          right ? Finding::kFine : Finding::kWrongBytes,
          fmt::format("item {} joined of a {} part: {}, --only parts --seed {}", i, fault_,
                      served.has_value() ? "other logits" : to_string(served.error()), run_.seed));
      encoded += served.has_value() ? served->encoded_parts : 0;
    }
    ++tally_.injected;
    tally_.detected += encoded == 1 ? 1 : 0;
    tally_.expect(encoded <= 1, fmt::format("{} parts encoded after one {}", encoded, fault_));
  }

 private:
  static std::unique_ptr<Reuse> fresh(Tier& tier) {
    return Reuse::create({.prefixes = false, .tier = &tier, .weigh_loads = false}, Secret{})
        .value();
  }
  Result<Served> ask(Tier& tier, const Request& request) {
    const auto reuse = fresh(tier);
    return serve(request, *engine_, *reuse, one_token());
  }
  /// The stored part of a video whose slices have other rows.
  void fill_with_others() {
    MemoryBudget budget(4_MiB);
    RecordingTier tier(budget);
    static_cast<void>(ask(tier, about_window(0, 8)));
    auto entry = tier.get(tier.keys.front(), budget).value().value();
    other_meta_ = entry.meta;
    other_.assign(entry.bytes.begin(), entry.bytes.end());
  }
  void damage(RecordingTier& tier, MemoryBudget& budget, const TierKey& key) {
    switch (rng_.below(4)) {
      case 0:
        fault_ = "lost";
        static_cast<void>(tier.erase(key));
        return;
      case 1: {
        fault_ = "damaged";
        const auto bytes = tier.bytes_of(key);
        bytes[rng_.below(bytes.size())] ^= static_cast<std::byte>(1U << rng_.below(8));
        return;
      }
      case 2:
        fault_ = "shortened";
        shorten(tier, budget, key);
        return;
      default:
        fault_ = "foreign";
        static_cast<void>(tier.put(key, other_meta_, other_));
    }
  }
  /// One row less, and a record that says so.
  static void shorten(RecordingTier& tier, MemoryBudget& budget, const TierKey& key) {
    TierEntry entry = tier.get(key, budget).value().value();
    EntryMeta meta = entry.meta;
    const std::uint64_t rows = meta.tensors.front().shape[0];
    const std::uint64_t row = entry.bytes.size() / rows;
    meta.tensors.front().shape = Shape{rows - 1, meta.tensors.front().shape[1]};
    const std::vector<std::byte> less(entry.bytes.begin(),
                                      entry.bytes.end() - static_cast<std::ptrdiff_t>(row));
    static_cast<void>(tier.put(key, meta, less));
  }

  const FireRun& run_;
  Tally& tally_;
  Rng rng_;
  std::unique_ptr<ReferenceEngine> engine_;
  std::vector<Request> requests_;
  std::vector<LogitsDigest> truth_;
  EntryMeta other_meta_;
  std::vector<std::byte> other_;
  std::string fault_;
};

}  // namespace

Tally run_parts(const FireRun& run) {
  Tally tally;
  std::vector<Request> windows;
  std::vector<Request> screenshots;
  for (std::uint32_t i = 0; i < kItems; ++i) {
    windows.push_back(about_window(2 * i));
    screenshots.push_back(about_screenshot(i));
  }
  Parts slices(run, tally, ReferenceOptions::tiny(), std::move(windows));
  Parts tiles(run, tally, testing::tiny_tiled(), std::move(screenshots));
  const std::uint64_t rounds = run.of(400, 12);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    (i % 2 == 0 ? slices : tiles).round();
    run.tell(i + 1, rounds);
  }
  tally.notes.emplace_back("a flipped bit in the padding of a stored part has no effect");
  return tally;
}

}  // namespace afterimage::fire

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Erasing removes entries from every cache and every file; the next request computes them anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "afterimage/answer_once.h"
#include "afterimage/disk_tier.h"
#include "afterimage/encode_once.h"
#include "afterimage/prefill_once.h"
#include "afterimage/reuse.h"
#include "afterimage/reuse_stats.h"
#include "afterimage/serve.h"
#include "afterimage/tier.h"
#include "engines/reference/reference_engine.h"
#include "foundation/media/ppm.h"
#include "foundation/platform/testing/manual_wall_clock.h"
#include "runtime/reuse/plan.h"
#include "testing/media_files.h"
#include "testing/temporary_folder.h"
#include "testing/tiny_engine.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSample = 64;  // bytes that occur in no other entry

bool folder_has(const std::string& folder, const std::string& sample) {
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    std::ifstream in(file.path(), std::ios::binary);
    std::string bytes(std::filesystem::file_size(file.path()), '\0');
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (bytes.find(sample) != std::string::npos) return true;
  }
  return false;
}

std::string end_of(std::span<const std::byte> bytes) {
  const auto end = bytes.last(kSample);
  return {reinterpret_cast<const char*>(end.data()), end.size()};
}

/// A process with memory above a folder, whose answers, encoder outputs and KV are all cached.
class Erase : public ::testing::Test {
 protected:
  Erase() { open(); }
  /// As a new process with the same secret begins.
  void open() {
    reuse.reset();
    stack.reset();
    disk.reset();
    disk = DiskTier::open(folder.path(), {.log = {.capacity = 64_MiB}}, memory, clock).value();
    stack.emplace(std::vector<Tier*>{&host, disk.get()});
    reuse = Reuse::create(
                {.answers = AnswerReuse(), .tier = &*stack, .weigh_loads = false, .wall = &wall},
                Secret{}, since_start)
                .value();
  }
  static MediaItem picture(std::uint32_t seed) {
    return testing::media_item(Modality::kImage,
                               testing::make_png(testing::make_picture(40, 30, seed)));
  }
  static Request question(std::uint32_t seed, const std::string& tenant = "",
                          const std::string& words = "What is it?") {
    Request request{.id = RequestId("r"), .tenant = TenantId(tenant)};
    request.messages.push_back(
        {.role = Role::kUser, .parts = {std::string("You see:"), picture(seed), words}});
    return request;
  }
  Served ask(const Request& request) {
    auto served = serve(request, *engine, *reuse, options);
    EXPECT_TRUE(served.has_value());
    return *std::move(served);
  }
  /// Words that no answer is known to: what is cached shows.
  std::uint64_t encoder_calls(std::uint32_t seed, const std::string& tenant = "") {
    return ask(question(seed, tenant, "Word " + std::to_string(++asked) + "?")).encoder_calls;
  }
  [[nodiscard]] RequestIdentity identity(const Request& request) const {
    return identify(request, *engine, reuse->secret(), options).value();
  }
  /// Bytes of the picture's encoder output and of its last row of KV.
  std::vector<std::string> samples(const Request& request) {
    const RequestIdentity who = identity(request);
    MediaPlan media = reuse->plan_media(who.prints, "");
    EXPECT_TRUE(media.to_encode().empty());
    EXPECT_TRUE(media.await().value());
    std::vector<std::string> samples{end_of(media.embeddings().front().front().bytes())};
    const Sequence prompt = engine->prepare(request, who.prints.contents).value();
    const PrefixMatch match = reuse->prefix()->match(who.root, prompt).value();
    EXPECT_TRUE(match.holds());
    const KvSlice kv = reuse->prefix()->cache().kv(match);
    const TokenCount end = prompt.spans.front().end();
    for (const KvRows& rows : kv.rows.front()) {
      if (end <= rows.first || end > rows.first + rows.count) continue;
      const std::size_t row = rows.bytes.size() / rows.count.value();
      samples.push_back(end_of(rows.bytes.first((end - rows.first).value() * row)));
    }
    EXPECT_EQ(samples.size(), 2U);
    return samples;
  }
  void days_pass(int days) {
    since_start.advance(std::chrono::days(days));
    wall.set(wall.now() + std::chrono::days(days));
  }
  static ContentDigest content(std::uint32_t seed) { return content_digest(picture(seed)); }

  SystemClock clock;
  ManualClock since_start;
  testing::ManualWallClock wall{WallTime(std::chrono::sys_days(std::chrono::days(20'000)))};
  testing::TemporaryFolder folder;
  MemoryBudget memory{64_MiB};
  MemoryBudget near{1_MiB};
  HostTier host{near};
  std::unique_ptr<DiskTier> disk;
  std::optional<TierStack> stack;
  std::unique_ptr<ReferenceEngine> engine = testing::tiny_engine(clock);
  std::unique_ptr<Reuse> reuse;
  GenerateOptions options{.max_tokens = TokenCount(3)};
  int asked = 0;
};

TEST_F(Erase, APictureIsInNoCacheAndInNoFileAndIsEncodedAnew) {
  ask(question(1));
  ask(question(2));
  const std::vector<std::string> ours = samples(question(1));
  const std::vector<std::string> others = samples(question(2));
  ASSERT_TRUE(stack->flush().has_value());
  for (const std::string& sample : ours) ASSERT_TRUE(folder_has(folder.path(), sample));
  for (const std::string& sample : others) ASSERT_TRUE(folder_has(folder.path(), sample));
  ASSERT_TRUE(ask(question(1)).answered) << "from the cache";

  const EraseReport report = reuse->erase({.media = content(1)}).value();
  EXPECT_EQ(report.encoder_outputs, EntryCount(1));
  EXPECT_GT(report.kv_tokens, 0U);
  EXPECT_EQ(report.answers.entries, EntryCount(1));
  EXPECT_GE(report.stored, EntryCount(2));
  EXPECT_EQ(report.unfinished, 0U);
  for (const std::string& sample : ours) EXPECT_FALSE(folder_has(folder.path(), sample));
  for (const std::string& sample : others) EXPECT_TRUE(folder_has(folder.path(), sample));
  EXPECT_EQ(encoder_calls(2), 0U);
  EXPECT_EQ(encoder_calls(1), 1U);
  EXPECT_FALSE(ask(question(1)).answered) << "generated again";
}

TEST_F(Erase, AlsoWhatAnEarlierProcessStored) {
  ask(question(1));
  ask(question(2));
  open();
  const EraseReport report = reuse->erase({.media = content(1)}).value();
  EXPECT_EQ(report.encoder_outputs, EntryCount(0));
  EXPECT_GE(report.stored, EntryCount(2));
  open();
  EXPECT_EQ(encoder_calls(2), 0U);
  EXPECT_EQ(encoder_calls(1), 1U);
}

// A page may be in any document: nothing of it is left when one is erased, nor of what shared its namespace.
TEST_F(Erase, PagesOfDocumentsWithAnyMediaItem) {
  const std::vector<std::uint8_t> rgbx(std::size_t{4} * 40 * 30, 77);
  const MediaItem page = testing::media_item(Modality::kImage, ppm_of_rgbx(rgbx, 40, 30));
  const auto about_the_page = [&](const std::string& words) {
    Request request{.id = RequestId("p"), .tenant = TenantId("a")};
    request.messages.push_back({.role = Role::kUser, .parts = {page, words}});
    return request;
  };
  ask(about_the_page("What is it?"));
  ask(question(2, "b"));
  ASSERT_TRUE(ask(about_the_page("What is it?")).answered);
  const EraseReport report = reuse->erase({.media = content(99)}).value();
  EXPECT_EQ(report.encoder_outputs, EntryCount(1));
  EXPECT_GT(report.kv_tokens, 0U);
  EXPECT_EQ(report.answers.entries, EntryCount(1));
  EXPECT_GE(report.stored, EntryCount(2));
  EXPECT_EQ(encoder_calls(2, "b"), 0U);
  EXPECT_EQ(ask(about_the_page("Word?")).encoder_calls, 1U);
}

TEST_F(Erase, OneTenantsEntriesOnly) {
  ask(question(1, "a"));
  ask(question(1, "b"));
  const EraseReport report = reuse->erase({.tenant = "a"}).value();
  EXPECT_EQ(report.encoder_outputs, EntryCount(1));
  EXPECT_GT(report.kv_tokens, 0U);
  EXPECT_EQ(report.answers.entries, EntryCount(1));
  EXPECT_EQ(encoder_calls(1, "b"), 0U);
  EXPECT_EQ(encoder_calls(1, "a"), 1U);
  // A picture is erased for all tenants.
  EXPECT_EQ(reuse->erase({.media = content(1)}).value().encoder_outputs, EntryCount(2));
}

TEST_F(Erase, OneModelsEntriesOrAll) {
  ask(question(1));
  const EraseReport other = reuse->erase({.model = "another"}).value();
  EXPECT_EQ(other.encoder_outputs, EntryCount(0));
  EXPECT_EQ(other.kv_tokens, 0U);
  EXPECT_EQ(other.stored, EntryCount(0));
  EXPECT_EQ(other.answers.entries, EntryCount(0));
  EXPECT_EQ(reuse->erase({.model = engine->identity().model}).value().encoder_outputs,
            EntryCount(1));
  EXPECT_EQ(encoder_calls(1), 1U);
  const EraseReport all = reuse->erase({.everything = true}).value();
  EXPECT_EQ(all.encoder_outputs, EntryCount(1));
  EXPECT_EQ(reuse->stats().used, 0_B);
  EXPECT_EQ(disk->stats().entries, EntryCount(0));
}

TEST_F(Erase, WhatRequestsWithATagMade) {
  const auto tagged = [](std::uint32_t seed, std::vector<std::string> tags) {
    Request request = question(seed);
    request.tags = std::move(tags);
    return request;
  };
  ask(tagged(1, {"case:7", "day:1"}));
  ask(tagged(2, {"case:8"}));
  ask(question(3));
  const std::vector<std::string> ours = samples(question(1));
  const std::vector<std::string> others = samples(question(2));
  ASSERT_TRUE(stack->flush().has_value());
  const EraseReport report = reuse->erase({.tag = "case:7"}).value();
  EXPECT_EQ(report.encoder_outputs, EntryCount(1));
  EXPECT_GT(report.kv_tokens, 0U);
  EXPECT_EQ(report.answers.entries, EntryCount(1));
  EXPECT_GE(report.stored, EntryCount(2));
  for (const std::string& sample : ours) EXPECT_FALSE(folder_has(folder.path(), sample));
  for (const std::string& sample : others) EXPECT_TRUE(folder_has(folder.path(), sample));
  open();
  EXPECT_EQ(encoder_calls(1), 1U);
  EXPECT_EQ(encoder_calls(2), 0U);
  EXPECT_EQ(encoder_calls(3), 0U);
  Request many = question(4);
  many.tags.resize(EntryLabels::kMaxTags + 1, "t");
  EXPECT_EQ(serve(many, *engine, *reuse, options).error().code, ErrorCode::kInvalidArgument);
}

// The date is a label of each entry: also what earlier processes made has an age.
TEST_F(Erase, WhatWasMadeBeforeADay) {
  const auto age = [&](int days) { return first_day_kept(std::chrono::days(days), wall); };
  ask(question(1));
  const std::vector<std::string> old = samples(question(1));
  days_pass(2);
  ask(question(2));
  const std::vector<std::string> young = samples(question(2));
  ASSERT_TRUE(stack->flush().has_value());
  const EraseReport nothing = reuse->erase({.made_before = age(3)}).value();
  EXPECT_EQ(nothing.encoder_outputs, EntryCount(0));
  EXPECT_GT(nothing.kv_tokens, 0U) << "KV in memory has no age";
  EXPECT_EQ(disk->stats().erased, 0U);
  for (const std::string& sample : old) EXPECT_TRUE(folder_has(folder.path(), sample));
  const EraseReport report = reuse->erase({.made_before = age(2)}).value();
  EXPECT_EQ(report.encoder_outputs, EntryCount(1));
  EXPECT_EQ(report.answers.entries, EntryCount(1));
  EXPECT_GE(report.stored, EntryCount(2));
  for (const std::string& sample : old) EXPECT_FALSE(folder_has(folder.path(), sample));
  for (const std::string& sample : young) EXPECT_TRUE(folder_has(folder.path(), sample));
  open();
  EXPECT_EQ(encoder_calls(2), 0U);
  days_pass(1);
  EXPECT_GE(reuse->erase({.made_before = age(1)}).value().stored, EntryCount(2))
      << "the day before";
  EXPECT_EQ(encoder_calls(2), 1U);
  EXPECT_FALSE(reuse->erase({.made_before = age(-1)}).has_value());
  EXPECT_FALSE(reuse->erase({.made_before = age(EntryLabels::kMaxDays + 2)}).has_value());
}

TEST_F(Erase, OfExactlyOneThing) {
  EXPECT_EQ(reuse->erase({}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(reuse->erase({.model = "m", .everything = true}).error().code,
            ErrorCode::kInvalidArgument);
}

// What a request that was running stores later goes, too.
TEST_F(Erase, WaitsForRequestsThatAreRunning) {
  ask(question(1, "another"));
  ASSERT_TRUE(stack->flush().has_value());
  const Request request = question(1);
  const RequestIdentity who = identity(request);
  std::optional<MediaPlan> running = reuse->plan_media(who.prints, "");
  ASSERT_EQ(running->to_encode().size(), 1U);
  EXPECT_EQ(reuse->erase({.model = "another"}, 0ms).value().unfinished, 1U);
  EraseReport report;
  std::thread eraser([&] { report = reuse->erase({.media = content(1)}, 20s).value(); });
  while (disk->stats().entries > EntryCount(0)) std::this_thread::yield();  // it erased, and waits
  ASSERT_TRUE(
      running->commit(0, engine->encode(*who.media.front()).value(), Duration(1)).has_value());
  EXPECT_TRUE(stack->flush().has_value());
  running.reset();
  eraser.join();
  EXPECT_EQ(report.unfinished, 0U);
  EXPECT_EQ(reuse->encoder().cache().stats().entries, EntryCount(0));
  EXPECT_EQ(disk->stats().entries, EntryCount(0));
  EXPECT_EQ(encoder_calls(1), 1U);
}

}  // namespace
}  // namespace afterimage

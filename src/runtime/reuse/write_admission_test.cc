// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Which entries Reuse writes to its tier while clients almost never repeat a picture or a prompt.
#include <gtest/gtest.h>

#include <cstring>

#include "afterimage/encode_once.h"
#include "afterimage/prefill_once.h"
#include "afterimage/reuse.h"
#include "afterimage/reuse_stats.h"
#include "afterimage/serve.h"
#include "afterimage/tier.h"
#include "engines/reference/reference_engine.h"
#include "testing/media_files.h"
#include "testing/tiny_engine.h"

namespace afterimage {
namespace {

class WriteAdmissionServe : public ::testing::Test {
 protected:
  void open(ReuseOptions options = {}) {
    options.budget = 64_MiB;
    options.tier = &below;
    options.weigh_loads = false;
    reuse = Reuse::create(options, Secret{}, clock).value();
  }
  /// A prompt of more than one block about that picture, which is after its words: another prompt looks it
  /// up, a repeated one need not.
  Served ask(std::uint32_t picture, const std::string& words = "") {
    Image image = testing::make_picture(16, 16);
    std::memcpy(image.rgb.data(), &picture, sizeof picture);
    Request request{.id = RequestId("r")};
    request.messages.push_back(
        {.role = Role::kUser,
         .parts = {std::to_string(picture) + words + std::string(150, 'x'),
                   testing::media_item(Modality::kImage, testing::make_png(image)), "?"}});
    return serve(request, *engine, *reuse, {.max_tokens = TokenCount(1)}).value();
  }
  void ask_about_different_pictures(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) static_cast<void>(ask(1'000 + i));
  }
  void forget_memory() {
    reuse->encoder().cache().clear();
    reuse->prefix()->cache().clear();
  }

  MemoryBudget below_budget{512_MiB};
  HostTier below{below_budget};
  ManualClock clock;
  std::unique_ptr<ReferenceEngine> engine = testing::tiny_engine(clock);
  std::unique_ptr<Reuse> reuse;
};

TEST_F(WriteAdmissionServe, WhereNothingReturnsNothingIsWrittenAnyMore) {
  open();
  ask_about_different_pictures(200);
  const ReuseStats before = reuse->stats();
  EXPECT_GT(before.encoder_archive.unwritten, 50U);
  EXPECT_GT(before.prefix_archive.unwritten, 50U);
  const std::uint64_t puts = below.stats().puts;
  EXPECT_EQ(ask(5).encoder_calls, 1U);
  EXPECT_EQ(below.stats().puts, puts);
}

TEST_F(WriteAdmissionServe, WhatIsUsedAgainIsWrittenFromMemory) {
  open();
  ask_about_different_pictures(200);
  const Served first = ask(5);
  EXPECT_EQ(ask(5, "again").encoder_calls, 0U);
  forget_memory();
  const Served loaded = ask(5);
  EXPECT_EQ(loaded.encoder_calls, 0U);
  EXPECT_EQ(loaded.sources.front(), MediaSource::kLoaded);
  EXPECT_EQ(loaded.completion.logits, first.completion.logits);
}

TEST_F(WriteAdmissionServe, APromptThatIsComputedAgainIsWritten) {
  open();
  ask_about_different_pictures(200);
  const Served first = ask(5);
  forget_memory();
  EXPECT_EQ(ask(5).completion.resumed_from, TokenCount(0)) << "it was not written";
  forget_memory();
  const Served resumed = ask(5);
  EXPECT_GE(resumed.completion.resumed_from, TokenCount(128));
  EXPECT_EQ(resumed.completion.logits, first.completion.logits);
}

TEST_F(WriteAdmissionServe, WherePicturesReturnEverythingIsWritten) {
  open();
  for (std::uint32_t i = 0; i < 200; ++i) {
    static_cast<void>(ask(i));
    if (i % 10 != 9) continue;
    static_cast<void>(ask(i - 5));
    static_cast<void>(ask(i - 5, "another question"));
  }
  EXPECT_EQ(reuse->stats().encoder_archive.unwritten, 0U);
  EXPECT_EQ(reuse->stats().prefix_archive.unwritten, 0U);
}

TEST_F(WriteAdmissionServe, EverythingIsWrittenOnRequest) {
  open({.weigh_writes = false});
  ask_about_different_pictures(200);
  EXPECT_EQ(reuse->stats().encoder_archive.unwritten, 0U);
  EXPECT_EQ(reuse->stats().prefix_archive.unwritten, 0U);
}

}  // namespace
}  // namespace afterimage

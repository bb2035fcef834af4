// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/service/tier_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "foundation/platform/testing/manual_wall_clock.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Watched {
  std::vector<std::string> lines() {
    log.flush();
    return std::exchange(written, {});
  }
  ManualClock clock;
  testing::ManualWallClock wall{WallTime(1795507200s)};
  std::vector<std::string> written;
  Log log{{}, wall, [this](std::string_view line) {
            written.emplace_back(line);
            return true;
          }};
  TierWatch watch{log, clock};
};

TEST(TierWatch, SaysWhatChangesAndNothingElse) {
  Watched w;
  w.watch.look("remote", "");
  EXPECT_THAT(w.lines(), ElementsAre());
  w.watch.look("remote", "full");
  w.watch.look("remote", "full");
  w.watch.look("disk", "");
  EXPECT_THAT(w.lines(), ElementsAre(AllOf(HasSubstr("tier_degraded"), HasSubstr("remote"),
                                           HasSubstr("full"), HasSubstr("warn"))));
  w.clock.advance(TierWatch::kBetweenLines);
  w.watch.look("remote", "");
  EXPECT_THAT(w.lines(), ElementsAre(AllOf(HasSubstr("tier_recovered"), HasSubstr("remote"))));
}

TEST(TierWatch, WritesOneLineAMinuteForATier) {
  Watched w;
  w.watch.look("remote", "first");
  for (int second = 1; second < 60; ++second) {
    w.clock.advance(1s);
    w.watch.look("remote", second % 2 == 0 ? "" : "reason " + std::to_string(second));
  }
  EXPECT_EQ(w.lines().size(), 1U);
  w.watch.look("disk", "another tier");
  EXPECT_EQ(w.lines().size(), 1U);
  w.clock.advance(1s);
  w.watch.look("remote", "last");
  EXPECT_THAT(w.lines(), ElementsAre(HasSubstr("last")));
}

}  // namespace
}  // namespace afterimage

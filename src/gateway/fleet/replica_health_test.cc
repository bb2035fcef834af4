// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/replica_health.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

using namespace std::chrono_literals;

TEST(ReplicaHealth, ABrokenConnectionEjectsForASecond) {
  ReplicaHealth health;
  EXPECT_FALSE(health.ejected(0s));
  health.called(CallResult::kConnection, 10s, true);
  EXPECT_TRUE(health.ejected(10s));
  EXPECT_TRUE(health.ejected(11s - 1ns));
  EXPECT_FALSE(health.ejected(11s));
  EXPECT_TRUE(health.on_trial(11s));
  health.called(CallResult::kAnswered, 11s, true);
  EXPECT_FALSE(health.on_trial(11s));
}

TEST(ReplicaHealth, EachEjectionInARowIsTwiceAsLongUpToAMinute) {
  ReplicaHealth health;
  Duration now = 100s;
  for (const Duration expected : {1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
    health.called(CallResult::kConnection, now, true);
    EXPECT_EQ(health.ejected_until() - now, expected);
    now = health.ejected_until();
  }
  EXPECT_EQ(health.ejections(), 8U);
}

TEST(ReplicaHealth, AReplicaThatWasWellForLongStartsAgainWithASecond) {
  ReplicaHealth health;
  health.called(CallResult::kConnection, 0s, true);
  health.called(CallResult::kConnection, 1s, true);  // on trial: 2 s
  health.called(CallResult::kAnswered, 3s, true);
  health.called(CallResult::kConnection, 4s, true);  // soon again: 4 s
  EXPECT_EQ(health.ejected_until(), 8s);
  health.called(CallResult::kAnswered, 8s, true);
  health.called(CallResult::kConnection, 100s, true);
  EXPECT_EQ(health.ejected_until(), 101s);
}

TEST(ReplicaHealth, CallsThatWereOnTheirWayNeitherLengthenNorEndAnEjection) {
  ReplicaHealth health;
  health.called(CallResult::kConnection, 0s, true);
  health.called(CallResult::kConnection, 500ms, true);
  health.called(CallResult::kAnswered, 600ms, true);
  EXPECT_EQ(health.ejected_until(), 1s);
  EXPECT_TRUE(health.ejected(999ms));
}

TEST(ReplicaHealth, StatusesEjectOnlyInARowAndIfAnotherReplicaIsAvailable) {
  ReplicaHealth health;
  for (int i = 0; i < 4; ++i) health.called(CallResult::kStatus, 0s, true);
  health.called(CallResult::kAnswered, 0s, true);
  for (int i = 0; i < 4; ++i) health.called(CallResult::kStatus, 0s, true);
  EXPECT_FALSE(health.ejected(0s));
  health.called(CallResult::kStatus, 0s, /*may_eject=*/false);
  EXPECT_FALSE(health.ejected(0s));
  health.called(CallResult::kStatus, 0s, true);
  EXPECT_TRUE(health.ejected(0s));
}

TEST(ReplicaHealth, BusyAndCancelledSayNothing) {
  ReplicaHealth health;
  for (int i = 0; i < 100; ++i) {
    health.called(CallResult::kBusy, 0s, true);
    health.called(CallResult::kCancelled, 0s, true);
  }
  EXPECT_FALSE(health.ejected(0s));
}

TEST(ReplicaHealth, TwoProbesWithoutAnAnswerEjectAndOneWithAnAnswerEndsIt) {
  ReplicaHealth health;
  health.probed(false, 0s);
  EXPECT_FALSE(health.ejected(0s));
  health.probed(false, 5s);
  EXPECT_TRUE(health.ejected(5s));
  health.probed(true, 5500ms);
  EXPECT_FALSE(health.ejected(5500ms));
  EXPECT_FALSE(health.on_trial(5500ms));
}

TEST(ReplicaHealth, AnAnsweredProbeDoesNotEndAnEjectionByStatus) {
  ReplicaHealth health;
  for (int i = 0; i < 5; ++i) health.called(CallResult::kStatus, 0s, true);
  health.probed(true, 500ms);
  EXPECT_TRUE(health.ejected(500ms));
}

TEST(RetryBudget, AllowsAFewAndAShareOfTheRequests) {
  RetryBudget budget;
  int few = 0;
  while (budget.take(1s)) ++few;
  EXPECT_EQ(few, 10);
  for (int i = 0; i < 50; ++i) budget.requested(1s);
  int more = 0;
  while (budget.take(1s)) ++more;
  EXPECT_EQ(more, 10);
}

TEST(RetryBudget, ForgetsAfterAboutAMinute) {
  RetryBudget budget;
  for (int i = 0; i < 1000; ++i) budget.requested(0s);
  while (budget.take(0s)) {
  }
  EXPECT_FALSE(budget.take(1s));
  int again = 0;
  while (budget.take(6000s)) ++again;
  EXPECT_EQ(again, 10);
}

TEST(RetryBudget, AShareOfNothingAllowsNone) {
  RetryBudget budget;
  budget.set_share(0);
  budget.requested(0s);
  EXPECT_FALSE(budget.take(0s));
}

}  // namespace
}  // namespace afterimage

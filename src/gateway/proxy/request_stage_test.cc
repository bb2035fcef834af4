// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/request_stage.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace afterimage {
namespace {

using enum RequestStage;

TEST(RequestStage, GoesBackInThreePlacesOnly) {
  std::set<std::pair<RequestStage, RequestStage>> restarts;
  for (std::size_t from = 0; from < kRequestStages; ++from) {
    for (std::size_t to = 0; to < kRequestStages; ++to) {
      const auto stage = static_cast<RequestStage>(from);
      const auto next = static_cast<RequestStage>(to);
      if (is_restart(stage, next)) restarts.emplace(stage, next);
    }
  }
  EXPECT_EQ(restarts,
            (std::set<std::pair<RequestStage, RequestStage>>{{kJoining, kLookingUp},
                                                             {kWaitingForBackend, kLookingUp},
                                                             {kWaitingForBackend, kJoining}}));
}

TEST(RequestStage, EveryStageLeadsToTheEndAndNothingFollowsIt) {
  std::set<RequestStage> ends{kDone};
  for (std::size_t round = 0; round < kRequestStages; ++round) {
    for (std::size_t from = 0; from < kRequestStages; ++from) {
      for (const RequestStage next : ends) {
        if (!may_follow(static_cast<RequestStage>(from), next)) continue;
        ends.insert(static_cast<RequestStage>(from));
        break;
      }
    }
  }
  EXPECT_EQ(ends.size(), kRequestStages);
  for (std::size_t to = 0; to < kRequestStages; ++to) {
    EXPECT_FALSE(may_follow(kDone, static_cast<RequestStage>(to)));
  }
}

TEST(RequestStage, NoStageIsSkippedOnTheWayToTheBackend) {
  const struct {
    const char* name;
    RequestStage stage;
    RequestStage next;
    bool allowed;
  } kCases[] = {
      {"nothing is looked up before it is read", kReceived, kLookingUp, false},
      {"nor before its media are there", kReceived, kResponding, false},
      {"the leader of a response looks for other gateways first", kLeasing, kWaitingForBackend,
       true},
      {"nobody takes a lease without leading", kLookingUp, kLeasing, false},
      {"a response that has begun is not begun again", kResponding, kJoining, false},
      {"a bypass goes to the backend", kReceived, kWaitingForBackend, true},
  };
  for (const auto& c : kCases) EXPECT_EQ(may_follow(c.stage, c.next), c.allowed) << c.name;
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/request_stage.h"

#include <array>
#include <initializer_list>

namespace afterimage {
namespace {

using enum RequestStage;
using StageSet = std::uint16_t;

constexpr StageSet set_of(std::initializer_list<RequestStage> stages) {
  StageSet set = 0;
  for (const RequestStage stage : stages) {
    set = static_cast<StageSet>(set | 1U << static_cast<unsigned>(stage));
  }
  return set;
}

constexpr std::array<StageSet, kRequestStages> kNext{
    set_of({kReading, kWaitingForBackend, kDone}),                    // kReceived
    set_of({kFetchingMedia, kLookingUp, kWaitingForBackend, kDone}),  // kReading
    set_of({kLookingUp, kDone}),                                      // kFetchingMedia
    set_of({kLookingUpArchive, kLookingUpSimilar, kJoining, kWaitingForBackend, kResponding,
            kDone}),                                            // kLookingUp
    set_of({kLookingUpSimilar, kJoining, kResponding, kDone}),  // kLookingUpArchive
    set_of({kJoining, kResponding, kDone}),                     // kLookingUpSimilar
    set_of({kLookingUp, kLeasing, kWaitingForBackend}),         // kJoining
    set_of({kWaitingForBackend, kResponding, kDone}),           // kLeasing
    set_of({kLookingUp, kJoining, kResponding, kDone}),         // kWaitingForBackend
    set_of({kDone}),                                            // kResponding
    set_of({}),                                                 // kDone
};

}  // namespace

std::string_view to_string(RequestStage stage) {
  constexpr std::array<std::string_view, kRequestStages> kNames{"received",
                                                                "reading",
                                                                "fetching_media",
                                                                "looking_up",
                                                                "looking_up_archive",
                                                                "looking_up_similar",
                                                                "joining",
                                                                "leasing",
                                                                "waiting_for_backend",
                                                                "responding",
                                                                "done"};
  return kNames[static_cast<std::size_t>(stage)];
}

bool may_follow(RequestStage stage, RequestStage next) {
  return (kNext[static_cast<std::size_t>(stage)] >> static_cast<unsigned>(next) & 1U) != 0;
}

bool is_restart(RequestStage stage, RequestStage next) {
  return may_follow(stage, next) && next < stage;
}

}  // namespace afterimage

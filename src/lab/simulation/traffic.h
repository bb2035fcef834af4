// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "lab/workload/trace.h"

namespace afterimage {

/// A part of a prompt. The key names it and everything before it.
struct TrafficPiece {
  std::uint64_t key = 0;
  std::uint32_t tokens = 0;
};

struct TrafficImage {
  std::uint64_t key = 0;
  std::uint32_t tokens = 0;
  std::uint32_t offset = 0;  // its first token in the prompt
  Duration encode{0};        // what encoding it takes; 0: as its tokens say
};

struct SimulatedRequest {
  std::uint64_t session = 0;
  std::uint32_t input_tokens = 0;    // at least those of the pieces
  RequestFacts facts;                // `now` is when it arrives
  std::vector<TrafficPiece> prompt;  // from its first token on
  std::vector<TrafficImage> images;  // in order of offset
};

/// Requests in order of arrival.
class Traffic {
 public:
  virtual ~Traffic() = default;
  /// False: there are no more.
  virtual bool next(SimulatedRequest& request) = 0;
  /// How many there are from the first to the last.
  [[nodiscard]] virtual std::uint64_t requests() const = 0;
};

/// Traffic that is made up: images by Zipf, sessions with turns, agents who share a task's images.
///
/// A task comes with its images and is worked on by some agents, each in a session of its own: its
/// first prompt is the agent's own instructions (the same for all tasks), the images, a question;
/// each further one is the last with its answer and another question.
struct TrafficOptions {
  std::uint64_t requests = 100'000;
  std::uint64_t images = 20'000;  // that there are
  double skew = 0.9;              // of their popularity; 0: all alike
  double rate = 6;                // requests a second, to all nodes together
  std::uint32_t images_per_task = 1;
  std::uint32_t agents = 2;        // who work on a task
  double turns = 3;                // of a session, on average; geometric
  Duration think{20'000'000'000};  // between an answer's beginning and the next turn, on average
  std::uint32_t least_image_tokens = 256;  // sizes are spread evenly by their logarithm
  std::uint32_t most_image_tokens = 1'280;
  std::uint32_t instruction_tokens = 300;
  std::uint32_t question_tokens = 60;
  std::uint32_t answer_tokens = 150;
  std::uint64_t seed = 1;
};

/// kInvalidArgument: what nobody could ask.
Result<std::unique_ptr<Traffic>> generated_traffic(const TrafficOptions& options);

/// A trace's requests; it outlives the object.
std::unique_ptr<Traffic> traced_traffic(const Trace& trace);

/// Two words stirred into one: keys of the simulation, all of them made by it.
[[nodiscard]] std::uint64_t stirred(std::uint64_t a, std::uint64_t b);

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "bench/workload/trace.h"

namespace afterimage {

/// A part of a prompt. Its key identifies it together with everything before it.
struct TrafficPiece {
  std::uint64_t key = 0;
  std::uint32_t tokens = 0;
};

struct TrafficImage {
  std::uint64_t key = 0;
  std::uint32_t tokens = 0;
  std::uint32_t offset = 0;  // its first token in the prompt
  Duration encode{0};        // time to encode it; 0: derived from its tokens
};

struct SimulatedRequest {
  std::uint64_t session = 0;
  std::uint32_t input_tokens = 0;    // at least the sum of the pieces
  RequestFacts facts;                // `now` is the arrival time
  std::vector<TrafficPiece> prompt;  // from its first token on
  std::vector<TrafficImage> images;  // in order of offset
};

/// A stream of requests in order of arrival.
class Traffic {
 public:
  virtual ~Traffic() = default;
  /// False: there are no more requests.
  virtual bool next(SimulatedRequest& request) = 0;
  /// Total number of requests.
  [[nodiscard]] virtual std::uint64_t requests() const = 0;
};

/// Generated traffic: images by Zipf's law, sessions with turns, agents that share a task's images.
///
/// A task has images and is worked on by some agents, each in its own session: the first prompt is
/// the agent's instructions (the same for all tasks), the images and a question; each further
/// prompt is the previous one with its answer and another question.
struct TrafficOptions {
  std::uint64_t requests = 100'000;
  std::uint64_t images = 20'000;  // distinct images
  double skew = 0.9;              // Zipf exponent of their popularity; 0: uniform
  double rate = 6;                // requests a second, all nodes together
  std::uint32_t images_per_task = 1;
  std::uint32_t agents = 2;                // per task
  double turns = 3;                        // per session, on average; geometric
  Duration think{20'000'000'000};          // average time from an answer's start to the next turn
  std::uint32_t least_image_tokens = 256;  // sizes are log-uniform
  std::uint32_t most_image_tokens = 1'280;
  std::uint32_t instruction_tokens = 300;
  std::uint32_t question_tokens = 60;
  std::uint32_t answer_tokens = 150;
  std::uint64_t seed = 1;
};

/// kInvalidArgument: options out of range.
Result<std::unique_ptr<Traffic>> generated_traffic(const TrafficOptions& options);

/// The requests of a trace, which must outlive the object.
std::unique_ptr<Traffic> traced_traffic(const Trace& trace);

/// Combines two words into one key of the simulation.
[[nodiscard]] std::uint64_t mixed_key(std::uint64_t a, std::uint64_t b);

}  // namespace afterimage

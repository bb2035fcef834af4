// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>

#include "afterimage/result.h"
#include "afterimage/units.h"
#include "bench/load/load_trace.h"

namespace afterimage {

/// Generated load: who shares which picture.
///
/// A task has some pictures and is worked on by some agents, each in a session of its own: the first
/// turn shows the pictures and asks a question, further turns ask more. Popular pictures are drawn
/// by Zipf's law; a share of all pictures is new and seen in no other task. A share of the sessions
/// repeats an earlier one word for word.
struct LoadTraffic {
  std::uint32_t requests = 1000;
  double rate = 8;              // requests a second, on average; Poisson arrivals of sessions
  std::uint32_t images = 1000;  // popular pictures
  double skew = 0.9;            // Zipf exponent of their popularity; 0: uniform
  double new_images = 0.1;      // share of pictures that are new
  std::uint32_t images_per_task = 1;
  std::uint32_t agents = 2;        // per task
  double turns = 3;                // per session, on average; geometric
  double repeats = 0;              // share of sessions that repeat an earlier one
  Duration think{10'000'000'000};  // between two turns of a session, on average; exponential
  std::uint32_t systems = 4;       // distinct system prompts, by Zipf's law; 0: none
  std::uint32_t least_side = 256;  // pixels; sizes are log-uniform
  std::uint32_t most_side = 512;
  std::uint32_t system_words = 150;
  std::uint32_t question_words = 40;
  std::uint32_t answer_words = 60;
  std::uint32_t max_tokens = 64;
  std::uint64_t seed = 1;
};

/// Errors   kInvalidArgument: options out of range.
/// Cost     Linear in the requests. The same options give the same load on every machine.
[[nodiscard]] Result<LoadTrace> generate_load(const LoadTraffic& options);

/// What a load contains, counted once.
struct LoadContent {
  std::uint64_t sessions = 0;
  std::uint64_t picture_uses = 0;   // in all prompts, those of earlier turns included
  std::uint64_t pictures = 0;       // distinct
  std::uint64_t shared = 0;         // distinct pictures that several sessions show
  std::uint64_t picture_bytes = 0;  // of the distinct ones, about
  Duration length{0};               // from the first to the last arrival
};
[[nodiscard]] LoadContent count_content(const LoadTrace& trace);

}  // namespace afterimage

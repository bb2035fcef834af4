// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/units.h"

namespace afterimage {

/// How several devices share the media encoder. kWeights: split its weights and exchange
/// activations twice per block. kData: split the items, with the whole encoder on each device, and
/// gather once at the end.
enum class EncoderParallelMode : unsigned char { kWeights, kData };
/// The value of the launch flag --mm-encoder-tp-mode: "weights", "data".
std::string_view to_string(EncoderParallelMode mode);

struct EncoderFacts {
  double parameter_share = 0;      // the encoder's parameters over the whole model's, 0 … 1
  std::uint32_t depth = 0;         // blocks; each costs two all-reduces when weights are split
  Bytes weight_bytes{};            // of the whole encoder
  bool supports_data_mode = true;  // the engine has data mode for this model
};

/// A typical request. A step's encoder batch mixes the images of many requests.
struct EncoderWorkload {
  std::uint32_t images = 0;  // per request
  std::uint32_t width = 0;   // pixels
  std::uint32_t height = 0;
};

struct EncoderDeployment {
  std::uint32_t tensor_parallel_size = 1;
  Bytes headroom{};  // left on the fullest device once weights, KV cache and activations are placed
};

/// Request throughput of data mode over weights mode, in percent.
struct GainInterval {
  double low = 0;
  double high = 0;
  bool operator==(const GainInterval&) const = default;
};

/// Advice for launching an engine, which cannot change the mode while it serves.
struct ParallelAdvice {
  EncoderParallelMode mode = EncoderParallelMode::kWeights;
  GainInterval expected_gain;  // of data mode, whatever the advice; measured on similar workloads
  std::vector<std::string> prerequisites;  // of data mode, for a person
  std::string reason;                      // for a person
};

/// Memory that data mode costs each device: the part of the encoder that it does not hold already.
[[nodiscard]] Bytes replicated_weight_bytes(const EncoderFacts& facts,
                                            const EncoderDeployment& deployment);

/// Advises data mode, unless it gains nothing or is not possible. It gains nothing with a small
/// encoder (below 1 % of the model) on many images (10 or more) of modest size (up to 512 × 512
/// pixels in area), where the encoder is a small part of the work. It is not possible with a single
/// device, without the model's support, or without headroom for the replicated weights.
///
/// Source   The caution that AMD published with its measurements. On these 27 workloads
///          (amd_parallel_measurements) the advice is 0.05 points of throughput below an oracle on
///          average, data mode everywhere 0.10. The 512 is fitted to the same 27.
[[nodiscard]] ParallelAdvice advise_encoder_parallelism(const EncoderFacts& facts,
                                                        const EncoderWorkload& workload,
                                                        const EncoderDeployment& deployment);

/// One published measurement: square images, 8 devices, 64 requests in flight.
struct ParallelMeasurement {
  std::string_view model;
  double parameter_share;
  std::uint32_t depth;
  std::uint32_t side;  // pixels
  std::uint32_t images;
  double gain_percent;  // of data mode
};

/// AMD, 2 January 2026: three models, three sizes, three counts; 8 × MI300X, vLLM 0.11.2.
[[nodiscard]] std::span<const ParallelMeasurement> amd_parallel_measurements();

}  // namespace afterimage

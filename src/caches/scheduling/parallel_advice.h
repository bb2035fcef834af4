// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/units.h"

namespace afterimage {

/// How several devices share the media encoder: split its weights, and exchange activations twice a
/// block; or split the items, with the whole encoder on each device, and gather once at the end.
enum class EncoderParallelMode : unsigned char { kWeights, kData };
/// As the launch flag --mm-encoder-tp-mode spells it: "weights", "data".
std::string_view to_string(EncoderParallelMode mode);

struct EncoderFacts {
  double parameter_share = 0;      // the encoder's parameters over the whole model's, 0 … 1
  std::uint32_t depth = 0;         // blocks; each costs two all-reduces when weights are split
  Bytes weight_bytes{};            // of the whole encoder
  bool supports_data_mode = true;  // the engine has data mode for this model
};

/// What requests typically carry. A step's encoder batch mixes the images of many requests.
struct EncoderWorkload {
  std::uint32_t images = 0;  // a request
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

/// Advice for a launch: an engine cannot change the mode while it serves.
struct ParallelAdvice {
  EncoderParallelMode mode = EncoderParallelMode::kWeights;
  GainInterval expected_gain;  // of data mode, whatever the advice; measured on similar workloads
  std::vector<std::string> prerequisites;  // of data mode, for a person
  std::string reason;                      // for a person
};

/// What data mode costs each device: the part of the encoder that it does not hold already.
[[nodiscard]] Bytes replicated_weight_bytes(const EncoderFacts& facts,
                                            const EncoderDeployment& deployment);

/// Data mode, unless nothing is gained or it cannot be had. Nothing is gained from a small encoder
/// (below 1 % of the model) on many images (10 or more) of modest size (up to 512 × 512 pixels in
/// area), where the encoder is little of the work to begin with. It cannot be had with a single
/// device, without the model's support, or without headroom for the replicated weights.
///
/// Source  The caution that AMD published with its measurements. On these 27 workloads
///         (amd_parallel_measurements) the advice is 0.05 points of throughput below an oracle on
///         average, data mode everywhere 0.10. The 512 is fitted to the same 27.
[[nodiscard]] ParallelAdvice advise_encoder_parallelism(const EncoderFacts& facts,
                                                        const EncoderWorkload& workload,
                                                        const EncoderDeployment& deployment);

/// The rule of the first VisualKVCache, kept to be compared with: does it recommend data mode?
/// It knows neither the model's size nor the deployment, and asks for 512 pixels on both sides.
[[nodiscard]] bool seed_rule(std::uint32_t images, std::uint32_t width, std::uint32_t height,
                             std::uint32_t depth);

/// Gives advice and counts how often it was data mode, for a metric. Not thread-safe.
class ParallelAdvisor {
 public:
  [[nodiscard]] ParallelAdvice advise(const EncoderFacts& facts, const EncoderWorkload& workload,
                                      const EncoderDeployment& deployment);
  /// Times the advice was data mode; other advice is not counted.
  [[nodiscard]] std::uint64_t data_recommendations() const { return data_recommendations_; }

 private:
  std::uint64_t data_recommendations_ = 0;
};

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

/// How a rule does on the measurements. Gains and regret are means in percentage points.
struct ParallelRuleScore {
  std::size_t workloads = 0;
  std::size_t right = 0;  // chose the faster mode
  double gain = 0;        // what its choices gain over weights mode everywhere
  double regret = 0;      // what an oracle gains above that
};
using ParallelRule = std::function<bool(const ParallelMeasurement&)>;  // true: data mode
[[nodiscard]] ParallelRuleScore parallel_advice_regret(const ParallelRule& rule);

}  // namespace afterimage

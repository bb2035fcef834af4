// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/scheduling/parallel_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace afterimage {
namespace {

constexpr double kSmallShare = 0.01;
constexpr std::uint32_t kManyImages = 10;
constexpr std::uint64_t kModestPixels = 512ULL * 512;
constexpr std::uint32_t kMeasuredDevices = 8;
constexpr std::uint32_t kMeasuredRequests = 64;

constexpr auto kAmd = std::to_array<ParallelMeasurement>({
    {"Qwen3-VL-235B-A22B", 0.002, 27, 256, 1, 6.0},
    {"Qwen3-VL-235B-A22B", 0.002, 27, 256, 3, -1.0},
    {"Qwen3-VL-235B-A22B", 0.002, 27, 256, 10, 0.1},
    {"Qwen3-VL-235B-A22B", 0.002, 27, 512, 1, 0.6},
    {"Qwen3-VL-235B-A22B", 0.002, 27, 512, 3, 19.2},
    {"Qwen3-VL-235B-A22B", 0.002, 27, 512, 10, -1.5},
    {"Qwen3-VL-235B-A22B", 0.002, 27, 1024, 1, 17.1},
    {"Qwen3-VL-235B-A22B", 0.002, 27, 1024, 3, 3.4},
    {"Qwen3-VL-235B-A22B", 0.002, 27, 1024, 10, 11.6},
    {"step3", 0.016, 63, 256, 1, 17.8},
    {"step3", 0.016, 63, 256, 3, 10.3},
    {"step3", 0.016, 63, 256, 10, 9.0},
    {"step3", 0.016, 63, 512, 1, 33.1},
    {"step3", 0.016, 63, 512, 3, 43.6},
    {"step3", 0.016, 63, 512, 10, 4.6},
    {"step3", 0.016, 63, 1024, 1, 14.7},
    {"step3", 0.016, 63, 1024, 3, 2.6},
    {"step3", 0.016, 63, 1024, 10, -0.3},
    {"InternVL3.5-241B-A28B", 0.023, 45, 256, 1, 5.8},
    {"InternVL3.5-241B-A28B", 0.023, 45, 256, 3, 14.6},
    {"InternVL3.5-241B-A28B", 0.023, 45, 256, 10, 10.0},
    {"InternVL3.5-241B-A28B", 0.023, 45, 512, 1, 5.9},
    {"InternVL3.5-241B-A28B", 0.023, 45, 512, 3, 18.4},
    {"InternVL3.5-241B-A28B", 0.023, 45, 512, 10, 7.3},
    {"InternVL3.5-241B-A28B", 0.023, 45, 1024, 1, 19.6},
    {"InternVL3.5-241B-A28B", 0.023, 45, 1024, 3, 32.5},
    {"InternVL3.5-241B-A28B", 0.023, 45, 1024, 10, 44.9},
});

/// Workloads that the rule treats alike, and whose measurements therefore speak for each other.
enum class WorkloadClass : unsigned char { kSmallEncoderManyModestImages, kSmallEncoder, kEncoder };

WorkloadClass classify(double parameter_share, std::uint32_t images, std::uint64_t pixels) {
  // An unknown share (NaN) does not count as small: a wrong "data" costs less than a wrong
  // "weights".
  if (!(parameter_share < kSmallShare)) return WorkloadClass::kEncoder;
  return images >= kManyImages && pixels <= kModestPixels
             ? WorkloadClass::kSmallEncoderManyModestImages
             : WorkloadClass::kSmallEncoder;
}

std::uint64_t pixels_of(const EncoderWorkload& workload) {
  return std::uint64_t{workload.width} * workload.height;
}

bool has_images(const EncoderWorkload& workload) {
  return workload.images > 0 && pixels_of(workload) > 0;
}

GainInterval measured_gain(WorkloadClass like) {
  bool first = true;
  GainInterval gain;
  for (const ParallelMeasurement& cell : kAmd) {
    const std::uint64_t pixels = std::uint64_t{cell.side} * cell.side;
    if (classify(cell.parameter_share, cell.images, pixels) != like) continue;
    gain.low = first ? cell.gain_percent : std::min(gain.low, cell.gain_percent);
    gain.high = first ? cell.gain_percent : std::max(gain.high, cell.gain_percent);
    first = false;
  }
  return gain;
}

std::vector<std::string> prerequisites_of(const EncoderFacts& facts,
                                          const EncoderDeployment& deployment) {
  return {
      "launch the engine with --mm-encoder-tp-mode data: the mode is fixed while it serves",
      "the engine supports data mode for this model's encoder",
      fmt::format("{} bytes of replicated weights on each device; headroom is {}",
                  replicated_weight_bytes(facts, deployment).value(), deployment.headroom.value()),
      fmt::format("enough requests in flight to give each device an image: measured with {} "
                  "devices and {} requests, here {} devices",
                  kMeasuredDevices, kMeasuredRequests, deployment.tensor_parallel_size),
  };
}

/// Why data mode is not possible, or "".
std::string obstacle(const EncoderFacts& facts, const EncoderWorkload& workload,
                     const EncoderDeployment& deployment) {
  if (deployment.tensor_parallel_size < 2) {
    return "one device holds the whole encoder: there is nothing to split";
  }
  if (!has_images(workload)) return "there are no images to split";
  if (!facts.supports_data_mode) return "the engine has no data mode for this model's encoder";
  const Bytes needed = replicated_weight_bytes(facts, deployment);
  if (deployment.headroom < needed) {
    return fmt::format("replicating the encoder takes {} more bytes on each device and {} are free",
                       needed.value(), deployment.headroom.value());
  }
  return "";
}

}  // namespace

std::string_view to_string(EncoderParallelMode mode) {
  return mode == EncoderParallelMode::kData ? "data" : "weights";
}

Bytes replicated_weight_bytes(const EncoderFacts& facts, const EncoderDeployment& deployment) {
  const std::uint64_t devices = std::max(1U, deployment.tensor_parallel_size);
  return Bytes(facts.weight_bytes.value() - facts.weight_bytes.value() / devices);
}

ParallelAdvice advise_encoder_parallelism(const EncoderFacts& facts,
                                          const EncoderWorkload& workload,
                                          const EncoderDeployment& deployment) {
  const WorkloadClass like = classify(facts.parameter_share, workload.images, pixels_of(workload));
  ParallelAdvice advice{.mode = EncoderParallelMode::kWeights,
                        .expected_gain = measured_gain(like),
                        .prerequisites = prerequisites_of(facts, deployment),
                        .reason = obstacle(facts, workload, deployment)};
  if (!advice.reason.empty()) {
    // With one device, or without images, both modes are the same.
    if (deployment.tensor_parallel_size < 2 || !has_images(workload)) advice.expected_gain = {};
    return advice;
  }
  if (like == WorkloadClass::kSmallEncoderManyModestImages) {
    advice.reason = fmt::format(
        "the encoder is {:.2g} % of the model and a request brings {} images of {} × {}: "
        "measurements of such workloads show no gain",
        100 * facts.parameter_share, workload.images, workload.width, workload.height);
    return advice;
  }
  advice.mode = EncoderParallelMode::kData;
  advice.reason = fmt::format("one gather replaces {} all-reduces each time the encoder runs",
                              2 * std::uint64_t{facts.depth});
  return advice;
}

std::span<const ParallelMeasurement> amd_parallel_measurements() { return kAmd; }

}  // namespace afterimage

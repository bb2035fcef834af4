// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_kernels/kernels.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <vector>

namespace afterimage {

#if defined(__x86_64__)
extern const LlamaKernels kLlamaAvx2Kernels;
extern const LlamaKernels kLlamaAvx512Kernels;
#elif defined(__aarch64__)
extern const LlamaKernels kLlamaNeonKernels;
extern const LlamaKernels kLlamaNeonDotKernels;
#endif

namespace {

std::vector<const LlamaKernels*> detect() {
  std::vector<const LlamaKernels*> found;
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                        __builtin_cpu_supports("f16c") != 0;
  if (has_avx2 && __builtin_cpu_supports("avx512f") != 0 &&
      __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vnni") != 0) {
    found.push_back(&kLlamaAvx512Kernels);
  }
  if (has_avx2) found.push_back(&kLlamaAvx2Kernels);
#elif defined(__aarch64__)
  if ((::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) found.push_back(&kLlamaNeonDotKernels);
  found.push_back(&kLlamaNeonKernels);
#endif
  return found;
}

std::size_t rounded(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

std::span<const LlamaKernels* const> supported_llama_kernels() {
  static const std::vector<const LlamaKernels*> kFound = detect();
  return kFound;
}

std::size_t pack_unit(WeightType type) { return type >= WeightType::kQ4K ? 256 : 32; }

std::size_t packed_bytes(WeightType type, std::size_t inner) {
  if (type <= WeightType::kBF16) return rounded(inner, 16) * sizeof(float);
  // A byte each, a scale for each block, and the sums of groups (see pack_blocks, pack_k_blocks).
  const std::size_t scales = inner / pack_unit(type) * sizeof(float);
  const bool has_minima = type == WeightType::kQ4K || type == WeightType::kQ5K;
  const std::size_t sums = has_minima ? inner / 16 : inner / 8;
  return rounded(inner + scales + sums, 64);
}

std::size_t attention_scratch(std::size_t key_width, std::size_t value_width, std::size_t rows) {
  constexpr std::size_t kMask = (kKeyBlock + 16) * sizeof(float) * 2;  // of a row, at least
  return ((kKeyBlock + 16) * rounded(key_width, 16) + kKeyBlock * rounded(value_width, 16)) *
             sizeof(float) +
         rows * kMask;
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/kernel.h"

#include <string>
#include <vector>

namespace afterimage {

extern const Kernels kBaselineKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

namespace {

std::vector<const Kernels*> detect() {
  std::vector<const Kernels*> found;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") != 0) found.push_back(&kAvx512Kernels);
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) {
    found.push_back(&kAvx2Kernels);
  }
#endif
  found.push_back(&kBaselineKernels);
  return found;
}

}  // namespace

std::span<const Kernels* const> supported_kernels() {
  static const std::vector<const Kernels*> kFound = detect();
  return kFound;
}

Result<const Kernels*> kernels_named(std::string_view name) {
  if (name.empty()) return supported_kernels().front();
  std::string known;
  for (const Kernels* kernels : supported_kernels()) {
    if (kernels->name == name) return kernels;
    known += std::string(known.empty() ? "" : ", ") + kernels->name;
  }
  return fail(ErrorCode::kUnsupported,
              "no kernels named \"" + std::string(name) + "\"; this machine supports " + known);
}

}  // namespace afterimage

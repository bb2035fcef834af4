// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "cli/llama_program.h"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <system_error>

namespace afterimage {
namespace {

constexpr const char* kName = "afterimage-llama-" AFTERIMAGE_VERSION;
constexpr std::array kFolders{".", "../lib/afterimage"};

/// What scripts/build-llama.sh --portable compiles for.
bool processor_runs_it() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
         __builtin_cpu_supports("f16c") != 0 && __builtin_cpu_supports("bmi2") != 0;
#else
  return true;
#endif
}

}  // namespace

void become_llama_program(char** argv) {
  if (!processor_runs_it()) return;
  std::error_code unknown;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
  if (here.empty()) return;
  for (const char* const folder : kFolders) {
    const auto program = here / folder / kName;
    ::execv(program.c_str(), argv);  // returns if there is no such program
  }
}

}  // namespace afterimage

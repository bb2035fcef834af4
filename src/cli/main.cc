// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "cli/llama_program.h"
#include "cli/program.h"
#include "cli/verbs.h"

namespace afterimage {
namespace {

/// Verbs that were here before the lab had its own program.
constexpr std::array<std::string_view, 6> kVerbsOfTheLab{"experiment", "sweep",    "pairs",
                                                         "simulate",   "pressure", "certify"};

void add_verbs(CLI::App& program, World& world, ExitCode& code) {
#include "built_verbs.inc"  // add_run(program, world, code); and so on, for the verbs of this build
}

}  // namespace
}  // namespace afterimage

int main(int argc, char** argv) {
  using namespace afterimage;
  if (argc > 1 && std::ranges::find(kVerbsOfTheLab, argv[1]) != kVerbsOfTheLab.end()) {
    fmt::print(stderr, "afterimage: this is `afterimage-lab {}` now\n", argv[1]);
    return static_cast<int>(ExitCode::kUsageError);
  }
  if constexpr (!AFTERIMAGE_HAS_LLAMA) become_llama_program(argv);
  return run_program({.description = "Afterimage, the reuse engine for multimodal LLM serving: "
                                     "encode once, prefill once, answer once.",
                      .footer = "",
                      .missing_verbs = AFTERIMAGE_VERBS_HINT},
                     add_verbs, argc, argv);
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "cli/program.h"
#include "lab/cli/verbs.h"

namespace afterimage {
namespace {

void add_verbs(CLI::App& program, World& world, ExitCode& code) {
  add_experiment(program, world, code);
  add_sweep(program, world, code);
  add_ablation(program, world, code);
  add_pairs(program, world, code);
  add_simulate(program, world, code);
  add_pressure(program, world, code);
  add_certify(program, world, code);
}

}  // namespace
}  // namespace afterimage

int main(int argc, char** argv) {
  return afterimage::run_program(
      {.description =
           "Experiments with Afterimage's caches: what they serve wrongly, what they keep "
           "under pressure, what a cluster of them would save.",
       .footer =
           "To begin:\n"
           "  afterimage-lab experiment            are traps among 12,000 questions answered "
           "from the cache?\n"
           "  afterimage-lab simulate --nodes 1,10,100\n"
           "                                       what a larger cluster finds, and where\n"
           "  afterimage-lab pressure --script examples/pressure/bursts.txt\n"
           "                                       what is kept while another program takes "
           "the memory\n"
           "  afterimage-lab certify --workload examples/agents.jsonl --size full\n"
           "                                       what moved images would cost on one model\n"
           "\n",
       .missing_verbs = ""},
      afterimage::add_verbs, argc, argv);
}

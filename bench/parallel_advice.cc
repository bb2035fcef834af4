// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// How good is the advice on AMD's 27 published workloads, beside the seed's rule and no advice?
#include <cstdio>

#include "caches/scheduling/testing/parallel_rules.h"

using namespace afterimage;
using namespace afterimage::testing;

namespace {

bool advised(const ParallelMeasurement& cell) {
  const ParallelAdvice advice =
      advise_encoder_parallelism({.parameter_share = cell.parameter_share, .depth = cell.depth},
                                 {.images = cell.images, .width = cell.side, .height = cell.side},
                                 {.tensor_parallel_size = 8, .headroom = Bytes::max()});
  return advice.mode == EncoderParallelMode::kData;
}

bool seed(const ParallelMeasurement& cell) {
  return seed_rule(cell.images, cell.side, cell.side, cell.depth);
}

void print(const char* name, const ParallelRule& rule) {
  const ParallelRuleScore score = parallel_advice_regret(rule);
  std::printf("%-24s right %2zu of %zu   mean gain %6.2f %%   regret %5.2f points\n", name,
              score.right, score.workloads, score.gain, score.regret);
}

}  // namespace

int main() {
  print("our advice", advised);
  print("always data-parallel", [](const ParallelMeasurement&) { return true; });
  print("the seed's rule", seed);
  print("never", [](const ParallelMeasurement&) { return false; });
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes give a pair or an error with a message, and any pair can be judged and reported.
#include <cstdint>
#include <string_view>

#include "afterimage/result.h"
#include "lab/pairs/pairs.h"
#include "lab/pairs/pairs_curve.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto pair = parse_pair_line({reinterpret_cast<const char*>(data), size});
  if (!pair.has_value()) {
    AFI_CHECK(!pair.error().message.empty());
    return 0;
  }
  const QuestionPairs pairs{.pairs = {*std::move(pair)}, .rejected = {}};
  const PairsReport report = judge_pairs(pairs.pairs);
  AFI_CHECK(report.safe().matched <= 1);
  AFI_CHECK(!to_json(report, pairs, {}).empty() && !to_table(report, pairs, 1).empty());
  return 0;
}

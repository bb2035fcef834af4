// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// The first byte: whole or stream, and the size of the pieces in which the rest comes. Any bytes are an
// answer or a failure with a message, and pieces change nothing.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "afterimage/result.h"
#include "bench/load/answer_timing.h"

using namespace afterimage;

namespace {

AnswerTiming read(std::string_view bytes, bool is_stream, std::size_t piece) {
  AnswerTiming timing(is_stream);
  Duration now{1};
  while (!bytes.empty()) {
    timing.feed(bytes.substr(0, piece), now);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    now += Duration(1);
  }
  const bool valid = timing.end();
  AFI_CHECK(valid == timing.failure().empty());
  AFI_CHECK(timing.cached_tokens() <= timing.prompt_tokens());
  AFI_CHECK(timing.first().has_value() <= timing.last().has_value());
  if (timing.first()) AFI_CHECK(*timing.first() <= *timing.last());
  return timing;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool is_stream = (data[0] & 1U) != 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const AnswerTiming whole = read(bytes, is_stream, bytes.size() + 1);
  const AnswerTiming pieces = read(bytes, is_stream, 1 + data[0] / 2U);
  AFI_CHECK(whole.failure() == pieces.failure());
  AFI_CHECK(whole.output_tokens() == pieces.output_tokens());
  AFI_CHECK(whole.prompt_tokens() == pieces.prompt_tokens());
  return 0;
}

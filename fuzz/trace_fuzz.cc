// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes, plain or gzipped, are a consistent trace or an error, and a trace survives being
// written and read.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "bench/workload/trace.h"

using namespace afterimage;

namespace {

void check_request(const TraceRequest& request, const Trace& trace,
                   std::vector<std::uint32_t>& parent) {
  AFI_CHECK(request.input_tokens > 0);
  AFI_CHECK(request.session == kNoSession || request.session < trace.sessions);
  std::uint32_t before = trace.distinct_blocks;
  for (const std::uint32_t block : request.blocks) {
    AFI_CHECK(block < trace.distinct_blocks);
    if (parent[block] == UINT32_MAX) parent[block] = before;
    AFI_CHECK(parent[block] == before);
    AFI_CHECK(before == trace.distinct_blocks || before < block);
    before = block;
  }
  std::uint32_t end = 0;
  for (const TraceMedia& media : request.media) {
    AFI_CHECK(media.item < trace.items.size() && media.offset >= end);
    end = media.offset + trace.items[media.item].tokens;
    AFI_CHECK(end <= request.input_tokens);
  }
}

}  // namespace

/// The first byte selects the format of the rest.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto content = std::as_bytes(std::span(data, size)).subspan(1);
  const auto trace = parse_trace(content, "fuzz", static_cast<TraceFormat>(data[0] % 4));
  if (!trace) {
    AFI_CHECK(!trace.error().message.empty());
    return 0;
  }
  AFI_CHECK(!trace->requests.empty());
  AFI_CHECK(std::ranges::is_sorted(trace->requests, {}, &TraceRequest::at));
  std::vector<std::uint32_t> parent(trace->distinct_blocks, UINT32_MAX);
  for (const TraceRequest& request : trace->requests) check_request(request, *trace, parent);

  // Ids are assigned in order of appearance, which sorting by time may change, so compare after a
  // second round.
  const std::string text = to_text(*trace);
  const auto again = parse_trace(std::as_bytes(std::span(text)), "text").value();
  const std::string settled = to_text(again);
  AFI_CHECK(again.requests.size() == trace->requests.size());
  AFI_CHECK(again.distinct_blocks == trace->distinct_blocks);
  AFI_CHECK(to_text(parse_trace(std::as_bytes(std::span(settled)), "text").value()) == settled);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/eviction_policy.h"
#include "afterimage/media.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "bench/workload/workload.h"
#include "foundation/platform/files.h"

namespace afterimage {

std::string_view to_string(TurnKind kind);    // "unknown", "human", "tool_result"
std::string_view to_string(StopReason stop);  // "unknown", "end_turn", "tool_use", "other"

/// One image, audio clip or video of a trace: one encoder output.
struct TraceItem {
  Modality modality = Modality::kImage;
  ContentDigest content;
  std::uint32_t tokens = 0;  // rows of the encoder's output
  Duration encode{0};        // time that encoding took
};

/// The place of an item in a prompt.
struct TraceMedia {
  std::uint32_t item = 0;    // index into Trace::items
  std::uint32_t offset = 0;  // its first token; its last is within the input
};

inline constexpr std::uint32_t kNoSession = std::numeric_limits<std::uint32_t>::max();

struct TraceRequest {
  Duration at{0};                   // arrival, relative to the trace's own zero
  std::uint32_t input_tokens = 0;   // at least 1
  std::uint32_t output_tokens = 0;  // 0: unknown
  std::uint32_t session = kNoSession;
  TurnKind kind = TurnKind::kUnknown;
  StopReason stop = StopReason::kUnknown;
  ContinuationHint hint = ContinuationHint::kNone;  // sent by the client
  /// Ids of the input's blocks from its first token on. Block i holds the tokens from i ·
  /// block_tokens; the last block may be partial. The list may end before the input does: tokens
  /// without a block never hit.
  std::vector<std::uint32_t> blocks;
  std::vector<TraceMedia> media;  // in order of offset
};

/// Requests to a server, in order of arrival, without their text.
///
/// A block's id stands for the block and everything before it: a block has exactly one parent,
/// whatever the file says (blocks with equal content after different prefixes get different ids).
/// Ids, sessions and items are numbered from 0, and a block's parent has a smaller id than the
/// block.
struct Trace {
  std::uint32_t block_tokens = 512;
  std::uint32_t distinct_blocks = 0;
  std::uint32_t sessions = 0;
  std::vector<TraceItem> items;
  std::vector<TraceRequest> requests;
  std::vector<RejectedLine> rejected;  // invalid lines; the others were read
};

/// kMooncake and kQwen are the published formats of Mooncake and Qwen-Bailian; kAfterimage is ours
/// (docs/formats/trace.md); kAuto detects the format from the first line.
enum class TraceFormat : unsigned char { kAuto, kMooncake, kQwen, kAfterimage };

/// Reads a trace, plain or gzipped. Invalid lines are rejected with their line number and the rest
/// is read; requests out of order are sorted by time.
///
/// Errors   Those of Files::read and TraceLines; kInvalidArgument: no requests, more than 1,000
///          rejected lines, or a first line of an unknown format; kUnsupported: a version of our
///          format that this program cannot read; kLimitExceeded: more than 2^31 blocks. Messages
///          begin with the file's name.
/// Cost     A table of the distinct blocks besides the result.
Result<Trace> read_trace(const Files& files, const std::string& path,
                         TraceFormat format = TraceFormat::kAuto);

/// Reads a trace from memory; `name` is used in messages.
Result<Trace> parse_trace(std::span<const std::byte> content, const std::string& name,
                          TraceFormat format = TraceFormat::kAuto);

/// Serializes in our own format. Reading it gives the same trace, with times in whole microseconds.
std::string to_text(const Trace& trace);

/// One bit per request, as a client hint: does the conversation continue? The true answer is taken
/// from the trace and then inverted with probability `error`. A request is continued if a later one
/// has the first of the full blocks that it brought; if it brought none, its last full block.
std::vector<bool> continuation_hints(const Trace& trace, double error, std::uint64_t seed);

}  // namespace afterimage

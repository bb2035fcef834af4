// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/request.h"

#include "afterimage/media.h"
#include "afterimage/sequence.h"

namespace afterimage {

std::string_view to_string(Modality modality) {
  switch (modality) {
    case Modality::kImage:
      return "image";
    case Modality::kAudio:
      return "audio";
    case Modality::kVideo:
      return "video";
  }
  return "unknown";
}

std::string_view to_string(Role role) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
    case Role::kTool:
      return "tool";
  }
  return "unknown";
}

std::string_view to_string(ContinuationHint hint) {
  switch (hint) {
    case ContinuationHint::kNone:
      return "unknown";
    case ContinuationHint::kGoesOn:
      return "goes_on";
    case ContinuationHint::kEnds:
      return "ends";
  }
  return "unknown";
}

Bytes raw_bytes(const MediaItem& item) {
  Bytes total;
  for (const FileBytes& file : item.files) total += Bytes(file->size());
  return total;
}

Result<void> check_sequence(const Sequence& sequence) {
  std::uint64_t free_from = 0;
  for (std::size_t i = 0; i < sequence.spans.size(); ++i) {
    const MediaSpan& span = sequence.spans[i];
    const std::uint64_t begin = span.offset.value();
    const std::uint64_t end = begin + span.length.value();
    if (span.length.value() == 0 || begin < free_from || end > sequence.tokens.size()) {
      return fail(ErrorCode::kInvalidArgument,
                  "media span " + std::to_string(i) + " covers [" + std::to_string(begin) + ", " +
                      std::to_string(end) + ") of " + std::to_string(sequence.tokens.size()) +
                      " tokens; spans must be non-empty, inside and non-overlapping (free from " +
                      std::to_string(free_from) + ")");
    }
    free_from = end;
  }
  return {};
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "gateway/openai/api_event.h"

namespace afterimage {

/// Whether a stream of transcriptions, speech or images has said that it is complete. Servers say so with
/// [DONE] (vLLM) or with an event whose type says it (OpenAI). Not all do: speaches just stops, which nobody
/// can tell from a stream that broke off.
///
/// Threads  One at a time.
class EventsEnd {
 public:
  void add(ApiEvent& event) {
    const bool failed = event.end() == ApiEvent::End::kFailed;
    has_failed_ = has_failed_ || failed;
    // What follows [DONE] is no answer of this API.
    has_failed_ = has_failed_ || is_done_;
    is_done_ = is_done_ || event.is_done();
    is_complete_ = event.is_done() || says_complete(event);
  }
  /// All was said, and no error.
  [[nodiscard]] bool is_complete() const { return is_complete_ && !has_failed_; }
  /// [DONE] came, and clients leave.
  [[nodiscard]] bool is_done() const { return is_done_; }

 private:
  static bool says_complete(ApiEvent& event) {
    static constexpr auto kLast =
        std::to_array<std::string_view>({"transcript.text.done", "speech.audio.done",
                                         "image_generation.completed", "image_edit.completed"});
    if (!event.json().has_value()) return false;
    return std::ranges::find(kLast, (*event.json())["type"].text()) != kLast.end();
  }

  bool is_complete_ = false;
  bool is_done_ = false;
  bool has_failed_ = false;
};

}  // namespace afterimage

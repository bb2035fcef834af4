// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string_view>

#include "gateway/openai/record.h"

namespace afterimage::testing {

/// A recorder of a stream that is fed in pieces of any size.
class FedRecorder {
 public:
  explicit FedRecorder(ApiOperation operation, Bytes limit = 16_MiB)
      : stream_(limit.value()), recorder_(operation, limit) {}

  void feed(std::string_view bytes) {
    stream_.feed(bytes, [this](std::string_view name, std::string_view data) {
      ApiEvent event(name, data, json_);
      recorder_.add(event);
    });
  }
  [[nodiscard]] bool done() const { return recorder_.done(); }
  [[nodiscard]] Result<ApiRecord> finish() { return recorder_.finish(stream_); }

 private:
  EventStreamReader stream_;
  JsonReader json_;
  StreamRecorder recorder_;
};

}  // namespace afterimage::testing

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <utility>

#include "foundation/http/message.h"
#include "gateway/openai/record.h"

namespace afterimage {

/// A cached answer as the body of a response. Readers share the record, and each holds one piece:
/// six hundred clients that do not read an answer of 4 MiB cost one answer and not six hundred.
///
/// Threads  One at a time, and each body has one reader.
class RecordSource final : public BodySource {
 public:
  /// Smaller answers are sent in one write instead.
  static constexpr std::size_t kPiece = 64UL * 1024;

  RecordSource(ApiRecord record, RecordText text)
      : record_(std::move(record)), text_(std::move(text)) {}

  Piece read(std::size_t from, std::function<void()> /*wake*/) override {
    Piece piece{.bytes = text_.next(kPiece), .state = State::kMore};
    if (from + piece.bytes.size() == text_.size()) piece.state = State::kEnd;
    return piece;
  }
  [[nodiscard]] std::optional<std::size_t> size() const override { return text_.size(); }
  [[nodiscard]] HeldBytes held() const override {
    return {.what = record_.identity(), .bytes = record_.size().value()};
  }

 private:
  ApiRecord record_;
  RecordText text_;
};

}  // namespace afterimage

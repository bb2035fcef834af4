// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace afterimage {

/// Finds the token counts in the bytes of a response, whole or streamed, without parsing it:
/// "prompt_tokens" or "input_tokens", "completion_tokens" or "output_tokens", and "cached_tokens" or, of llama-server, "cache_n". In a
/// JSON string the quotes of such a name are escaped, so that text is never taken for a count. The
/// last counts are used; a server that lies misleads routing only.
///
/// Cost     One search over the bytes; 64 bytes are kept.
/// Threads  One at a time.
class UsageScan {
 public:
  void feed(std::string_view bytes);

  [[nodiscard]] std::optional<std::uint64_t> prompt_tokens() const { return prompt_; }
  [[nodiscard]] std::optional<std::uint64_t> output_tokens() const { return output_; }
  [[nodiscard]] std::optional<std::uint64_t> cached_tokens() const { return cached_; }

 private:
  void scan(std::string_view bytes);

  std::string rest_;  // of the bytes so far: a name may lie across two pieces
  std::optional<std::uint64_t> prompt_;
  std::optional<std::uint64_t> output_;
  std::optional<std::uint64_t> cached_;
};

}  // namespace afterimage

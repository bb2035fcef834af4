// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "afterimage/serve.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// How long an answer took, with llama-server's names: "prompt_n", "predicted_per_second", …
[[nodiscard]] nlohmann::ordered_json timings(const Served& served);

/// What a chat or a completion says of how it is computed, if its client asks: "timings" in every
/// event and "__verbose" in the last one, or both in the complete response.
///
/// Threads  One at a time.
class AnswerDetails {
 public:
  /// `clock` outlives it.
  AnswerDetails(const ApiDetails& wanted, const Clock& clock) : wanted_(wanted), clock_(clock) {}

  [[nodiscard]] bool counts_tokens() const { return wanted_.timings; }
  [[nodiscard]] bool shows_prompt() const { return wanted_.prompt; }
  void add_token();
  /// The members of an event before the last: the timings so far; empty: the client asks for none.
  [[nodiscard]] std::string so_far() const;
  /// The members of the last event or of the complete response: ",\"timings\":{…}"; empty: the client
  /// asks for none. `prompt` is the rendered one, of the first choice.
  [[nodiscard]] std::string at_end(const Served& first, const std::string& prompt,
                                   const GenerateOptions& options) const;

 private:
  ApiDetails wanted_;
  const Clock& clock_;
  std::uint64_t tokens_ = 0;
  Duration first_token_{};
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/engine_backend/answer_details.h"

#include <algorithm>
#include <chrono>

#include "gateway/engine_backend/generation_settings.h"

namespace afterimage {
namespace {

using Json = nlohmann::ordered_json;

double milliseconds(Duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/// JSON has no infinity.
double ratio(double above, double below) { return below > 0 ? above / below : 0; }

/// The first token comes from the prompt's own batch.
void add_predicted(Json& timings, std::uint64_t tokens, double milliseconds) {
  const auto steps = static_cast<double>(tokens == 0 ? 0 : tokens - 1);
  timings["predicted_n"] = tokens;
  timings["predicted_ms"] = milliseconds;
  timings["predicted_per_token_ms"] = ratio(milliseconds, steps);
  timings["predicted_per_second"] = ratio(1e3 * steps, milliseconds);
}

}  // namespace

Json timings(const Served& served) {
  const Completion& done = served.completion;
  const auto prompt = static_cast<double>(done.prefilled.value());
  const double prompt_ms = milliseconds(done.first_token_after);
  Json timings{{"cache_n", done.resumed_from.value()},
               {"prompt_n", done.prefilled.value()},
               {"prompt_ms", prompt_ms},
               {"prompt_per_token_ms", ratio(prompt_ms, prompt)},
               {"prompt_per_second", ratio(1e3 * prompt, prompt_ms)}};
  add_predicted(timings, done.tokens.size(), std::max(milliseconds(served.total) - prompt_ms, 0.0));
  return timings;
}

void AnswerDetails::add_token() {
  if (tokens_++ == 0) first_token_ = clock_.now();
}

std::string AnswerDetails::so_far() const {
  if (!wanted_.timings || tokens_ == 0) return "";
  Json predicted;
  add_predicted(predicted, tokens_, milliseconds(clock_.now() - first_token_));
  return ",\"timings\":" + predicted.dump();
}

std::string AnswerDetails::at_end(const Served& first, const std::string& prompt,
                                  const GenerateOptions& options) const {
  std::string members;
  if (wanted_.prompt) {
    const Json verbose{{"prompt", prompt},
                       {"generation_settings", generation_settings(options)},
                       {"tokens_predicted", first.completion.tokens.size()},
                       {"timings", timings(first)}};
    members = ",\"__verbose\":" + verbose.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  if (wanted_.timings) members += ",\"timings\":" + timings(first).dump();
  return members;
}

}  // namespace afterimage

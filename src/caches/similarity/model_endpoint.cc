// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/model_endpoint.h"

#include "foundation/http/client.h"

namespace afterimage {
namespace {

constexpr std::size_t kQuoted = 200;  // bytes of a server's error body

}  // namespace

ModelEndpoint::ModelEndpoint(ModelEndpointOptions options, std::string what, const Clock& clock)
    : options_(std::move(options)),
      what_(std::move(what)),
      clock_(clock),
      breaker_(
          CircuitBreakerOptions::in_a_row(options_.failure_threshold, options_.open_duration)) {}

Result<std::string> ModelEndpoint::post(std::string body, Duration deadline) const {
  HttpQuestion question{.url = options_.url, .body = std::move(body), .deadline = deadline};
  if (!options_.key.empty()) question.headers.emplace("Authorization", "Bearer " + options_.key);
  AFI_TRY(HttpAnswer answer, http_post(question));
  if (answer.status != 200) {
    return fail(ErrorCode::kUnavailable, "the " + what_ + " server answered " +
                                             std::to_string(answer.status) + ": " +
                                             answer.body.substr(0, kQuoted));
  }
  return std::move(answer.body);
}

Result<void> ModelEndpoint::acquire() {
  const MutexLock lock(mutex_);
  if (breaker_.try_acquire(clock_.now())) return {};
  return fail(ErrorCode::kUnavailable, "the " + what_ + " server failed " +
                                           std::to_string(options_.failure_threshold) +
                                           " times in a row; calls are rejected for a while");
}

void ModelEndpoint::record(bool succeeded) {
  const MutexLock lock(mutex_);
  succeeded ? breaker_.succeeded(clock_.now()) : breaker_.failed(clock_.now());
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <utility>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "foundation/http/url.h"
#include "foundation/platform/mutex.h"
#include "storage/memory/circuit_breaker.h"

namespace afterimage {

struct ModelEndpointOptions {
  Url url;            // full URL: http://localhost:8000/v1/embeddings
  std::string model;  // the model name that the server expects
  std::string key;    // "Authorization: Bearer <key>"; empty: none
  Duration deadline = std::chrono::milliseconds(150);  // of a call
  unsigned failure_threshold = 3;  // consecutive failures that open the circuit breaker
  Duration open_duration = std::chrono::seconds(5);
};

/// A remote model that takes and returns JSON, behind a circuit breaker.
///
/// Errors   kUnavailable: no server, a status other than 200, or the circuit is open. kTimeout.
/// Threads  Any; calls do not wait for each other.
class ModelEndpoint {
 public:
  /// `what` names the server in messages: "embeddings".
  ModelEndpoint(ModelEndpointOptions options, std::string what, const Clock& clock);

  [[nodiscard]] const ModelEndpointOptions& options() const { return options_; }
  /// The body of the response. Ignores the circuit breaker.
  [[nodiscard]] Result<std::string> post(std::string body, Duration deadline) const;

  /// What `call()` returns, a Result; its errors open the circuit, and an open one rejects it.
  template <typename Call>
  [[nodiscard]] auto guarded(Call call) -> decltype(call()) {
    AFI_TRY_VOID(acquire());
    auto result = call();
    record(result.has_value());
    return result;
  }

 private:
  Result<void> acquire();
  void record(bool succeeded);

  const ModelEndpointOptions options_;
  const std::string what_;
  const Clock& clock_;
  Mutex mutex_;
  CircuitBreaker breaker_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <map>
#include <memory>
#include <string>

#include "afterimage/clock.h"
#include "foundation/crypto/sha256.h"
#include "foundation/http/io_threads.h"
#include "foundation/platform/mutex.h"
#include "gateway/fleet/fleet.h"
#include "gateway/proxy/backend.h"

namespace afterimage {

/// `GET /v1/models` and `/v1/models/{id}` of a fleet: the models of all replicas, each once, as the first
/// replica describes it. A replica that is ejected, fails or does not answer in time leaves out its
/// models, and so do patterns (models=) that a model does not fit. Kept for a few seconds, apart for
/// each API key of clients.
///
/// Errors   502: no replica answered with a list. 404: no replica has that model.
/// Threads  Any.
class FleetModels {
 public:
  static constexpr Duration kTimeout = std::chrono::seconds(3);
  static constexpr Duration kKept = std::chrono::seconds(5);

  /// All outlive it, and its calls.
  FleetModels(Fleet& fleet, IoThreads& threads, const Clock& clock);

  [[nodiscard]] static bool answers(const BackendRequest& request);
  BackendCall ask(const BackendRequest& request, const std::shared_ptr<BackendListener>& listener);

 private:
  class Gathering;
  struct Kept;

  Fleet& fleet_;
  IoThreads& threads_;
  const Clock& clock_;
  const std::shared_ptr<Kept> kept_;  // calls hold it, too
};

}  // namespace afterimage

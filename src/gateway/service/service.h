// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "caches/similarity/embedder.h"
#include "foundation/telemetry/log.h"
#include "gateway/admin/admin.h"
#include "gateway/config/settings.h"

namespace afterimage {

struct ServiceOptions {
  Settings settings;
  /// For reload: the settings as they are now.
  std::function<Result<Settings>()> read_settings;
  /// The backend if there is no upstream.
  std::unique_ptr<Engine> engine;
  /// Of similarity.embedder, if that is a file.
  std::unique_ptr<Embedder> embedder = nullptr;
  /// Of similarity.verifier, if that is a file.
  std::unique_ptr<Verifier> verifier = nullptr;
  /// The content of similarity.projection.
  std::vector<std::byte> projection = {};
  /// Called when the admin port was asked to drain; returns at once.
  std::function<void()> wants_to_end = [] {};
  std::string version;
  bool demo = false;  // the dashboard can ask the model
  LogSink log = standard_error_sink();
};

/// The gateway process: caches, backend, and the two ports.
///
/// If memory.disk cannot be used, nothing is kept there; the log says so, and requests are served.
///
/// Errors   start: kInvalidArgument, kUnavailable: settings that contradict each other, an address
///          that is taken.
/// Threads  Any; drain() and the destructor not from one of its own threads.
/// Source   src/gateway/service/DESIGN.md.
class Service {
 public:
  /// Clocks outlive it.
  static Result<std::unique_ptr<Service>> start(ServiceOptions options, const Clock& clock,
                                                const WallClock& wall_clock);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::uint16_t admin_port() const;
  [[nodiscard]] Gateway& gateway();
  /// Reads the settings again and applies what can change while it runs.
  Result<Reloaded> reload();
  /// Stops accepting connections and waits up to limits.drain for the requests on their way. True:
  /// all were responded to.
  bool drain();

 private:
  struct State;
  explicit Service(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace afterimage

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
#include "foundation/telemetry/log.h"
#include "gateway/admin/admin.h"
#include "gateway/config/settings.h"

namespace afterimage {

struct ServiceOptions {
  Settings settings;
  /// For reload: the settings as they are now.
  std::function<Result<Settings>()> read_settings;
  /// Answers if there is no upstream.
  std::unique_ptr<Engine> engine;
  /// Somebody asked, on the admin port, that the service end: returns at once.
  std::function<void()> wants_to_end = [] {};
  std::string version;
  LogSink log = standard_error_sink();
};

/// The whole server: caches, model or upstream, the two ports.
///
/// A folder that cannot be used costs what would have been kept there, and nothing else: the log
/// says so, and requests are served.
///
/// Errors   start: kInvalidArgument, kUnavailable: settings that cannot hold, an address that is
///          taken.
/// Threads  Any; but not from one of its own: drain() and the destructor.
/// Source   src/gateway/DESIGN.md.
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
  /// Reads the settings again; what can take effect at once does.
  Result<Reloaded> reload();
  /// Not ready any more, no new connections; waits for the requests that were begun, as long as the
  /// settings say. True: all were answered.
  bool drain();

 private:
  struct State;
  explicit Service(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace afterimage

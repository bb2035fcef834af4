// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foundation/platform/mutex.h"
#include "gateway/fleet/fleet.h"
#include "gateway/proxy/backend.h"

namespace afterimage {

class FleetCall;

/// What a call needs of its backend.
class FleetCallHost {
 public:
  virtual ~FleetCallHost() = default;
  virtual Fleet& fleet() = 0;
  [[nodiscard]] virtual Duration now() const = 0;
  /// Sends it to a replica, now or when one has room, or refuses it.
  virtual void place(const std::shared_ptr<FleetCall>& call) = 0;
  /// A replica may have room now.
  virtual void pump() = 0;
  virtual void count_retry(bool allowed) = 0;
  /// A replica answered it, without an error.
  virtual void answered(const BackendRequest& request, const FleetClaim& claim) = 0;
};

/// One request on its way through a fleet: the replica that it is at, those that it was at before,
/// and the client's listener.
///
/// Threads  Events of its replica one at a time; cancel() and hold() from any thread.
class FleetCall final : public std::enable_shared_from_this<FleetCall> {
 public:
  FleetCall(std::shared_ptr<FleetCallHost> host, BackendRequest request,
            std::shared_ptr<BackendListener> listener);

  [[nodiscard]] const FleetAsk& ask() const { return ask_; }
  /// When it began to wait for a replica.
  [[nodiscard]] Duration waits_since() const { return waits_since_; }
  /// The client left, or it was answered: nothing is sent for it any more.
  [[nodiscard]] bool is_over() const;

  /// Sends it to the replica, or gives the place back if it is over.
  void send(FleetClaim claim);
  /// Ends it with an error of our own, which the listener gets as a response, unless it is over or at
  /// a replica.
  void refuse(unsigned status, std::string_view message, std::string_view type,
              std::string_view code, std::optional<unsigned> retry_after_s);
  void cancel();
  void hold(bool paused);

 private:
  class Attempt;

  /// Whether it may be sent to another replica after this result. Counts the retry.
  [[nodiscard]] bool may_retry(CallResult result, const std::string& failed);
  void retry(const std::string& failed);
  /// The listener, for the last event; nullptr: it is over.
  [[nodiscard]] std::shared_ptr<BackendListener> finish();
  /// The same if it is at no replica.
  [[nodiscard]] std::shared_ptr<BackendListener> finish_waiting();
  [[nodiscard]] std::shared_ptr<BackendListener> listener() const;

  const std::shared_ptr<FleetCallHost> host_;
  const BackendRequest request_;
  const bool replayable_;
  const Duration arrived_;
  FleetAsk ask_;
  Duration waits_since_;

  mutable Mutex mutex_;
  std::shared_ptr<BackendListener> listener_ AFI_GUARDED_BY(mutex_);  // nullptr: it is over
  BackendCall current_ AFI_GUARDED_BY(mutex_);
  bool at_replica_ AFI_GUARDED_BY(mutex_) = false;
  std::uint64_t sends_ AFI_GUARDED_BY(mutex_) = 0;
  bool cancelled_ AFI_GUARDED_BY(mutex_) = false;
  bool paused_ AFI_GUARDED_BY(mutex_) = false;
};

/// The content of a request, for the choice of its replica.
[[nodiscard]] FleetAsk fleet_ask(const BackendRequest& request);

}  // namespace afterimage

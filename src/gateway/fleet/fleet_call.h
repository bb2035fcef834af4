// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foundation/platform/made_once.h"
#include "foundation/platform/mutex.h"
#include "gateway/fleet/fatal_requests.h"
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
  /// It is at a replica now: see FleetCall::leave_sleeping().
  virtual void sent(const std::shared_ptr<FleetCall>& call) = 0;
  /// The replica computed what its events say it holds.
  virtual void doubt(const std::string& replica) = 0;
  virtual FatalRequests& fatal() = 0;
  /// Asks the replica for its health. `heard` is called on the calling thread if that is an I/O
  /// thread; "alive": it answers, below 500.
  virtual void check(const std::string& replica, std::function<void(bool alive)> heard) = 0;
  /// The replica died while it ran this request.
  virtual void died(const BackendRequest& request, const RequestDigest& digest,
                    const std::string& replica) = 0;
  /// A replica answered it, without an error.
  virtual void answered(const BackendRequest& request, const FleetClaim& claim) = 0;
};

/// One request on its way through a fleet: the replica that it is at, those that it was at before,
/// and the client's listener.
///
/// A request whose replica fails once it has it, and is then found dead, is fatal: it is sent to no
/// other. One whose replica closes the connection without an answer, and lives, is sent once more.
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
  /// True: it has ended as many replicas as a request may, and is refused.
  bool is_refused();
  /// Ends it with an error of our own, which the listener gets as a response, unless it is over or at
  /// a replica.
  struct Refusal {
    unsigned status;
    std::string message;
    std::string_view type;
    std::string_view code;
    std::optional<unsigned> retry_after_s = std::nullopt;
    bool is_final = false;  // clients are told not to send it again
  };
  void refuse(const Refusal& refusal);
  void cancel();
  void hold(bool paused);
  /// The engine of this replica sleeps. A request that waits for its first byte there goes to another, or
  /// back into the queue.
  void leave_sleeping(const std::string& replica);

 private:
  class Attempt;

  /// Whether it may be sent to another replica after this failure; nullptr: a status.
  [[nodiscard]] bool may_retry(const HttpFailure* failure, const std::string& failed);
  /// Whether its replica, which lives, may get it once more on a new connection: the one that it was sent on
  /// may have been closed before.
  [[nodiscard]] bool may_send_again() const;
  /// Takes the request from its replica.
  void leave();
  void note_begun();
  /// Whether the call was cancelled because its replica sleeps.
  [[nodiscard]] bool take_left_asleep();
  /// At another replica than this.
  void retry(const std::string& failed);
  void send_again();
  /// Ends it with an error that tells clients not to send it again.
  void refuse_as_fatal(const Route& route);
  /// The replica is dead, or not. Counts the death.
  void check(const std::string& replica, std::function<void(bool alive)> then);
  [[nodiscard]] const RequestDigest& digest();
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
  std::uint32_t unanswered_ = 0;  // connections that were closed without an answer
  MadeOnce<RequestDigest> digest_;

  mutable Mutex mutex_;
  std::shared_ptr<BackendListener> listener_ AFI_GUARDED_BY(mutex_);  // nullptr: it is over
  BackendCall current_ AFI_GUARDED_BY(mutex_);
  bool at_replica_ AFI_GUARDED_BY(mutex_) = false;
  std::string replica_ AFI_GUARDED_BY(mutex_);       // that it is at, or was
  bool is_begun_ AFI_GUARDED_BY(mutex_) = false;     // a byte came from there
  bool left_asleep_ AFI_GUARDED_BY(mutex_) = false;  // its call there is being cancelled
  std::uint64_t sends_ AFI_GUARDED_BY(mutex_) = 0;
  bool cancelled_ AFI_GUARDED_BY(mutex_) = false;
  bool paused_ AFI_GUARDED_BY(mutex_) = false;
};

/// The content of a request, for the choice of its replica.
[[nodiscard]] FleetAsk fleet_ask(const BackendRequest& request);

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "foundation/http/caller.h"
#include "foundation/http/message.h"
#include "foundation/json/json_text.h"
#include "foundation/platform/mutex.h"
#include "foundation/text/event_stream.h"
#include "gateway/openai/api_event.h"
#include "gateway/openai/events_end.h"
#include "gateway/openai/record.h"
#include "gateway/openai/usage_scan.h"
#include "gateway/proxy/backend.h"

namespace afterimage {

/// Statuses after which clients send the same request again.
[[nodiscard]] bool is_failure(unsigned status);

/// One response of the backend, for all requests that wait for it. Each reads the same bytes from
/// the first to the last, whenever it subscribed and however fast it reads.
///
/// A stream of events is passed on as it comes, whole events only; if it breaks off, an event says
/// so. Anything else is gathered, and passed on once it is whole.
///
/// Threads  Any. Events of the listener one at a time.
class SharedResponse final : public BackendListener,
                             public std::enable_shared_from_this<SharedResponse> {
 public:
  enum class State : unsigned char {
    kWaiting,    // nothing to read yet
    kStreams,    // a head, and a body that is still coming
    kWhole,      // head and body
    kFailed,     // neither: see failure()
    kAbandoned,  // the backend was not asked: see abandon()
  };
  struct Options {
    /// Records the answer, so that it can be stored. nullopt: it will not be.
    std::optional<ApiOperation> record;
    Bytes max_record = 4_MiB;
    /// More than one request may read it, so nothing is freed before the end; else what was read
    /// is, and a slow reader slows the backend.
    bool shared = false;
    /// Looks for the token counts in its bytes: see usage().
    bool counts_tokens = false;
    /// A stream of a chat or completion: it ends with a finish reason or an error, or it broke off,
    /// even where [DONE] comes or the connection ends in order. [DONE] ends one in which nothing is
    /// said of finish reasons.
    bool has_end = false;
    /// Called once, with the record or why there is none, before anybody reads the end.
    std::function<void(const SharedResponse&, Result<ApiRecord>)> completed = nullptr;
    /// When all subscribers have left, the backend finishes it all the same, so that it is stored;
    /// else the call is cancelled.
    bool finish_abandoned = false;
  };
  explicit SharedResponse(Options options)
      : options_(std::move(options)), recorder_(recorder(options_)) {}

  void on_head(unsigned status, HttpHeaders headers) override;
  void on_recorded_head(unsigned status, HttpHeaders headers) override;
  void on_record(ApiRecord record) override;
  void on_bounded() override;
  void on_route(const std::shared_ptr<const Route>& route) override { route_ = route; }
  void on_bytes(std::string_view bytes) override;
  void on_end() override;
  void on_error(const Error& error) override { on_failure({.error = error}); }
  void on_failure(const HttpFailure& failure) override;
  /// Instead of asking the backend: all subscribers look the answer up again. `completed` is not
  /// called. `elsewhere`: another gateway has asked meanwhile.
  void abandon(bool elsewhere);
  /// If it was abandoned.
  [[nodiscard]] bool answered_elsewhere() const { return answered_elsewhere_; }
  /// It has subscribers, and was not cancelled.
  [[nodiscard]] bool wanted() const;
  [[nodiscard]] std::uint64_t subscribers() const;
  /// How the backend is slowed down, or cancelled once all subscribers have left.
  void controlled_by(BackendCall call);

  /// `ready` is called once, at once if it is not kWaiting any more.
  void when_ready(std::function<void()> ready);
  [[nodiscard]] State state() const;
  // Not in kWaiting.
  [[nodiscard]] unsigned status() const { return status_; }
  [[nodiscard]] const HttpHeaders& headers() const { return headers_; }
  [[nodiscard]] const HttpFailure& failure() const { return *failure_; }
  /// nullptr: the backend has no replicas.
  [[nodiscard]] std::shared_ptr<const Route> route() const { return route_; }
  /// Drops all callbacks without calling them: at the end of the process, requests and responses
  /// that hold each other would never be freed.
  void forget_all();

  /// What the backend said, so far, of the tokens that it read and wrote.
  struct Usage {
    std::optional<std::uint64_t> prompt_tokens;
    std::optional<std::uint64_t> output_tokens;
    std::optional<std::uint64_t> cached_tokens;  // of the prompt's, that it did not compute
    std::uint64_t events = 0;                    // of a stream; most servers send one for a token
  };
  [[nodiscard]] Usage usage() const;

  /// In kWhole.
  [[nodiscard]] std::shared_ptr<const std::string> whole() const { return whole_; }

  /// One request that waits for it, until leave(), which may be called more than once.
  class Subscriber {
   public:
    explicit Subscriber(std::shared_ptr<SharedResponse> response)
        : response_(std::move(response)) {}
    ~Subscriber() { leave(); }
    Subscriber(const Subscriber&) = delete;
    Subscriber& operator=(const Subscriber&) = delete;
    void leave();
    [[nodiscard]] SharedResponse& response() const { return *response_; }

   private:
    std::shared_ptr<SharedResponse> response_;
    std::atomic<bool> left_ = false;
  };
  [[nodiscard]] std::shared_ptr<Subscriber> join();
  /// The body, in kStreams. `last` is called when the reader is done with it, whether it has read
  /// all of it or not, or was too slow.
  [[nodiscard]] static std::shared_ptr<BodySource> body(std::shared_ptr<Subscriber> subscriber,
                                                        std::function<void(bool is_slow)> last);
  /// It ended, and nothing was missing.
  [[nodiscard]] bool complete() const;
  /// The backend failed, before or after the first byte, or said that it is too busy: clients then
  /// send the request again. Not because all subscribers have left.
  [[nodiscard]] bool has_failed() const;

 private:
  class Reader;
  static std::optional<StreamRecorder> recorder(const Options& options);
  BodySource::Piece read(std::size_t from, std::function<void()> wake);
  [[nodiscard]] HeldBytes held() const;
  void leave();
  /// Calls `completed`, once.
  void finish_record();
  Result<ApiRecord> recorded();
  /// Of an operation whose answers are kept as they came.
  [[nodiscard]] Result<ApiRecord> recorded_as_sent() const AFI_REQUIRES(mutex_);
  [[nodiscard]] bool is_kept_as_sent() const {
    return options_.record.has_value() && is_verbatim(*options_.record);
  }
  /// Vectors are of use once all are here, and those of a batch are put together then.
  [[nodiscard]] bool is_gathered_whole() const {
    return options_.record == ApiOperation::kEmbedding;
  }
  /// One event of a stream, for whatever listens to it here.
  void hear(ApiEvent event);
  void hear_end(ApiEvent& event);
  /// A stream that broke off unless its events say otherwise.
  [[nodiscard]] bool must_say_end() const { return options_.has_end && status_ == 200; }
  /// Of a stream: an event says why there is no more.
  void break_off(std::string_view why) AFI_REQUIRES(mutex_);
  void settle(State state);
  void wake_readers();

  Options options_;
  // The listener's alone:
  /// nullopt: no stream, or one of which every piece is whole events.
  std::optional<EventStreamReader> stream_;
  JsonReader json_;
  bool has_ended_ = false;                  // its events say that the answer is complete
  bool awaits_end_ = false;                 // they have said that a finish reason is to come
  std::optional<std::size_t> early_done_;   // where a [DONE] begins that came before that
  std::optional<StreamRecorder> recorder_;  // nullopt: not recorded, or by the backend
  std::optional<ApiRecord> record_;         // the backend's
  EventsEnd events_end_;                    // of a stream that is kept as it came

  mutable Mutex mutex_;
  State state_ AFI_GUARDED_BY(mutex_) = State::kWaiting;
  bool answered_elsewhere_ = false;  // written before the state
  std::uint64_t subscribers_ AFI_GUARDED_BY(mutex_) = 0;
  bool over_ AFI_GUARDED_BY(mutex_) = false;
  bool broken_ AFI_GUARDED_BY(mutex_) = false;
  bool is_done_ AFI_GUARDED_BY(mutex_) = false;  // [DONE] came; the body's end may be to come
  bool cut_ AFI_GUARDED_BY(mutex_) = false;      // an event of ours says that it broke off
  bool failed_ AFI_GUARDED_BY(mutex_) = false;   // the backend failed
  bool paused_ AFI_GUARDED_BY(mutex_) = false;
  std::string bytes_ AFI_GUARDED_BY(mutex_);      // from base_ on
  std::size_t base_ AFI_GUARDED_BY(mutex_) = 0;   // bytes that were freed
  std::size_t given_ AFI_GUARDED_BY(mutex_) = 0;  // up to here it may be read, from the start
  std::vector<std::function<void()>> ready_ AFI_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> wakes_ AFI_GUARDED_BY(mutex_);
  std::optional<BackendCall> call_ AFI_GUARDED_BY(mutex_);
  bool cancelled_ AFI_GUARDED_BY(mutex_) = false;
  UsageScan scan_ AFI_GUARDED_BY(mutex_);
  Usage usage_ AFI_GUARDED_BY(mutex_);

  // Written by the listener before state_ leaves kWaiting, and not after.
  unsigned status_ = 0;
  HttpHeaders headers_;
  bool events_ = false;   // it is a stream of events
  bool gathers_ = false;  // it is passed on when it is whole
  std::optional<HttpFailure> failure_;
  std::shared_ptr<const Route> route_;
  std::shared_ptr<const std::string> whole_;
};

}  // namespace afterimage

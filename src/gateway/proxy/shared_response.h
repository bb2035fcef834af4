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
#include "foundation/platform/mutex.h"
#include "gateway/openai/record.h"
#include "gateway/proxy/backend.h"

namespace afterimage {

/// One answer on its way from whoever gives it to all who asked for it. Each of them gets the same
/// bytes from the first to the last, whenever they came and however fast they read.
///
/// A stream of events is given on as it comes, whole events only; if it breaks off, an event says
/// so. Anything else is gathered, and given once it is whole.
///
/// Threads  Any. Events of the listener one at a time.
class SharedResponse final : public BackendListener,
                             public std::enable_shared_from_this<SharedResponse> {
 public:
  enum class State : unsigned char {
    kWaiting,    // nothing to give yet
    kStreams,    // a head, and a body that comes by and by
    kWhole,      // head and body
    kFailed,     // neither: see error()
    kCalledOff,  // nobody was asked: see call_off()
  };
  struct Options {
    /// Makes a record of it, for whoever keeps it. nullopt: nobody will.
    std::optional<ApiOperation> record;
    Bytes max_record = 4_MiB;
    /// More than one may read it, so nothing is forgotten before the end; else what was read is,
    /// and a reader that is slow slows the one who answers.
    bool shared = false;
    /// Called with the record, or why there is none, before anybody hears the end; once.
    std::function<void(const SharedResponse&, Result<ApiRecord>)> landed = nullptr;
    /// Called when nobody is left who wants it and it is not over.
    std::function<void()> abandoned = nullptr;
    /// Then it is finished all the same, for whoever keeps it; else it is cancelled.
    bool finish_abandoned = false;
  };
  explicit SharedResponse(Options options)
      : options_(std::move(options)), recorder_(recorder(options_)) {}

  void on_head(unsigned status, HttpHeaders headers) override;
  void on_recorded_head(unsigned status, HttpHeaders headers) override;
  void on_record(ApiRecord record) override;
  void on_bytes(std::string_view bytes) override;
  void on_end() override;
  void on_error(const Error& error) override;
  /// Instead of asking for it: whoever wants it looks elsewhere. `landed` is not called.
  void call_off();
  /// Somebody waits for it, and it was not cancelled.
  [[nodiscard]] bool wanted() const;
  /// How the one who answers is slowed down, or told that nobody wants it any more.
  void controlled_by(BackendCall answering);

  /// `ready` is called once, at once if it is not kWaiting any more.
  void when_ready(std::function<void()> ready);
  [[nodiscard]] State state() const;
  // Not in kWaiting.
  [[nodiscard]] unsigned status() const { return status_; }
  [[nodiscard]] const HttpHeaders& headers() const { return headers_; }
  [[nodiscard]] const Error& error() const { return *error_; }
  /// Lets go of all who wait for it, without a word: when nothing happens any more, those who wait
  /// for each other would never go.
  void forget_all();

  /// In kWhole.
  [[nodiscard]] std::shared_ptr<const std::string> whole() const { return whole_; }

  /// One who wants it, until left(), which may be called more than once.
  class Subscriber {
   public:
    explicit Subscriber(std::shared_ptr<SharedResponse> broadcast)
        : broadcast_(std::move(broadcast)) {}
    ~Subscriber() { leave(); }
    Subscriber(const Subscriber&) = delete;
    Subscriber& operator=(const Subscriber&) = delete;
    void leave();
    [[nodiscard]] SharedResponse& broadcast() const { return *broadcast_; }

   private:
    std::shared_ptr<SharedResponse> broadcast_;
    std::atomic<bool> left_ = false;
  };
  [[nodiscard]] std::shared_ptr<Subscriber> join();
  /// The body, in kStreams. `last` is called when the reader is done with it, whether he had all of
  /// it or not.
  [[nodiscard]] static std::shared_ptr<BodySource> body(std::shared_ptr<Subscriber> seat,
                                                        std::function<void()> last);
  /// Everything was given, and nothing was missing.
  [[nodiscard]] bool complete() const;

 private:
  class Reading;
  static std::optional<StreamRecorder> recorder(const Options& options);
  BodySource::Piece read(std::size_t from, std::function<void()> wake);
  void leave();
  void land();
  Result<ApiRecord> recorded();
  void settle(State state);
  void wake_readers();

  Options options_;
  // The listener's alone:
  std::optional<StreamRecorder> recorder_;  // nullopt: nobody records it, or the backend does
  std::optional<ApiRecord> record_;         // the backend's

  mutable Mutex mutex_;
  State state_ AFI_GUARDED_BY(mutex_) = State::kWaiting;
  std::uint64_t interested_ AFI_GUARDED_BY(mutex_) = 0;
  bool over_ AFI_GUARDED_BY(mutex_) = false;
  bool broken_ AFI_GUARDED_BY(mutex_) = false;
  bool said_all_ AFI_GUARDED_BY(mutex_) = false;  // [DONE]; the end of the body may be to come
  bool cut_ AFI_GUARDED_BY(mutex_) = false;       // an event says that it broke off
  bool paused_ AFI_GUARDED_BY(mutex_) = false;
  std::string bytes_ AFI_GUARDED_BY(mutex_);      // from base_ on
  std::size_t base_ AFI_GUARDED_BY(mutex_) = 0;   // bytes that are forgotten
  std::size_t given_ AFI_GUARDED_BY(mutex_) = 0;  // up to here readers may have it, from the start
  std::vector<std::function<void()>> ready_ AFI_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> wakes_ AFI_GUARDED_BY(mutex_);
  std::optional<BackendCall> answering_ AFI_GUARDED_BY(mutex_);
  bool cancelled_ AFI_GUARDED_BY(mutex_) = false;

  // Written by the listener before state_ leaves kWaiting, and not after.
  unsigned status_ = 0;
  HttpHeaders headers_;
  bool events_ = false;   // it is a stream of events
  bool gathers_ = false;  // it is given when it is whole
  std::optional<Error> error_;
  std::shared_ptr<const std::string> whole_;
};

}  // namespace afterimage

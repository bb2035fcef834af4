// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/kv_subscriber.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include "gateway/fleet/zmtp.h"

namespace afterimage {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr auto kFirstPause = std::chrono::milliseconds(250);
constexpr auto kLongestPause = std::chrono::seconds(30);
constexpr auto kReplayTime = std::chrono::seconds(5);
constexpr std::size_t kMostBytesPerSecond = 32UL * 1024 * 1024;
constexpr std::size_t kReadAtOnce = 256UL * 1024;
constexpr std::uint64_t kEndOfReplay = UINT64_MAX;

std::uint64_t number_of(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char c : bytes) value = value << 8U | static_cast<unsigned char>(c);
  return value;
}

/// A socket that is connecting; -1: it cannot.
int connect_to(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return -1;
  std::string host = address.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0) {
    return -1;
  }
  const int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const bool begun =
      fd >= 0 && (::connect(fd, found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS);
  ::freeaddrinfo(found);
  if (begun) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

/// One connection: a socket and its protocol.
class Wire {
 public:
  Wire(int fd, ZmtpClient client) : fd_(fd), client_(std::move(client)) {}
  ~Wire() { ::close(fd_); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  [[nodiscard]] pollfd wanted() {
    out_ += client_.to_send();
    return {.fd = fd_,
            .events = static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT),
            .revents = 0};
  }
  /// False: the connection is of no more use.
  bool handle(short happened) {
    if ((happened & POLLOUT) != 0 && !send()) return false;
    if ((happened & (POLLIN | POLLHUP | POLLERR)) == 0) return true;
    std::array<char, kReadAtOnce> buffer;
    const ssize_t size = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    if (size == 0) return false;
    received_ += static_cast<std::size_t>(size);
    return client_.feed({buffer.data(), static_cast<std::size_t>(size)}).has_value();
  }
  ZmtpClient& client() { return client_; }
  std::size_t take_received() { return std::exchange(received_, 0); }

 private:
  bool send() {
    const ssize_t sent = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    out_.erase(0, static_cast<std::size_t>(sent));
    return true;
  }

  int fd_;
  ZmtpClient client_;
  std::string out_;
  std::size_t received_ = 0;
};

}  // namespace

/// One replica: its connection, the replay that is under way, and what it is known to hold.
class KvSubscriber::Feed {
 public:
  Feed(KvSource source, const Callbacks& callbacks)
      : source_(std::move(source)), callbacks_(callbacks) {}

  [[nodiscard]] const KvSource& source() const { return source_; }
  [[nodiscard]] const KvSourceStats& stats() const { return stats_; }

  /// The sockets to wait for. While a gap is replayed, the main one is not read: what it holds comes
  /// after the gap.
  void add_wanted(std::vector<pollfd>& list, SteadyTime now) {
    if (wire_ == nullptr && now >= next_try_) {
      const int fd = connect_to(source_.events);
      if (fd < 0) {
        pause(now);
      } else {
        wire_ = std::make_unique<Wire>(fd, ZmtpClient("SUB"));
      }
    }
    if (replay_ != nullptr) {
      list.push_back(replay_->wanted());
    } else if (wire_ != nullptr) {
      list.push_back(wire_->wanted());
    } else {
      list.push_back({.fd = -1, .events = 0, .revents = 0});
    }
  }

  void handle(short happened, SteadyTime now) {
    if (replay_ != nullptr) {
      const bool usable = replay_->handle(happened);
      read_replay();
      if (replay_ != nullptr && (!usable || now >= replay_ends_)) give_up_replay();
    } else if (wire_ != nullptr) {
      const bool usable = wire_->handle(happened);
      read(now);
      if (!usable || floods(now)) disconnect(now);
    }
    stats_.connected = wire_ != nullptr && wire_->client().ready();
    stats_.blocks = blocks_.blocks();
    stats_.tokens = blocks_.tokens();
  }

 private:
  void pause(SteadyTime now) {
    next_try_ = now + pause_;
    pause_ = std::min<std::chrono::milliseconds>(2 * pause_, kLongestPause);
  }
  void disconnect(SteadyTime now) {
    wire_.reset();
    waiting_.reset();
    pause(now);
  }
  bool floods(SteadyTime now) {
    if (now - second_ >= std::chrono::seconds(1)) {
      second_ = now;
      this_second_ = 0;
    }
    this_second_ += wire_->take_received();
    return this_second_ > kMostBytesPerSecond;
  }

  void read(SteadyTime now) {
    while (replay_ == nullptr && wire_ != nullptr) {
      const auto message = wire_->client().take();
      if (!message.has_value()) return;
      pause_ = kFirstPause;
      if (message->size() != 3 || (*message)[1].size() != 8) {
        ++stats_.invalid;
        continue;
      }
      take_in(number_of((*message)[1]), (*message)[2], now);
    }
  }

  void take_in(std::uint64_t sequence, const std::string& payload, SteadyTime now) {
    switch (sequence_.see(sequence)) {
      case KvSequence::Step::kNext:
        return apply(sequence, payload);
      case KvSequence::Step::kRestarted:
        ++stats_.restarts;
        forget();
        return apply(sequence, payload);
      case KvSequence::Step::kGap:
        break;
    }
    ++stats_.gaps;
    const int fd = source_.replay.empty() ? -1 : connect_to(source_.replay);
    if (fd < 0) {
      forget();
      return apply(sequence, payload);
    }
    std::string from;
    for (int shift = 56; shift >= 0; shift -= 8) {
      from.push_back(static_cast<char>((sequence_.expected() >> shift) & 0xFFU));
    }
    replay_ = std::make_unique<Wire>(fd, ZmtpClient("DEALER", ZmtpClient::message({"", from})));
    replay_ends_ = now + kReplayTime;
    waiting_.emplace(sequence, payload);
  }

  /// Until the batch that showed the gap is the next one, or the publisher has no more.
  void read_replay() {
    while (const auto message = replay_->client().take()) {
      // The first part is empty: the publisher answers a REQ socket.
      if (message->size() != 3 || (*message)[1].size() != 8) {
        ++stats_.invalid;
        continue;
      }
      const std::uint64_t sequence = number_of((*message)[1]);
      if (sequence == kEndOfReplay) return give_up_replay();
      if (sequence != sequence_.expected()) continue;
      apply(sequence, (*message)[2]);
      if (sequence_.expected() != waiting_->first) continue;
      ++stats_.bridged;
      replay_.reset();
      apply(waiting_->first, waiting_->second);
      waiting_.reset();
      return;
    }
  }
  void give_up_replay() {
    replay_.reset();
    forget();
    if (waiting_.has_value()) apply(waiting_->first, waiting_->second);
    waiting_.reset();
  }

  void apply(std::uint64_t sequence, const std::string& payload) {
    sequence_.applied(sequence);
    const auto batch = parse_kv_events(std::as_bytes(std::span(payload)));
    if (!batch.has_value()) {
      ++stats_.invalid;
      return;
    }
    ++stats_.batches;
    stats_.events += batch->events.size();
    const EngineBlocks::Effect effect = blocks_.apply(*batch);
    for (const KvEvent& event : batch->events) {
      stats_.names_content = stats_.names_content || event.names_content;
    }
    if (stats_.names_content) return apply_content(*batch);
    if (effect.cleared) callbacks_.cleared(source_.name);
    if (effect.evicted_share > 0) callbacks_.evicted(source_.name, effect.evicted_share);
  }
  /// In order: a link may go and come back within one batch.
  void apply_content(const KvEventBatch& batch) {
    for (const KvEvent& event : batch.events) {
      switch (event.kind) {
        case KvEvent::Kind::kStored:
          if (event.names_content) callbacks_.holds(source_.name, event.keys, event.block_tokens);
          break;
        case KvEvent::Kind::kRemoved:
          callbacks_.lost(source_.name, event.keys);
          break;
        case KvEvent::Kind::kCleared:
          callbacks_.cleared(source_.name);
          break;
      }
    }
  }
  void forget() {
    stats_.names_content = false;
    blocks_.clear();
    callbacks_.cleared(source_.name);
  }

  const KvSource source_;
  const Callbacks& callbacks_;
  std::unique_ptr<Wire> wire_;
  std::unique_ptr<Wire> replay_;
  std::optional<std::pair<std::uint64_t, std::string>> waiting_;  // the batch after the gap
  SteadyTime replay_ends_;
  SteadyTime next_try_;
  SteadyTime second_;
  std::size_t this_second_ = 0;
  std::chrono::milliseconds pause_ = kFirstPause;
  KvSequence sequence_;
  EngineBlocks blocks_;
  KvSourceStats stats_;
};

KvSubscriber::KvSubscriber(Callbacks callbacks)
    : callbacks_(std::move(callbacks)),
      wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      thread_([this] { run(); }) {}

KvSubscriber::~KvSubscriber() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  wake();
  thread_.join();
  ::close(wake_fd_);
}

void KvSubscriber::wake() const {
  const std::uint64_t one = 1;
  // A full counter wakes it, too.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
}

void KvSubscriber::follow(std::vector<KvSource> sources) {
  {
    const MutexLock lock(mutex_);
    wanted_ = std::move(sources);
    changed_ = true;
  }
  wake();
}

std::map<std::string, KvSourceStats> KvSubscriber::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

void KvSubscriber::run() {
  std::vector<std::unique_ptr<Feed>> feeds;
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (ends_) return;
      if (std::exchange(changed_, false)) {
        std::vector<std::unique_ptr<Feed>> next;
        for (const KvSource& source : wanted_) {
          const auto same = std::ranges::find_if(
              feeds, [&](const auto& feed) { return feed != nullptr && feed->source() == source; });
          next.push_back(same == feeds.end() ? std::make_unique<Feed>(source, callbacks_)
                                             : std::move(*same));
        }
        feeds = std::move(next);
      }
      stats_.clear();
      for (const auto& feed : feeds) stats_[feed->source().name] = feed->stats();
    }
    std::vector<pollfd> list;
    const SteadyTime now = std::chrono::steady_clock::now();
    for (const auto& feed : feeds) feed->add_wanted(list, now);
    list.push_back({.fd = wake_fd_, .events = POLLIN, .revents = 0});
    // Pauses and replays have no event of their own.
    constexpr int kTick = 100;
    ::poll(list.data(), list.size(), feeds.empty() ? -1 : kTick);
    if (list.back().revents != 0) {
      std::uint64_t ignored = 0;
      [[maybe_unused]] const ssize_t taken = ::read(wake_fd_, &ignored, sizeof ignored);
    }
    const SteadyTime then = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < feeds.size(); ++i) feeds[i]->handle(list[i].revents, then);
  }
}

}  // namespace afterimage

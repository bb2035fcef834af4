// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/kv_subscriber.h"

#include <netdb.h>
#include <netinet/tcp.h>
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
#include <unordered_set>
#include <utility>

#include "foundation/types/digest_hash.h"
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
/// Prompts that wait for the thread, or for the first replica that names tokens.
constexpr std::size_t kMostLearned = 64;
constexpr std::size_t kMostLearnedBytes = 16UL * 1024 * 1024;
constexpr std::size_t kMostAdapters = 256;

std::uint64_t number_of(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char c : bytes) value = value << 8U | static_cast<unsigned char>(c);
  return value;
}

/// A host that vanished sends nothing, as an idle engine does: the system asks whether it is there.
void keep_alive(int fd) {
  constexpr int kOn = 1;
  constexpr int kIdle_s = 15;
  constexpr int kBetween_s = 5;
  constexpr int kProbes = 3;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdle_s, sizeof kIdle_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kBetween_s, sizeof kBetween_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
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
  if (begun) {
    keep_alive(fd);
    return fd;
  }
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
  Feed(KvSource source, const Callbacks& callbacks, const PromptIndex& index,
       std::set<std::string>& adapters)
      : source_(std::move(source)), callbacks_(callbacks), index_(index), adapters_(adapters) {}

  [[nodiscard]] const KvSource& source() const { return source_; }
  [[nodiscard]] const KvSourceStats& stats() const { return stats_; }
  /// Of the blocks whose tokens it names; 0: it names none.
  [[nodiscard]] std::uint32_t block_tokens() const { return blocks_.block_tokens(); }

  /// The index learned or forgot where links end.
  void match(std::span<const PromptIndex::Change> changes) {
    for (const PromptIndex::Change& change : changes) {
      if (!blocks_.holds(change.content)) continue;
      change.added ? hold(change.link) : lose_unless_held(change.link);
    }
    stats_.confirmed_links = held_.size();
  }

  void doubt() {
    if (stats_.names_content) return;
    ++stats_.doubts;
    forget();
    stats_.blocks = 0;
    stats_.tokens = 0;
    stats_.confirmed_links = 0;
  }

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
      if (wire_->client().ready() && !std::exchange(caught_up_, true)) catch_up(now);
      read(now);
      if (!usable || floods(now)) disconnect(now);
    }
    stats_.connected = wire_ != nullptr && wire_->client().ready();
    stats_.blocks = blocks_.blocks();
    stats_.tokens = blocks_.tokens();
    stats_.confirmed_links = held_.size();
  }

 private:
  void pause(SteadyTime now) {
    next_try_ = now + pause_;
    pause_ = std::min<std::chrono::milliseconds>(2 * pause_, kLongestPause);
  }
  /// What an engine named is there until it says otherwise: it can no longer say so.
  void disconnect(SteadyTime now) {
    wire_.reset();
    waiting_.reset();
    caught_up_ = false;
    replayed_until_ = 0;
    if (stats_.names_content || blocks_.block_tokens() > 0) {
      sequence_.forget();
      forget();
    }
    pause(now);
  }
  /// Asks for what was published before the connection, as far as the publisher kept it.
  void catch_up(SteadyTime now) {
    if (!source_.replay.empty() && begin_replay(now)) is_first_replay_ = !sequence_.has_begun();
  }
  bool begin_replay(SteadyTime now) {
    const int fd = connect_to(source_.replay);
    if (fd < 0) return false;
    std::string from;
    for (int shift = 56; shift >= 0; shift -= 8) {
      from.push_back(static_cast<char>((sequence_.expected() >> shift) & 0xFFU));
    }
    replay_ = std::make_unique<Wire>(fd, ZmtpClient("DEALER", ZmtpClient::message({"", from})));
    replay_ends_ = now + kReplayTime;
    is_first_replay_ = false;
    return true;
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
    // It was replayed, and sent as well.
    if (sequence < replayed_until_) return;
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
    if (source_.replay.empty() || !begin_replay(now)) {
      forget();
      return apply(sequence, payload);
    }
    waiting_.emplace(sequence, payload);
  }

  /// Until the batch that showed the gap is the next one, or the publisher has no more.
  void read_replay() {
    while (const auto message = replay_->client().take()) {
      // The first part is empty: the publisher answers a REQ socket. Then comes a topic, in later
      // versions of vLLM; the sequence number and the batch are the last.
      const std::size_t parts = message->size();
      if (parts < 3 || parts > 4 || (*message)[parts - 2].size() != 8) {
        ++stats_.invalid;
        continue;
      }
      const std::uint64_t sequence = number_of((*message)[parts - 2]);
      if (sequence == kEndOfReplay) {
        return waiting_.has_value() ? give_up_replay() : end_replay();
      }
      // A publisher keeps its latest batches only: the first of them may be any.
      if (sequence != sequence_.expected() && !std::exchange(is_first_replay_, false)) continue;
      is_first_replay_ = false;
      apply(sequence, message->back());
      if (!waiting_.has_value() || sequence_.expected() != waiting_->first) continue;
      ++stats_.bridged;
      end_replay();
      apply(waiting_->first, waiting_->second);
      waiting_.reset();
      return;
    }
  }
  void end_replay() {
    replay_.reset();
    if (sequence_.has_begun()) replayed_until_ = sequence_.expected();
  }
  void give_up_replay() {
    replay_.reset();
    // The first replay bridges no gap: the next batch shows whether more is missing.
    if (!waiting_.has_value()) return;
    forget();
    apply(waiting_->first, waiting_->second);
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
    if (effect.cleared) {
      held_.clear();
      callbacks_.cleared(source_.name);
    }
    for (const KvEvent& event : batch->events) {
      if (!event.adapter.empty() && adapters_.size() < kMostAdapters) {
        adapters_.emplace(event.adapter);
      }
    }
    for (const auto& [content, is_held] : effect.contents) {
      for (const PromptIndex::Link& link : index_.links_of(content)) {
        is_held ? hold(link) : lose_unless_held(link);
      }
    }
    if (effect.evicted_share > 0) callbacks_.evicted(source_.name, effect.evicted_share);
  }
  void hold(const PromptIndex::Link& link) {
    if (!held_.insert(link.key).second) return;
    callbacks_.holds(source_.name, {&link.key, 1}, static_cast<std::uint32_t>(link.tokens));
  }
  void lose_unless_held(const PromptIndex::Link& link) {
    const auto blocks = index_.blocks_of(link.key);
    if (std::ranges::any_of(blocks, [&](BlockContent block) { return blocks_.holds(block); })) {
      return;
    }
    if (held_.erase(link.key) != 0) callbacks_.lost(source_.name, {&link.key, 1});
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
    held_.clear();
    callbacks_.cleared(source_.name);
  }

  const KvSource source_;
  const Callbacks& callbacks_;
  const PromptIndex& index_;
  std::set<std::string>& adapters_;
  std::unordered_set<ChainKey, DigestHash> held_;  // links of the index that were reported
  std::unique_ptr<Wire> wire_;
  std::unique_ptr<Wire> replay_;
  std::optional<std::pair<std::uint64_t, std::string>> waiting_;  // the batch after the gap
  bool caught_up_ = false;            // asked for earlier batches, on this connection
  bool is_first_replay_ = false;      // nothing was read before
  std::uint64_t replayed_until_ = 0;  // these come once more on this connection
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

void KvSubscriber::learn(KnownPrompt prompt) {
  {
    const MutexLock lock(mutex_);
    learned_bytes_ += prompt.response.size();
    learned_.push_back(std::move(prompt));
    while (learned_.size() > kMostLearned || learned_bytes_ > kMostLearnedBytes) {
      learned_bytes_ -= learned_.front().response.size();
      learned_.pop_front();
    }
  }
  wake();
}

void KvSubscriber::take_learned(const std::vector<std::unique_ptr<Feed>>& feeds) {
  std::set<std::uint32_t> sizes;
  for (const auto& feed : feeds) sizes.insert(feed->block_tokens());
  sizes.erase(0);
  if (sizes.empty()) return;
  std::deque<KnownPrompt> learned;
  {
    const MutexLock lock(mutex_);
    learned = std::exchange(learned_, {});
    learned_bytes_ = 0;
  }
  for (const KnownPrompt& known : learned) {
    auto prompt = read_prompt_tokens(known.response);
    if (!prompt.has_value()) continue;
    if (adapters_.contains(known.model)) prompt->adapter = known.model;
    if (prompt->cache_salt.empty()) prompt->cache_salt = known.salt;
    for (const std::uint32_t size : sizes) {
      const auto changes = index_.learn(link_ends(*known.chain, *prompt, size));
      for (const auto& feed : feeds) feed->match(changes);
    }
  }
}

void KvSubscriber::doubt(std::string name) {
  {
    const MutexLock lock(mutex_);
    doubts_.insert(std::move(name));
  }
  wake();
}

void KvSubscriber::take_doubts(const std::vector<std::unique_ptr<Feed>>& feeds) {
  std::set<std::string> doubts;
  {
    const MutexLock lock(mutex_);
    doubts.swap(doubts_);
  }
  for (const auto& feed : feeds) {
    if (doubts.contains(feed->source().name)) feed->doubt();
  }
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
          next.push_back(same == feeds.end()
                             ? std::make_unique<Feed>(source, callbacks_, index_, adapters_)
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
    constexpr int kPollMs = 100;
    ::poll(list.data(), list.size(), feeds.empty() ? -1 : kPollMs);
    if (list.back().revents != 0) {
      std::uint64_t ignored = 0;
      [[maybe_unused]] const ssize_t taken = ::read(wake_fd_, &ignored, sizeof ignored);
    }
    const SteadyTime then = std::chrono::steady_clock::now();
    take_doubts(feeds);
    for (std::size_t i = 0; i < feeds.size(); ++i) feeds[i]->handle(list[i].revents, then);
    take_learned(feeds);
  }
}

}  // namespace afterimage

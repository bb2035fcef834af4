// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/kv_publisher/kv_publisher.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "caches/prefix/prefix_explanation.h"
#include "gateway/fleet/zmtp.h"

namespace afterimage {
namespace {

/// Evictions have no event of their own, and are noticed this soon.
constexpr int kTickMs = 100;

std::uint64_t matched_tokens(PrefixCache& cache, const HeldPrompt& prompt) {
  const auto found = cache.explain(prompt.space, prompt.sequence);
  return found.has_value() ? found->matched.value() : 0;
}

}  // namespace

Result<std::unique_ptr<KvPublisher>> KvPublisher::start(const std::string& address,
                                                        PrefixCache& cache, const WallClock& wall) {
  AFI_TRY(auto server, KvEventServer::listen(address));
  return std::unique_ptr<KvPublisher>(new KvPublisher(std::move(server), cache, wall));
}

KvPublisher::KvPublisher(std::unique_ptr<KvEventServer> server, PrefixCache& cache,
                         const WallClock& wall)
    : server_(std::move(server)),
      cache_(cache),
      wall_(wall),
      port_(server_->port()),
      wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      held_({}, [this](const HeldPrompt& prompt) { return matched_tokens(cache_, prompt); }),
      thread_([this] { run(); }) {}

KvPublisher::~KvPublisher() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  wake();
  thread_.join();
  ::close(wake_fd_);
}

void KvPublisher::wake() const {
  const std::uint64_t one = 1;
  // A full counter wakes it, too.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
}

void KvPublisher::served(ContentChain chain, std::shared_ptr<const PrefetchTarget> target) {
  {
    const MutexLock lock(mutex_);
    // Beyond it nothing is announced, which costs hits only.
    if (queue_.size() >= kMostQueued) return;
    queue_.emplace_back(std::move(chain), std::move(target));
  }
  wake();
}

/// The topic, the number and the batch.
std::string KvPublisher::message(const KvBatch& batch) const {
  std::string number;
  for (int shift = 56; shift >= 0; shift -= 8) {
    number.push_back(static_cast<char>((sequence_ >> shift) & 0xFFU));
  }
  const double now = std::chrono::duration<double>(wall_.now().time_since_epoch()).count();
  return ZmtpClient::message({"", number, batch.payload(now)});
}

void KvPublisher::step() {
  Queue served;
  {
    const MutexLock lock(mutex_);
    served.swap(queue_);
  }
  KvBatch batch;
  const PrefixCacheStats stats = cache_.stats();
  if (stats.evictions != evictions_ || stats.tokens < tokens_) held_.check(batch);
  evictions_ = stats.evictions;
  tokens_ = stats.tokens;
  for (const auto& [chain, target] : served) {
    held_.add(chain,
              std::make_shared<const HeldPrompt>(
                  HeldPrompt{.space = target->root, .sequence = target->prompt}),
              batch);
  }
  if (batch.empty()) return;
  ++sequence_;
  server_->publish(message(batch));
}

void KvPublisher::run() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (ends_) return;
    }
    std::vector<pollfd> list = {{.fd = wake_fd_, .events = POLLIN, .revents = 0}};
    server_->add_wanted(list);
    ::poll(list.data(), list.size(), kTickMs);
    if (list.front().revents != 0) {
      std::uint64_t ignored = 0;
      [[maybe_unused]] const ssize_t taken = ::read(wake_fd_, &ignored, sizeof ignored);
    }
    // Before anything is sent: a slow subscriber that is cut off then is still in the list.
    const bool is_wanted = server_->handle(list.data() + 1);
    step();
    if (!is_wanted) continue;
    KvBatch all;
    all.cleared();
    held_.write_all(all);
    server_->welcome(message(all));
  }
}

}  // namespace afterimage

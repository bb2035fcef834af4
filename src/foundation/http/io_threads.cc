// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/io_threads.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "foundation/http/io_threads_impl.h"
#include "foundation/http/poll_window.h"
#include "foundation/platform/thread_time.h"

namespace afterimage {
namespace {

struct Here {
  const IoThreads* threads = nullptr;
  unsigned index = 0;
};
thread_local Here here;

Duration now() { return std::chrono::steady_clock::now().time_since_epoch(); }

/// Differences of it are the time in which the thread did not compute.
Duration idle_time() { return now() - thread_cpu_time(); }

/// True: there was work, and it is done.
bool poll_for(net::asio::io_context& loop, Duration length) {
  const Duration end = now() + length;
  while (!loop.stopped()) {
    if (loop.poll() > 0) return true;
    if (now() >= end) return false;
    std::this_thread::yield();  // other work on this core goes first
  }
  return false;
}

void run_polling(net::asio::io_context& loop, Duration most) {
  PollWindow window(most);
  while (!loop.stopped()) {
    const Duration polled = window.length();
    if (polled > Duration(0) && poll_for(loop, polled)) continue;
    const Duration before = idle_time();
    loop.run_one();  // the work itself is not idle time
    window.slept(polled + idle_time() - before);
  }
}

}  // namespace

IoThreads::IoThreads(unsigned count, Duration busy_poll) : impl_(std::make_unique<Impl>()) {
  for (unsigned i = 0; i < std::max(1U, count); ++i) {
    impl_->loops.push_back(std::make_unique<IoLoop>(1));
  }
  for (unsigned i = 0; i < this->count(); ++i) {
    impl_->threads.emplace_back([this, i, busy_poll] {
      here = {.threads = this, .index = i};
      const auto work = net::asio::make_work_guard(*impl_->loops[i]);
      if (busy_poll > Duration(0) && std::thread::hardware_concurrency() > 1) {
        run_polling(*impl_->loops[i], busy_poll);
      } else {
        impl_->loops[i]->run();
      }
    });
  }
}

/// What waits in one loop may own connections of another, so all are emptied before one is
/// destroyed.
IoThreads::~IoThreads() {
  stop();
  for (const auto& loop : impl_->loops) loop->shutdown();
}

unsigned IoThreads::count() const { return static_cast<unsigned>(impl_->loops.size()); }

unsigned IoThreads::here_or_next() {
  return here.threads == this ? here.index : impl_->next++ % count();
}

void IoThreads::post(unsigned thread, std::function<void()> work) {
  net::asio::post(*impl_->loops.at(thread), std::move(work));
}

void IoThreads::post_after(unsigned thread, Duration wait, std::function<void()> work) {
  const auto timer = std::make_shared<net::Timer>(*impl_->loops.at(thread), wait);
  timer->async_wait([timer, work = std::move(work)](net::Failure error) {
    if (!error) work();
  });
}

void IoThreads::stop() {
  for (const auto& loop : impl_->loops) loop->stop();
  for (std::thread& thread : impl_->threads) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/io_threads.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

#include "foundation/http/io_threads_impl.h"

namespace afterimage {
namespace {

struct Here {
  const IoThreads* threads = nullptr;
  unsigned index = 0;
};
thread_local Here here;

}  // namespace

IoThreads::IoThreads(unsigned count) : impl_(std::make_unique<Impl>()) {
  for (unsigned i = 0; i < std::max(1U, count); ++i) {
    impl_->loops.push_back(std::make_unique<IoLoop>(1));
  }
  for (unsigned i = 0; i < this->count(); ++i) {
    impl_->threads.emplace_back([this, i] {
      here = {.threads = this, .index = i};
      const auto work = net::asio::make_work_guard(*impl_->loops[i]);
      impl_->loops[i]->run();
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

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "foundation/platform/mutex.h"
#include "gateway/proxy/shared_response.h"

namespace afterimage {

/// The answers that are on their way, by what was asked: who asks the same gets the same answer.
/// Threads  Any.
class SharedResponses {
 public:
  /// How many have landed: read before the cache is asked, see board().
  [[nodiscard]] std::uint64_t landed() const;

  struct Joined {
    std::shared_ptr<SharedResponse::Subscriber> seat;  // nullptr: look into the cache again
    bool leads = false;
  };
  /// A seat in the broadcast of this name; there being none, in the one that `start` makes, which
  /// the caller then leads. If broadcasts have landed since `landed`, their answers may be kept by
  /// now, and nobody boards.
  [[nodiscard]] Joined join_or_start(const std::string& key, std::uint64_t landed,
                                     const std::function<std::shared_ptr<SharedResponse>()>& start);
  /// It has landed, or nobody should join it any more.
  void remove(const std::string& key, const SharedResponse* broadcast);
  [[nodiscard]] std::size_t size() const;

  /// One that nobody else may join, for the end.
  void remember(const std::shared_ptr<SharedResponse>& broadcast);
  /// At the end, when nobody answers any more: whoever waits is let go of.
  void forget_all();

 private:
  mutable Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<SharedResponse>> broadcasts_
      AFI_GUARDED_BY(mutex_);
  std::uint64_t landed_ AFI_GUARDED_BY(mutex_) = 0;
  std::vector<std::weak_ptr<SharedResponse>> remembered_ AFI_GUARDED_BY(mutex_);
  std::size_t tidy_at_ AFI_GUARDED_BY(mutex_) = 64;
};

}  // namespace afterimage

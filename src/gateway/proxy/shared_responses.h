// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "foundation/platform/mutex.h"
#include "gateway/proxy/shared_response.h"

namespace afterimage {

/// Requests with the same key share a response. It is as long as their prompt: kept once, however many have it,
/// and hashed once.
class JoiningKey {
 public:
  JoiningKey() = default;  // empty: no other request joins
  explicit JoiningKey(std::string text)
      : hash_(std::hash<std::string>()(text)),
        text_(std::make_shared<const std::string>(std::move(text))) {}
  [[nodiscard]] bool is_empty() const { return text_ == nullptr; }
  bool operator==(const JoiningKey& other) const {
    return hash_ == other.hash_ &&
           (text_ == other.text_ ||
            (text_ != nullptr && other.text_ != nullptr && *text_ == *other.text_));
  }
  struct Hash {
    std::size_t operator()(const JoiningKey& key) const { return key.hash_; }
  };

 private:
  std::size_t hash_ = 0;
  std::shared_ptr<const std::string> text_;
};

/// The responses that are on their way, by what was asked: requests that ask the same share one.
/// Threads  Any.
class SharedResponses {
 public:
  /// How many have left: read it before the cache is asked, see join_or_start().
  [[nodiscard]] std::uint64_t completed() const;

  struct Joined {
    std::shared_ptr<SharedResponse::Subscriber> subscriber;  // nullptr: look into the cache again
    bool leads = false;
  };
  /// Subscribes to the response of this key; if there is none, to the one that `start` makes, which
  /// the caller then leads. If responses have completed since `before`, their answers may be stored
  /// by now, and nothing is started; nullopt: that does not matter.
  [[nodiscard]] Joined join_or_start(const JoiningKey& key, std::optional<std::uint64_t> before,
                                     const std::function<std::shared_ptr<SharedResponse>()>& start);
  /// It has completed or was abandoned: no request joins it from now on.
  void remove(const JoiningKey& key, const SharedResponse* response);
  [[nodiscard]] std::size_t size() const;
  /// Requests that wait for a response that others can join.
  [[nodiscard]] std::uint64_t subscribers() const;

  /// For forget_all(): also responses that are not shared.
  void remember(const std::shared_ptr<SharedResponse>& response);
  /// At the end of the process, when no backend answers any more.
  void forget_all();

 private:
  mutable Mutex mutex_;
  std::unordered_map<JoiningKey, std::shared_ptr<SharedResponse>, JoiningKey::Hash> responses_
      AFI_GUARDED_BY(mutex_);
  std::uint64_t completed_ AFI_GUARDED_BY(mutex_) = 0;
  std::vector<std::weak_ptr<SharedResponse>> remembered_ AFI_GUARDED_BY(mutex_);
  std::size_t prune_at_ AFI_GUARDED_BY(mutex_) = 64;
};

}  // namespace afterimage

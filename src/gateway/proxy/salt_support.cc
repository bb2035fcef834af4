// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/salt_support.h"

#include <string_view>
#include <utility>

#include "gateway/model_server/model_server.h"

namespace afterimage {
namespace {

constexpr std::size_t kMostBytes = std::size_t{4} << 20U;  // of a list
constexpr Duration kTimeout = std::chrono::seconds(5);

std::optional<bool> takes_salt(std::string_view models) {
  const auto list = read_model_list(models);
  if (!list.has_value()) return std::nullopt;
  return takes_cache_salt(list->kind);
}

}  // namespace

struct SaltSupport::State {
  mutable Mutex mutex;
  std::optional<bool> takes AFI_GUARDED_BY(mutex);
  bool is_asked AFI_GUARDED_BY(mutex) = false;
  Duration next AFI_GUARDED_BY(mutex){0};  // when it is asked, at the earliest
};

class SaltSupport::Listener final : public HttpListener {
 public:
  Listener(std::shared_ptr<State> state, const Clock& clock)
      : state_(std::move(state)), clock_(clock) {}
  void on_head(unsigned status, HttpHeaders /*headers*/) override { is_good_ = status == 200; }
  void on_bytes(std::string_view bytes) override {
    is_good_ = is_good_ && body_.size() + bytes.size() <= kMostBytes;
    if (is_good_) body_ += bytes;
  }
  void on_end() override { end(is_good_ ? takes_salt(body_) : std::nullopt); }
  void on_error(const Error& /*error*/) override { end(std::nullopt); }

 private:
  void end(std::optional<bool> takes) {
    const MutexLock lock(state_->mutex);
    state_->is_asked = false;
    state_->next = clock_.now() + (takes.has_value() ? kKept : kAskAgain);
    if (takes.has_value()) state_->takes = takes;
  }

  const std::shared_ptr<State> state_;
  const Clock& clock_;
  bool is_good_ = false;
  std::string body_;
};

SaltSupport::SaltSupport(std::optional<bool> setting, Url server, HttpCaller& caller,
                         const Clock& clock)
    : setting_(setting),
      server_(std::move(server)),
      caller_(caller),
      clock_(clock),
      state_(std::make_shared<State>()) {}

bool SaltSupport::may_take() const {
  if (setting_.has_value()) return *setting_;
  const MutexLock lock(state_->mutex);
  return state_->takes.value_or(true) || clock_.now() >= state_->next;
}

bool SaltSupport::takes() const {
  if (setting_.has_value()) return *setting_;
  const MutexLock lock(state_->mutex);
  return state_->takes.value_or(false);
}

bool SaltSupport::takes_now(const HttpHeaders& headers) {
  if (setting_.has_value()) return *setting_;
  {
    const MutexLock lock(state_->mutex);
    const bool is_due = !state_->is_asked && clock_.now() >= state_->next;
    if (!is_due) return state_->takes.value_or(false);
    state_->is_asked = true;
  }
  HttpHeaders asking{{"Accept-Encoding", "identity"}};
  for (const std::string_view name : {"Authorization", "X-Api-Key", "Api-Key"}) {
    if (const auto value = headers.joined(name)) asking.set(name, *value);
  }
  Url url = server_;
  url.target += "/v1/models";
  caller_.call({.method = "GET",
                .url = std::move(url),
                .headers = std::move(asking),
                .body = nullptr,
                .connect_timeout = kTimeout,
                .idle_timeout = kTimeout,
                .deadline = kTimeout},
               std::make_shared<Listener>(state_, clock_));
  return takes();
}

}  // namespace afterimage

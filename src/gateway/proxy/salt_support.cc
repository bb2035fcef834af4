// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/salt_support.h"

#include <string_view>
#include <utility>

#include "foundation/json/json_text.h"

namespace afterimage {
namespace {

constexpr std::size_t kMostBytes = std::size_t{4} << 20U;  // of a list
constexpr Duration kTimeout = std::chrono::seconds(5);

}  // namespace

std::optional<bool> lists_models_of_salted_caches(std::string_view body) {
  JsonReader reader;
  const auto root = reader.read(body);
  if (!root.has_value() || !(*root)["data"].is(JsonKind::kArray)) return std::nullopt;
  for (const JsonValue model : (*root)["data"]) {
    const std::string_view owner = model["owned_by"].text();
    if (owner == "vllm" || owner == "sglang") return true;
  }
  return false;
}

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
  void on_end() override { end(is_good_ ? lists_models_of_salted_caches(body_) : std::nullopt); }
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

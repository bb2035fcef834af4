// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/upstream.h"

#include <algorithm>
#include <array>

#include "foundation/text/ascii.h"
#include "gateway/model_server/model_server.h"
#include "gateway/proxy/cache_salt.h"

namespace afterimage {
namespace {

constexpr auto kOfOneConnection = std::to_array<std::string_view>(
    {"connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization",
     "te", "trailer", "transfer-encoding", "upgrade", "content-length", "host", "expect"});

bool names(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (same_header(ascii::trimmed(list.substr(0, end)), name)) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

bool is_ours(std::string_view name) {
  static constexpr std::string_view kOurs = "x-afterimage-";
  return same_header(name.substr(0, kOurs.size()), kOurs);
}

/// Counts a call as long as it is on its way.
class Counted final : public HttpListener {
 public:
  Counted(std::shared_ptr<HttpListener> to, std::shared_ptr<std::atomic<std::uint32_t>> count)
      : to_(std::move(to)), count_(std::move(count)) {}
  ~Counted() override { --*count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  void on_head(unsigned status, HttpHeaders headers) override {
    to_->on_head(status, std::move(headers));
  }
  void on_bytes(std::string_view bytes) override { to_->on_bytes(bytes); }
  void on_end() override { to_->on_end(); }
  void on_error(const Error& error) override { to_->on_error(error); }
  void on_failure(const HttpFailure& failure) override { to_->on_failure(failure); }

 private:
  std::shared_ptr<HttpListener> to_;
  std::shared_ptr<std::atomic<std::uint32_t>> count_;
};

}  // namespace

HttpHeaders end_to_end(HttpHeaders headers) {
  const std::string also = headers.joined("connection").value_or("");
  headers.remove_if([&](std::string_view name) {
    return names(also, name) || std::ranges::any_of(kOfOneConnection, [&](std::string_view one) {
             return same_header(one, name);
           });
  });
  return headers;
}

Result<std::unique_ptr<Upstream>> Upstream::create(const UpstreamSettings& settings,
                                                   std::string key, HttpCaller& caller,
                                                   const Clock& clock) {
  AFI_TRY(Url url, server_address(settings.url));
  return std::unique_ptr<Upstream>(
      new Upstream(settings, std::move(url), std::move(key), caller, clock));
}

ModelIdentity Upstream::identity(const std::string& model) const {
  return {.model = model,
          .weights_epoch = settings_.epoch,
          .encoder = "upstream",
          .adapter = settings_.url,
          .chat_template = ""};
}

HttpHeaders Upstream::sent_headers(HttpHeaders clients) const {
  HttpHeaders headers = end_to_end(std::move(clients));
  headers.remove_if(is_ours);
  // What is kept has to be read.
  headers.set("Accept-Encoding", "identity");
  if (!key_.empty()) headers.set("Authorization", "Bearer " + key_);
  return headers;
}

BackendCall Upstream::ask(BackendRequest request, std::shared_ptr<BackendListener> listener) {
  if (on_their_way_->fetch_add(1) >= settings_.max_connections) {
    --*on_their_way_;
    listener->on_error(
        {ErrorCode::kUnavailable,
         "upstream.max_connections calls are on their way to the model; try again soon"});
    return {};
  }
  const bool has_body = request.method != "GET" && request.method != "HEAD";
  HttpCall call{.method = std::move(request.method),
                .url = url_,
                .headers = sent_headers(std::move(request.headers)),
                .body = has_body ? std::move(request.body) : nullptr,
                .connect_timeout = settings_.connect_timeout,
                .idle_timeout = settings_.idle_timeout,
                .resends = request.resends,
                .once = request.once};
  call.url.target += request.target;
  if (!request.salt.empty() && call.body != nullptr && salts_.takes_now(call.headers)) {
    call.splice = cache_salt_splice(*call.body, request.salt);
  }
  const HttpCallHandle handle =
      caller_.call(std::move(call), std::make_shared<Counted>(std::move(listener), on_their_way_));
  return {.cancel = [handle] { handle.cancel(); }, .handle = handle};
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/media_fetch.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <utility>

#include "gateway/access/addresses.h"

namespace afterimage {
namespace {

constexpr std::string_view kFile = "file:";

bool is_file(std::string_view address) {
  return same_header(address.substr(0, kFile.size()), kFile);
}

FileBytes bytes_of(std::string_view text) {
  auto bytes = std::make_shared<std::vector<std::byte>>(text.size());
  std::memcpy(bytes->data(), text.data(), text.size());
  return bytes;
}

Result<FileBytes> read_file(const std::string& address, const MediaSettings& settings) {
  AFI_TRY(const std::string path, allowed_file(address, settings));
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = file.tellg();
  if (!file || size < 0) return fail(ErrorCode::kInvalidArgument, address + " cannot be read");
  if (static_cast<std::uint64_t>(size) > settings.max_size.value()) {
    return fail(ErrorCode::kLimitExceeded, address + " is larger than media.max_size");
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(size));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes->data()), size);
  if (file.gcount() != size) return fail(ErrorCode::kUnavailable, address + " cannot be read");
  return bytes;
}

/// The target of a redirection as an absolute URL.
std::string resolved(const std::string& location, const Url& from) {
  if (!location.starts_with('/') || location.starts_with("//")) return location;
  const bool v6 = from.host.contains(':');
  return std::string(from.tls ? "https://" : "http://") + (v6 ? "[" : "") + from.host +
         (v6 ? "]:" : ":") + from.port + location;
}

/// All media of one request. Each step starts the next; the object lives until the last.
class Fetch final : public std::enable_shared_from_this<Fetch> {
 public:
  using Done = std::function<void(Result<std::vector<ApiMedia>>)>;
  Fetch(std::vector<ApiMedia> media, MediaSettings settings, HttpCaller& caller, Done done)
      : media_(std::move(media)),
        settings_(std::move(settings)),
        caller_(caller),
        done_(std::move(done)) {}

  void next() {
    for (; at_ < media_.size(); ++at_) {
      ApiMedia& media = media_[at_];
      if (media.bytes != nullptr) continue;
      if (!is_file(media.address)) return get(media.address);
      auto bytes = read_file(media.address, settings_);
      if (!bytes.has_value()) return done_(std::unexpected(bytes.error()));
      media.bytes = *std::move(bytes);
    }
    done_(std::move(media_));
  }

 private:
  /// The response to one fetch, gathered.
  class Answer final : public HttpListener {
   public:
    Answer(std::shared_ptr<Fetch> fetch, Url url)
        : fetch_(std::move(fetch)), url_(std::move(url)) {}
    void on_head(unsigned status, HttpHeaders headers) override {
      status_ = status;
      headers_ = std::move(headers);
    }
    void on_bytes(std::string_view bytes) override {
      if (too_large_) return;
      too_large_ = body_.size() + bytes.size() > fetch_->settings_.max_size.value();
      if (too_large_) return handle.cancel();
      body_.append(bytes);
    }
    void on_end() override { fetch_->got(status_, headers_, body_, url_); }
    void on_error(const Error& error) override {
      if (too_large_) {
        return fetch_->done_(fail(ErrorCode::kLimitExceeded, fetch_->media_[fetch_->at_].address +
                                                                 " is larger than media.max_size"));
      }
      fetch_->done_(std::unexpected(error));
    }
    HttpCallHandle handle;

   private:
    std::shared_ptr<Fetch> fetch_;
    Url url_;
    unsigned status_ = 0;
    HttpHeaders headers_;
    std::string body_;
    bool too_large_ = false;
  };

  void get(const std::string& address) {
    auto url = allowed_url(address, settings_);
    if (!url.has_value()) return done_(std::unexpected(url.error()));
    HttpCall call{
        .method = "GET",
        .url = *url,
        .headers = {{"User-Agent", "afterimage"}, {"Accept", "image/*, audio/*, video/*"}},
        .body = nullptr,
        .connect_timeout = settings_.timeout,
        .idle_timeout = settings_.timeout,
        .deadline = settings_.timeout};
    if (!settings_.private_addresses) call.may_connect = is_public_address;
    auto answer = std::make_shared<Answer>(shared_from_this(), *std::move(url));
    answer->handle = caller_.call(std::move(call), answer);
  }

  void got(unsigned status, const HttpHeaders& headers, const std::string& body, const Url& from) {
    ApiMedia& media = media_[at_];
    const auto location = headers.find("location");
    if (status >= 300 && status < 400 && location.has_value()) {
      if (++redirects_ > settings_.max_redirects) {
        return done_(fail(ErrorCode::kLimitExceeded, media.address + " is redirected too often"));
      }
      return get(resolved(std::string(*location), from));
    }
    if (status != 200) {
      return done_(fail(ErrorCode::kInvalidArgument,
                        media.address + ": its server responds with " + std::to_string(status)));
    }
    media.bytes = bytes_of(body);
    if (const auto type = headers.find("content-type")) {
      media.options["mime"] = type->substr(0, type->find(';'));
    }
    redirects_ = 0;
    ++at_;
    next();
  }

  std::vector<ApiMedia> media_;
  MediaSettings settings_;
  HttpCaller& caller_;
  Done done_;
  std::size_t at_ = 0;
  std::uint32_t redirects_ = 0;
};

}  // namespace

Result<void> may_fetch(const std::vector<ApiMedia>& media, const MediaSettings& settings) {
  if (media.size() > settings.max_items) {
    return fail(ErrorCode::kLimitExceeded,
                "the request holds " + std::to_string(media.size()) + " media items; at most " +
                    std::to_string(settings.max_items) + " are allowed (media.max_items)");
  }
  for (const ApiMedia& item : media) {
    if (item.bytes != nullptr) continue;
    if (is_file(item.address)) {
      AFI_TRY([[maybe_unused]] const auto path, allowed_file(item.address, settings));
    } else {
      AFI_TRY([[maybe_unused]] const auto url, allowed_url(item.address, settings));
    }
  }
  return {};
}

void fetch_media(std::vector<ApiMedia> media, const MediaSettings& settings, HttpCaller& caller,
                 std::function<void(Result<std::vector<ApiMedia>>)> done) {
  std::make_shared<Fetch>(std::move(media), settings, caller, std::move(done))->next();
}

}  // namespace afterimage

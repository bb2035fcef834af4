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
constexpr Duration kKeptFor = std::chrono::hours(24);  // its server is asked each time all the same

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

/// A validator that promises the same bytes; empty: there is none.
std::string strong_etag(const HttpHeaders& headers) {
  constexpr std::size_t kLongest = 512;
  const std::string_view etag = headers.find("etag").value_or("");
  const bool is_strong =
      etag.size() > 2 && etag.size() <= kLongest && etag.starts_with('"') && etag.ends_with('"');
  const bool may_keep = !headers.joined("cache-control").value_or("").contains("no-store") &&
                        // Every fetch has the same headers, so other values of Vary change nothing.
                        headers.joined("vary").value_or("") != "*";
  return is_strong && may_keep ? std::string(etag) : std::string();
}

/// One URL, with its redirections. The object lives until the last of them.
class UrlFetch final : public std::enable_shared_from_this<UrlFetch> {
 public:
  using Done = std::function<void(Result<FetchedMedia>, bool revalidated)>;
  /// `known`: what was kept of the URL, or nullptr.
  UrlFetch(std::string address, std::shared_ptr<const FetchedMedia> known, MediaSettings settings,
           HttpCaller& caller, Done done)
      : address_(std::move(address)),
        known_(std::move(known)),
        settings_(std::move(settings)),
        caller_(caller),
        done_(std::move(done)) {}

  void begin() { get(address_); }

 private:
  /// The response to one call, gathered.
  class Answer final : public HttpListener {
   public:
    Answer(std::shared_ptr<UrlFetch> fetch, Url url)
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
        return fetch_->end(
            fail(ErrorCode::kLimitExceeded, fetch_->address_ + " is larger than media.max_size"));
      }
      fetch_->end(std::unexpected(error));
    }
    HttpCallHandle handle;

   private:
    std::shared_ptr<UrlFetch> fetch_;
    Url url_;
    unsigned status_ = 0;
    HttpHeaders headers_;
    std::string body_;
    bool too_large_ = false;
  };

  void end(Result<FetchedMedia> fetched, bool revalidated = false) {
    done_(std::move(fetched), revalidated);
  }

  void end_with_known() {
    // The limit may have changed since.
    if (known_->bytes->size() <= settings_.max_size.value()) return end(*known_, true);
    end(fail(ErrorCode::kLimitExceeded, address_ + " is larger than media.max_size"));
  }

  void get(const std::string& address) {
    auto url = allowed_url(address, settings_);
    if (!url.has_value()) return end(std::unexpected(url.error()));
    HttpCall call{
        .method = "GET",
        .url = *url,
        .headers = {{"User-Agent", "afterimage"}, {"Accept", "image/*, audio/*, video/*"}},
        .body = nullptr,
        .connect_timeout = settings_.timeout,
        .idle_timeout = settings_.timeout,
        .deadline = settings_.timeout};
    // The validator is of the URL itself, not of what it redirects to.
    if (known_ != nullptr && redirects_ == 0) call.headers.add("If-None-Match", known_->etag);
    if (!settings_.private_addresses) call.may_connect = is_public_address;
    auto answer = std::make_shared<Answer>(shared_from_this(), *std::move(url));
    answer->handle = caller_.call(std::move(call), answer);
  }

  void got(unsigned status, const HttpHeaders& headers, const std::string& body, const Url& from) {
    if (status == 304 && known_ != nullptr && redirects_ == 0) return end_with_known();
    const auto location = headers.find("location");
    if (status >= 300 && status < 400 && location.has_value()) {
      if (++redirects_ > settings_.max_redirects) {
        return end(fail(ErrorCode::kLimitExceeded, address_ + " is redirected too often"));
      }
      return get(resolved(std::string(*location), from));
    }
    if (status != 200) {
      return end(fail(ErrorCode::kInvalidArgument,
                      address_ + ": its server responds with " + std::to_string(status)));
    }
    FetchedMedia fetched{.bytes = bytes_of(body), .type = {}, .etag = {}};
    if (const auto type = headers.find("content-type")) {
      fetched.type = type->substr(0, type->find(';'));
    }
    if (redirects_ == 0) fetched.etag = strong_etag(headers);
    end(std::move(fetched));
  }

  std::string address_;
  std::shared_ptr<const FetchedMedia> known_;
  MediaSettings settings_;
  HttpCaller& caller_;
  Done done_;
  std::uint32_t redirects_ = 0;
};

/// All media of one request. Each step starts the next; the object lives until the last.
class MediaList final : public std::enable_shared_from_this<MediaList> {
 public:
  MediaList(std::string tenant, std::vector<ApiMedia> media, MediaSettings settings,
            MediaFetcher& fetcher, MediaFetcher::Done done)
      : tenant_(std::move(tenant)),
        media_(std::move(media)),
        settings_(std::move(settings)),
        fetcher_(fetcher),
        done_(std::move(done)) {}

  void next() {
    for (; at_ < media_.size(); ++at_) {
      ApiMedia& media = media_[at_];
      if (media.bytes != nullptr) continue;
      if (!is_file(media.address)) {
        return fetcher_.get(tenant_, media.address, settings_,
                            [self = shared_from_this()](Result<FetchedMedia> fetched) {
                              self->got(std::move(fetched));
                            });
      }
      auto bytes = read_file(media.address, settings_);
      if (!bytes.has_value()) return done_(std::unexpected(bytes.error()));
      media.bytes = *std::move(bytes);
    }
    done_(std::move(media_));
  }

 private:
  void got(Result<FetchedMedia> fetched) {
    if (!fetched.has_value()) return done_(std::unexpected(fetched.error()));
    ApiMedia& media = media_[at_++];
    media.bytes = std::move(fetched->bytes);
    if (!fetched->type.empty()) media.options["mime"] = std::move(fetched->type);
    next();
  }

  std::string tenant_;
  std::vector<ApiMedia> media_;
  MediaSettings settings_;
  MediaFetcher& fetcher_;
  MediaFetcher::Done done_;
  std::size_t at_ = 0;
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

MediaFetcher::MediaFetcher(HttpCaller& caller, Bytes capacity, const Clock& clock)
    : caller_(caller), kept_(capacity, kKeptFor, clock) {}

void MediaFetcher::fetch(const std::string& tenant, std::vector<ApiMedia> media,
                         const MediaSettings& settings, Done done) {
  std::make_shared<MediaList>(tenant, std::move(media), settings, *this, std::move(done))->next();
}

void MediaFetcher::get(const std::string& tenant, const std::string& address,
                       const MediaSettings& settings, GotOne done) {
  const Key key{tenant, address};
  {
    const MutexLock lock(mutex_);
    auto& waiting = waiting_[key];
    waiting.push_back(std::move(done));
    if (waiting.size() > 1) {
      ++stats_.joined;
      return;
    }
  }
  std::make_shared<UrlFetch>(address, kept_.find(tenant, address), settings, caller_,
                             [this, key](const Result<FetchedMedia>& fetched, bool revalidated) {
                               ended(key, fetched, revalidated);
                             })
      ->begin();
}

void MediaFetcher::ended(const Key& key, const Result<FetchedMedia>& fetched, bool revalidated) {
  const auto& [tenant, address] = key;
  if (fetched.has_value() && !fetched->etag.empty()) {
    kept_.put(tenant, address, std::make_shared<const FetchedMedia>(*fetched),
              Bytes(fetched->bytes->size() + fetched->etag.size()));
  } else if (fetched.has_value()) {
    kept_.erase(tenant, address);  // the URL has other bytes now
  }
  std::vector<GotOne> waiting;
  {
    const MutexLock lock(mutex_);
    waiting.swap(waiting_[key]);
    waiting_.erase(key);
    if (fetched.has_value()) ++(revalidated ? stats_.revalidated : stats_.fetched);
  }
  for (const GotOne& done : waiting) done(fetched);
}

MediaFetcher::Stats MediaFetcher::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

}  // namespace afterimage

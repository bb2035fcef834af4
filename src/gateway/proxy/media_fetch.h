// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/media.h"
#include "afterimage/result.h"
#include "foundation/http/caller.h"
#include "foundation/platform/mutex.h"
#include "gateway/config/settings.h"
#include "gateway/openai/request.h"
#include "gateway/protocol/tenant_store.h"

namespace afterimage {

/// Whether every media part that names an address may be fetched.
/// kInvalidArgument: the first that may not be, and why. kLimitExceeded: media.max_items.
[[nodiscard]] Result<void> may_fetch(const std::vector<ApiMedia>& media,
                                     const MediaSettings& settings);

/// A file as its server sent it.
struct FetchedMedia {
  FileBytes bytes;
  std::string type;  // media type; empty: the server named none
  std::string etag;  // its strong validator; empty: it has none
};

/// Fetches the media that are named by address: http and https from media.hosts, files from
/// media.folders. Redirections are checked like the first address, and host names again once they are
/// resolved.
///
/// Bytes that came with a strong ETag are kept for their tenant, in memory: the next fetch of the same
/// URL asks with If-None-Match, and on 304 they are used again. Concurrent fetches of one URL by one
/// tenant are one. Kept bytes are never used without asking their server.
///
/// Threads  Any.
class MediaFetcher {
 public:
  using Done = std::function<void(Result<std::vector<ApiMedia>>)>;
  using GotOne = std::function<void(Result<FetchedMedia>)>;

  /// `capacity` 0: nothing is kept. `caller` and `clock` outlive it, and it outlives its fetches.
  MediaFetcher(HttpCaller& caller, Bytes capacity, const Clock& clock);

  /// One after the other.
  ///
  /// Errors   `done` gets the media with their bytes, or kInvalidArgument: an address that may not be
  ///          fetched or that its server does not have; kLimitExceeded: a larger file or more
  ///          redirections than allowed; kUnavailable: no whole file; kTimeout: none within
  ///          media.timeout.
  /// Threads  `done` is called on one of the caller's, or at once.
  void fetch(const std::string& tenant, std::vector<ApiMedia> media, const MediaSettings& settings,
             Done done);
  /// One URL, for fetch().
  void get(const std::string& tenant, const std::string& address, const MediaSettings& settings,
           GotOne done);

  struct Stats {
    std::uint64_t fetched = 0;      // files whose bytes came
    std::uint64_t revalidated = 0;  // 304: the bytes that were kept are still the file's
    std::uint64_t joined = 0;       // fetches that waited for another of the same URL
  };
  [[nodiscard]] Stats stats() const;

 private:
  using Key = std::pair<std::string, std::string>;  // tenant, URL
  void ended(const Key& key, const Result<FetchedMedia>& fetched, bool revalidated);

  HttpCaller& caller_;
  TenantStore<FetchedMedia> kept_;
  mutable Mutex mutex_;
  std::map<Key, std::vector<GotOne>> waiting_ AFI_GUARDED_BY(mutex_);
  Stats stats_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage

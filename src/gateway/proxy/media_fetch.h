// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/media.h"
#include "afterimage/result.h"
#include "foundation/http/caller.h"
#include "gateway/config/settings.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// Whether every media part that names an address may be fetched.
/// kInvalidArgument: the first that may not be, and why. kLimitExceeded: media.max_items.
[[nodiscard]] Result<void> may_fetch(const std::vector<ApiMedia>& media,
                                     const MediaSettings& settings);

/// Fetches the media that are named by address, one after the other: http and https from media.hosts,
/// files from media.folders. Redirections are checked like the first address, and host names again
/// once they are resolved.
///
/// Errors   `done` gets the media with their bytes, or kInvalidArgument: an address that may not be
///          fetched or that its server does not have; kLimitExceeded: a larger file or more
///          redirections than allowed; kUnavailable: no whole file within media.timeout.
/// Threads  Any; `done` is called on one of the caller's, or at once.
void fetch_media(std::vector<ApiMedia> media, const MediaSettings& settings, HttpCaller& caller,
                 std::function<void(Result<std::vector<ApiMedia>>)> done);

}  // namespace afterimage

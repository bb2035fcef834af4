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

/// Whether every media part that names an address names one that may be fetched.
/// kInvalidArgument: the first that may not, and why.
[[nodiscard]] Result<void> may_fetch(const std::vector<ApiMedia>& media,
                                     const MediaSettings& settings);

/// Fetches what media parts name, one after the other: http and https from the hosts that are
/// allowed, redirections checked like the first address, names checked again once they are
/// resolved; files from the folders that are allowed.
///
/// `done` gets the media with their bytes, or the error: kInvalidArgument: an address that may not
/// be fetched, or whose server says there is none; kLimitExceeded: a larger file than allowed, more
/// redirections; kUnavailable: a server that does not answer within the time that is allowed for
/// all of one file.
/// Threads  Any; `done` is called on one of the caller's, or at once.
void fetch_media(std::vector<ApiMedia> media, const MediaSettings& settings, HttpCaller& caller,
                 std::function<void(Result<std::vector<ApiMedia>>)> done);

}  // namespace afterimage

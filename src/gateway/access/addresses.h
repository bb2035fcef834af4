// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/http/url.h"
#include "gateway/config/settings.h"

namespace afterimage {

/// Whether an address of a media part may be fetched at all: its host stands in media.hosts, and
/// scheme, port and user are as they should be. The host of the answer is in lower case, or the
/// usual spelling of a numeric address. What a name resolves to has to be looked at besides, with
/// is_public_address(), and that very address connected to.
/// kInvalidArgument: it may not, and why. kUnsupported: https.
[[nodiscard]] Result<Url> allowed_url(std::string_view address, const MediaSettings& settings);

/// Whether this numeric address (as resolved: "10.0.0.1", "::ffff:127.0.0.1", "fe80::1") is one of
/// the open network: not loopback, private, link-local, shared (100.64/10), multicast, reserved,
/// documentation, unspecified, nor one of these inside of IPv6 (mapped, 6to4, NAT64, Teredo).
[[nodiscard]] bool is_public_address(std::string_view numeric);

/// The path that a file URL names, if it lies in one of media.folders after every symbolic link is
/// followed. kInvalidArgument: it does not, or is no plain file; the message does not tell which of
/// the two of files outside. Who may write in such a folder may exchange the file before it is
/// read.
[[nodiscard]] Result<std::string> allowed_file(std::string_view address,
                                               const MediaSettings& settings);

}  // namespace afterimage

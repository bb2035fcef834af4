// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/http/url.h"
#include "gateway/config/settings.h"

namespace afterimage {

/// Checks that the URL of a media part may be fetched: its host matches media.hosts, it carries no
/// user name, and a numeric host is public unless media.private_addresses is set. The host of the
/// result is canonical: lower case, or the usual spelling of a numeric address. The caller must
/// also check what a name resolves to with is_public_address(), and connect to that same address.
///
/// Errors   kInvalidArgument: the URL is malformed or not allowed; the message says why.
/// Threads  Any.
[[nodiscard]] Result<Url> allowed_url(std::string_view address, const MediaSettings& settings);

/// True if a numeric address ("10.0.0.1", "::ffff:127.0.0.1", "fe80::1") is on the public internet:
/// not loopback, private, link-local, shared (100.64/10), multicast, reserved, documentation or
/// unspecified, and not one of these embedded in IPv6 (mapped, 6to4, NAT64); Teredo never is.
[[nodiscard]] bool is_public_address(std::string_view numeric);

/// The path that a file URL names, with every symbolic link resolved, if it lies in one of
/// media.folders.
///
/// Errors   kInvalidArgument: malformed URL, outside these folders, missing, or not a regular file.
///          Outside the folders the message does not reveal whether a file exists.
/// Limits   Anyone who may write to such a folder can replace the file before it is read.
/// Threads  Any.
[[nodiscard]] Result<std::string> allowed_file(std::string_view address,
                                               const MediaSettings& settings);

}  // namespace afterimage

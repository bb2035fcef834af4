// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "afterimage/result.h"

namespace afterimage {

/// 32 secret bytes. Keys are derived under it, so that outsiders learn nothing from equal keys.
using Secret = std::array<std::byte, 32>;

/// 32 unpredictable bytes from the operating system, for salts and secrets.
Result<Secret> random_secret();

/// The secret from which the keys of a folder's entries are derived: the file `secret`, 32 bytes,
/// readable by its owner only. Created at the first call. Without it no entry in the folder can be
/// found again.
///
/// Errors   kCorruption: not 32 bytes, or others may read it; kUnavailable, kNoSpace: the system
///          refused. The message says what to do.
/// Threads  Only the process that holds the folder's lock, which is that of an open DiskTier.
Result<Secret> store_secret(const std::string& folder);

/// Reads the secret from a file made by an operator: 32 bytes, readable by its owner only. For
/// processes that share a cache. Symbolic links are followed, because secrets are mounted that way.
///
/// Errors   As store_secret(), and kNotFound; the message says how to make one.
/// Threads  Any.
Result<Secret> secret_in_file(const std::string& path);

}  // namespace afterimage

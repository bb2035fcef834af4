// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "afterimage/result.h"

namespace afterimage {

/// 32 bytes that outsiders do not know. Equality of keys says nothing without it.
using Secret = std::array<std::byte, 32>;

/// 32 unpredictable bytes from the operating system, for salts and secrets.
Result<Secret> random_secret();

/// The secret under which the keys of a folder's entries are made: the file `secret`, 32 bytes, for
/// its owner only. Made at the first call. Without it nothing in the folder is found again.
///
/// Errors   kCorruption: not 32 bytes, or others may read it; kUnavailable, kNoSpace: the system
///          refused. The message says what to do.
/// Threads  Whoever holds the folder's lock, that is an open DiskTier.
Result<Secret> store_secret(const std::string& folder);

/// The secret in a file that an operator has made: 32 bytes, for its owner only. For processes that
/// share what they keep. Links are followed: that is how secrets are mounted.
///
/// Errors   As store_secret; and kNotFound, with how to make one.
/// Threads  Any.
Result<Secret> secret_in_file(const std::string& path);

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "gateway/protocol/chat_content.h"

namespace afterimage {

/// The body of a chat with the content of uploaded files in place of parts that name them:
/// {"type": "file", "file": {"file_id": "file-…"}} becomes an image or a text. Everything else stays the
/// same, byte for byte. nullopt: it names no file of the client; it may be a file of the backend's.
///
/// Errors   kUnsupported, naming the part: a file that is neither an image nor a text. Those of `files`,
///          except kNotFound.
/// Threads  Any.
[[nodiscard]] Result<std::optional<std::string>> with_uploaded_files(std::string_view body,
                                                                     const FileLookup& files);

}  // namespace afterimage

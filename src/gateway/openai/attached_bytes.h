// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "afterimage/digest.h"
#include "foundation/json/json_text.h"

namespace afterimage {

/// Adds the SHA-256 of the bytes that a value holds: of data URLs, alone or within a text, of base64 of 64
/// characters or more, and of the text of Anthropic's plain documents. So an answer can be erased by a file
/// that its request carried in a field that nothing here knows.
///
/// Threads  Any.
void add_attached(const JsonValue& value, std::vector<ContentDigest>& found);
/// The same of the members of an object, but for these.
void add_attached_members(const JsonValue& object, std::initializer_list<std::string_view> without,
                          std::vector<ContentDigest>& found);
/// The same of a text that people write: data URLs only.
void add_data_urls(std::string_view text, std::vector<ContentDigest>& found);

}  // namespace afterimage

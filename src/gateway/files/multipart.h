// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

/// One part of a form; views into the body that was parsed.
struct FormPart {
  std::string name;
  std::string filename;  // as sent, never a path here; empty: none
  std::string type;      // the part's Content-Type without parameters; empty: none
  std::string_view content;
};

/// Parses a body of multipart/form-data. `content_type` is the header of the request.
///
/// Errors   kInvalidArgument: no or a malformed boundary, a part without an end or a name, a name that
///          is not UTF-8 or has control characters, two parts of one name, bytes before the first or
///          after the last boundary. kLimitExceeded: more than 32 parts, or 8 KiB of headers in one.
/// Cost     One pass; contents are not copied.
/// Threads  Any.
/// Source   RFC 7578, RFC 2046 section 5.1.
[[nodiscard]] Result<std::vector<FormPart>> parse_multipart(std::string_view content_type,
                                                            std::string_view body);

}  // namespace afterimage

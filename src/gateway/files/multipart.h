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
  bool is_file = false;  // it has a file name, if only an empty or an encoded one ("filename*")
  std::string type;      // the part's Content-Type without parameters; empty: none
  std::string charset;   // of its Content-Type, in lower case; empty: none
  std::string_view content;
};

/// Whether parts of one name are values of one field ("image[]" twice), or a form that can be read in two
/// ways.
enum class RepeatedNames : bool { kRefused, kAllowed };

/// Parses a body of multipart/form-data. `content_type` is the header of the request.
///
/// Errors   kInvalidArgument: no or a malformed boundary, a part without an end or a name, a name that
///          is not UTF-8 or has control characters, two parts of one name unless allowed, bytes before the first or
///          after the last boundary. kLimitExceeded: more than 32 parts, or 8 KiB of headers in one.
/// Cost     One pass; contents are not copied.
/// Threads  Any.
/// Source   RFC 7578, RFC 2046 section 5.1.
[[nodiscard]] Result<std::vector<FormPart>> parse_multipart(
    std::string_view content_type, std::string_view body,
    RepeatedNames repeated = RepeatedNames::kRefused);

}  // namespace afterimage

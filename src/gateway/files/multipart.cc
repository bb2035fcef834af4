// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/files/multipart.h"

#include <algorithm>
#include <utility>

#include "foundation/text/ascii.h"
#include "foundation/text/valid_text.h"

namespace afterimage {
namespace {

constexpr std::size_t kMaxParts = 32;
constexpr std::size_t kMaxHeaders = 8 * 1024;
constexpr std::size_t kMaxName = 1024;
constexpr std::size_t kMaxBoundary = 70;

std::unexpected<Error> bad_form(std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, "the form cannot be read: " + std::string(what));
}

/// A header's value and its parameters: "form-data; name=\"a\"; filename=\"b;c\"".
struct Parameters {
  std::string value;
  std::vector<std::pair<std::string, std::string>> list;

  const std::string* find(std::string_view name) const {
    const auto found = std::ranges::find(list, name, &std::pair<std::string, std::string>::first);
    return found == list.end() ? nullptr : &found->second;
  }
};

/// Takes a token or a quoted string from the front.
Result<std::string> take_value(std::string_view& text) {
  std::string value;
  if (!text.starts_with('"')) {
    const std::size_t end = std::min(text.find(';'), text.size());
    value = ascii::trimmed(text.substr(0, end));
    text.remove_prefix(end);
    return value;
  }
  text.remove_prefix(1);
  while (true) {
    if (text.empty()) return bad_form("a quotation mark is missing");
    const char c = text.front();
    text.remove_prefix(1);
    if (c == '"') return value;
    // Browsers escape a quotation mark as %22, and clients of RFC 822 with a backslash.
    if (c == '\\' && !text.empty() && (text.front() == '"' || text.front() == '\\')) {
      value.push_back(text.front());
      text.remove_prefix(1);
    } else {
      value.push_back(c);
    }
  }
}

Result<Parameters> parameters_of(std::string_view text) {
  Parameters read;
  const std::size_t end = std::min(text.find(';'), text.size());
  read.value = ascii::lowered(ascii::trimmed(text.substr(0, end)));
  text.remove_prefix(end);
  while (!text.empty()) {
    if (text.front() != ';') return bad_form("a semicolon is missing in a header");
    text = ascii::trimmed(text.substr(1));
    if (text.empty()) break;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) return bad_form("a parameter has no value");
    const std::string name = ascii::lowered(ascii::trimmed(text.substr(0, equals)));
    text = ascii::trimmed(text.substr(equals + 1));
    AFI_TRY(std::string value, take_value(text));
    if (read.find(name) != nullptr) return bad_form("a parameter is given twice");
    read.list.emplace_back(name, std::move(value));
    text = ascii::trimmed(text);
  }
  return read;
}

Result<std::string> boundary_of(std::string_view content_type) {
  AFI_TRY(const Parameters type, parameters_of(content_type));
  if (type.value != "multipart/form-data") {
    return bad_form("send it as multipart/form-data, not as '" + type.value + "'");
  }
  const std::string* const boundary = type.find("boundary");
  if (boundary == nullptr || boundary->empty() || boundary->size() > kMaxBoundary) {
    return bad_form("the boundary must have 1 to 70 characters");
  }
  const bool plain = std::ranges::all_of(*boundary, [](char c) { return c >= ' ' && c < 0x7F; });
  if (!plain || boundary->ends_with(' '))
    return bad_form("the boundary has a character that it may not have");
  return *boundary;
}

Result<void> check_name(const std::string& name, std::string_view what) {
  const bool printable = std::ranges::none_of(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (name.size() > kMaxName)
    return bad_form("a " + std::string(what) + " is longer than 1024 bytes");
  if (printable && valid_text(name, name.size()) == name) return {};
  return bad_form("a " + std::string(what) + " is not printable UTF-8");
}

Result<void> read_header(std::string_view line, FormPart& part) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return bad_form("a part has a header without a colon");
  const std::string name = ascii::lowered(ascii::trimmed(line.substr(0, colon)));
  AFI_TRY(const Parameters value, parameters_of(line.substr(colon + 1)));
  const bool is_again = (name == "content-type" && !part.type.empty()) ||
                        (name == "content-disposition" && !part.name.empty());
  if (is_again) return bad_form("a part has two headers '" + name + "'");
  if (name == "content-type") {
    part.type = value.value;
    if (const auto* given = value.find("charset")) part.charset = ascii::lowered(*given);
  }
  if (name == "content-transfer-encoding" && value.value != "binary" && value.value != "8bit" &&
      value.value != "7bit") {
    return bad_form("a part is encoded as " + value.value + "; send its bytes as they are");
  }
  if (name != "content-disposition") return {};
  if (value.value != "form-data") return bad_form("a part is not form-data");
  if (const auto* given = value.find("name")) part.name = *given;
  if (const auto* given = value.find("filename")) part.filename = *given;
  part.is_file = value.find("filename") != nullptr || value.find("filename*") != nullptr;
  AFI_TRY_VOID(check_name(part.name, "name"));
  return check_name(part.filename, "file name");
}

/// Takes the headers of a part, and the empty line after them, from the front.
Result<FormPart> take_headers(std::string_view& body) {
  FormPart part;
  const std::string_view all = body.substr(0, kMaxHeaders);
  for (std::size_t at = 0;;) {
    const std::size_t end = all.find("\r\n", at);
    if (end == std::string_view::npos) {
      if (body.size() <= kMaxHeaders) return bad_form("a part has no end");
      return fail(ErrorCode::kLimitExceeded,
                  "the form cannot be read: a part has more than 8 KiB of headers");
    }
    if (end == at) {
      body.remove_prefix(end + 2);
      break;
    }
    AFI_TRY_VOID(read_header(all.substr(at, end - at), part));
    at = end + 2;
  }
  if (part.name.empty()) return bad_form("a part has no name");
  return part;
}

}  // namespace

Result<std::vector<FormPart>> parse_multipart(std::string_view content_type, std::string_view body,
                                              RepeatedNames repeated) {
  AFI_TRY(const std::string boundary, boundary_of(content_type));
  const std::string first = "--" + boundary;
  const std::string next = "\r\n" + first;
  std::vector<FormPart> parts;
  if (body.starts_with("\r\n")) body.remove_prefix(2);
  if (!body.starts_with(first)) return bad_form("it does not begin with its boundary");
  body.remove_prefix(first.size());
  while (true) {
    if (body.starts_with("--")) {
      body.remove_prefix(2);
      if (!body.empty() && body != "\r\n") return bad_form("something follows its last boundary");
      return parts;
    }
    while (body.starts_with(' ') || body.starts_with('\t')) body.remove_prefix(1);
    if (!body.starts_with("\r\n")) return bad_form("a boundary does not end its line");
    body.remove_prefix(2);
    if (parts.size() == kMaxParts) {
      return fail(ErrorCode::kLimitExceeded, "the form cannot be read: it has more than 32 parts");
    }
    AFI_TRY(FormPart part, take_headers(body));
    const bool is_again =
        repeated == RepeatedNames::kRefused &&
        std::ranges::any_of(parts, [&](const FormPart& other) { return other.name == part.name; });
    if (is_again) return bad_form("it has two parts with the name '" + part.name + "'");
    // The line break before a boundary belongs to the boundary.
    const std::size_t end = body.find(next);
    if (end == std::string_view::npos) return bad_form("a part has no end");
    part.content = body.substr(0, end);
    body.remove_prefix(end + next.size());
    parts.push_back(std::move(part));
  }
}

}  // namespace afterimage

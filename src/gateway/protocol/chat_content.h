// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "afterimage/result.h"

namespace afterimage {

/// A file that a client uploaded.
struct UploadedFile {
  std::string type;  // media type
  std::shared_ptr<const std::string> bytes;
};

/// Finds a file of the client by its id. kNotFound: the client has no such file.
using FileLookup = std::function<Result<UploadedFile>(std::string_view id)>;

/// The content of one message of a chat, part by part.
class ChatContent {
 public:
  void add_text(std::string_view text);
  /// `detail` empty: none is named.
  void add_image(std::string_view url, std::string_view detail = {});
  void add_pdf(std::string_view base64);
  /// An image or a PDF file as a data URL, a text as text.
  ///
  /// Errors  kUnsupported, naming `place`: any other type, or text that is not UTF-8.
  Result<void> add_file(const UploadedFile& file, std::string_view place,
                        std::string_view detail = {});

  [[nodiscard]] bool is_empty() const { return count_ == 0; }
  /// As the official clients write it: one text as a string, anything else as a list of parts, no
  /// part as null.
  [[nodiscard]] std::string json() const;
  /// All parts: "{…},{…}".
  [[nodiscard]] const std::string& parts() const { return json_; }

 private:
  void add(std::string_view json);

  std::size_t count_ = 0;
  bool is_text_ = false;  // the first part
  std::string text_;      // of the first part
  std::string json_;      // all parts
};

}  // namespace afterimage

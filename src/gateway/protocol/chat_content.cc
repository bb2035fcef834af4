// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/protocol/chat_content.h"

#include <array>
#include <span>

#include "foundation/json/json_writer.h"
#include "foundation/text/data_url.h"
#include "foundation/text/valid_text.h"

namespace afterimage {
namespace {

bool is_text_type(std::string_view type) {
  return type.starts_with("text/") || type == "application/json";
}

bool is_utf8(const std::string& text) { return valid_text(text, text.size()) == text; }

}  // namespace

void ChatContent::add(std::string_view json) {
  if (count_++ > 0) json_.push_back(',');
  json_.append(json);
}

void ChatContent::add_text(std::string_view text) {
  if (count_ == 0) {
    is_text_ = true;
    text_ = text;
  }
  add(JsonObject().add_text("type", "text").add_text("text", text).text());
}

void ChatContent::add_image(std::string_view url, std::string_view detail) {
  JsonObject image;
  image.add_text("url", url);
  if (!detail.empty()) image.add_text("detail", detail);
  add(JsonObject().add_text("type", "image_url").add("image_url", image.text()).text());
}

void ChatContent::add_pdf(std::string_view base64) {
  const std::string file =
      JsonObject()
          .add_text("file_data", "data:application/pdf;base64," + std::string(base64))
          .text();
  add(JsonObject().add_text("type", "file").add("file", file).text());
}

Result<void> ChatContent::add_file(const UploadedFile& file, std::string_view place,
                                   std::string_view detail) {
  if (file.type.starts_with("image/")) {
    add_image(
        "data:" + file.type + ";base64," + encode_base64(std::as_bytes(std::span(*file.bytes))),
        detail);
    return {};
  }
  if (is_text_type(file.type) && is_utf8(*file.bytes)) {
    add_text(*file.bytes);
    return {};
  }
  if (file.type == "application/pdf") {
    add_pdf(encode_base64(std::as_bytes(std::span(*file.bytes))));
    return {};
  }
  return fail(ErrorCode::kUnsupported,
              std::string(place) +
                  ": a chat completion takes images, PDF files and UTF-8 text, not a file of the "
                  "type " +
                  file.type);
}

std::string ChatContent::json() const {
  if (count_ == 0) return "null";
  if (count_ == 1 && is_text_) return json_string(text_);
  return "[" + json_ + "]";
}

}  // namespace afterimage

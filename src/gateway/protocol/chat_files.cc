// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/protocol/chat_files.h"

#include "foundation/json/json_text.h"
#include "gateway/protocol/fields.h"

namespace afterimage {

Result<std::optional<std::string>> with_uploaded_files(std::string_view body,
                                                       const FileLookup& files) {
  // Few do. A quotation mark in front, since base64 has none: megabytes of it are passed over fast.
  if (!body.contains(R"("file_id")")) return std::nullopt;
  JsonReader json;
  const auto root = json.read(body);
  if (!root.has_value()) return std::nullopt;  // read_api_request() reports it
  std::string text;
  std::size_t copied = 0;
  std::size_t index = 0;
  for (const JsonValue message : (*root)["messages"]) {
    const std::string place = element("messages", index++) + ".content";
    std::size_t number = 0;
    for (const JsonValue part : message["content"]) {
      const std::string name = element(place, number++);
      const JsonValue id = part["file"]["file_id"];
      if (part["type"].text() != "file" || !id.is(JsonKind::kString)) continue;
      const auto file = files(id.text());
      if (!file.has_value() && file.error().code == ErrorCode::kNotFound) continue;
      if (!file.has_value()) return std::unexpected(file.error());
      ChatContent content;
      AFI_TRY_VOID(content.add_file(*file, name + ".file.file_id"));
      text.append(body, copied, part.begin_offset() - copied).append(content.parts());
      copied = part.end_offset();
    }
  }
  if (copied == 0) return std::nullopt;
  return text.append(body.substr(copied));
}

}  // namespace afterimage

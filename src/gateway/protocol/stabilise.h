// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace afterimage {

// Changes of a chat that make its prompt begin as the one before, so that the prefix cache of the model's
// server finds it. Each is made before the request is read, so that the changed prompt is what the answer
// cache identifies.
// Threads  Any.

/// Which changes may be made: prompt.stabilise.
struct Stabilising {
  bool billing_lines = false;  // see volatile_blocks.h
  bool tool_order = false;     // tools are sorted by their names
  bool schema_keys = false;    // the members of tools' schemas are sorted by their names
  bool date_line = false;      // lines of system messages that say what time it is go to the end

  /// stabilised() has something to do.
  [[nodiscard]] bool changes_chats() const { return tool_order || schema_keys || date_line; }
};
/// Names that are unknown count for nothing: the settings are checked before.
[[nodiscard]] Stabilising stabilising_of(std::span<const std::string> names);

struct StabilisedPart {
  std::string_view change;  // as in the setting
  std::string place;        // "tools", "tools[1].function.parameters", "messages[0].content[2]"
  bool operator==(const StabilisedPart&) const = default;
};
struct StabilisedChat {
  std::string body;
  std::vector<StabilisedPart> parts;
  bool operator==(const StabilisedChat&) const = default;
};
/// The body of a chat with the changes that may be made, all but billing lines. Everything else stays as it
/// is, byte for byte, except for blanks between messages or tools that were moved. nullopt: nothing is
/// to be changed, or the body cannot be read.
///
/// Lines that say what time it is are appended to the last message of the user, and only if that comes
/// after them: a text, or a part of its own. Making the same changes again changes nothing.
/// Cost     The body is parsed once.
[[nodiscard]] std::optional<StabilisedChat> stabilised(std::string_view chat,
                                                       const Stabilising& may);

/// Whether a line says what day or time it is: it has a date, a time or a day of the week, and "today",
/// "current" or "now", or begins with "date", "time" or "timestamp".
[[nodiscard]] bool is_date_line(std::string_view line);

}  // namespace afterimage

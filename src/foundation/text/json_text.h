// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

enum class JsonKind : unsigned char {
  kAbsent,
  kNull,
  kFalse,
  kTrue,
  kNumber,
  kString,
  kArray,
  kObject
};

struct JsonNode {
  JsonKind kind = JsonKind::kAbsent;
  std::uint32_t begin = 0;  // where it stands in the text
  std::uint32_t end = 0;
  std::uint32_t next = 0;  // the node after it and all that it holds
  std::string_view key;    // of a member of an object, unescaped
  std::string_view text;   // of a string, unescaped; of a number, as it is spelled
};

/// One value of a JSON text, as far as it was kept. Valid while its reader and the
/// text live, until the reader reads again. What is
/// looked for and is not there is a value, too: kAbsent, which holds nothing.
class JsonValue {
 public:
  JsonValue() = default;
  JsonValue(const JsonNode* nodes, std::uint32_t index, const char* source)
      : nodes_(nodes), index_(index), source_(source) {}

  [[nodiscard]] JsonKind kind() const { return node().kind; }
  [[nodiscard]] bool is(JsonKind kind) const { return node().kind == kind; }
  /// Absent or null: most servers take the one for the other.
  [[nodiscard]] bool is_none() const { return kind() <= JsonKind::kNull; }
  /// Holds nothing: absent, null, "", [] or {}.
  [[nodiscard]] bool is_empty() const;

  [[nodiscard]] std::string_view key() const { return node().key; }
  [[nodiscard]] std::string_view text() const { return node().text; }
  /// The number if it is one, and a double can hold it.
  [[nodiscard]] std::optional<double> number() const;
  /// The number if it is a whole one from 0 on that is spelled so.
  [[nodiscard]] std::optional<std::uint64_t> count() const;
  /// Like count(), but 0 for what is none, and the largest number for what is beyond.
  [[nodiscard]] std::uint32_t count_or_zero() const;

  /// The bytes of the value in the text, quotes and brackets included.
  [[nodiscard]] std::string_view source() const {
    return {source_ + node().begin, node().end - node().begin};
  }
  [[nodiscard]] std::size_t begin_offset() const { return node().begin; }
  [[nodiscard]] std::size_t end_offset() const { return node().end; }

  /// The member of that name; absent if this is no object.
  [[nodiscard]] JsonValue operator[](std::string_view key) const;
  /// The first element; absent if there is none.
  [[nodiscard]] JsonValue front() const;

  class Iterator {
   public:
    Iterator(const JsonNode* nodes, std::uint32_t index, const char* source)
        : nodes_(nodes), index_(index), source_(source) {}
    JsonValue operator*() const { return {nodes_, index_, source_}; }
    Iterator& operator++() {
      index_ = nodes_[index_].next;
      return *this;
    }
    bool operator==(const Iterator& other) const { return index_ == other.index_; }

   private:
    const JsonNode* nodes_;
    std::uint32_t index_;
    const char* source_;
  };
  /// Elements of an array, members of an object; others have none.
  [[nodiscard]] Iterator begin() const;
  [[nodiscard]] Iterator end() const { return {nodes_, node().next, source_}; }

 private:
  [[nodiscard]] const JsonNode& node() const { return nodes_[index_]; }

  static const JsonNode kNone;
  const JsonNode* nodes_ = &kNone;
  std::uint32_t index_ = 0;
  const char* source_ = "";
};

/// Takes JSON texts apart: all of a text is checked, and where each value stands is known.
///
/// Errors   kInvalidArgument: not JSON (RFC 8259), not UTF-8, deeper than 128 levels, the same key
///          twice in one object, more than a million values (each takes 48 bytes here).
/// Cost     One pass; only strings with escapes are copied.
/// Threads  One at a time.
class JsonReader {
 public:
  /// The text's value, which looks into the text. What lies deeper than `kept_levels` is checked
  /// (but for double keys) and forgotten.
  [[nodiscard]] Result<JsonValue> read(std::string_view text, unsigned kept_levels = 128);

 private:
  std::vector<JsonNode> nodes_;
  std::deque<std::string> strings_;
};

/// Appends the one text of all JSON texts that say the same: members in order of their names, no
/// spaces, strings escaped where they must be, numbers as they are spelled. Members of the value
/// itself (not of what it holds) whose names are in `without` are left out.
void append_canonical(std::string& out, const JsonValue& value,
                      std::initializer_list<std::string_view> without = {});
[[nodiscard]] std::string canonical(const JsonValue& value,
                                    std::initializer_list<std::string_view> without = {});

/// Appends the text as a JSON string, quotes included.
void append_json_string(std::string& out, std::string_view text);
/// Appends the text as it stands within a JSON string.
void append_json_escaped(std::string& out, std::string_view text);

}  // namespace afterimage

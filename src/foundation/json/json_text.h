// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <list>
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
  std::uint32_t begin = 0;  // offset in the text
  std::uint32_t end = 0;
  std::uint32_t next = 0;  // index of the node after this one and its descendants
  std::string_view key;    // of an object member, unescaped
  std::string_view text;   // of a string, unescaped; of a number, as spelled
};

/// One value of a JSON text. Valid while its reader and the text live, until the reader reads
/// again. Looking up a member or element that does not exist returns a value of kind kAbsent, which
/// is empty.
class JsonValue {
 public:
  JsonValue() = default;
  JsonValue(const JsonNode* nodes, std::uint32_t index, const char* source)
      : nodes_(nodes), index_(index), source_(source) {}

  [[nodiscard]] JsonKind kind() const { return node().kind; }
  [[nodiscard]] bool is(JsonKind kind) const { return node().kind == kind; }
  /// Absent or null: most servers treat the two alike.
  [[nodiscard]] bool is_none() const { return kind() <= JsonKind::kNull; }
  /// Absent, null, "", [] or {}.
  [[nodiscard]] bool is_empty() const;

  [[nodiscard]] std::string_view key() const { return node().key; }
  [[nodiscard]] std::string_view text() const { return node().text; }
  /// The value of a number that fits a double; nullopt otherwise.
  [[nodiscard]] std::optional<double> number() const;
  /// The value of a number spelled as a non-negative integer; nullopt otherwise.
  [[nodiscard]] std::optional<std::uint64_t> count() const;
  /// Like count(), but 0 instead of nullopt; larger numbers are clamped to the maximum.
  [[nodiscard]] std::uint32_t count_or_zero() const;

  /// The text of the value as written, quotes and brackets included.
  [[nodiscard]] std::string_view source() const {
    return {source_ + node().begin, node().end - node().begin};
  }
  [[nodiscard]] std::size_t begin_offset() const { return node().begin; }
  [[nodiscard]] std::size_t end_offset() const { return node().end; }

  /// The member of that name; absent if there is none or this is not an object.
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
  /// Elements of an array or members of an object; empty for other kinds.
  [[nodiscard]] Iterator begin() const;
  [[nodiscard]] Iterator end() const { return {nodes_, node().next, source_}; }

 private:
  [[nodiscard]] const JsonNode& node() const { return nodes_[index_]; }

  static const JsonNode kNone;
  const JsonNode* nodes_ = &kNone;
  std::uint32_t index_ = 0;
  const char* source_ = "";
};

/// Parses JSON texts. The whole text is validated, and the position of each value is recorded.
///
/// Errors   kInvalidArgument: not JSON (RFC 8259), not UTF-8, deeper than 128 levels, a duplicate
///          key in an object, more than a million values (each takes 48 bytes here).
/// Cost     One pass; only strings with escapes are copied.
/// Threads  One at a time.
class JsonReader {
 public:
  /// Returns the text's root value, which refers to `text`. Levels deeper than `kept_levels` are
  /// validated (except for duplicate keys) but not recorded.
  [[nodiscard]] Result<JsonValue> read(std::string_view text, unsigned kept_levels = 128);

 private:
  std::vector<JsonNode> nodes_;
  std::list<std::string> strings_;  // that had escapes; they keep their places
};

/// Appends the canonical form of a value: no spaces, strings escaped only where necessary, numbers as
/// spelled. Members stay in the order in which they were sent, because models see it: an answer that
/// keeps to a schema has its members in the schema's order. Members of the value itself (not of nested
/// values) whose names are in `without` are left out.
void append_canonical(std::string& out, const JsonValue& value,
                      std::initializer_list<std::string_view> without = {});
[[nodiscard]] std::string canonical(const JsonValue& value,
                                    std::initializer_list<std::string_view> without = {});

/// Appends the text as a JSON string, quotes included.
void append_json_string(std::string& out, std::string_view text);
/// Appends the text escaped for the inside of a JSON string, without quotes.
void append_json_escaped(std::string& out, std::string_view text);

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/json/json_text.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <utility>

#include "foundation/types/request_work.h"

namespace afterimage {
namespace {

constexpr unsigned kMaxLevels = 128;
constexpr std::size_t kMaxValues = 1'000'000;
constexpr std::size_t kUsualValues = 16;  // of a short request

std::unexpected<Error> not_json(std::string_view why) {
  return fail(ErrorCode::kInvalidArgument, "it is not JSON: " + std::string(why));
}

/// Tests 64 bytes at a time, in a shape that compilers vectorise at -O2: texts may be megabytes of
/// base64.
bool has_control_character(std::string_view text) {
  constexpr std::uint64_t kSpaces = 0x2020'2020'2020'2020;
  constexpr std::uint64_t kHighBits = 0x8080'8080'8080'8080;
  std::array<std::uint64_t, 8> found{};
  for (; text.size() >= sizeof found; text.remove_prefix(sizeof found)) {
    std::array<std::uint64_t, 8> words{};
    std::memcpy(words.data(), text.data(), sizeof words);
    for (std::size_t i = 0; i < words.size(); ++i) found[i] |= (words[i] - kSpaces) & ~words[i];
  }
  for (; text.size() >= 8; text.remove_prefix(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    found[0] |= (word - kSpaces) & ~word;
  }
  const auto is_found = [](std::uint64_t word) { return (word & kHighBits) != 0; };
  return std::ranges::any_of(found, is_found) ||
         std::ranges::any_of(text, [](unsigned char c) { return c < 0x20; });
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto tail = [&](unsigned shift) {
    out.push_back(static_cast<char>(0x80U | (code >> shift & 0x3FU)));
  };
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0U | code >> 6U));
    tail(0);
  } else if (code < 0x1'0000) {
    out.push_back(static_cast<char>(0xE0U | code >> 12U));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0U | code >> 18U));
    tail(12);
    tail(6);
    tail(0);
  }
}

/// The value of the four hexadecimal digits at `at`.
std::optional<std::uint32_t> hex_unit(std::string_view text, std::size_t at) {
  std::uint32_t unit = 0;
  if (at + 4 > text.size()) return std::nullopt;
  const char* const end = text.data() + at + 4;
  const auto [read, error] = std::from_chars(text.data() + at, end, unit, 16);
  if (error != std::errc() || read != end) return std::nullopt;
  return unit;
}

/// Decodes the escape whose 'u' is at `at` and moves `at` past it. nullopt: malformed, or an
/// unpaired surrogate.
std::optional<std::uint32_t> take_unicode_escape(std::string_view text, std::size_t& at) {
  const auto first = hex_unit(text, at + 1);
  if (!first || (*first >= 0xDC00 && *first < 0xE000)) return std::nullopt;
  at += 5;
  if (*first < 0xD800 || *first >= 0xE000) return first;
  if (text.substr(at, 2) != "\\u") return std::nullopt;
  const auto second = hex_unit(text, at + 2);
  if (!second || *second < 0xDC00 || *second >= 0xE000) return std::nullopt;
  at += 6;
  return 0x1'0000 + ((*first - 0xD800) << 10U) + (*second - 0xDC00);
}

/// Parses one text.
class JsonWalk {
 public:
  JsonWalk(std::string_view text, unsigned kept_levels, std::vector<JsonNode>& nodes,
           std::list<std::string>& strings)
      : text_(text), kept_levels_(kept_levels), nodes_(&nodes), strings_(&strings) {}

  Result<void> run() {
    AFI_TRY_VOID(visit({}, 0));
    skip_space();
    if (at_ != text_.size()) return not_json("there is more text after its end");
    return {};
  }

 private:
  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  /// The next non-space character; 0 at the end of the text.
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char expected) {
    if (peek() != expected) return false;
    ++at_;
    return true;
  }

  Result<void> visit(std::string_view key, unsigned level) {
    if (level >= kMaxLevels) {
      return fail(ErrorCode::kInvalidArgument,
                  "it is nested deeper than " + std::to_string(kMaxLevels) + " levels");
    }
    const char first = peek();
    const bool kept = level <= kept_levels_;
    const std::size_t index = nodes_->size();
    JsonNode node{.begin = static_cast<std::uint32_t>(at_), .key = key};
    if (kept) {
      if (index >= kMaxValues) {
        return fail(ErrorCode::kInvalidArgument,
                    "it holds more than " + std::to_string(kMaxValues) + " values");
      }
      nodes_->push_back(node);
    }
    if (first == '{') {
      node.kind = JsonKind::kObject;
      AFI_TRY_VOID(visit_members(index, level));
    } else if (first == '[') {
      node.kind = JsonKind::kArray;
      AFI_TRY_VOID(visit_elements(level));
    } else if (first == '"') {
      node.kind = JsonKind::kString;
      AFI_TRY(node.text, take_string());
    } else {
      AFI_TRY(node.kind, take_word());
      if (node.kind == JsonKind::kNumber) node.text = text_.substr(node.begin, at_ - node.begin);
    }
    if (!kept) return {};
    node.end = static_cast<std::uint32_t>(at_);
    node.next = static_cast<std::uint32_t>(nodes_->size());
    (*nodes_)[index] = node;
    return {};
  }

  Result<void> visit_elements(unsigned level) {
    ++at_;
    if (take(']')) return {};
    do {
      AFI_TRY_VOID(visit({}, level + 1));
    } while (take(','));
    if (!take(']')) return not_json("an array lacks a comma or its closing bracket");
    return {};
  }

  Result<void> visit_members(std::size_t index, unsigned level) {
    ++at_;
    if (take('}')) return {};
    do {
      if (peek() != '"') return not_json("an object has a key that is not a string");
      AFI_TRY(const std::string_view key, take_string());
      if (!take(':')) return not_json("a key is not followed by a colon");
      AFI_TRY_VOID(visit(key, level + 1));
    } while (take(','));
    if (!take('}')) return not_json("an object lacks a comma or its closing brace");
    return level < kept_levels_ ? check_keys(index) : Result<void>{};
  }

  Result<void> check_keys(std::size_t index) {
    keys_.clear();
    for (std::size_t i = index + 1; i < nodes_->size(); i = (*nodes_)[i].next) {
      keys_.push_back((*nodes_)[i].key);
    }
    std::ranges::sort(keys_);
    const auto twice = std::ranges::adjacent_find(keys_);
    if (twice == keys_.end()) return {};
    return fail(ErrorCode::kInvalidArgument,
                "an object has the key \"" + std::string(*twice) + "\" twice, which is ambiguous");
  }

  Result<std::string_view> take_string() {
    const std::size_t begin = ++at_;
    const std::size_t quote = text_.find('"', begin);
    if (quote == std::string_view::npos) return not_json("a string is not terminated");
    const std::string_view plain = text_.substr(begin, quote - begin);
    if (has_control_character(plain)) return not_json("a string holds a control character");
    if (plain.contains('\\')) return take_escaped_string();
    at_ = quote + 1;
    return plain;
  }

  Result<std::string_view> take_escaped_string() {
    std::string string;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] != '\\') {
        if (static_cast<unsigned char>(text_[at_]) < 0x20) {
          return not_json("a string holds a control character");
        }
        string.push_back(text_[at_++]);
      } else if (!take_escape(string)) {
        return not_json("a string holds an invalid escape");
      }
    }
    if (at_ >= text_.size()) return not_json("a string is not terminated");
    ++at_;
    return strings_->emplace_back(std::move(string));
  }

  bool take_escape(std::string& string) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kCharacters = "\"\\/\b\f\n\r\t";
    if (++at_ >= text_.size()) return false;
    if (text_[at_] == 'u') {
      const auto code = take_unicode_escape(text_, at_);
      if (code) append_utf8(string, *code);
      return code.has_value();
    }
    const std::size_t name = kNames.find(text_[at_++]);
    if (name != std::string_view::npos) string.push_back(kCharacters[name]);
    return name != std::string_view::npos;
  }

  Result<JsonKind> take_word() {
    for (const auto& [word, kind] :
         {std::pair("null", JsonKind::kNull), std::pair("true", JsonKind::kTrue),
          std::pair("false", JsonKind::kFalse)}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += std::string_view(word).size();
      return kind;
    }
    if (!take_number()) return not_json("a value is missing or malformed");
    return JsonKind::kNumber;
  }

  std::size_t take_digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ - begin;
  }
  bool take_one_of(std::string_view characters) {
    if (at_ >= text_.size() || !characters.contains(text_[at_])) return false;
    ++at_;
    return true;
  }
  /// Checks a number's grammar only; its spelling is what is stored.
  bool take_number() {
    take_one_of("-");
    const bool begins_with_zero = at_ < text_.size() && text_[at_] == '0';
    const std::size_t whole = take_digits();
    if (whole == 0 || (whole > 1 && begins_with_zero)) return false;
    if (take_one_of(".") && take_digits() == 0) return false;
    if (!take_one_of("eE")) return true;
    take_one_of("+-");
    return take_digits() > 0;
  }

  std::string_view text_;
  unsigned kept_levels_;
  std::vector<JsonNode>* nodes_;
  std::list<std::string>* strings_;
  std::vector<std::string_view> keys_;
  std::size_t at_ = 0;
};

}  // namespace

const JsonNode JsonValue::kNone;

JsonValue JsonValue::operator[](std::string_view key) const {
  if (!is(JsonKind::kObject)) return {};
  for (const JsonValue member : *this) {
    if (member.key() == key) return member;
  }
  return {};
}

JsonValue JsonValue::front() const {
  return is(JsonKind::kArray) && begin() != end() ? *begin() : JsonValue();
}

JsonValue::Iterator JsonValue::begin() const {
  const bool holds = is(JsonKind::kArray) || is(JsonKind::kObject);
  return {nodes_, holds ? index_ + 1 : node().next, source_};
}

bool JsonValue::is_empty() const {
  switch (kind()) {
    case JsonKind::kString:
      return text().empty();
    case JsonKind::kArray:
    case JsonKind::kObject:
      return begin() == end();
    default:
      return is_none();
  }
}

std::optional<double> JsonValue::number() const {
  double value = 0;
  if (!is(JsonKind::kNumber)) return std::nullopt;
  const auto [end, error] = std::from_chars(text().data(), text().data() + text().size(), value);
  if (error != std::errc() || end != text().data() + text().size()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> JsonValue::count() const {
  std::uint64_t value = 0;
  if (!is(JsonKind::kNumber)) return std::nullopt;
  const auto [end, error] = std::from_chars(text().data(), text().data() + text().size(), value);
  if (error != std::errc() || end != text().data() + text().size()) return std::nullopt;
  return value;
}

std::uint32_t JsonValue::count_or_zero() const {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(count().value_or(0), std::numeric_limits<std::uint32_t>::max()));
}

Result<JsonValue> JsonReader::read(std::string_view text, unsigned kept_levels) {
  RequestWork::add(request_work().json_parses);
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
    return fail(ErrorCode::kInvalidArgument, "it is larger than 4 GiB");
  }
  if (!simdjson::validate_utf8(text)) {
    return fail(ErrorCode::kInvalidArgument, "it is not UTF-8");
  }
  nodes_.clear();
  nodes_.reserve(kUsualValues);
  strings_.clear();
  AFI_TRY_VOID(JsonWalk(text, kept_levels, nodes_, strings_).run());
  // Nodes hold offsets and lengths. NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage)
  return JsonValue(nodes_.data(), 0, text.data());
}

void append_json_escaped(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::size_t plain = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, plain, at - plain);
    plain = at + 1;
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(text[at]);
    } else if (c == '\n') {
      out.append("\\n");
    } else {
      out.append("\\u00");
      out.push_back(kHex[c >> 4U]);
      out.push_back(kHex[c & 0xFU]);
    }
  }
  out.append(text, plain);
}

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  append_json_escaped(out, text);
  out.push_back('"');
}

void append_canonical(std::string& out, const JsonValue& value,
                      std::initializer_list<std::string_view> without) {
  switch (value.kind()) {
    case JsonKind::kString:
      return append_json_string(out, value.text());
    case JsonKind::kArray: {
      out.push_back('[');
      bool first = true;
      for (const JsonValue element : value) {
        if (!std::exchange(first, false)) out.push_back(',');
        append_canonical(out, element);
      }
      out.push_back(']');
      return;
    }
    case JsonKind::kObject: {
      out.push_back('{');
      bool first = true;
      for (const JsonValue member : value) {
        if (std::ranges::find(without, member.key()) != without.end()) continue;
        if (!std::exchange(first, false)) out.push_back(',');
        append_json_string(out, member.key());
        out.push_back(':');
        append_canonical(out, member);
      }
      out.push_back('}');
      return;
    }
    default:
      out.append(value.source());
  }
}

std::string canonical(const JsonValue& value, std::initializer_list<std::string_view> without) {
  std::string text;
  append_canonical(text, value, without);
  return text;
}

}  // namespace afterimage

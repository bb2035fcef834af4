// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/media.h"
#include "foundation/json/json_text.h"

namespace afterimage {

// Which requests mean the same although they are spelled differently. A wrong "same" is a wrong answer,
// so everything that is not listed here is part of a request's identity.
// Threads  Any.

/// A field that cannot change an answer, whatever its value.
struct InertField {
  std::string_view name;
  std::string_view reason;
};
/// Fields of the request itself, sorted by name.
[[nodiscard]] std::span<const InertField> inert_fields();
[[nodiscard]] bool is_inert(std::string_view field);
/// Of messages and of their parts: marks what other caches shall keep.
inline constexpr std::string_view kCacheControl = "cache_control";

/// Whether this field of `root` asks for what every server of the API does without it: null, and values
/// that no server's own defaults can differ from. Not "presence_penalty": 0, for one, where an Ollama
/// Modelfile has another.
[[nodiscard]] bool is_default(const JsonValue& field, const JsonValue& root);
/// The same of a member of a message: null.
[[nodiscard]] bool is_default_member(const JsonValue& member);

/// A field of sampling whose number clients spell in several ways.
[[nodiscard]] bool is_real_number(std::string_view field);
/// The finite number that all of the text is.
[[nodiscard]] std::optional<double> number_in(std::string_view text);
/// 0, 0.0 and -0 are the same.
[[nodiscard]] std::string one_spelling(double number);
/// The value of a field of sampling, in one spelling of its number.
[[nodiscard]] std::string sampling_text(const JsonValue& field);

/// The options of a media item without those that say nothing: the declared type of an image that its
/// bytes tell anyway, and "detail": "auto".
[[nodiscard]] std::map<std::string, std::string> identity_options(
    Modality modality, std::map<std::string, std::string> options,
    const std::vector<std::byte>* bytes);

/// The ids of a chat that only pair tool calls with their results. Clients and servers make them at random,
/// so for the identity they are numbered in the order in which they appear.
///
/// Left as they are: ids that say more (shorter than 8 characters, or with others than letters, digits, '_'
/// and '-', as "functions.read:0"), and those that a text of the request mentions.
class CallIds {
 public:
  CallIds() = default;
  /// The views point into `root`, of a chat.
  explicit CallIds(const JsonValue& root);

  /// All that look as if they were made at random, in order of appearance.
  [[nodiscard]] const std::vector<std::string_view>& ids() const { return ids_; }
  /// "#0", which is no JSON; or the id as a JSON string.
  void append(std::string& out, const JsonValue& id) const;

 private:
  void add(const JsonValue& id);
  void find_mentions(const JsonValue& value);
  void find_mentions(std::string_view text);

  std::vector<std::string_view> ids_;
  std::vector<const char*> places_;  // of ids, within the texts of the JSON
  struct Numbered {
    std::size_t number = 0;
    bool is_mentioned = false;
  };
  std::map<std::string_view, Numbered> numbers_;
  std::size_t shortest_ = 0;
};

}  // namespace afterimage

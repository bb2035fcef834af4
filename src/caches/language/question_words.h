// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foundation/text/ascii.h"

namespace afterimage {

inline constexpr std::size_t kMinWords = 3;        // shorter texts are names or fragments
inline constexpr std::size_t kMaxFolded = 16'384;  // bytes; longer texts are documents

/// A token between spaces.
struct Word {
  std::string_view gap;   // the spaces before it
  std::string_view core;  // if prose: ASCII letters with ' or - inside; else the whole token
  std::string_view tail;  // if prose: the punctuation after it
  bool prose = false;

  [[nodiscard]] bool bare() const { return prose && tail.empty(); }
  bool operator==(const Word&) const = default;
};

/// The words of a text: parts of it, of the word lists, or of texts that are kept here.
class Words {
 public:
  [[nodiscard]] std::size_t size() const { return list_.size(); }
  Word& operator[](std::size_t i) { return list_[i]; }
  const Word& operator[](std::size_t i) const { return list_[i]; }
  [[nodiscard]] Word& front() { return list_.front(); }
  [[nodiscard]] Word& back() { return list_.back(); }
  [[nodiscard]] auto begin() { return list_.begin(); }
  [[nodiscard]] auto begin() const { return list_.begin(); }
  [[nodiscard]] auto end() { return list_.end(); }
  [[nodiscard]] auto end() const { return list_.end(); }
  [[nodiscard]] const std::vector<Word>& list() const { return list_; }

  void reserve(std::size_t count) { list_.reserve(count); }
  void add(const Word& word) { list_.push_back(word); }
  void insert(std::size_t i, const Word& word) { list_.insert(at(i), word); }
  void erase(std::size_t from, std::size_t to) { list_.erase(at(from), at(to)); }
  /// A part for a word: it stays as long as the words do.
  std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }
  /// False: no word has one, as most texts have none.
  [[nodiscard]] bool may_have_apostrophes() const { return may_have_apostrophes_; }
  void set_may_have_apostrophes(bool may) { may_have_apostrophes_ = may; }

 private:
  std::vector<Word>::iterator at(std::size_t i) {
    return list_.begin() + static_cast<std::ptrdiff_t>(i);
  }

  std::vector<Word> list_;
  std::list<std::string> kept_;  // a list: its elements stay where they are
  bool may_have_apostrophes_ = true;
};

/// A word in lower case, without an allocation. Empty: it is longer than every word of the lists.
class LoweredWord {
 public:
  explicit LoweredWord(std::string_view word)
      : size_(word.size() <= lower_.size() ? word.size() : 0) {
    std::ranges::transform(word.substr(0, size_), lower_.begin(), [](char c) {
      return ascii::is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    });
  }
  [[nodiscard]] std::string_view text() const { return {lower_.data(), size_}; }

 private:
  std::array<char, 32> lower_;
  std::size_t size_;
};

/// Whether the text is UTF-8 without control characters other than whitespace.
[[nodiscard]] bool is_text(std::string_view text);

/// The words of a text that is UTF-8; they refer to it. nullopt: the text must not be folded.
[[nodiscard]] std::optional<Words> words_of(std::string_view text);

[[nodiscard]] std::string joined(std::span<const Word> words);

/// The core of word `i` if it is prose; empty beyond the end.
[[nodiscard]] inline std::string_view core_at(const Words& words, std::size_t i) {
  return i < words.size() && words[i].prose ? words[i].core : "";
}

}  // namespace afterimage

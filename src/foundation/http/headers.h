// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace afterimage {

/// The headers of one message, in order. Names are compared case-insensitively.
///
/// Threads  As a vector.
class HttpHeaders {
 public:
  HttpHeaders() = default;
  HttpHeaders(std::initializer_list<std::pair<std::string, std::string>> fields)
      : fields_(fields) {}

  /// For so many.
  void reserve(std::size_t count) { fields_.reserve(count); }
  void add(std::string name, std::string value);
  /// Replaces all headers of this name.
  void set(std::string_view name, std::string value);
  void remove(std::string_view name);
  /// All whose name `goes` is true of.
  void remove_if(const auto& goes) {
    std::erase_if(fields_, [&](const auto& field) { return goes(field.first); });
  }
  /// A copy in which so many more have room.
  [[nodiscard]] HttpHeaders copy_with_room(std::size_t more) const;

  /// The first header of this name.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;
  /// All values of this name, joined by ", " as RFC 9110 5.3 allows; nullopt if there is none.
  [[nodiscard]] std::optional<std::string> joined(std::string_view name) const;

  [[nodiscard]] auto begin() const { return fields_.begin(); }
  [[nodiscard]] auto end() const { return fields_.end(); }
  [[nodiscard]] std::size_t size() const { return fields_.size(); }
  bool operator==(const HttpHeaders&) const = default;

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

/// Whether two header names are equal, ignoring case.
[[nodiscard]] bool same_header(std::string_view one, std::string_view other);
/// Whether the Content-Type is this one, with parameters or without.
[[nodiscard]] bool has_media_type(const HttpHeaders& headers, std::string_view type);

}  // namespace afterimage

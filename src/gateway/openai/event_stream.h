// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace afterimage {

/// Takes the bytes of server-sent events apart, in whatever pieces they come: lines that end with
/// CRLF, LF or CR, comments, fields without a colon, data of several lines, a byte order mark.
///
/// Shape    One call of the listener for each event that has data; the one that was not ended by an
///          empty line is none.
/// Errors   None. What is longer than the limit is left out, and is_cut() says so.
/// Threads  One at a time.
/// Source   HTML Living Standard, section 9.2, "Server-sent events".
class EventStreamReader {
 public:
  using Listener = std::function<void(std::string_view name, std::string_view data)>;

  /// `limit` is that of one line, and of the data of one event.
  explicit EventStreamReader(std::size_t limit) : limit_(limit) {}

  void feed(std::string_view bytes, const Listener& listener);
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  /// The data of the event that is not ended yet; of its last line, as if the line ended here.
  [[nodiscard]] std::string unfinished_data() const;

 private:
  void end_line(std::string_view rest_of_line, const Listener& listener);
  void read_line(std::string_view line, const Listener& listener);
  void keep(std::string& to, std::string_view text, bool& is_cut);

  std::size_t limit_;
  std::string line_;  // its beginning, from the pieces before
  std::string name_;
  std::string data_;
  bool has_data_ = false;
  bool is_first_line_ = true;
  bool is_after_cr_ = false;
  bool is_line_cut_ = false;
  bool is_event_cut_ = false;
  bool is_cut_ = false;  // any of them
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace afterimage {

/// Parses server-sent events, fed in pieces of any size: lines that end with CRLF, LF or CR,
/// comments, fields without a colon, data of several lines, a byte order mark.
///
/// Shape    Calls the listener once for each event that has data. An event that no empty line ends
///          is not reported.
/// Errors   None. Lines and events above the limit are dropped, and is_cut() becomes true.
/// Threads  One at a time.
/// Source   HTML Living Standard, section 9.2, "Server-sent events".
class EventStreamReader {
 public:
  using Listener = std::function<void(std::string_view name, std::string_view data)>;

  static constexpr std::size_t kLimit = std::size_t{16} << 20U;

  /// `limit` is in bytes: of one line, and of the data of one event.
  explicit EventStreamReader(std::size_t limit = kLimit) : limit_(limit) {}

  void feed(std::string_view bytes, const Listener& listener);
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  /// The bytes from the stream's begin to the last empty line: whole events, which may be passed on.
  [[nodiscard]] std::size_t whole() const { return whole_; }
  /// The data of the unfinished event, with its last line taken as if it ended here.
  [[nodiscard]] std::string unfinished_data() const;

 private:
  void end_line(std::string_view rest_of_line, const Listener& listener);
  void read_line(std::string_view line, const Listener& listener);
  void keep(std::string& to, std::string_view text, bool& is_cut);

  std::size_t limit_;
  std::size_t read_ = 0;  // bytes
  std::size_t whole_ = 0;
  std::string line_;  // the part of the current line that earlier pieces held
  std::string name_;
  std::string data_;
  bool has_data_ = false;
  bool is_first_line_ = true;
  bool is_after_cr_ = false;
  bool is_after_empty_line_ = false;
  bool is_line_cut_ = false;
  bool is_event_cut_ = false;
  bool is_cut_ = false;  // anything was dropped
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/text/event_stream.h"

#include <algorithm>

#include "foundation/types/request_work.h"

namespace afterimage {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

struct Field {
  std::string_view name;
  std::string_view value;
};

Field field_of(std::string_view line) {
  const std::size_t colon = std::min(line.find(':'), line.size());
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  return {line.substr(0, colon), value};
}

/// find_first_of("\r\n"), but at the speed of memchr.
std::size_t end_of_line(std::string_view bytes) {
  const std::size_t feed = std::min(bytes.find('\n'), bytes.size());
  return std::min(bytes.substr(0, feed).find('\r'), feed);
}

}  // namespace

void EventStreamReader::feed(std::string_view bytes, const Listener& listener) {
  while (!bytes.empty()) {
    if (is_after_cr_ && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      is_after_cr_ = false;
      ++read_;
      if (is_after_empty_line_) whole_ = read_;
      continue;
    }
    is_after_cr_ = false;
    const std::size_t end = end_of_line(bytes);
    if (end == bytes.size()) {
      read_ += end;
      return keep(line_, bytes, is_line_cut_);
    }
    end_line(bytes.substr(0, end), listener);
    is_after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    read_ += end + 1;
    if (is_after_empty_line_) whole_ = read_;
  }
}

void EventStreamReader::end_line(std::string_view rest_of_line, const Listener& listener) {
  if (line_.empty() && !is_line_cut_) return read_line(rest_of_line, listener);
  keep(line_, rest_of_line, is_line_cut_);
  if (is_line_cut_) {
    is_event_cut_ = true;  // the dropped line may have been data
    is_line_cut_ = is_after_empty_line_ = false;
  } else {
    read_line(line_, listener);
  }
  line_.clear();
}

/// Drops text above the limit to its end, so that no fragment of it is parsed as something else.
void EventStreamReader::keep(std::string& to, std::string_view text, bool& is_cut) {
  if (is_cut || text.size() > limit_ - std::min(limit_, to.size())) {
    is_cut = is_cut_ = true;
    return;
  }
  to.append(text);
}

void EventStreamReader::read_line(std::string_view line, const Listener& listener) {
  if (is_first_line_ && line.starts_with(kByteOrderMark)) {
    line.remove_prefix(kByteOrderMark.size());
  }
  is_first_line_ = false;
  is_after_empty_line_ = line.empty();
  if (line.empty()) {
    if (has_data_ && !is_event_cut_) {
      RequestWork::add(request_work().event_parses);
      listener(name_, data_);
    }
    name_.clear();
    data_.clear();
    has_data_ = is_event_cut_ = false;
    return;
  }
  const Field field = field_of(line);
  if (field.name == "event") {
    name_.clear();
    keep(name_, field.value, is_event_cut_);
  } else if (field.name == "data") {
    if (has_data_) keep(data_, "\n", is_event_cut_);
    keep(data_, field.value, is_event_cut_);
    has_data_ = true;
  }
}

std::string EventStreamReader::unfinished_data() const {
  const Field field = field_of(line_);
  if (field.name != "data") return data_;
  return has_data_ ? data_ + "\n" + std::string(field.value) : std::string(field.value);
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/record_format.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "afterimage/result.h"

namespace afterimage {
namespace {

constexpr char kVersion = 1;
constexpr std::size_t kHeaderBytes = 36;
constexpr unsigned kCanBeWhole = 1;
constexpr unsigned kCanBeStreamed = 2;
constexpr unsigned kCanSayUsage = 4;
constexpr unsigned kCallsTools = 8;
constexpr unsigned kAllFlags = 15;
constexpr unsigned kVerbatimFlags = kCanBeWhole;

/// Sorted by position.
std::vector<Gap> gaps_of(const JsonValue& root) {
  std::vector<Gap> gaps;
  gaps.reserve(2);
  for (const Gap gap : {id_gap(root), created_gap(root)}) {
    if (gap.end > 0) gaps.push_back(gap);
  }
  std::ranges::sort(gaps, {}, &Gap::begin);
  return gaps;
}

/// The text from `begin` to `end` with placeholders; offsets count as in `root`.
std::string cut_out(const JsonValue& root, const std::vector<Gap>& gaps, std::size_t begin,
                    std::size_t end) {
  const std::string_view source = root.source();
  const std::size_t shift = root.begin_offset();
  std::string text;
  text.reserve(end - begin);
  for (const Gap& gap : gaps) {
    if (gap.begin < begin || gap.end > end) continue;
    text.append(source, begin - shift, gap.begin - begin);
    text.push_back(gap.mark);
    begin = gap.end;
  }
  return text.append(source, begin - shift, end - begin);
}

void append_u32(std::string& out, std::size_t number) {
  AFI_CHECK(number <= std::numeric_limits<std::uint32_t>::max());
  for (unsigned shift = 0; shift < 32; shift += 8) {
    out.push_back(static_cast<char>(number >> shift & 0xFFU));
  }
}

void append_varint(std::string& out, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7U) out.push_back(static_cast<char>(number | 0x80U));
  out.push_back(static_cast<char>(number));
}

std::uint32_t u32_at(std::string_view bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (unsigned i = 0; i < 4; ++i) {
    number |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return number;
}

/// nullopt: truncated, or not in its shortest form.
std::optional<std::uint64_t> take_varint(std::string_view& rest) {
  std::uint64_t number = 0;
  for (unsigned i = 0; i < 5 && i < rest.size(); ++i) {
    const auto byte = static_cast<unsigned char>(rest[i]);
    number |= std::uint64_t{byte & 0x7FU} << (7 * i);
    if ((byte & 0x80U) != 0) continue;
    if (byte == 0 && i > 0) return std::nullopt;
    rest.remove_prefix(i + 1);
    return number;
  }
  return std::nullopt;
}

std::optional<std::string_view> take(std::string_view& rest, std::uint64_t size) {
  if (size > rest.size()) return std::nullopt;
  const std::string_view taken = rest.substr(0, size);
  rest.remove_prefix(size);
  return taken;
}

std::optional<RecordView::Frame> take_frame(std::string_view& rest) {
  const auto before_size = take_varint(rest);
  if (!before_size) return std::nullopt;
  const auto after_size = take_varint(rest);
  if (!after_size) return std::nullopt;
  const auto before = take(rest, *before_size);
  if (!before) return std::nullopt;
  const auto after = take(rest, *after_size);
  if (!after) return std::nullopt;
  return RecordView::Frame{*before, *after};
}

std::optional<EventView> find_event(std::string_view& rest) {
  const auto head = take_varint(rest);
  if (!head || *head >> 33U != 0) return std::nullopt;
  const auto size = take_varint(rest);
  if (!size) return std::nullopt;
  const auto inner = take(rest, *size);
  if (!inner) return std::nullopt;
  return EventView{.frame = static_cast<std::uint32_t>(*head >> 1U),
                   .is_usage = (*head & 1U) != 0,
                   .inner = *inner};
}

/// Fills `view` from the sections after the header; false: they are malformed.
bool read_sections(std::string_view bytes, RecordView& view) {
  std::string_view rest = bytes.substr(kHeaderBytes);
  std::size_t at = 20;
  for (std::string_view* section : {&view.finish_reason, &view.model, &view.text, &view.whole}) {
    const auto taken = take(rest, u32_at(bytes, at));
    if (!taken) return false;
    *section = *taken;
    at += 4;
  }
  const std::uint32_t frames = u32_at(bytes, 12);
  if (frames > rest.size() / 2) return false;  // each has two lengths of a byte or more
  view.frames.reserve(frames);
  for (std::uint32_t i = 0; i < frames; ++i) {
    const auto frame = take_frame(rest);
    if (!frame) return false;
    view.frames.push_back(*frame);
  }
  view.event_count = u32_at(bytes, 16);
  view.events = rest;
  for (std::uint32_t i = 0; i < view.event_count; ++i) {
    const auto event = find_event(rest);
    if (!event || event->frame >= frames) return false;
  }
  return rest.empty();
}

bool read_header(std::string_view bytes, RecordView& view) {
  if (bytes.size() < kHeaderBytes || bytes[0] != kVersion || bytes[3] != 0) return false;
  const auto operation = static_cast<unsigned char>(bytes[1]);
  const auto flags = static_cast<unsigned char>(bytes[2]);
  if (operation >= kApiOperations || flags > kAllFlags) return false;
  view.operation = static_cast<ApiOperation>(operation);
  if (is_verbatim(view.operation) && flags != kVerbatimFlags) return false;
  view.has_body = (flags & kCanBeWhole) != 0;
  view.can_be_streamed = (flags & kCanBeStreamed) != 0;
  view.can_stream_usage = (flags & kCanSayUsage) != 0;
  view.calls_tools = (flags & kCallsTools) != 0;
  view.prompt_tokens = u32_at(bytes, 4);
  view.output_tokens = u32_at(bytes, 8);
  return true;
}

std::unexpected<Error> not_a_record(std::string_view bytes) {
  return fail(ErrorCode::kCorruption,
              std::to_string(bytes.size()) + " bytes are not an answer record");
}

}  // namespace

Gap id_gap(const JsonValue& root) {
  const JsonValue id = root["id"];
  if (!id.is(JsonKind::kString) || id.text().empty()) return {};
  return {id.begin_offset(), id.end_offset(), kIdPlaceholder};
}

Gap created_gap(const JsonValue& root) {
  const JsonValue created = root["created"];
  if (created.count().value_or(0) == 0) return {};
  return {created.begin_offset(), created.end_offset(), kCreatedPlaceholder};
}

void RecordParts::add_event(const JsonValue& event, const JsonValue& cut, bool is_usage) {
  const std::vector<Gap> gaps = gaps_of(event);
  const bool is_cut = !cut.is(JsonKind::kAbsent);
  const std::size_t begin = is_cut ? cut.begin_offset() : event.end_offset();
  const std::size_t end = is_cut ? cut.end_offset() : event.end_offset();
  EventFrame frame{.before = on_one_line(cut_out(event, gaps, event.begin_offset(), begin)),
                   .after = on_one_line(cut_out(event, gaps, end, event.end_offset()))};
  add_event(std::move(frame), is_cut ? on_one_line(std::string(cut.source())) : std::string(),
            is_usage);
}

void RecordParts::add_event(EventFrame frame, std::string inner, bool is_usage) {
  // Search the newest frames only: they match most often, and the cost per event stays constant.
  constexpr std::size_t kSearched = 16;
  const std::size_t oldest = frames.size() - std::min(frames.size(), kSearched);
  std::size_t index = frames.size();
  while (index > oldest && frames[index - 1] != frame) --index;
  if (index == oldest) {
    frames.push_back(std::move(frame));
    index = frames.size();
  }
  events.push_back({.frame = static_cast<std::uint32_t>(index - 1),
                    .is_usage = is_usage,
                    .inner = std::move(inner)});
}

std::string with_placeholders(const JsonValue& root) {
  return cut_out(root, gaps_of(root), root.begin_offset(), root.end_offset());
}

std::string on_one_line(std::string text) {
  if (!text.contains('\n') && !text.contains('\r')) return text;  // nearly always
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

std::string encode(const RecordParts& parts) {
  const unsigned flags = (parts.has_body ? kCanBeWhole : 0U) |
                         (parts.can_be_streamed || !parts.events.empty() ? kCanBeStreamed : 0U) |
                         (parts.can_stream_usage ? kCanSayUsage : 0U) |
                         (parts.facts.calls_tools ? kCallsTools : 0U);
  std::string_view text = parts.whole.empty() ? parts.facts.text : std::string_view();
  if (is_verbatim(parts.operation)) text = parts.content_type;
  std::string bytes{kVersion, static_cast<char>(parts.operation), static_cast<char>(flags), 0};
  append_u32(bytes, parts.facts.prompt_tokens);
  append_u32(bytes, parts.facts.output_tokens);
  append_u32(bytes, parts.frames.size());
  append_u32(bytes, parts.events.size());
  const std::array<std::string_view, 4> sections{parts.facts.finish_reason, parts.facts.model, text,
                                                 parts.whole};
  for (const std::string_view section : sections) append_u32(bytes, section.size());
  for (const std::string_view section : sections) bytes.append(section);
  for (const EventFrame& frame : parts.frames) {
    append_varint(bytes, frame.before.size());
    append_varint(bytes, frame.after.size());
    bytes.append(frame.before).append(frame.after);
  }
  for (const RecordedEvent& event : parts.events) {
    append_varint(bytes, std::uint64_t{event.frame} << 1U | (event.is_usage ? 1U : 0U));
    append_varint(bytes, event.inner.size());
    bytes.append(event.inner);
  }
  bytes.shrink_to_fit();
  return bytes;
}

Result<RecordView> decode(std::string_view bytes) {
  RecordView view;
  const bool is_read = read_header(bytes, view) && read_sections(bytes, view);
  if (is_read && is_verbatim(view.operation)) {
    view.content_type = std::exchange(view.text, {});
    if (view.content_type.empty() || !view.frames.empty()) return not_a_record(bytes);
  }
  const bool can_make_events = !view.whole.empty() && generates_text(view.operation);
  const bool is_sound =
      is_read && (!view.has_body || !view.whole.empty()) &&
      (view.can_be_streamed ? view.event_count > 0 || can_make_events : view.event_count == 0) &&
      (!view.can_stream_usage || view.can_be_streamed) && (view.whole.empty() || view.text.empty());
  if (!is_sound) return not_a_record(bytes);
  return view;
}

EventView take_event(std::string_view& rest) {
  const auto event = find_event(rest);
  AFI_CHECK(event.has_value());
  return *event;
}

}  // namespace afterimage

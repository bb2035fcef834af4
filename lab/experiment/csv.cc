// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "afterimage/result.h"
#include "foundation/text/json_lines.h"

namespace afterimage {
namespace {

constexpr Bytes kMaxLog = 1_GiB;

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

/// Reads records one by one.
class CsvReader {
 public:
  explicit CsvReader(std::string_view text) : text_(text) {}

  /// False: the rest of the text is not a complete record.
  bool next(CsvRow& row) {
    row.clear();
    while (true) {
      std::string& cell = row.emplace_back();
      if (!read_cell(cell)) return false;
      if (at_ >= text_.size()) return false;
      const char end = text_[at_++];
      if (end == ',') continue;
      if (end == '\n') return true;
      if (at_ >= text_.size()) return false;  // a CR whose LF was not written
      ++at_;
      return true;
    }
  }
  [[nodiscard]] std::size_t position() const { return at_; }

 private:
  /// Reads up to the comma or line end after the cell. False: the text ends inside the cell.
  bool read_cell(std::string& cell) {
    if (at_ < text_.size() && text_[at_] == '"') {
      ++at_;
      while (true) {
        const std::size_t quote = text_.find('"', at_);
        if (quote == std::string_view::npos) return false;
        cell += text_.substr(at_, quote - at_);
        at_ = quote + 1;
        if (at_ >= text_.size() || text_[at_] != '"') break;
        cell += '"';
        ++at_;
      }
    }
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && !ends_line()) {
      cell += text_[at_++];
    }
    return true;
  }
  [[nodiscard]] bool ends_line() const {
    return text_[at_] == '\r' && (at_ + 1 == text_.size() || text_[at_ + 1] == '\n');
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Result<void> check_header(const std::string& path, const CsvRow& found, const CsvRow& header) {
  if (found == header) return {};
  const auto [expected, actual] = std::ranges::mismatch(header, found);
  return malformed(fmt::format(
      "'{}' has other columns: column {} is {} and should be {}. Nothing was appended; name "
      "another file, or move this one away",
      path, expected - header.begin() + 1,
      actual == found.end() ? "missing" : fmt::format("\"{}\"", *actual),
      expected == header.end() ? "the last" : fmt::format("\"{}\"", *expected)));
}

}  // namespace

std::string csv_record(std::span<const std::string> cells) {
  std::string record;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    record += (i == 0 ? "" : ",") + csv_cell(cells[i]);
  }
  // A row of one empty cell must not become an empty line.
  return (record.empty() ? "\"\"" : record) + "\r\n";
}

CsvRecords parse_csv(std::string_view text) {
  CsvRecords read;
  CsvReader reader(text);
  CsvRow row;
  while (reader.position() < text.size() && reader.next(row)) {
    read.rows.push_back(row);
    read.bytes = reader.position();
  }
  return read;
}

Result<CsvLog> CsvLog::open(std::string path, CsvRow header, Files& files) {
  CsvLog log(std::move(path), std::move(header), files);
  const auto content = files.read(log.path_, kMaxLog);
  if (!content.has_value()) {
    if (content.error().code == ErrorCode::kNotFound) return log;
    return std::unexpected(content.error());
  }
  const std::string_view text(reinterpret_cast<const char*>(content->data()), content->size());
  CsvRecords read = parse_csv(text);
  if (!read.rows.empty()) {
    AFI_TRY_VOID(check_header(log.path_, read.rows.front(), log.header_));
    read.rows.erase(read.rows.begin());
    log.has_header_ = true;
  } else if (!csv_record(log.header_).starts_with(text)) {
    return malformed(
        fmt::format("'{}' is not a table with these columns; it was left unchanged", log.path_));
  }
  for (std::size_t i = 0; i < read.rows.size(); ++i) {
    if (read.rows[i].size() != log.header_.size()) {
      return malformed(fmt::format("'{}': row {} has {} cells, expected {}", log.path_, i + 1,
                                   read.rows[i].size(), log.header_.size()));
    }
  }
  if (read.bytes < text.size()) AFI_TRY_VOID(files.cut(log.path_, Bytes(read.bytes)));
  log.rows_ = std::move(read.rows);
  return log;
}

Result<void> CsvLog::append(CsvRow row) {
  AFI_CHECK(row.size() == header_.size());
  const std::string text = (has_header_ ? "" : csv_record(header_)) + csv_record(row);
  AFI_TRY_VOID(files_->append(path_, std::as_bytes(std::span(text))));
  has_header_ = true;
  rows_.push_back(std::move(row));
  return {};
}

std::size_t CsvLog::column(std::string_view name) const {
  const auto it = std::ranges::find(header_, name);
  AFI_CHECK(it != header_.end());
  return static_cast<std::size_t>(it - header_.begin());
}

}  // namespace afterimage

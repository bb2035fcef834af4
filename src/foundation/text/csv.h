// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "foundation/platform/files.h"

namespace afterimage {

using CsvRow = std::vector<std::string>;

/// One record as RFC 4180 has it: quoted where it needs to be, and with its line end.
[[nodiscard]] std::string csv_record(std::span<const std::string> cells);

struct CsvRecords {
  std::vector<CsvRow> rows;
  std::size_t bytes = 0;  // of them; what is behind is a record without its end
};
/// The whole records of a text. Lines may end in CR LF or LF. Any text has some.
[[nodiscard]] CsvRecords parse_csv(std::string_view text);

/// A table on the disk that grows by rows: each is there as a whole or not at all.
///
/// Shape    The header, then rows of as many cells.
/// Errors   kInvalidArgument: the file has other columns, or a row of another number of cells, and
///          is left as it is. What Files says.
/// Threads  One at a time, and one process.
class CsvLog {
 public:
  /// Reads what is there, and cuts off what a sudden end has left of a row. Nothing is written
  /// before the first append.
  static Result<CsvLog> open(std::string path, CsvRow header, Files& files);

  [[nodiscard]] const std::vector<CsvRow>& rows() const { return rows_; }
  /// The row is on the disk when this returns. Requires as many cells as the header has.
  Result<void> append(CsvRow row);
  /// The place of a column. Requires that there is one of this name.
  [[nodiscard]] std::size_t column(std::string_view name) const;

 private:
  CsvLog(std::string path, CsvRow header, Files& files)
      : path_(std::move(path)), header_(std::move(header)), files_(&files) {}

  std::string path_;
  CsvRow header_;
  Files* files_;
  std::vector<CsvRow> rows_;
  bool has_header_ = false;
};

}  // namespace afterimage

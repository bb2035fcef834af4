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

/// One record in RFC 4180 format: quoted where needed, with its line end.
[[nodiscard]] std::string csv_record(std::span<const std::string> cells);

struct CsvRecords {
  std::vector<CsvRow> rows;
  std::size_t bytes = 0;  // length of these rows; what follows is an incomplete record
};
/// Parses the complete records of a text. Lines end in CR LF or LF. Accepts any text.
[[nodiscard]] CsvRecords parse_csv(std::string_view text);

/// A CSV file that grows row by row. Each row is written whole or not at all.
///
/// Shape    The header, then rows with as many cells as the header.
/// Errors   kInvalidArgument: the file has other columns, or a row with another number of cells;
///          the file is left unchanged. Otherwise the errors of Files.
/// Threads  One at a time, in one process.
class CsvLog {
 public:
  /// Reads an existing file and cuts off an incomplete last row left by a crash. Writes nothing
  /// before the first append.
  static Result<CsvLog> open(std::string path, CsvRow header, Files& files);

  [[nodiscard]] const std::vector<CsvRow>& rows() const { return rows_; }
  /// Appends a row; durable when it returns. Requires as many cells as the header has.
  Result<void> append(CsvRow row);
  /// Index of a column. Requires that there is a column of this name.
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

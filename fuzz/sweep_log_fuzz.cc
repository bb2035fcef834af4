// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// A sweep's log with arbitrary content: rows or an error, and the page made of the rows contains no
// markup of theirs. After cutting a torn last row, the log can be appended to.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/platform/files.h"
#include "foundation/platform/testing/memory_files.h"
#include "lab/experiment/experiment_report.h"
#include "lab/experiment/sweep_page.h"

using namespace afterimage;

namespace {

std::size_t count_of(std::string_view page, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = page.find(what); at != std::string_view::npos; at = page.find(what, at + 1))
    ++count;
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const std::string kHeader = csv_record(sweep_columns());
  for (const bool with_header : {true, false}) {
    testing::MemoryFiles files;
    const std::string content = with_header ? kHeader + std::string(text) : std::string(text);
    AFI_CHECK(files.replace("log.csv", std::as_bytes(std::span(content))).has_value());
    auto log = CsvLog::open("log.csv", sweep_columns(), files);
    if (!log.has_value()) {
      AFI_CHECK(!log.error().message.empty());
      continue;
    }
    const std::size_t rows = log->rows().size();
    AFI_CHECK(log->append(CsvRow(sweep_columns().size(), "x\n\",")).has_value());
    const auto again = CsvLog::open("log.csv", sweep_columns(), files);
    AFI_CHECK(again.has_value() && again->rows().size() == rows + 1);
  }
  // Rows of any number of cells, as in a log without its header.
  const CsvRecords records = parse_csv(text);
  const std::string page = sweep_page(records.rows);
  AFI_CHECK(count_of(page, "<script") == 0 && count_of(page, "<img") == 0);
  AFI_CHECK(count_of(page, "<body") == 1 && count_of(page, "</html") <= 1);
  return 0;
}

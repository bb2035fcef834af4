// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Runs rows in parallel, each in a child process that writes its tally to a file.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <thread>

#include "fire/child.h"
#include "fire/matrix.h"
#include "foundation/platform/terminal.h"

namespace afterimage::fire {
namespace {

constexpr Duration kPatience = std::chrono::minutes(30);

nlohmann::json json_of(const Tally& tally, Duration took) {
  std::vector<Duration::rep> recoveries;
  for (const Duration each : tally.recoveries) recoveries.push_back(each.count());
  return {{"injected", tally.injected}, {"detected", tally.detected}, {"answers", tally.answers},
          {"wrong", tally.wrong},       {"lost", tally.lost},         {"recoveries", recoveries},
          {"missed", tally.missed},     {"notes", tally.notes},       {"took", took.count()}};
}

RowResult result_of(const Row& row, const nlohmann::json& json) {
  RowResult result{.row = &row};
  Tally& tally = result.tally;
  json.at("injected").get_to(tally.injected);
  json.at("detected").get_to(tally.detected);
  json.at("answers").get_to(tally.answers);
  json.at("wrong").get_to(tally.wrong);
  json.at("lost").get_to(tally.lost);
  for (const Duration::rep each : json.at("recoveries")) tally.recoveries.emplace_back(each);
  json.at("missed").get_to(tally.missed);
  json.at("notes").get_to(tally.notes);
  result.took = Duration(json.at("took").get<Duration::rep>());
  return result;
}

/// A row that is running.
class RowProcess {
 public:
  RowProcess(const FireRun& run, const Row& row, const std::string& folder)
      : row_(row), path_(folder + "/" + row.kind + ".json"), child_([&] {
          const Duration began = run.clock.now();
          const Tally tally = row.run(run);
          const nlohmann::json json = json_of(tally, run.clock.now() - began);
          // Messages may hold any bytes.
          std::ofstream(path_) << json.dump(-1, ' ', true,
                                            nlohmann::json::error_handler_t::replace);
          return 0;
        }) {}
  [[nodiscard]] const Row& row() const { return row_; }
  bool ended() { return child_.ended(); }
  RowResult result() {
    const ChildEnd end = child_.wait(kPatience);
    std::ifstream file(path_);
    const auto json = nlohmann::json::parse(file, nullptr, false);
    if (end.well() && !json.is_discarded()) return result_of(row_, json);
    RowResult result{.row = &row_};
    result.tally.miss("the row's process " + end.text());
    return result;
  }

 private:
  const Row& row_;
  std::string path_;
  Child child_;
};

void tell(const std::list<RowProcess>& under_way) {
  if (!standard_error_is_terminal()) return;
  std::string names;
  for (const RowProcess& each : under_way) names += std::string(" ") + each.row().kind;
  fmt::print(stderr, "\rrunning:{}\x1b[K", names);
}

}  // namespace

std::vector<RowResult> run_rows(const FireRun& run, std::span<const Row* const> which,
                                unsigned jobs) {
  const FireFolder folder(run.quick_folder, "rows");
  std::map<const Row*, RowResult> done;
  std::list<RowProcess> under_way;
  const auto reap_until = [&](std::size_t at_most) {
    tell(under_way);
    while (under_way.size() > at_most) {
      const auto ended = std::ranges::find_if(under_way, &RowProcess::ended);
      if (ended == under_way.end()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      done[&ended->row()] = ended->result();
      under_way.erase(ended);
    }
  };
  for (const bool timed : {false, true}) {
    // Long rows come last in the table and start first.
    for (const Row* row : std::views::reverse(which)) {
      if (row->is_timed != timed) continue;
      under_way.emplace_back(run, *row, folder.path());
      reap_until(timed ? 0 : jobs - 1);
    }
    reap_until(0);
  }
  if (standard_error_is_terminal()) fmt::print(stderr, "\r\x1b[K");
  std::vector<RowResult> results;
  for (const Row* row : which) results.push_back(std::move(done[row]));
  return results;
}

}  // namespace afterimage::fire

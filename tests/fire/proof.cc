// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Each guard taken away in turn: a matrix that would not miss it proves nothing about it.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <set>

#include "afterimage/platform/fault_points.h"
#include "afterimage/platform/terminal.h"
#include "fire/child.h"
#include "fire/matrix.h"

namespace afterimage::fire {
namespace {

using Words = std::array<char, 160>;

/// Those that are meant to miss it first.
std::vector<const Row*> rows_for(std::string_view guard) {
  std::vector<const Row*> first;
  std::vector<const Row*> then;
  for (const Row& row : rows()) {
    const bool meant = std::ranges::any_of(
        row.guards, [&](std::string_view name) { return guard.starts_with(name); });
    (meant ? first : then).push_back(&row);
  }
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

/// How the row noticed that the guard is gone; empty: it did not.
std::string try_row(const FireRun& run, const Row& row, FaultSite* guard) {
  const Shared<Words> said(1);
  Child child([&] {
    // What a broken invariant says on its way out is not news here.
    if (std::freopen("/dev/null", "w", stderr) == nullptr) return 2;
    if (guard != nullptr) guard->switch_off(true);
    const Tally tally = row.run(run);
    if (tally.fine()) return 0;
    std::strncpy(said[0].data(), tally.missed.front().c_str(), said[0].size() - 1);
    return 1;
  });
  const ChildEnd end = child.wait(std::chrono::minutes(2));
  if (end.well()) return "";
  if (end.code == 1 && end.signal == 0) return said[0].data();
  return "the process " + end.text();
}

}  // namespace

std::vector<GuardResult> prove(const FireRun& run, const std::string& only) {
  FireRun brief = run;
  brief.brief = true;
  brief.progress = nullptr;
  std::vector<GuardResult> results;
  std::set<std::string_view> unfit;  // rows that fail with every guard in its place prove nothing
  for (const Row& row : rows()) {
    const std::string how = try_row(brief, row, nullptr);
    if (how.empty()) continue;
    unfit.insert(row.kind);
    results.push_back({.guard = std::string("none, and ") + row.kind + " fails", .how = how});
  }
  for (FaultSite* guard : FaultSite::all()) {
    if (!guard->is_guard() || !guard->name().starts_with(only)) continue;
    GuardResult result{.guard = std::string(guard->name())};
    for (const Row* row : rows_for(guard->name())) {
      if (standard_error_is_terminal()) {
        fmt::print(stderr, "\r{} without {}\x1b[K", row->kind, guard->name());
      }
      if (unfit.contains(row->kind)) continue;
      result.how = try_row(brief, *row, guard);
      if (result.how.empty()) continue;
      result.caught_by = row->kind;
      break;
    }
    results.push_back(std::move(result));
  }
  if (standard_error_is_terminal()) fmt::print(stderr, "\r\x1b[K");
  return results;
}

}  // namespace afterimage::fire

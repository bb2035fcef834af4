// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Disables each guard in turn: a suite that does not notice proves nothing about that guard.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <list>
#include <thread>

#include "fire/child.h"
#include "fire/matrix.h"
#include "foundation/platform/fault_points.h"
#include "foundation/platform/terminal.h"

namespace afterimage::fire {
namespace {

using Words = std::array<char, 160>;

/// The rows that should notice this guard come first.
std::vector<const Row*> rows_for(std::string_view guard, std::span<const Row* const> which) {
  std::vector<const Row*> first;
  std::vector<const Row*> then;
  for (const Row* row : which) {
    const bool meant = std::ranges::any_of(
        row->guards, [&](std::string_view name) { return guard.starts_with(name); });
    (meant ? first : then).push_back(row);
  }
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

/// How the row noticed that the guard is disabled; empty: it did not.
std::string try_row(const FireRun& run, const Row& row, FaultSite* guard) {
  const Shared<Words> said(1);
  Child child([&] {
    // A broken invariant prints its message on the way out; that is expected here.
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

/// One child process: a guard, or a row with all guards enabled.
struct Trial {
  FaultSite* guard = nullptr;
  std::vector<const Row*> which;
  [[nodiscard]] bool is_timed() const { return which.front()->is_timed; }
};

/// Its result.
struct Said {
  std::size_t row;
  Words how;
};

/// Runs trials in parallel, timed ones alone; `told` receives each result in order.
class Trials {
 public:
  Trials(const FireRun& run, unsigned jobs) : run_(run), jobs_(jobs) {}

  std::vector<GuardResult> run_all(const std::vector<Trial>& trials) {
    const Shared<Said> said(trials.size());
    for (const bool timed : {false, true}) {
      for (std::size_t i = 0; i < trials.size(); ++i) {
        if (trials[i].is_timed() != timed) continue;
        while (under_way_.size() >= (timed ? 1 : jobs_)) reap();
        tell(trials[i]);
        under_way_.emplace_back([&, i] { return attempt(trials[i], said[i]); });
      }
      while (!under_way_.empty()) reap();
    }
    std::vector<GuardResult> results;
    for (std::size_t i = 0; i < trials.size(); ++i) {
      const std::string how = said[i].how.data();
      results.push_back(
          {.guard = trials[i].guard == nullptr ? "" : std::string(trials[i].guard->name()),
           .caught_by = how.empty() ? "" : trials[i].which[said[i].row]->kind,
           .how = how});
    }
    return results;
  }

 private:
  int attempt(const Trial& trial, Said& said) const {
    for (std::size_t i = 0; i < trial.which.size(); ++i) {
      const std::string how = try_row(run_, *trial.which[i], trial.guard);
      if (how.empty()) continue;
      said.row = i;
      std::strncpy(said.how.data(), how.c_str(), said.how.size() - 1);
      break;
    }
    return 0;
  }
  void reap() {
    const auto ended = std::ranges::find_if(under_way_, &Child::ended);
    if (ended != under_way_.end()) {
      under_way_.erase(ended);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  static void tell(const Trial& trial) {
    if (!standard_error_is_terminal()) return;
    fmt::print(stderr, "\r{} without {}\x1b[K", trial.which.front()->kind,
               trial.guard == nullptr ? "nothing" : trial.guard->name());
  }

  const FireRun& run_;
  const unsigned jobs_;
  std::list<Child> under_way_;
};

}  // namespace

std::vector<GuardResult> prove(const FireRun& run, const ProofOptions& options) {
  FireRun brief = run;
  brief.brief = true;
  brief.progress = nullptr;
  Trials trials(brief, options.jobs);
  // Rows that fail with all guards enabled prove nothing.
  std::vector<Trial> whole;
  for (const Row* row : options.which) whole.push_back({.which = {row}});
  const std::vector<GuardResult> baseline = trials.run_all(whole);
  std::vector<const Row*> fit;
  std::vector<GuardResult> results;
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    const Row* const row = options.which[i];
    if (baseline[i].how.empty()) {
      fit.push_back(row);
    } else {
      results.push_back(
          {.guard = std::string("none, and ") + row->kind + " fails", .how = baseline[i].how});
    }
  }
  std::vector<Trial> without;
  for (FaultSite* guard : FaultSite::all()) {
    if (fit.empty() || !guard->is_guard() || !guard->name().starts_with(options.guards)) continue;
    without.push_back({.guard = guard, .which = rows_for(guard->name(), fit)});
  }
  std::vector<GuardResult> proved = trials.run_all(without);
  results.insert(results.end(), proved.begin(), proved.end());
  if (standard_error_is_terminal()) fmt::print(stderr, "\r\x1b[K");
  return results;
}

}  // namespace afterimage::fire

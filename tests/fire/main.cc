// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// The fault-injection suite. Run `afterimage_fire --help`.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fire/matrix.h"
#include "foundation/platform/fault_points.h"
#include "foundation/platform/terminal.h"

namespace afterimage::fire {
namespace {

struct Call {
  std::vector<std::string> only;
  std::vector<std::string> without;
  std::uint64_t seed = 1;
  bool brief = false;
  bool json = false;
  bool proof = false;
  bool trace = false;
  std::string guard;
  bool guards = false;
  std::string markdown;
  std::string folder = ".";
  unsigned threads = 40;
  std::uint64_t operations = 0;
  std::uint64_t soak = 0;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
};

std::string kinds_text() {
  std::string text = "Kinds of fault (KIND):\n";
  for (const Row& row : rows()) text += fmt::format("  {:<13} {}\n", row.kind, row.what);
  return text +
         "\nA row that fails prints the --seed that reproduces it; the simulation prints the seed "
         "of the\n"
         "failing run. Exit codes: 0 every row passed, 1 a row failed, 2 usage "
         "error.\n\nExamples:\n"
         "  afterimage_fire                        run all rows in full and print the table\n"
         "  afterimage_fire --brief --proof        does a row fail for each guard that is "
         "disabled?\n"
         "  afterimage_fire --only simulation --seed 77\n"
         "  afterimage_fire --only history --threads 40 --operations 1000000\n"
         "  afterimage_fire --soak 3600            everything for an hour; is memory flat?";
}

/// Edit distance: insertions, deletions and substitutions.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t before = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = before + (a[i] == b[j] ? 0 : 1);
      before = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, before + 1});
    }
  }
  return row.back();
}

/// The three nearest names, comma-separated. Prefixes of names count as names.
std::string nearest(std::string_view name, std::vector<std::string> names) {
  const auto far = [&](const std::string& each) {
    return std::min(distance(name, each), distance(name, each.substr(0, name.size())));
  };
  std::ranges::stable_sort(names, {}, far);
  names.resize(std::min<std::size_t>(names.size(), 3));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Reports unknown kinds and guards; empty if there are none.
std::string wrong_name(const Call& call) {
  std::vector<std::string> kinds;
  for (const Row& row : rows()) kinds.emplace_back(row.kind);
  for (const auto* list : {&call.only, &call.without}) {
    for (const std::string& kind : *list) {
      if (std::ranges::count(kinds, kind) > 0) continue;
      return fmt::format("there is no kind \"{}\"; the nearest are {}; --help lists all", kind,
                         nearest(kind, kinds));
    }
  }
  std::vector<std::string> guards;
  for (const FaultSite* site : FaultSite::all()) {
    if (site->is_guard()) guards.emplace_back(site->name());
  }
  const auto begins = [&](const std::string& name) { return name.starts_with(call.guard); };
  if (std::ranges::any_of(guards, begins)) return "";
  return fmt::format("no guard's name begins with \"{}\"; the nearest are {}; --guards lists all",
                     call.guard, nearest(call.guard, guards));
}

bool is_chosen(const Call& call, const Row& row) {
  const auto names = [&](const std::vector<std::string>& list) {
    return std::ranges::count(list, row.kind) > 0;
  };
  return (call.only.empty() || names(call.only)) && !names(call.without);
}

/// A progress line on standard error; empty unless standard error is a terminal.
std::function<void(std::uint64_t, std::uint64_t)> progress_of(const char* kind,
                                                              const Clock& clock) {
  if (!standard_error_is_terminal()) return nullptr;
  return [kind, &clock, last = Duration(0)](std::uint64_t done, std::uint64_t of) mutable {
    if (clock.now() - last < std::chrono::milliseconds(100)) return;
    last = clock.now();
    fmt::print(stderr, "\r{}: {} of {}\x1b[K", kind, done, of);
  };
}

int run_call(const Call& call) {
  const SystemClock clock;
  FireRun run{.seed = call.seed,
              .brief = call.brief,
              .folder = call.folder,
              .quick_folder = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : call.folder,
              .trace = call.trace,
              .threads = call.threads,
              .operations = call.operations,
              .clock = clock};
  if (call.soak > 0) return soak(run, std::chrono::seconds(call.soak)) ? 0 : 1;
  Matrix matrix{.seed = call.seed, .brief = call.brief};
  const Duration began = clock.now();
  std::vector<const Row*> which;
  for (const Row& row : rows()) {
    if (is_chosen(call, row)) which.push_back(&row);
  }
  const bool proof_alone = call.proof && call.markdown.empty();
  if (!proof_alone && which.size() == 1) {
    run.progress = progress_of(which.front()->kind, clock);
    Tally tally = which.front()->run(run);
    if (run.progress) fmt::print(stderr, "\r\x1b[K");
    run.progress = nullptr;
    matrix.rows.push_back(
        {.row = which.front(), .tally = std::move(tally), .took = clock.now() - began});
  } else if (!proof_alone) {
    matrix.rows = run_rows(run, which, call.jobs);
  }
  if (call.proof) {
    matrix.guards = prove(run, {.guards = call.guard, .which = which, .jobs = call.jobs});
  }
  matrix.took = clock.now() - began;
  std::cout << (call.json ? as_json(matrix) : as_table(matrix));
  if (!call.markdown.empty() && !write_markdown(matrix, call.markdown)) {
    fmt::print(stderr, "afterimage_fire: cannot write '{}'\n", call.markdown);
    return 1;
  }
  return matrix.fine() ? 0 : 1;
}

int run_program(int argc, char** argv) {
  Call call;
  CLI::App program(
      "Runs Afterimage's tiers under injected faults and counts the outcome: faults injected and "
      "detected, wrong\nresults, acknowledged entries that were lost, and recovery times.",
      "afterimage_fire");
  program.get_formatter()->column_width(30);
  program.add_option("--only", call.only, "Run only these kinds of fault")->type_name("KIND");
  program.add_option("--without", call.without, "Run all kinds but these")->type_name("KIND");
  program.add_option("--seed", call.seed, "Random seed; the same seed repeats the same run")
      ->capture_default_str();
  program.add_flag("--brief", call.brief, "Run for seconds instead of minutes");
  auto* const proof = program.add_flag(
      "--proof", call.proof,
      "Disable each guard in turn, and check that a row (one of --only) fails; the rows "
      "themselves are run with --markdown only");
  program
      .add_option("--guard", call.guard, "With --proof: only guards whose names begin with NAME")
      ->type_name("NAME")
      ->needs(proof);
  program.add_flag("--guards", call.guards, "List all guards, and exit");
  program.add_option("--jobs", call.jobs, "Rows or guards run in parallel, except the timed ones")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  program.add_option("--threads", call.threads, "Threads of the multi-threaded rows")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  program
      .add_option("--operations", call.operations, "Operations per thread; 0: the row's default")
      ->capture_default_str();
  program.add_option("--soak", call.soak, "Run everything, mixed, for that long, and watch memory")
      ->type_name("SECONDS");
  program
      .add_option("--folder", call.folder,
                  "Create the test folder in this one, on the disk to test")
      ->capture_default_str()
      ->check(CLI::ExistingDirectory);
  program.add_flag("--trace", call.trace,
                   "With --only simulation: run that seed alone and print every step");
  program.add_flag("--json", call.json, "For programs");
  program
      .add_option("--markdown", call.markdown,
                  "Also write the report to FILE, between its marks if it has them")
      ->type_name("FILE");
  program.footer(kinds_text());
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : 2;
  }
  if (const std::string wrong = wrong_name(call); !wrong.empty()) {
    fmt::print(stderr, "afterimage_fire: {}\n", wrong);
    return 2;
  }
  if (call.guards) {
    for (const FaultSite* site : FaultSite::all()) {
      if (site->is_guard()) fmt::print("{}\n", site->name());
    }
    return 0;
  }
  return run_call(call);
}

}  // namespace
}  // namespace afterimage::fire

int main(int argc, char** argv) {
  try {
    return afterimage::fire::run_program(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "afterimage_fire: %s\n", error.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output.h"
#include "cli/verbs.h"
#include "foundation/platform/terminal.h"
#include "foundation/text/quantities.h"
#include "storage/disk/inspector.h"

namespace afterimage {
namespace {

using Json = nlohmann::ordered_json;

/// Rows printed before the rest is only counted; --json prints all of them.
constexpr std::size_t kRows = 20;

struct DiskArgs {
  std::string folder;
  bool json = false;
  bool yes = false;
};

std::string_view name_of(EntryClass entry_class) {
  switch (entry_class) {
    case EntryClass::kEncoderOutput:
      return "encoder_output";
    case EntryClass::kPrefixKv:
      return "prefix_kv";
    case EntryClass::kRecurrentState:
      return "recurrent_state";
    case EntryClass::kAnswer:
      return "answer";
  }
  return "unknown";
}

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

Json to_json(const DiskInspection& seen) {
  Json classes = Json::object();
  for (const auto& [entry_class, its] : seen.classes) {
    classes[name_of(entry_class)] = {{"entries", its.entries.value()},
                                     {"bytes_on_disk", its.on_disk.value()},
                                     {"seconds_saved_by_a_hit_on_each", seconds(its.cost)}};
  }
  Json segments = Json::array();
  for (const InspectedSegment& segment : seen.segments) {
    segments.push_back({{"file", segment.name},
                        {"bytes", segment.size.value()},
                        {"sealed", segment.sealed},
                        {"entries", segment.entries.value()},
                        {"replaced", segment.replaced.value()},
                        {"first_sequence", segment.first_sequence},
                        {"last_sequence", segment.last_sequence}});
  }
  return {{"folder", seen.folder},
          {"store", seen.store ? Json(*seen.store) : Json(nullptr)},
          {"bytes", seen.used.value()},
          {"entries", seen.found.entries.value()},
          {"classes", classes},
          {"torn_entries", seen.found.torn_entries},
          {"torn_bytes", seen.found.torn_bytes.value()},
          {"unsealed_segments", seen.found.scanned},
          {"bytes_read", seen.found.bytes_read.value()},
          {"segments", segments},
          {"foreign", seen.foreign},
          {"unreadable", seen.unreadable}};
}

void list(std::string_view what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  fmt::print("\n{}\n", what);
  for (std::size_t i = 0; i < std::min(kRows, names.size()); ++i) fmt::print("  {}\n", names[i]);
  if (names.size() > kRows) {
    fmt::print("  and {} more: --json lists them\n", names.size() - kRows);
  }
}

void show(const DiskInspection& seen) {
  fmt::print("{}: {} in {}, {}\n", seen.folder,
             plural(seen.found.entries.value(), "entry", "entries"),
             plural(seen.segments.size(), "segment", "segments"), readable(seen.used));
  fmt::print("store {}\n", seen.store ? *seen.store
                                      : "without an id: store.afi is damaged; the next start "
                                        "creates a new store and ignores these segments");
  if (!seen.classes.empty()) {
    fmt::print("\n{:<28}{:>10}{:>12}{:>16}\n", "class", "entries", "on disk", "a hit on each");
    for (const auto& [entry_class, its] : seen.classes) {
      fmt::print("{:<28}{:>10}{:>12}{:>14.3f} s\n", name_of(entry_class), its.entries.value(),
                 readable(its.on_disk), seconds(its.cost));
    }
  }
  if (!seen.segments.empty()) {
    fmt::print("\n{:<28}{:>10}{:>12}{:>10}  sequence\n", "segment, oldest first", "entries", "size",
               "replaced");
  }
  for (std::size_t i = 0; i < std::min(kRows, seen.segments.size()); ++i) {
    const InspectedSegment& segment = seen.segments[i];
    fmt::print("{:<28}{:>10}{:>12}{:>10}  {} to {}{}\n", segment.name, segment.entries.value(),
               readable(segment.size), segment.replaced.value(), segment.first_sequence,
               segment.last_sequence, segment.sealed ? "" : ", not sealed: scanned");
  }
  if (seen.segments.size() > kRows) {
    fmt::print("and {} more: --json lists them\n", seen.segments.size() - kRows);
  }
  list("Files of another store: ignored, and counted against the capacity", seen.foreign);
  list("Unreadable segments: the next start removes them", seen.unreadable);
  if (seen.found.torn_entries > 0) {
    fmt::print("\n{} torn ({}): being written when the process was killed or the power failed\n",
               plural(seen.found.torn_entries, "entry", "entries"),
               readable(seen.found.torn_bytes));
  }
  fmt::print("\nThis inspection read {}.\n", readable(seen.found.bytes_read));
}

ExitCode inspect(const DiskArgs& args) {
  MemoryBudget memory(2_GiB);
  const auto inspector = DiskInspector::open(args.folder, memory);
  if (!inspector) return report_error("disk", inspector.error(), ExitCode::kUsageError);
  if (args.json) {
    fmt::print("{}\n", to_json(inspector->inspection()).dump(2));
  } else {
    show(inspector->inspection());
  }
  return ExitCode::kFine;
}

/// A progress line on standard error; empty unless standard error is a terminal.
DiskInspector::Progress verify_progress() {
  if (!standard_error_is_terminal()) return {};
  return [percent = std::uint64_t{101}](Bytes done, Bytes of) mutable {
    const std::uint64_t now = of == 0_B ? 100 : 100 * done.value() / of.value();
    if (now == percent) return;
    percent = now;
    fmt::print(stderr, "\r[{:=<{}}{:{}}] {} of {}\033[K", "", now / 4, "", 25 - now / 4,
               readable(done), readable(of));
    if (done == of) fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  };
}

ExitCode verify(const DiskArgs& args) {
  MemoryBudget memory(2_GiB);
  auto inspector = DiskInspector::open(args.folder, memory);
  if (!inspector) return report_error("disk", inspector.error(), ExitCode::kUsageError);
  const auto done = inspector->verify(verify_progress());
  if (!done) return report_error("disk", done.error(), ExitCode::kProblem);
  const DiskInspection& seen = inspector->inspection();
  if (args.json) {
    Json bad = Json::array();
    for (const BadEntry& entry : done->bad) {
      bad.push_back({{"file", entry.segment},
                     {"offset", entry.offset},
                     {"class", name_of(entry.key.entry_class)},
                     {"key", to_hex(entry.key.bytes)},
                     {"problem", entry.problem}});
    }
    fmt::print("{}\n", Json{{"folder", args.folder},
                            {"intact", done->intact.value()},
                            {"damaged", done->damaged.value()},
                            {"unreadable", done->unreadable.value()},
                            {"torn", seen.found.torn_entries},
                            {"erased", done->erased.value()},
                            {"bytes_read", done->read.value()},
                            {"bad", bad},
                            {"unreadable_segments", seen.unreadable},
                            {"foreign", seen.foreign}}
                           .dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}: {} intact, {} damaged, {} unreadable, {} torn; {} read\n", args.folder,
               done->intact.value(), done->damaged.value(), done->unreadable.value(),
               seen.found.torn_entries, readable(done->read));
    std::vector<std::string> rows;
    for (const BadEntry& entry : done->bad) {
      rows.push_back(fmt::format("{} at {}: {} {}…: {}", entry.segment, entry.offset,
                                 name_of(entry.key.entry_class),
                                 to_hex(entry.key.bytes).substr(0, 16), entry.problem));
    }
    list("Damaged entries: a look-up misses, and the entry is computed and written again", rows);
    list("Unreadable segments: the next start removes them", seen.unreadable);
    list(seen.store ? "Files of another store: not verified"
                    : "Segments that were not verified, because store.afi is damaged: the next "
                      "start creates a new store and ignores them",
         seen.foreign);
  }
  const bool fine = seen.store && done->bad.empty() && seen.unreadable.empty();
  return fine ? ExitCode::kFine : ExitCode::kProblem;
}

ExitCode purge(const DiskArgs& args) {
  MemoryBudget memory(2_GiB);
  auto inspector = DiskInspector::open(args.folder, memory);
  if (!inspector) return report_error("disk", inspector.error(), ExitCode::kUsageError);
  const DiskInspection& seen = inspector->inspection();
  const std::vector<std::string> own = inspector->own_files();
  if (!args.yes) {
    fmt::print(
        stderr, "afterimage disk: nothing was removed. Add --yes to delete {} ({}, {}) from '{}'\n",
        plural(own.size(), "file", "files"), plural(seen.found.entries.value(), "entry", "entries"),
        readable(seen.used), args.folder);
    return ExitCode::kUsageError;
  }
  const auto removed = inspector->remove();
  if (!removed) return report_error("disk", removed.error(), ExitCode::kProblem);
  if (args.json) {
    fmt::print("{}\n", Json{{"folder", args.folder},
                            {"removed", *removed},
                            {"entries", seen.found.entries.value()},
                            {"bytes", seen.used.value()},
                            {"left_alone", seen.foreign}}
                           .dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}: removed {} ({}, {})\n", args.folder, plural(removed->size(), "file", "files"),
               plural(seen.found.entries.value(), "entry", "entries"), readable(seen.used));
    list("Files of another store, not removed", seen.foreign);
  }
  return ExitCode::kFine;
}

CLI::App* add(CLI::App& verb, const char* name, const char* help, DiskArgs& args) {
  CLI::App* subverb = verb.add_subcommand(name, help);
  subverb->add_option("folder", args.folder, "The disk tier's folder, as given to --disk")
      ->required()
      ->type_name("DIR");
  subverb->add_flag("--json", args.json, "Print JSON instead of text");
  return subverb;
}

}  // namespace

void add_disk(CLI::App& program, World& /*world*/, ExitCode& code) {
  auto args = std::make_shared<DiskArgs>();
  CLI::App* verb =
      program.add_subcommand("disk", "Inspect, verify or purge the folder of a disk tier");
  verb->require_subcommand(1);
  verb->footer(
      "A folder belongs to one process at a time: while another process uses it, all three exit "
      "with code 2.\n"
      "File format: docs/formats/segment.md.\n"
      "\n"
      "Examples:\n"
      "  afterimage disk inspect /var/cache/afterimage\n"
      "  afterimage disk verify /var/cache/afterimage\n"
      "  afterimage disk purge /var/cache/afterimage --yes");
  CLI::App* inspect_verb = add(*verb, "inspect",
                               "Show entries by class, segments, and what the next start would "
                               "repair",
                               *args);
  inspect_verb->footer(
      "Read-only: reports what the next start would repair or remove. Entries are counted from "
      "the\n"
      "segments' footers and may include erased or damaged ones; verify reads every entry.\n"
      "\n"
      "An unsealed segment was being written when its process crashed or was killed.\n"
      "\"a hit on each\" is the time that it took to compute all entries of that class.\n"
      "\n"
      "Examples:\n"
      "  afterimage disk inspect /var/cache/afterimage\n"
      "  afterimage disk inspect /var/cache/afterimage --json | jq .classes");
  inspect_verb->callback([args, &code] { code = inspect(*args); });
  CLI::App* verify_verb = add(*verb, "verify", "Read every entry and verify its checksums", *args);
  verify_verb->footer(
      "Read-only. Exit code 1 if an entry is damaged or unreadable. The cache never serves a "
      "damaged entry\n"
      "but computes it again; many of them suggest a failing disk. Torn entries are not damage: "
      "they were\n"
      "being written when a process was killed.\n"
      "\n"
      "Examples:\n"
      "  afterimage disk verify /var/cache/afterimage\n"
      "  afterimage disk verify /var/cache/afterimage --json > report.json");
  verify_verb->callback([args, &code] { code = verify(*args); });
  CLI::App* purge_verb = add(*verb, "purge", "Delete the store's own files", *args);
  purge_verb->add_flag("--yes", args->yes, "Delete; without it, only print what would be deleted");
  purge_verb->footer(
      "Deletes store.afi, secret, lock and the segments that this store wrote. Keeps all other "
      "files,\n"
      "segments of other stores, and the folder itself.\n"
      "\n"
      "Examples:\n"
      "  afterimage disk purge /var/cache/afterimage\n"
      "  afterimage disk purge /var/cache/afterimage --yes");
  purge_verb->callback([args, &code] { code = purge(*args); });
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "cli/workload_args.h"

#include <fmt/format.h>

#include <cstdio>
#include <span>

#include "bench/workload/media_loader.h"
#include "foundation/media/media_limits.h"
#include "foundation/platform/terminal.h"

namespace afterimage {

Result<Workload> load_workload(const std::string& path, const std::string& images, World& world) {
  AFI_TRY(MediaLoader loader,
          MediaLoader::open({.workload = path, .images_folder = images, .limits = MediaLimits()},
                            world.files));
  AFI_TRY(Workload workload, read_workload(path, world.files, [&](const MediaReference& reference) {
            return loader.load_parts(reference);
          }));
  if (workload.requests.empty() && workload.rejected.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' holds no requests: expected one JSON object per line", path));
  }
  for (const auto& [name, photo] : loader.stand_ins()) {
    fmt::print(stderr, "{} stands in for {}\n", photo, name);
  }
  return workload;
}

RunProgress progress_line() {
  if (!standard_error_is_terminal()) return {};
  return [](std::string_view pass, std::size_t done, std::size_t of) {
    constexpr std::size_t kWidth = 30;
    const std::size_t filled = of == 0 ? kWidth : kWidth * done / of;
    fmt::print(stderr, "\r{:<14} [{:=<{}}{:{}}] {}/{} requests\033[K", pass, "", filled, "",
               kWidth - filled, done, of);
    if (done == of) fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  };
}

Result<void> check_report(const std::string& json_path, World& world) {
  if (json_path.empty() || json_path == "-") return {};
  return world.files.check_replaceable(json_path);
}

Result<void> print_report(const std::string& text, const std::string& json,
                          const std::string& json_path, World& world) {
  fmt::print("{}", json_path == "-" ? json : text);
  if (json_path.empty() || json_path == "-") return {};
  return world.files.replace(json_path, std::as_bytes(std::span(json)));
}

}  // namespace afterimage

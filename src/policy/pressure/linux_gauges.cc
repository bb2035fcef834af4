// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/pressure/linux_gauges.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "policy/pressure/gauges.h"

namespace afterimage {
namespace {

constexpr Bytes kLongestFile = 1_MiB;
constexpr Bytes kNoLimitV1{std::uint64_t{1} << 62};  // above any real limit

/// Any failure to read a file under /proc means that the source is unavailable.
Result<std::string> text_of(const Files& files, const std::string& path) {
  const auto bytes = files.read(path, kLongestFile);
  if (!bytes.has_value()) return fail(ErrorCode::kUnavailable, bytes.error().message);
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

std::unexpected<Error> nonsense(const std::string& path, std::string_view expected) {
  return fail(ErrorCode::kCorruption, fmt::format("'{}' does not hold {}", path, expected));
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// Parses the whole of `word` as a number.
template <typename Number>
std::optional<Number> parsed(std::string_view word) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

/// The rest of the line that begins with `label`.
std::optional<std::string_view> after(std::string_view text, std::string_view label) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.starts_with(label)) return trimmed(line.substr(label.size()));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

Result<Bytes> kib_field(const std::string& text, std::string_view label, const std::string& path) {
  const auto value = after(text, label);
  if (!value.has_value() || !value->ends_with(" kB")) return nonsense(path, label);
  const auto kib = parsed<std::uint64_t>(value->substr(0, value->size() - 3));
  if (!kib.has_value() || *kib > UINT64_MAX / 1024) return nonsense(path, label);
  return Bytes(*kib * 1024);
}

/// Reads a file with one number; nullopt for "max".
Result<std::optional<Bytes>> limit_in(const Files& files, const std::string& path) {
  AFI_TRY(const std::string text, text_of(files, path));
  if (trimmed(text) == "max") return std::nullopt;
  const auto value = parsed<std::uint64_t>(trimmed(text));
  if (!value.has_value()) return nonsense(path, "a number of bytes, or max");
  return Bytes(*value);
}

/// Bytes that the kernel can drop at once: the field `label` of a memory.stat.
Result<Bytes> droppable_in(const Files& files, const std::string& path, std::string_view label) {
  AFI_TRY(const std::string stat, text_of(files, path));
  const auto inactive = after(stat, label);
  const auto droppable = inactive.has_value() ? parsed<std::uint64_t>(*inactive) : std::nullopt;
  if (!droppable.has_value()) return nonsense(path, label);
  return Bytes(*droppable);
}

std::unexpected<Error> no_limit(const std::string& group) {
  return fail(
      ErrorCode::kUnavailable,
      fmt::format("the control group '{}' has no limit: use the machine's memory instead", group));
}

/// The share of the last ten seconds in which some task stalled; 0 on a kernel without PSI.
Result<double> stall_in(const Files& files, const std::string& path) {
  const auto text = text_of(files, path);
  if (!text.has_value()) return 0.0;
  const auto some = after(*text, "some avg10=");
  if (!some.has_value()) return nonsense(path, "'some avg10='");
  const auto percent = parsed<double>(some->substr(0, some->find(' ')));
  if (!percent.has_value() || !(*percent >= 0 && *percent <= 100)) {
    return nonsense(path, "a percentage after 'some avg10='");
  }
  return *percent / 100;
}

/// The folders under `mount` that /proc/self/cgroup names for memory, and their parents. Inside a
/// container the names are the host's, and only the mount itself may exist.
std::vector<std::string> groups_in(std::string_view lines, const std::string& mount) {
  std::vector<std::string> folders;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    const std::size_t controllers = line.find(':');
    if (controllers == std::string_view::npos) continue;
    const std::size_t path = line.find(':', controllers + 1);
    if (path == std::string_view::npos) continue;
    const std::string_view names = line.substr(controllers + 1, path - controllers - 1);
    std::string base = mount;
    if (names == "memory") {
      base += "/memory";
    } else if (!names.empty()) {
      continue;
    }
    std::string_view group = line.substr(path + 1);
    while (group.starts_with('/')) {
      if (group != "/") folders.push_back(base + std::string(group));
      group = group.substr(0, group.rfind('/'));
    }
    folders.push_back(base);
  }
  return folders;
}

}  // namespace

ProcGauge::ProcGauge(const Files& files, std::string proc)
    : files_(files), proc_(std::move(proc)) {}

Result<GaugeReading> ProcGauge::read() {
  const std::string path = proc_ + "/meminfo";
  AFI_TRY(const std::string text, text_of(files_, path));
  AFI_TRY(const Bytes total, kib_field(text, "MemTotal:", path));
  AFI_TRY(const Bytes available, kib_field(text, "MemAvailable:", path));
  if (available > total) return nonsense(path, "a MemAvailable of at most MemTotal");
  AFI_TRY(const double stall, stall_in(files_, proc_ + "/pressure/memory"));
  return checked({.total = total, .used = total - available, .stall = stall}, name());
}

CgroupGauge::CgroupGauge(const Files& files, std::string group)
    : files_(files), group_(std::move(group)) {}

Result<GaugeReading> CgroupGauge::read() {
  AFI_TRY(const std::optional<Bytes> current, limit_in(files_, group_ + "/memory.current"));
  if (!current.has_value()) return nonsense(group_ + "/memory.current", "a number of bytes");
  AFI_TRY(const std::optional<Bytes> high, limit_in(files_, group_ + "/memory.high"));
  AFI_TRY(const std::optional<Bytes> max, limit_in(files_, group_ + "/memory.max"));
  const Bytes total = std::min(high.value_or(Bytes::max()), max.value_or(Bytes::max()));
  if (total == Bytes::max()) return no_limit(group_);
  AFI_TRY(const Bytes droppable, droppable_in(files_, group_ + "/memory.stat", "inactive_file "));
  // The two files are not read atomically, and `current` may exceed `high` for a while.
  const Bytes in_use = *current - std::min(*current, droppable);
  AFI_TRY(const double stall, stall_in(files_, group_ + "/memory.pressure"));
  return checked({.total = total, .used = std::min(in_use, total), .stall = stall}, name());
}

CgroupV1Gauge::CgroupV1Gauge(const Files& files, std::string group)
    : files_(files), group_(std::move(group)) {}

Result<GaugeReading> CgroupV1Gauge::read() {
  AFI_TRY(const auto usage, limit_in(files_, group_ + "/memory.usage_in_bytes"));
  AFI_TRY(const auto limit, limit_in(files_, group_ + "/memory.limit_in_bytes"));
  if (!usage.has_value() || !limit.has_value()) return nonsense(group_, "a number of bytes");
  if (*limit >= kNoLimitV1) return no_limit(group_);
  AFI_TRY(const Bytes droppable,
          droppable_in(files_, group_ + "/memory.stat", "total_inactive_file "));
  const Bytes in_use = *usage - std::min(*usage, droppable);
  return checked({.total = *limit, .used = std::min(in_use, *limit)}, name());
}

Result<std::unique_ptr<PressureGauge>> open_group_gauge(const Files& files,
                                                        const std::string& folder) {
  std::unique_ptr<PressureGauge> gauge = std::make_unique<CgroupGauge>(files, folder);
  const auto reading = gauge->read();
  if (reading.has_value()) return gauge;
  gauge = std::make_unique<CgroupV1Gauge>(files, folder);
  if (gauge->read().has_value()) return gauge;
  return fail(ErrorCode::kUnavailable, fmt::format("'{}' is no control group whose memory can be "
                                                   "watched: {}",
                                                   folder, reading.error().message));
}

namespace {

/// `tightest`, or the control group of this process that has the smallest limit, if that is less.
/// kUnavailable: neither can be read.
Result<std::unique_ptr<PressureGauge>> tightest_group(const Files& files, const std::string& root,
                                                      std::unique_ptr<PressureGauge> tightest,
                                                      Result<GaugeReading> least) {
  const std::string lists = root + "/proc/self/cgroup";
  const auto groups = text_of(files, lists);
  for (const std::string& folder : groups_in(groups.value_or(""), root + "/sys/fs/cgroup")) {
    auto gauge = open_group_gauge(files, folder);
    if (!gauge.has_value()) continue;
    auto reading = (*gauge)->read();
    if (!reading.has_value() || (least.has_value() && reading->total >= least->total)) continue;
    tightest = *std::move(gauge);
    least = std::move(reading);
  }
  if (!least.has_value()) return fail(ErrorCode::kUnavailable, least.error().message);
  return tightest;
}

}  // namespace

Result<std::unique_ptr<PressureGauge>> open_host_gauge(const Files& files,
                                                       const std::string& root) {
  auto machine = std::make_unique<ProcGauge>(files, root + "/proc");
  auto reading = machine->read();
  return tightest_group(files, root, std::move(machine), std::move(reading));
}

Result<std::unique_ptr<PressureGauge>> open_own_group_gauge(const Files& files,
                                                            const std::string& root) {
  return tightest_group(files, root, nullptr,
                        fail(ErrorCode::kUnavailable,
                             "no control group of this process has a memory limit: use host"));
}

Result<std::unique_ptr<PressureGauge>> open_host_gauge() {
  static const SystemFiles kFiles;
  return open_host_gauge(kFiles);
}

namespace {

/// The device of "nvml:3". nullopt: the word is another.
std::optional<std::uint32_t> device_of(std::string_view word, std::string_view kind) {
  if (!word.starts_with(kind)) return std::nullopt;
  return parsed<std::uint32_t>(word.substr(kind.size()));
}

/// nullptr: the word names no GPU.
Result<std::unique_ptr<PressureGauge>> open_device_gauge(std::string_view word) {
  if (const auto device = device_of(word, "nvml:"); device.has_value()) {
    return NvmlGauge::open(*device);
  }
  if (device_of(word, "rocm:").has_value()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' would shrink nothing: entries are kept in the memory of NVIDIA "
                            "GPUs only, and what is in the host's memory takes none of a GPU's; "
                            "watch the host's with auto",
                            word));
  }
  return nullptr;
}

Result<std::unique_ptr<PressureGauge>> open_memory_gauge(std::string_view word, const Files& files,
                                                         const std::string& root) {
  if (word == "auto") return open_host_gauge(files, root);
  if (word == "cgroup") return open_own_group_gauge(files, root);
  if (word.contains('/')) return open_group_gauge(files, root + std::string(word));
  if (word != "host") {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is no gauge: write auto, host, cgroup, the folder of a control "
                            "group, or nvml:N",
                            word));
  }
  auto machine = std::make_unique<ProcGauge>(files, root + "/proc");
  AFI_TRY([[maybe_unused]] const GaugeReading first, machine->read());
  return machine;
}

std::shared_ptr<PressureGauge> tightest_of(std::vector<std::shared_ptr<PressureGauge>> gauges) {
  if (gauges.empty()) return nullptr;
  if (gauges.size() == 1) return std::move(gauges.front());
  return std::make_shared<TightestGauge>(std::move(gauges));
}

}  // namespace

Result<NamedGauges> open_gauges(std::string_view list, const Files& files,
                                const std::string& root) {
  std::vector<std::shared_ptr<PressureGauge>> host;
  std::vector<std::shared_ptr<PressureGauge>> device;
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find(','));
    list.remove_prefix(std::min(word.size() + 1, list.size()));
    AFI_TRY(std::unique_ptr<PressureGauge> gauge, open_device_gauge(trimmed(word)));
    if (gauge != nullptr) {
      device.push_back(std::move(gauge));
      continue;
    }
    AFI_TRY(gauge, open_memory_gauge(trimmed(word), files, root));
    host.push_back(std::move(gauge));
  }
  return NamedGauges{.host = tightest_of(std::move(host)),
                     .device = tightest_of(std::move(device))};
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/text/quantities.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>

#include "afterimage/result.h"

namespace afterimage {
namespace {

struct QuantityUnit {
  std::string_view name;
  std::uint64_t worth;
  bool printed = true;
};

// Largest first: printing tries them in this order.
constexpr std::array kTimeUnits{
    QuantityUnit{"d", 86'400'000'000'000},
    QuantityUnit{"h", 3'600'000'000'000},
    QuantityUnit{"min", 60'000'000'000},
    QuantityUnit{"s", 1'000'000'000},
    QuantityUnit{"ms", 1'000'000},
    QuantityUnit{"us", 1'000},
    QuantityUnit{"ns", 1},
};
constexpr std::array kSizeUnits{
    QuantityUnit{"TiB", 1ULL << 40U},
    QuantityUnit{"GiB", 1ULL << 30U},
    QuantityUnit{"MiB", 1ULL << 20U},
    QuantityUnit{"KiB", 1ULL << 10U},
    QuantityUnit{"TB", 1'000'000'000'000, false},
    QuantityUnit{"GB", 1'000'000'000, false},
    QuantityUnit{"MB", 1'000'000, false},
    QuantityUnit{"kB", 1'000, false},
    QuantityUnit{"B", 1},
};

struct QuantityKind {
  std::span<const QuantityUnit> units;
  std::uint64_t most;
  std::string_view what;
};

constexpr QuantityKind kTime{kTimeUnits, std::numeric_limits<Duration::rep>::max(),
                             R"(a whole number and ns, us, ms, s, min, h or d, such as "90 s")"};
constexpr QuantityKind kSize{kSizeUnits, std::numeric_limits<std::uint64_t>::max(),
                             R"(a whole number and B, KiB, MiB, GiB or TiB, such as "512 MiB")"};

Result<std::uint64_t> parse_quantity(std::string_view text, const QuantityKind& kind) {
  const auto none = [&] {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not {}", text, kind.what));
  };
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::invalid_argument) return none();
  std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
  if (name.starts_with(' ')) name.remove_prefix(1);
  for (const QuantityUnit& unit : kind.units) {
    if (unit.name != name) continue;
    if (error == std::errc::result_out_of_range || number > kind.most / unit.worth) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is too large", text));
    }
    return number * unit.worth;
  }
  return none();
}

std::string print_quantity(std::uint64_t value, std::span<const QuantityUnit> units) {
  const QuantityUnit* best = &units.back();
  for (const QuantityUnit& unit : units) {
    if (unit.printed && value != 0 && value % unit.worth == 0) {
      best = &unit;
      break;
    }
  }
  return fmt::format("{} {}", value / best->worth, best->name);
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  AFI_TRY(const std::uint64_t ns, parse_quantity(text, kTime));
  return Duration(static_cast<Duration::rep>(ns));
}

Result<Bytes> parse_size(std::string_view text) {
  AFI_TRY(const std::uint64_t bytes, parse_quantity(text, kSize));
  return Bytes(bytes);
}

std::string print_duration(Duration duration) {
  AFI_CHECK(duration.count() >= 0);
  if (duration.count() == 0) return "0 s";
  return print_quantity(static_cast<std::uint64_t>(duration.count()), kTimeUnits);
}

std::string print_size(Bytes size) { return print_quantity(size.value(), kSizeUnits); }

std::string readable(Bytes bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes.value());
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes.value())
                   : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string plural(std::uint64_t count, std::string_view one, std::string_view many) {
  if (count == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", count, one) : fmt::format("{} {}", count, many);
}

}  // namespace afterimage

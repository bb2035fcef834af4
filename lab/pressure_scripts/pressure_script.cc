// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/pressure_scripts/pressure_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

namespace afterimage {
namespace {

constexpr std::size_t kMaxLines = 100'000;
constexpr Duration kMaxRun = std::chrono::hours(24);

std::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

/// Reads the words of one line in order.
class LineTokens {
 public:
  explicit LineTokens(std::string_view line) : rest_(line.substr(0, line.find('#'))) {}

  /// Empty at the end.
  std::string_view next() {
    const std::size_t start = std::min(rest_.find_first_not_of(" \t\r"), rest_.size());
    const std::size_t end = std::min(rest_.find_first_of(" \t\r", start), rest_.size());
    const std::string_view word = rest_.substr(start, end - start);
    rest_ = rest_.substr(end);
    return word;
  }
  [[nodiscard]] std::string_view peek() const { return LineTokens(*this).next(); }
  Result<void> expect(std::string_view word) {
    const std::string_view found = next();
    if (found == word) return {};
    return wrong(fmt::format("expected '{}', found '{}'", word, found));
  }
  Result<void> end() {
    const std::string_view found = next();
    if (found.empty()) return {};
    return wrong(fmt::format("unexpected '{}'", found));
  }

 private:
  std::string_view rest_;
};

struct Unit {
  std::string_view name;
  double scale;
};

/// A finite, non-negative number with a unit: "1.5GiB".
Result<double> measure(std::string_view word, std::initializer_list<Unit> units,
                       std::string_view example) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const std::string_view unit = word.substr(static_cast<std::size_t>(end - word.data()));
  const auto known = std::ranges::find(units, unit, &Unit::name);
  if (error != std::errc() || known == units.end() || !(value >= 0) || !std::isfinite(value)) {
    return wrong(fmt::format("expected something like {}, found '{}'", example, word));
  }
  return value * known->scale;
}

Result<Bytes> bytes(std::string_view word) {
  AFI_TRY(
      const double value,
      measure(word, {{"B", 1}, {"KiB", 1024.0}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}},
              "512MiB or 1.5GiB"));
  if (value > 0x1p60) return wrong(fmt::format("'{}' is too large for a memory size", word));
  return Bytes(static_cast<Bytes::rep>(value));
}

Result<Duration> duration(std::string_view word) {
  AFI_TRY(const double value,
          measure(word, {{"ms", 1e6}, {"s", 1e9}, {"min", 60e9}}, "50ms, 2s or 10min"));
  if (value > static_cast<double>(kMaxRun.count())) {
    return fail(ErrorCode::kLimitExceeded, fmt::format("'{}' is longer than a day", word));
  }
  return Duration(static_cast<Duration::rep>(value));
}

Result<double> number(std::string_view word) { return measure(word, {{"", 1}}, "0.9"); }

/// An optional "for 2s".
Result<Duration> optional_duration(LineTokens& words) {
  AFI_TRY_VOID(words.expect("for"));
  return duration(words.next());
}

Result<void> read_load(LineTokens& words, PressureScript& script) {
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view name = word.substr(0, equals);
    const std::string_view value = word.substr(std::min(equals + 1, word.size()));
    if (name == "size") {
      AFI_TRY(script.load.size, bytes(value));
      continue;
    }
    AFI_TRY(const double n, number(value));
    if (name == "objects" || name == "seed") {
      if (n > 100'000) {
        return fail(ErrorCode::kLimitExceeded,
                    fmt::format("{} is {}; at most 100000", name, value));
      }
      if (name == "seed") {
        script.load.seed = static_cast<std::uint64_t>(n);
      } else {
        script.load.objects = static_cast<std::uint32_t>(n);
      }
    } else if (name == "zipf") {
      script.load.zipf = n;
    } else if (name == "per_second") {
      script.load.per_second = n;
    } else {
      return wrong(
          fmt::format("unknown '{}'; expected objects, size, zipf, per_second or seed", name));
    }
  }
  const PressureLoad& load = script.load;
  if (load.objects == 0 || load.size == 0_B || load.zipf > 10 || load.per_second > 100'000) {
    return wrong("a load needs objects, a size, zipf at most 10 and per_second at most 100000");
  }
  return {};
}

Result<void> read_governor(LineTokens& words, PressureScript& script) {
  GovernorOptions& governor = script.governor;
  const std::map<std::string_view, std::function<Result<void>(std::string_view)>> settings = {
      {"cap",
       [&](auto word) -> Result<void> {
         AFI_TRY(governor.cap, bytes(word));
         return {};
       }},
      {"reserve",
       [&](auto word) -> Result<void> {
         AFI_TRY(governor.reserve, bytes(word));
         return {};
       }},
      {"tick",
       [&](auto word) -> Result<void> {
         AFI_TRY(governor.tick, duration(word));
         return {};
       }},
      {"horizon",
       [&](auto word) -> Result<void> {
         AFI_TRY(governor.horizon, duration(word));
         return {};
       }},
      {"modes",
       [&](auto word) -> Result<void> {
         auto modes = parse_modes(word);
         if (!modes.has_value()) return wrong(modes.error().message);
         governor.modes = *modes;
         return {};
       }},
      {"idle", [&](auto word) -> Result<void> {
         if (word != "seed" && word != "none") return wrong("idle limits must be 'none' or 'seed'");
         governor.idle = word == "seed" ? IdleLimits::seed() : IdleLimits();
         return {};
       }}};
  const std::string_view name = words.next();
  const auto setting = settings.find(name);
  if (setting == settings.end()) {
    return wrong(fmt::format(
        "governor has no '{}'; expected cap, reserve, tick, horizon, modes or idle", name));
  }
  return setting->second(words.next());
}

Result<void> read_event(LineTokens& words, PressureScript& script) {
  using Kind = PressureEvent::Kind;
  PressureEvent event;
  AFI_TRY(event.at, duration(words.next()));
  const std::string_view what = words.next();
  if (what == "external") {
    AFI_TRY(event.bytes, bytes(words.next()));
    if (words.peek() == "in") {
      words.next();
      AFI_TRY(event.lasts, duration(words.next()));
    }
  } else if (what == "hover") {
    event.kind = Kind::kHover;
    AFI_TRY(event.bytes, bytes(words.next()));
    AFI_TRY_VOID(words.expect("by"));
    AFI_TRY(event.spread, bytes(words.next()));
    AFI_TRY_VOID(words.expect("every"));
    AFI_TRY(event.every, duration(words.next()));
    AFI_TRY(event.lasts, optional_duration(words));
    if (event.every == Duration(0) || event.spread > event.bytes) {
      return wrong("a hover needs a positive interval and a spread of at most its bytes");
    }
  } else if (what == "allocate") {
    event.kind = Kind::kAllocate;
    AFI_TRY(event.bytes, bytes(words.next()));
    AFI_TRY(event.lasts, optional_duration(words));
  } else if (what == "gauge") {
    const std::string_view how = words.next();
    if (how != "freezes" && how != "silent") return wrong("a gauge 'freezes' or is 'silent'");
    event.kind = how == "freezes" ? Kind::kFreeze : Kind::kSilence;
    AFI_TRY(event.lasts, optional_duration(words));
  } else {
    return wrong(
        fmt::format("unknown event '{}'; expected external, hover, allocate or gauge", what));
  }
  script.events.push_back(event);
  return {};
}

Result<void> read_expectation(LineTokens& words, std::string_view line, PressureScript& script) {
  using What = PressureExpectation::What;
  static const std::map<std::string_view, What> kKnown = {{"oom", What::kOom},
                                                          {"violations", What::kViolations},
                                                          {"transitions", What::kTransitions},
                                                          {"release_ms", What::kReleaseMs},
                                                          {"hit_percent", What::kHitPercent},
                                                          {"entries", What::kEntries},
                                                          {"admission", What::kOpen}};
  const auto known = kKnown.find(words.next());
  if (known == kKnown.end()) {
    return wrong(
        "unknown expectation; expected oom, violations, transitions, release_ms, hit_percent, "
        "entries, admission");
  }
  PressureExpectation expectation{.what = known->second, .to = kMaxRun};
  expectation.text = line.substr(0, line.find('#'));
  while (!expectation.text.empty() && std::string_view(" \t\r").contains(expectation.text.back())) {
    expectation.text.pop_back();
  }
  if (expectation.what == What::kOpen) {
    script.expectations.push_back(expectation);
    return words.expect("open");
  }
  const std::string_view sign = words.next();
  if (sign != "<=" && sign != ">=") return wrong("expected '<=' or '>='");
  expectation.at_least = sign == ">=";
  AFI_TRY(expectation.limit, number(words.next()));
  if (words.peek() == "between") {
    words.next();
    AFI_TRY(expectation.from, duration(words.next()));
    AFI_TRY_VOID(words.expect("and"));
    AFI_TRY(expectation.to, duration(words.next()));
  }
  script.expectations.push_back(expectation);
  return {};
}

Result<void> read_line(std::string_view line, PressureScript& script) {
  LineTokens words(line);
  const std::string_view first = words.next();
  if (first.empty()) return {};
  if (first == "memory") {
    AFI_TRY(script.memory, bytes(words.next()));
  } else if (first == "below") {
    AFI_TRY(script.below, bytes(words.next()));
  } else if (first == "run") {
    AFI_TRY(script.runs, duration(words.next()));
    if (script.runs <= Duration(0)) return wrong("run must be above 0");
  } else if (first == "load") {
    AFI_TRY_VOID(read_load(words, script));
  } else if (first == "governor") {
    AFI_TRY_VOID(read_governor(words, script));
  } else if (first == "at") {
    AFI_TRY_VOID(read_event(words, script));
  } else if (first == "expect") {
    AFI_TRY_VOID(read_expectation(words, line, script));
  } else {
    return wrong(
        fmt::format("unknown '{}'; a line begins with memory, below, run, "
                    "load, governor, at or expect",
                    first));
  }
  return words.end();
}

}  // namespace

Result<PressureScript> parse_pressure_script(std::string_view text) {
  PressureScript script;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (++number > kMaxLines) return fail(ErrorCode::kLimitExceeded, "more than 100000 lines");
    if (auto read = read_line(text.substr(0, end), script); !read.has_value()) {
      return fail(read.error().code, fmt::format("line {}: {}", number, read.error().message));
    }
    text = text.substr(std::min(end + 1, text.size()));
  }
  if (static_cast<double>(script.load.size.value()) * script.load.objects > 0x1p62) {
    return wrong("the objects of the load together are too large for a memory size");
  }
  if (script.memory == 0_B) return wrong("the memory must be above 0: memory 16GiB");
  script.governor.stale_after = 3 * script.governor.tick;
  AFI_TRY_VOID(check(script.governor));
  std::ranges::stable_sort(script.events, {}, &PressureEvent::at);
  return script;
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/simulation/simulation_settings.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace afterimage {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 20U;

std::string section_of_key(std::string_view key) {
  return std::string(key.substr(0, std::min(key.find('.'), key.size())));
}
std::string name_in_section(std::string_view key) {
  const auto dot = key.find('.');
  return std::string(dot == std::string_view::npos ? key : key.substr(dot + 1));
}

/// The value as text for a flag; none: not a value that flags accept.
std::optional<std::string> text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* whole = node.as_integer()) return std::to_string(whole->get());
  const auto* number = node.as_floating_point();
  if (number == nullptr || !std::isfinite(number->get())) return std::nullopt;
  return fmt::format("{}", number->get());
}

class SimulationSettingsReader {
 public:
  SimulationSettingsReader(std::string_view file, std::span<const std::string> known)
      : file_(file), known_(known) {}

  void read(const toml::table& root) {
    for (const auto& [name, node] : root) {
      const std::string section(name.str());
      const bool is_section = std::ranges::count(known_, section, section_of_key) > 0;
      if (!is_section) {
        add_problem(name.source().begin.line, section,
                    "unknown section; the sections are" + sections());
      } else if (!node.is_table()) {
        add_problem(name.source().begin.line, section,
                    fmt::format("this is a section: write [{}] with its keys below it", section));
      } else {
        read_section(section, *node.as_table());
      }
    }
  }

  Result<std::vector<SimulationSetting>> result() {
    if (!problems_.empty()) return fail(ErrorCode::kInvalidArgument, problems_);
    return std::move(settings_);
  }

 private:
  void read_section(const std::string& section, const toml::table& table) {
    for (const auto& [name, node] : table) {
      const std::string key = section + "." + std::string(name.str());
      const std::uint64_t line = name.source().begin.line;
      if (std::ranges::count(known_, key) == 0) {
        add_problem(line, key, "unknown key; the keys are" + keys_in(section));
      } else {
        read_value({.key = key, .line = line}, node);
      }
    }
  }

  void read_value(SimulationSetting setting, const toml::node& node) {
    const auto add = [&](const toml::node& one) {
      auto text = text_of(one);
      if (!text.has_value()) return false;
      setting.values.push_back(*std::move(text));
      return true;
    };
    bool good = true;
    if (const toml::array* all = node.as_array()) {
      setting.list = true;
      good = !all->empty();
      for (const toml::node& one : *all) good = good && add(one);
    } else {
      good = add(node);
    }
    if (good) {
      settings_.push_back(std::move(setting));
    } else {
      add_problem(setting.line, setting.key,
                  "expected a string, a finite number, true or false, or a list of these");
    }
  }

  void add_problem(std::uint64_t line, std::string_view key, const std::string& what) {
    if (!problems_.empty()) problems_ += '\n';
    problems_ += fmt::format("{}:{}: {}: {}", file_, line, key, what);
  }

  [[nodiscard]] std::string sections() const {
    std::vector<std::string> all;
    for (const std::string& key : known_) all.push_back(section_of_key(key));
    std::ranges::sort(all);
    const auto twice = std::ranges::unique(all);
    all.erase(twice.begin(), twice.end());
    std::string text;
    for (const std::string& section : all) text += " " + section;
    return text;
  }
  [[nodiscard]] std::string keys_in(const std::string& section) const {
    std::string text;
    for (const std::string& key : known_) {
      if (section_of_key(key) == section) text += " " + name_in_section(key);
    }
    return text;
  }

  std::string_view file_;
  std::span<const std::string> known_;
  std::vector<SimulationSetting> settings_;
  std::string problems_;
};

/// Numbers and booleans as they are, everything else in quotes.
std::string in_toml(const std::string& text) {
  if (text == "true" || text == "false") return text;
  std::int64_t whole = 0;
  double number = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, whole).ptr == end && std::to_string(whole) == text) {
    return text;
  }
  // "-0" without a decimal point would be read as the integer 0.
  if (text.find_first_of(".e") != std::string::npos &&
      std::from_chars(text.data(), end, number).ptr == end && std::isfinite(number) &&
      fmt::format("{}", number) == text) {
    return text;
  }
  std::string quoted = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (code < 0x20 || code == 0x7F) {
      quoted += fmt::format("\\u{:04X}", code);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string value_in_toml(const SimulationSetting& setting) {
  if (!setting.list) return in_toml(setting.values.front());
  std::string all;
  for (const std::string& value : setting.values) all += (all.empty() ? "" : ", ") + in_toml(value);
  return "[" + all + "]";
}

}  // namespace

Result<std::vector<SimulationSetting>> parse_simulation_settings(
    std::string_view toml, std::string_view file, std::span<const std::string> known) {
  if (toml.size() > kLargestFile) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} bytes is too large for a settings file", file, toml.size()));
  }
  SimulationSettingsReader reader(file, known);
  try {
    reader.read(toml::parse(toml, file));
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}:{}: this is not TOML: {}", file, error.source().begin.line,
                            error.description()));
  }
  return reader.result();
}

std::string print_simulation_settings(std::span<const DescribedSetting> settings) {
  std::string out;
  std::string section;
  for (const auto& [setting, comment] : settings) {
    if (section_of_key(setting.key) != section) {
      section = section_of_key(setting.key);
      out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section);
    }
    std::string line;
    for (const char c : comment + "\n") {
      if (c != '\n') {
        line += c;
        continue;
      }
      if (!line.empty()) out += "# " + line + "\n";
      line.clear();
    }
    const std::string name = name_in_section(setting.key);
    out += setting.values.empty() ? fmt::format("# {} = …\n", name)
                                  : fmt::format("{} = {}\n", name, value_in_toml(setting));
  }
  return out;
}

}  // namespace afterimage

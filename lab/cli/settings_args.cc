// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/cli/settings_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "lab/cli/verbs.h"
#include "lab/simulation/simulation_settings.h"

namespace afterimage {
namespace {

bool is_setting(const CLI::Option& option) {
  const std::string& group = option.get_group();
  return !option.get_lnames().empty() && !group.empty() &&
         group != CLI::OptionDefaults().get_group();
}

std::string key_of(const CLI::Option& option) {
  std::string key = option.get_group() + "." + option.get_lnames().front();
  std::ranges::transform(key, key.begin(), [](char c) {
    return c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return key;
}

/// Options with their keys in a settings file, in the order in which the groups first appear.
std::vector<std::pair<std::string, CLI::Option*>> settings_in(CLI::App& verb) {
  std::vector<std::pair<std::string, CLI::Option*>> all;
  for (const std::string& group : verb.get_groups()) {
    for (CLI::Option* option : verb.get_options()) {
      if (option->get_group() == group && is_setting(*option))
        all.emplace_back(key_of(*option), option);
    }
  }
  return all;
}

/// Reads lists from "[1,10]" or "1,10".
SimulationSetting setting_now(const std::string& key, const CLI::Option& option) {
  SimulationSetting setting{.key = key};
  const bool flag = option.get_items_expected_max() == 0;
  if (flag && option.count() > 0) {
    setting.values = {option.as<bool>() ? "true" : "false"};  // "--load-always=false", "= 1"
  } else if (option.count() > 0) {
    setting.values = option.results();
  } else if (flag) {
    setting.values = {"false"};
  } else if (!option.get_default_str().empty()) {
    setting.values =
        CLI::detail::split(option.get_default_str(), option.get_delimiter() == '\0' ? '\n' : ',');
  }
  setting.list = option.get_delimiter() != '\0';
  return setting;
}

}  // namespace

Result<void> take_settings(CLI::App& verb, const std::string& file, const Files& files) {
  AFI_TRY(const auto bytes, files.read(file, 1_MiB));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::map<std::string, CLI::Option*> options;
  std::vector<std::string> known;
  for (const auto& [key, option] : settings_in(verb)) {
    options.emplace(key, option);
    known.push_back(key);
  }
  AFI_TRY(const auto settings, parse_simulation_settings(text, file, known));
  std::string problems;
  for (const SimulationSetting& setting : settings) {
    CLI::Option& option = *options.at(setting.key);
    if (option.count() > 0) continue;  // the command line overrides the file
    const bool flag = option.get_items_expected_max() == 0;
    if (flag && setting.values == std::vector<std::string>{"false"}) continue;
    try {
      option.add_result(setting.values);
      option.run_callback();
    } catch (const CLI::Error& error) {
      problems += fmt::format("{}{}:{}: {}: {}", problems.empty() ? "" : "\n", file, setting.line,
                              setting.key, error.what());
    }
  }
  if (!problems.empty()) return fail(ErrorCode::kInvalidArgument, problems);
  return {};
}

std::string settings_text(CLI::App& verb) {
  std::vector<DescribedSetting> all;
  for (const auto& [key, option] : settings_in(verb)) {
    all.push_back({.setting = setting_now(key, *option), .comment = option->get_description()});
  }
  return print_simulation_settings(all);
}

}  // namespace afterimage

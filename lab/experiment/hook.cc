// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/hook.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ranges>

namespace afterimage {
namespace {

template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

Result<HookChoice> parse_hook(std::string_view name) {
  if (is_one_of(name, std::to_array<std::string_view>({"", "none", "disable"})))
    return HookChoice{};
  if (name == "engine") return HookChoice{.engine = true};
  if (name == "prompt") return HookChoice{.prompt = true};
  if (is_one_of(name, std::to_array<std::string_view>({"vision", "image", "image_id"}))) {
    return HookChoice{.vision = true};
  }
  if (is_one_of(name, std::to_array<std::string_view>(
                          {"prompt_vision", "prompt+vision", "prompt-image", "prompt_image"}))) {
    return HookChoice{.prompt = true, .vision = true};
  }
  const std::size_t colon = name.rfind(':');
  const std::string_view path = name.substr(0, std::min(colon, name.size()));
  if (colon != std::string_view::npos && path.ends_with(".so") && colon + 1 < name.size()) {
    return HookChoice{.library = std::string(path), .symbol = std::string(name.substr(colon + 1))};
  }
  const auto is_name = [](std::string_view word) {
    return !word.empty() && !(word.front() >= '0' && word.front() <= '9') &&
           std::ranges::all_of(word, [](char c) {
             return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                    (c >= 'A' && c <= 'Z');
           });
  };
  const bool is_module = std::ranges::all_of(std::views::split(path, '.'), [&](const auto& word) {
    return is_name(std::string_view(word.begin(), word.end()));
  });
  if (colon != std::string_view::npos && is_module && is_name(name.substr(colon + 1))) {
    return HookChoice{.python = std::string(name)};
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("unknown hook \"{}\"; choose none, prompt, vision, prompt_vision, "
                          "engine, PATH.so:SYMBOL or package.module:Factory",
                          name));
}

}  // namespace afterimage

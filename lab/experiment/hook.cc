// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/hook.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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
  if (name.find_first_of(".:") != std::string_view::npos) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("the hook \"{}\" is a Python hook, which is not supported: pass a shared "
                    "library as PATH.so:SYMBOL",
                    name));
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("unknown hook \"{}\"; choose none, prompt, vision, prompt_vision, "
                          "engine or PATH.so:SYMBOL",
                          name));
}

}  // namespace afterimage

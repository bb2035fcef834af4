// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "afterimage/result.h"

namespace afterimage {

/// Which vectors are made for the latent layers.
struct HookChoice {
  bool prompt = false;  // of the question, for the layer "prompt"
  bool vision = false;  // of the image, for the layer "vision"
  bool engine = false;  // the engine's own states, for the layers "vision", "prompt", "fusion"
  std::string library;  // a shared library that makes the vectors; empty: none
  std::string symbol;   // its entry point
  std::string python;   // "package.module:Factory", which makes the vectors; empty: none

  [[nodiscard]] bool is_none() const {
    return !prompt && !vision && !engine && library.empty() && python.empty();
  }
  bool operator==(const HookChoice&) const = default;
};

/// Parses none or disable; prompt; vision, image or image_id; prompt_vision, prompt+vision,
/// prompt-image or prompt_image; engine; PATH.so:SYMBOL; package.module:Factory.
///
/// Errors   kInvalidArgument: any other name.
Result<HookChoice> parse_hook(std::string_view name);

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "afterimage/clock.h"

namespace afterimage {

/// How often the prompts of a chat template change by themselves.
enum class TemplateClock : std::uint8_t {
  kNone,    // never
  kDaily,   // it writes today's date: Llama 3, gpt-oss, Mistral Small, Granite
  kAlways,  // it writes a time of day
};
/// Of a template's source. One that may write a date in some chats is taken to write it in all.
[[nodiscard]] TemplateClock clock_of(std::string_view chat_template);
/// What identifies the prompts of this moment, in the machine's time zone as the template's own dates;
/// empty: they are those of every moment.
[[nodiscard]] std::string moment_of(TemplateClock clock, WallTime now);

}  // namespace afterimage

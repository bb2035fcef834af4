// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/media.h"

namespace afterimage {

enum class Role : unsigned char { kSystem, kUser, kAssistant, kTool };
std::string_view to_string(Role role);

using ContentPart = std::variant<std::string, MediaItem>;

struct Message {
  Role role = Role::kUser;
  std::vector<ContentPart> parts;
};

/// One question to a model: the whole conversation so far, as chat clients resend it.
struct Request {
  RequestId id;
  std::string agent;  // who asks; empty: nobody in particular
  TenantId tenant;    // whose content it is
  std::vector<Message> messages;
};

}  // namespace afterimage

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

/// What the client says of the conversation after this answer. It may be wrong: how much it is
/// worth is learned. Appended to, never renumbered: policies use it as an index.
enum class ContinuationHint : unsigned char { kNone, kGoesOn, kEnds };
std::string_view to_string(ContinuationHint hint);  // "unknown", "goes_on", "ends"

/// One question to a model: the whole conversation so far, as chat clients resend it.
struct Request {
  RequestId id;
  std::string agent;  // who asks; empty: nobody in particular
  TenantId tenant;    // whose content it is
  ContinuationHint conversation = ContinuationHint::kNone;
  std::vector<Message> messages;
};

}  // namespace afterimage

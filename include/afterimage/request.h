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

/// The client's hint whether the conversation continues after this answer. The hint may be wrong;
/// policies learn how much to trust it. Append, never renumber: policies use it as an index.
enum class ContinuationHint : unsigned char { kNone, kGoesOn, kEnds };
std::string_view to_string(ContinuationHint hint);  // "unknown", "goes_on", "ends"

/// One request to a model: the whole conversation so far, as chat clients resend it.
struct Request {
  RequestId id;
  std::string agent;  // the agent that sent it; empty: none named
  TenantId tenant;    // owner of the content
  ContinuationHint conversation = ContinuationHint::kNone;
  std::vector<Message> messages;
};

}  // namespace afterimage

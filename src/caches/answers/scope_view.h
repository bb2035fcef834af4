// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "afterimage/digest.h"
#include "afterimage/identity.h"
#include "afterimage/question.h"
#include "caches/identity/fields.h"

namespace afterimage {

/// The fields of a Scope wherever they are: an agent's tools and messages are many texts, and identify()
/// only reads them.
struct ScopeView {
  const NamespaceId& inputs;
  std::span<const ScopeMessage> messages;
  std::string_view tools;
  std::string_view response_format;
  const std::map<std::string, std::string>& sampling;
  std::span<const TextField> other;  // in order of name
};

/// That of a Scope with these fields.
/// Threads  Any.
[[nodiscard]] ScopeId identify(const ScopeView& scope, const Namespace& space,
                               const NamespaceId& answers);

}  // namespace afterimage

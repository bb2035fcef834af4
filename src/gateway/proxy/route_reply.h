// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "foundation/http/server.h"
#include "gateway/proxy/gateway.h"

namespace afterimage {

/// Whose form the client expects.
enum class ApiForm : unsigned char { kOpenAi, kAnthropic };

[[nodiscard]] HttpReply json_reply(std::string body);
[[nodiscard]] HttpReply route_error(ApiForm form, unsigned status, std::string_view message,
                                    std::string_view code);
/// 405 that names the methods which the path has.
[[nodiscard]] HttpReply wrong_method(ApiForm form, std::string_view allowed);
/// Who asks; nullopt: the client was refused, and told so.
[[nodiscard]] std::optional<Tenant> admitted(Gateway& gateway, const HttpRequest& request,
                                             const Responder& responder, ApiForm form);

/// The value of a parameter of a target's query; empty: it has none. Nothing is decoded: what has a
/// percent sign names nothing here.
[[nodiscard]] std::string_view query_value(std::string_view target, std::string_view name);
/// A whole number of the query from 1 to `most`; `otherwise` if it is absent. nullopt: it is no such
/// number.
[[nodiscard]] std::optional<std::uint64_t> query_count(std::string_view target,
                                                       std::string_view name,
                                                       std::uint64_t otherwise, std::uint64_t most);

}  // namespace afterimage

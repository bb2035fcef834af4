// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "afterimage/ids.h"
#include "afterimage/secret.h"
#include "foundation/http/caller.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// Keeps tenants apart in the prefix cache of the model's server: vLLM and SGLang share KV only between
/// prompts with the same `cache_salt`.

/// 32 hex digits, derived from the tenant's secret salt: nobody outside can compute another tenant's.
/// `clients` is the `cache_salt` of the client, as canonical JSON; empty: it sent none. So two salts of
/// one tenant stay apart, too.
/// Cost     Two HMACs.
/// Threads  Any.
/// Source   docs/formats/keys.md.
[[nodiscard]] std::string derived_cache_salt(const Secret& root, const TenantId& tenant,
                                             std::string_view clients);

/// The client's own `cache_salt`, as canonical JSON; empty: it sent none.
[[nodiscard]] std::string_view cache_salt_of(const ApiRequest& request);

/// Whether the server computes KV of the body of a POST to this path, and may keep it.
[[nodiscard]] bool prefills(std::string_view path);

/// What makes `salt` the body's `cache_salt`: in the place of the client's, or as the last member, which
/// also wins where a body that cannot be read names it twice. nullopt: the body is no JSON object.
/// Cost     A search for the name; the body is parsed only if it is there.
[[nodiscard]] std::optional<BodySplice> cache_salt_splice(std::string_view body,
                                                          std::string_view salt);

}  // namespace afterimage

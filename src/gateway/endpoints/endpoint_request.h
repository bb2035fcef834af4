// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string_view>

#include "afterimage/result.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// The operation of a path besides chats, completions and embeddings whose answers are cached; nullopt:
/// another path. Rerank and score have several: "/v1/rerank", "/v2/rerank", "/rerank", …
/// Threads  Any.
[[nodiscard]] std::optional<ApiOperation> endpoint_of(std::string_view path);

/// The path of an operation by its name, as OpenAI has it, or where it has none most servers; "/": another
/// operation.
[[nodiscard]] std::string_view default_path(std::string_view operation);

/// Parses the body of a request to such a path as far as caching needs: a form (multipart/form-data) or
/// JSON, as `content_type` says. What it is consists of the names and values of all its fields, and of
/// files of their bytes alone: neither their names nor their types, nor the boundary, nor the order of
/// fields with different names. Digests of the files are in ApiRequest::attached.
///
/// Errors   kInvalidArgument: neither a form nor JSON that can be read in one way only, or a field of the
///          wrong type; kLimitExceeded: too many parts; kUnsupported: it names content by an address, and
///          what is there may change. Such a request cannot be identified, so it is not cached.
/// Cost     One pass over the body; files are hashed where they lie.
/// Threads  Any.
/// Source   src/gateway/endpoints/DESIGN.md.
[[nodiscard]] Result<ApiRequest> read_endpoint_request(ApiOperation operation,
                                                       std::string_view content_type,
                                                       std::string_view body);

}  // namespace afterimage

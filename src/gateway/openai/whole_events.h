// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "foundation/json/json_text.h"
#include "gateway/openai/record_format.h"

namespace afterimage {

/// Whether a complete response has an equivalent event stream: not if it has fields, such as audio,
/// whose stream form is unknown. Precondition: it has choices.
[[nodiscard]] bool has_event_stream(ApiOperation operation, const JsonValue& whole);
/// Adds that stream to `parts`: for each choice its role, all of its text in one event, and its finish
/// reason; then the usage, if there is one. Precondition: has_event_stream().
void add_events_of_whole(const JsonValue& whole, RecordParts& parts);

}  // namespace afterimage

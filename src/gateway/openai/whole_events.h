// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "foundation/text/json_text.h"
#include "gateway/openai/record_format.h"

namespace afterimage {

/// Adds to `parts` the event stream that is equivalent to a complete response: for each choice its
/// role, all of its text in one event, and its finish reason; then the usage. Adds nothing if the
/// response has fields, such as audio, whose stream form is unknown.
void add_events_of_whole(const JsonValue& whole, RecordParts& parts);

}  // namespace afterimage

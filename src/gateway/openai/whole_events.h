// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "foundation/text/json_text.h"
#include "gateway/openai/record_format.h"

namespace afterimage {

/// Adds to `parts` the events of a stream that says what the whole answer says: for each choice
/// its role, all of its text at once, and its finish reason; then the usage. Adds none if nobody
/// knows how a stream says it.
void add_events_of_whole(const JsonValue& whole, RecordParts& parts);

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/openai/json_text.h"
#include "afterimage/openai/record_format.h"

namespace afterimage {

/// Adds to `parts` the events of a stream that says what the whole answer says: for each choice
/// its role, all of its text at once, and its finish reason; then the usage. Adds none if nobody
/// knows how a stream says it.
void add_events_of_whole(const JsonValue& whole, RecordParts& parts);

}  // namespace afterimage

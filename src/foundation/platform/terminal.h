// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

namespace afterimage {

/// Whether a person is looking: progress is drawn on terminals and never written into pipes.
[[nodiscard]] bool standard_error_is_terminal();

}  // namespace afterimage

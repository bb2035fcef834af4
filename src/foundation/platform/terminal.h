// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

namespace afterimage {

/// Whether standard error is a terminal. Progress is drawn on terminals only, never into pipes.
[[nodiscard]] bool standard_error_is_terminal();

}  // namespace afterimage

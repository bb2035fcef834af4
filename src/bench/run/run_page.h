// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>

#include "bench/run/run.h"

namespace afterimage {

/// A self-contained HTML page: the savings, then each answered request with its pictures, its last
/// question, the answer, the expected answer if there is one, and what was reused. Shows at most
/// 200 requests; those whose answer is wrong or differs with reuse come first. Audio and video are
/// named instead of shown. The page contains the workload's pictures and texts.
[[nodiscard]] std::string to_page(const RunReport& report, const Workload& workload);

}  // namespace afterimage

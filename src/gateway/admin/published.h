// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "foundation/telemetry/metrics.h"

namespace afterimage {

inline void count(MetricsWriter& out, std::string_view name, std::string_view help,
                  std::uint64_t value, const MetricLabels& labels = {}) {
  out.counter(name, help, labels, static_cast<double>(value));
}

/// A counter for each value of the label `by`, besides `labels`.
inline void count_by(MetricsWriter& out, std::string_view name, std::string_view help,
                     std::string_view by,
                     std::initializer_list<std::pair<std::string_view, std::uint64_t>> counts,
                     MetricLabels labels = {}) {
  for (const auto& [value, number] : counts) {
    labels.insert_or_assign(std::string(by), std::string(value));
    count(out, name, help, number, labels);
  }
}

}  // namespace afterimage

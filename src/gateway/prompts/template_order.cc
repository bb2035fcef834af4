// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/template_order.h"

#include <utility>

namespace afterimage {

PromptReport TemplateOrder::in_order(PromptReport report, std::string_view model) const {
  if (report.divergence.tools_bytes == 0) return report;
  const MutexLock lock(mutex_);
  return tools_last_.contains(model) ? without_tools(std::move(report)) : report;
}

void TemplateOrder::learn(bool had_tools, const PromptReport& last, std::string_view model) {
  if (had_tools && last.divergence.tools_bytes == 0) {
    const MutexLock lock(mutex_);
    if (tools_last_.size() < kMost) tools_last_.emplace(model);
    return;
  }
  const auto& part = last.divergence.part;
  if (had_tools || !part.has_value() || part->kind != PartKind::kSystem || !last.reused_more()) {
    return;
  }
  const MutexLock lock(mutex_);
  const auto known = tools_last_.find(model);
  if (known != tools_last_.end()) tools_last_.erase(known);  // the server had evicted them then
}

}  // namespace afterimage

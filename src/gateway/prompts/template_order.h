// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "foundation/platform/mutex.h"
#include "gateway/prompts/prompt_report.h"

namespace afterimage {

/// Which models' templates write the tools behind the system prompt, as their servers' counts have shown: of
/// a stream it is said before the server counts.
///
/// Memory   At most kMost models, by name.
/// Threads  Any.
/// Source   findings/most_templates_write_the_system_prompt_before_the_tools.sh
class TemplateOrder {
 public:
  static constexpr std::size_t kMost = 256;

  /// `report`, before the server has said anything, in the order of the model's template.
  [[nodiscard]] PromptReport in_order(PromptReport report, std::string_view model) const;
  /// The server has counted. `had_tools`: in_order() left bytes of tools in the report of the prompt, of which
  /// with_usage() made `last`.
  void learn(bool had_tools, const PromptReport& last, std::string_view model);

 private:
  mutable Mutex mutex_;
  std::set<std::string, std::less<>> tools_last_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage

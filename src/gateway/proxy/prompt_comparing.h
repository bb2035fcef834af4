// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "foundation/platform/mutex.h"
#include "gateway/prompts/prompt_history.h"
#include "gateway/prompts/prompt_report.h"
#include "gateway/proxy/gateway.h"
#include "gateway/proxy/request_terms.h"
#include "gateway/proxy/shared_response.h"

namespace afterimage {

/// Why the model's server can, or cannot, reuse its prefix cache for one request: the prompt against the
/// earlier ones of its tenant, and later against what the server says.
///
/// Threads  Any. report() compares if compare() was not called, and waits while another thread compares.
class PromptComparing {
 public:
  /// Both outlive it.
  PromptComparing(Gateway& gateway, const RequestSubject& asked)
      : gateway_(gateway), asked_(asked) {}

  /// Whether the request has a prompt that servers reuse, and earlier ones are kept.
  [[nodiscard]] bool applies() const;
  /// Compares, unless that was done. Requires applies().
  void compare();
  /// So far, compared if need be. nullopt: it does not apply.
  [[nodiscard]] std::optional<PromptReport> report();
  /// The server has read the prompt: later ones are compared with it. More than once is once.
  void taken(const SharedResponse& response);
  /// The same of a prompt whose stored answer is served as if a server had read it.
  void keep();
  /// The response is complete. Counts what was lost, and adds the server's word to the report.
  void ended(const SharedResponse& response);
  /// The decision with this id has the report so far; it is updated if the end is yet to come.
  void recorded(std::uint64_t decision);
  /// The answer's id, as the client sees it. Nothing is kept if no server has read the prompt.
  void name(std::string_view id);
  /// With the prompt whose answer had this id. nullopt: the tenant has none, or it has left.
  [[nodiscard]] std::optional<PromptReport> against(std::string_view id);

 private:
  void compare_locked() AFI_REQUIRES(mutex_);
  /// The server's word is in the report: was the earlier prompt's place in its cache taken?
  void look_for_overwriting_locked(const PromptServer& server) AFI_REQUIRES(mutex_);
  /// Not of a tenant whose hits are hidden.
  [[nodiscard]] bool keeps_text() const;
  /// `tokens`: of the prompt, if the server has said so.
  void taken_locked(const SharedResponse& response, std::optional<std::uint64_t> tokens)
      AFI_REQUIRES(mutex_);

  Gateway& gateway_;
  const RequestSubject& asked_;
  mutable Mutex mutex_;
  std::optional<PromptHistory::Comparison> made_ AFI_GUARDED_BY(mutex_);
  std::uint64_t decision_ AFI_GUARDED_BY(mutex_) = 0;  // its id; 0: not recorded yet
  bool has_ended_ AFI_GUARDED_BY(mutex_) = false;
  bool is_told_ AFI_GUARDED_BY(mutex_) = false;  // who records the decision has the last report
  bool taken_ AFI_GUARDED_BY(mutex_) = false;
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/prompt_comparing.h"

#include <functional>
#include <string>
#include <utility>

#include "gateway/openai/cached_tokens.h"

namespace afterimage {
namespace {

/// Within a tenant: as far as the request itself says, since an address is no conversation.
std::string conversation_of(const RequestSubject& asked) {
  if (!asked.api->conversation.empty()) return "conversation " + asked.api->conversation;
  const RequestHints& hints = asked.directives.hints;
  if (!hints.agent.empty()) return "agent " + hints.agent;
  return asked.api->user.empty() ? "" : "user " + asked.api->user;
}

PromptServer server_of(const SharedResponse& response, const Gateway& gateway) {
  const auto route = response.route();
  if (route == nullptr) return {.starts = gateway.server_starts()};
  return {.server = std::hash<std::string>()(route->replica), .starts = route->starts};
}

}  // namespace

bool PromptComparing::applies() const {
  return gateway_.prompts().is_enabled() && asked_.api != nullptr &&
         generates_text(asked_.api->operation);
}

void PromptComparing::compare_locked() {
  if (made_.has_value()) return;
  made_ = gateway_.prompts().compare_with_closest(
      asked_.tenant.id, *asked_.api,
      {.operation = asked_.api->operation, .conversation = conversation_of(asked_)});
  PromptReport& report = made_->report;
  report = gateway_.template_order().in_order(std::move(report), asked_.api->model);
  if (made_->earlier != nullptr) report.earlier.bytes = made_->earlier->bytes;
  if (report.reason != PromptReason::kDiverges || !keeps_text()) return;
  auto text = example_of(*asked_.api, report.divergence);
  if (!text.has_value()) return;
  report.example = std::make_shared<const KeptExample>(KeptExample{
      .tenant_id = asked_.tenant.id, .tenant = asked_.tenant.name, .text = *std::move(text)});
}

bool PromptComparing::keeps_text() const {
  const auto config = gateway_.config();
  return config->settings.explain.keep_text && !hides_hits(asked_, config->settings.answers);
}

void PromptComparing::compare() {
  const MutexLock lock(mutex_);
  compare_locked();
}

std::optional<PromptReport> PromptComparing::report() {
  if (!applies()) return std::nullopt;
  const MutexLock lock(mutex_);
  compare_locked();
  is_told_ = has_ended_;
  return made_->report;
}

void PromptComparing::look_for_overwriting_locked(const PromptServer& server) {
  if (made_->report.reason != PromptReason::kEvicted || made_->later == nullptr) return;
  if (made_->later_server.server != server.server) return;
  made_->report = with_later(std::move(made_->report),
                             afterimage::compare(*made_->now, *made_->later).shared_bytes);
}

void PromptComparing::taken_locked(const SharedResponse& response,
                                   std::optional<std::uint64_t> tokens) {
  compare_locked();
  PromptHistory& prompts = gateway_.prompts();
  if (!std::exchange(taken_, true)) {
    prompts.add(asked_.tenant.id, made_->now, server_of(response, gateway_), tokens.value_or(0));
  } else if (tokens.has_value()) {
    prompts.counted(asked_.tenant.id, made_->now, *tokens);
  }
}

void PromptComparing::taken(const SharedResponse& response) {
  if (!applies() || response.status() != 200) return;
  const MutexLock lock(mutex_);
  taken_locked(response, std::nullopt);
}

void PromptComparing::ended(const SharedResponse& response) {
  if (!applies() || response.status() != 200) return;
  const SharedResponse::Usage usage = response.usage();
  const bool tells = usage.cached_tokens.has_value() && tells_what_was_cached(*asked_.api);
  const MutexLock lock(mutex_);
  compare_locked();
  const PromptServer& before = made_->server;
  const PromptServer server = server_of(response, gateway_);
  const bool had_tools = made_->report.divergence.tools_bytes > 0;
  made_->report = with_usage(
      std::move(made_->report),
      {.usage = {.prompt_tokens = usage.prompt_tokens,
                 .cached_tokens = tells ? usage.cached_tokens : std::nullopt},
       .earlier = {.bytes = made_->earlier == nullptr ? 0 : made_->earlier->bytes,
                   .tokens = made_->earlier_tokens},
       .is_other_replica = before.server != server.server,
       .has_restarted = before.server == server.server && before.starts != server.starts});
  look_for_overwriting_locked(server);
  gateway_.template_order().learn(had_tools, made_->report, asked_.api->model);
  if (!keeps_text()) made_->report.example = nullptr;  // they were reloaded
  taken_locked(response, usage.prompt_tokens);
  has_ended_ = true;
  if (decision_ == 0) return;
  gateway_.decisions().set_prompt(decision_, made_->report);
  gateway_.counts().prompts().add(made_->report, decision_);
}

void PromptComparing::recorded(std::uint64_t decision) {
  const MutexLock lock(mutex_);
  decision_ = decision;
  if (!has_ended_) return;
  if (!keeps_text()) made_->report.example = nullptr;  // they were reloaded while the client read
  if (!is_told_) gateway_.decisions().set_prompt(decision_, made_->report);
  gateway_.counts().prompts().add(made_->report, decision_);
}

void PromptComparing::keep() {
  if (!applies()) return;
  const MutexLock lock(mutex_);
  compare_locked();
  if (!std::exchange(taken_, true)) gateway_.prompts().add(asked_.tenant.id, made_->now);
}

void PromptComparing::name(std::string_view id) {
  if (!applies()) return;
  const MutexLock lock(mutex_);
  compare_locked();
  gateway_.prompts().name(asked_.tenant.id, id, made_->now);
}

std::optional<PromptReport> PromptComparing::against(std::string_view id) {
  if (!applies()) return std::nullopt;
  const MutexLock lock(mutex_);
  compare_locked();
  return gateway_.prompts().compare_with_response(asked_.tenant.id, *made_->now, id);
}

}  // namespace afterimage

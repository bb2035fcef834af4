// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "afterimage/question.h"
#include "afterimage/reuse.h"
#include "caches/answers/split_request.h"
#include "runtime/reuse/document_pages.h"
#include "runtime/reuse/plan.h"

namespace afterimage {
namespace {

std::string text_of(float number) { return fmt::format("{}", number); }  // all digits that matter

/// Every option that the answer depends on.
std::map<std::string, std::string> parameters_of(const GenerateOptions& options) {
  const SamplingOptions& sampling = options.sampling;
  std::map<std::string, std::string> parameters{
      {"temperature", text_of(sampling.temperature)},
      {"max_tokens", std::to_string(options.max_tokens.value())}};
  if (sampling == SamplingOptions{} && options.stop.empty()) return parameters;
  parameters["top_k"] = std::to_string(sampling.top_k);
  parameters["top_p"] = text_of(sampling.top_p);
  parameters["min_p"] = text_of(sampling.min_p);
  parameters["repeat_penalty"] = text_of(sampling.repeat_penalty);
  parameters["presence_penalty"] = text_of(sampling.presence_penalty);
  parameters["frequency_penalty"] = text_of(sampling.frequency_penalty);
  parameters["penalty_window"] = std::to_string(sampling.penalty_window);
  if (sampling.seed.has_value()) parameters["seed"] = std::to_string(*sampling.seed);
  for (const auto& [token, bias] : sampling.logit_bias) {
    parameters["logit_bias." + std::to_string(static_cast<std::int32_t>(token))] = text_of(bias);
  }
  for (std::size_t i = 0; i < options.stop.size(); ++i) {
    parameters["stop." + std::to_string(i)] = options.stop[i];
  }
  return parameters;
}

/// A record of the library holds a plain text: no log probabilities, tool calls or formats. Nor does
/// a question's scope: it has the messages' texts and media only.
bool is_plain(const Request& request, const GenerateOptions& options) {
  return !request.is_completion && request.rules == AnswerRules{} &&
         !options.top_logprobs.has_value() &&
         std::ranges::all_of(request.messages, [](const Message& message) {
           return message.tool_calls.empty() && message.tool_call_id.empty() &&
                  message.name.empty() && message.reasoning.empty();
         });
}

std::optional<Question> question_of(const Request& request, const Fingerprint& prints,
                                    const Namespace& space, const NamespaceId& inputs,
                                    const GenerateOptions& options, const std::string& clock) {
  if (!options.sampling.is_reproducible() || !is_plain(request, options)) {
    return std::nullopt;
  }
  auto split = split_request(request, prints.contents);
  if (!split.has_value()) return std::nullopt;
  Scope scope{.inputs = inputs,
              .messages = std::move(split->messages),
              .tools = "",
              .response_format = "",
              .sampling = parameters_of(options),
              .other = {}};
  if (!clock.empty()) scope.other["clock"] = clock;
  return Question(identify(scope, space), std::move(split->question));
}

/// Of what the request makes, besides those of its namespace and media.
Result<std::vector<EntryLabel>> labels_of(const Request& request, const EntryLabels& labels,
                                          const WallClock* wall) {
  if (request.tags.size() > EntryLabels::kMaxTags) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the request has {} tags; at most {} are kept", request.tags.size(),
                            EntryLabels::kMaxTags));
  }
  std::vector<EntryLabel> made;
  if (has_pages(request)) made.push_back(labels.any_media());
  for (const std::string& tag : request.tags) made.push_back(labels.tag(tag));
  if (wall != nullptr)
    made.push_back(labels.day(std::chrono::floor<std::chrono::days>(wall->now())));
  return made;
}

}  // namespace

TurnKind turn_kind(const Request& request) {
  if (request.messages.empty()) return TurnKind::kUnknown;
  switch (request.messages.back().role) {
    case Role::kUser:
      return TurnKind::kHuman;
    case Role::kTool:
      return TurnKind::kToolResult;
    case Role::kSystem:
    case Role::kAssistant:
      break;
  }
  return TurnKind::kUnknown;
}

Recipes recipes_of(const Engine& engine) {
  return {.image = engine.recipe(Modality::kImage),
          .audio = engine.recipe(Modality::kAudio),
          .video = engine.recipe(Modality::kVideo)};
}

Result<RequestIdentity> identify_inputs(const Request& request, const Engine& engine,
                                        Namespace space, const WallClock* wall) {
  auto media = media_of(request);
  const Recipes recipes = recipes_of(engine);
  AFI_TRY(const std::vector<EntryLabel> labels, labels_of(request, space.entry_labels(), wall));
  space.add_labels(labels);
  Fingerprint prints = fingerprint(media, space, recipes);
  const NamespaceId root = space.prefix_root(recipes.image, recipes.audio, recipes.video);
  return RequestIdentity{.request = &request,
                         .media = std::move(media),
                         .prints = std::move(prints),
                         .space = std::move(space),
                         .root = root,
                         .question = std::nullopt};
}

Result<RequestIdentity> identify(const Request& request, const Engine& engine, const Secret& root,
                                 const GenerateOptions& options, const WallClock* wall) {
  AFI_TRY(Namespace space,
          Namespace::of(engine.identity(), request.tenant, root, request.tenant_name));
  AFI_TRY(RequestIdentity identity, identify_inputs(request, engine, std::move(space), wall));
  const std::string clock = engine.clock_in_prompts(wall == nullptr ? WallTime{} : wall->now());
  if (!clock.empty() && wall == nullptr) return identity;  // which day's answer it is is unknown
  identity.question =
      question_of(request, identity.prints, identity.space, identity.root, options, clock);
  return identity;
}

}  // namespace afterimage

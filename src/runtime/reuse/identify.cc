// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <string>
#include <utility>

#include "afterimage/plan.h"
#include "afterimage/question.h"

namespace afterimage {
namespace {

std::optional<Question> question_of(const Request& request, const Fingerprint& prints,
                                    const Namespace& space, const NamespaceId& inputs,
                                    const GenerateOptions& options) {
  auto split = split_request(request, prints.contents);
  if (!split.has_value()) return std::nullopt;
  const Scope scope{.inputs = inputs,
                    .messages = std::move(split->messages),
                    .tools = "",
                    .response_format = "",
                    // As Engine::generate decodes.
                    .sampling = {{"temperature", "0"},
                                 {"max_tokens", std::to_string(options.max_tokens.value())}},
                    .other = {}};
  return Question(identify(scope, space), std::move(split->question));
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

Result<RequestIdentity> identify(const Request& request, const Engine& engine, const Secret& root,
                                 const GenerateOptions& options) {
  auto media = media_of(request);
  const Recipes recipes = recipes_of(engine);
  AFI_TRY(const Namespace space, Namespace::of(engine.identity(), request.tenant, root));
  Fingerprint prints = fingerprint(media, space, recipes);
  const NamespaceId inputs = space.prefix_root(recipes.image, recipes.audio, recipes.video);
  auto question = question_of(request, prints, space, inputs, options);
  return RequestIdentity{.request = &request,
                         .media = std::move(media),
                         .prints = std::move(prints),
                         .space = space,
                         .root = inputs,
                         .question = std::move(question)};
}

}  // namespace afterimage

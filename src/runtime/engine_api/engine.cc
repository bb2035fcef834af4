// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/engine.h"

#include <optional>
#include <utility>

#include "runtime/engine_api/key_rotation.h"

namespace afterimage {
namespace {

/// Tokens that take their rows from elsewhere.
TokenCount moved_tokens(const Sequence& prompt, std::span<const MovedMedia> moved) {
  TokenCount count{};
  for (const MovedMedia& item : moved) count += prompt.spans[item.span].length - item.recomputed;
  return count;
}

Result<void> check_completion(const Generation& generation, const Sequence& prompt,
                              TokenCount resumed_from, TokenCount moved) {
  const Completion& completion = generation.completion;
  const std::uint64_t covered = generation.covered.value();
  const std::uint64_t length = prompt.tokens.size();
  const std::uint64_t computed = completion.prefilled.value();
  const bool lengths_match = completion.resumed_from == resumed_from && completion.moved == moved &&
                             resumed_from.value() + computed + moved.value() == length;
  const bool coverage_matches = covered >= length && covered <= length + completion.tokens.size();
  if (lengths_match && coverage_matches) return {};
  return fail(ErrorCode::kCorruption,
              "requested to resume from " + std::to_string(resumed_from.value()) + " of " +
                  std::to_string(length) + " tokens, the engine resumed from " +
                  std::to_string(completion.resumed_from.value()) + ", moved " +
                  std::to_string(completion.moved.value()) + " of " +
                  std::to_string(moved.value()) + ", computed " + std::to_string(computed) +
                  ", generated " + std::to_string(completion.tokens.size()) +
                  " tokens and covers " + std::to_string(covered));
}

Result<void> check_plain(const Request& request) {
  const AnswerRules& rules = request.rules;
  const auto refused = [](const std::string& field) {
    return fail(ErrorCode::kUnsupported,
                "this engine does not support '" + field + "': it answers in plain text");
  };
  if (!rules.tools.empty()) return refused("tools");
  if (!rules.response_format.empty()) return refused("response_format");
  if (!rules.grammar.empty()) return refused("grammar");
  if (!rules.template_values.empty()) return refused("chat_template_kwargs");
  if (rules.prompt_end == PromptEnd::kInLastMessage) return refused("continue_final_message");
  if (rules.prompt_end == PromptEnd::kAfterMessages) return refused("add_generation_prompt");
  for (const Message& message : request.messages) {
    if (!message.tool_calls.empty()) return refused("messages[].tool_calls");
  }
  return {};
}

}  // namespace

KvWanted wanted_at_end(const KvUse& use) {
  return {.rows_from = use.end_from, .rows_to = kEndOfRun, .snapshots = {kEndOfRun}};
}

bool SamplingOptions::takes_highest_logit() const {
  return temperature <= 0 && repeat_penalty == 1 && presence_penalty == 0 &&
         frequency_penalty == 0 && logit_bias.empty();
}

Result<std::vector<float>> Engine::embed(std::span<const TokenId> /*tokens*/) const {
  return fail(ErrorCode::kUnsupported,
              "this engine makes no embeddings; --engine llama does, or set upstream.url");
}

Result<std::vector<float>> Engine::hidden_state(const Sequence& /*prompt*/,
                                                std::span<const TensorViews> /*embeddings*/) const {
  return fail(ErrorCode::kUnsupported, "this engine does not expose its hidden states");
}

Result<PreparedRequest> Engine::prepare_answer(const Request& request,
                                               std::span<const ContentDigest> contents) const {
  AFI_TRY_VOID(check_plain(request));
  AFI_TRY(Sequence prompt, prepare(request, contents));
  return PreparedRequest{.prompt = std::move(prompt)};
}

Result<Generation> Engine::generate_from(const Sequence& prompt,
                                         std::span<const TensorViews> embeddings,
                                         const GenerateOptions& options, const KvUse& use) const {
  const KvLayout* layout = kv_layout();
  if (layout == nullptr) return fail(ErrorCode::kUnsupported, "this engine does not expose its KV");
  AFI_TRY_VOID(check_sequence(prompt));
  const KvOrigin origin = kv_origin(identity(), *layout);
  TokenCount resumed_from{};
  if (use.resume_from != nullptr) {
    AFI_TRY_VOID(check_resume(*use.resume_from, *layout, origin, prompt));
    resumed_from = use.resume_from->end;
  }
  if (!use.moved.empty()) {
    const KeyRotation* const rotation = key_rotation();
    if (rotation == nullptr) {
      return fail(ErrorCode::kUnsupported, "this engine's KV cannot be used at other positions");
    }
    AFI_TRY_VOID(check_rotation(*rotation, *layout));
    AFI_TRY_VOID(check_moved(use, *layout, prompt, resumed_from));
  }
  AFI_TRY_VOID(check_wanted(use.wanted, *layout, prompt, resumed_from));
  if (use.on_end) AFI_TRY_VOID(check_wanted(wanted_at_end(use), *layout, prompt, resumed_from));
  bool passed_on = false;
  KvUse checked = use;
  checked.on_captured = [&](KvSlice kv) {
    // Where the end of the run is wanted, the call after run() passes it on. A capture that does not
    // match is not passed on; it is an error once the run is over.
    const TokenCount prefilled(static_cast<std::uint32_t>(prompt.tokens.size()));
    if (!use.on_captured || passed_on || !within_prompt(use.wanted) ||
        !check_capture(kv, use.wanted, prefilled, *layout).has_value()) {
      return;
    }
    kv.origin = origin;
    passed_on = true;
    use.on_captured(std::move(kv));
  };
  std::optional<KvSlice> at_end;
  if (use.on_end) {
    checked.on_end = [&](KvSlice kv, std::span<const TokenId>) { at_end = std::move(kv); };
  }
  AFI_TRY(Generation generation, run(prompt, embeddings, options, checked));
  AFI_TRY_VOID(check_completion(generation, prompt, resumed_from, moved_tokens(prompt, use.moved)));
  AFI_TRY_VOID(check_capture(generation.kv, use.wanted, generation.covered, *layout));
  generation.kv.origin = origin;
  if (use.on_captured && !passed_on) use.on_captured(generation.kv);
  const std::size_t fed_back = generation.covered.value() - prompt.tokens.size();
  if (at_end.has_value() && fed_back > 0) {
    AFI_TRY_VOID(check_capture(*at_end, wanted_at_end(use), generation.covered, *layout));
    at_end->origin = origin;
    use.on_end(*std::move(at_end), std::span(generation.completion.tokens).first(fed_back));
  }
  return generation;
}

void Engine::encode_all(std::span<const MediaItem* const> items,
                        const std::function<void(std::vector<Encoded>)>& on_encoded) const {
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::vector<Encoded> one;
    one.push_back({.item = i, .output = encode(*items[i])});
    on_encoded(std::move(one));
  }
}

Result<std::shared_ptr<const SplitMedia>> Engine::split(const MediaItem& /*item*/) const {
  return std::shared_ptr<const SplitMedia>();
}

void Engine::encode_parts(std::span<const PartToEncode> parts,
                          const std::function<void(std::vector<Encoded>)>& on_encoded) const {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<Encoded> one;
    one.push_back(
        {.item = i,
         .output = fail(ErrorCode::kUnsupported, "this engine encodes no parts of media")});
    on_encoded(std::move(one));
  }
}

Result<Generation> Engine::run(const Sequence& /*prompt*/,
                               std::span<const TensorViews> /*embeddings*/,
                               const GenerateOptions& /*options*/, const KvUse& /*use*/) const {
  return fail(ErrorCode::kUnsupported, "this engine does not expose its KV");
}

std::vector<const MediaItem*> media_of(const Request& request) {
  std::vector<const MediaItem*> items;
  for (const Message& message : request.messages) {
    for (const ContentPart& part : message.parts) {
      if (const auto* item = std::get_if<MediaItem>(&part)) items.push_back(item);
    }
  }
  return items;
}

}  // namespace afterimage

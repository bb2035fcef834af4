// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <utility>
#include <vector>

#include "afterimage/identity.h"
#include "afterimage/question.h"
#include "caches/answers/scope_view.h"
#include "caches/answers/split_request.h"
#include "caches/identity/fields.h"

namespace afterimage {
namespace {

struct AddPart {
  FieldWriter* fields;

  void operator()(const std::string& text) const { fields->text("text", text); }
  void operator()(const ScopeMedia& media) const {
    fields->number("modality", static_cast<std::uint64_t>(media.modality))
        .bytes("content", media.content.bytes)
        .texts("options", media.options);
  }
  void operator()(const QuestionSlot& /*slot*/) const { fields->number("question", 0); }
};

}  // namespace

NamespaceId answer_space(const Namespace& space) {
  return {space.derive(FieldWriter("afterimage/answer-space/1"))};
}

ScopeId identify(const Scope& scope, const Namespace& space) {
  return identify(scope, space, answer_space(space));
}

ScopeId identify(const Scope& scope, const Namespace& space, const NamespaceId& answers) {
  const std::vector<TextField> other(scope.other.begin(), scope.other.end());
  return identify(ScopeView{.inputs = scope.inputs,
                            .messages = scope.messages,
                            .tools = scope.tools,
                            .response_format = scope.response_format,
                            .sampling = scope.sampling,
                            .other = other},
                  space, answers);
}

ScopeId identify(const ScopeView& scope, const Namespace& space, const NamespaceId& answers) {
  FieldWriter fields("afterimage/answer-scope/1");
  fields.bytes("inputs", scope.inputs.bytes).number("messages", scope.messages.size());
  for (const ScopeMessage& message : scope.messages) {
    fields.text("role", to_string(message.role)).number("parts", message.parts.size());
    for (const auto& part : message.parts) std::visit(AddPart{&fields}, part);
  }
  fields.text("tools", scope.tools)
      .text("response_format", scope.response_format)
      .texts("sampling", scope.sampling)
      .sorted_texts("other", scope.other);
  const bool shows_media = std::ranges::any_of(scope.messages, [](const ScopeMessage& message) {
    return std::ranges::any_of(
        message.parts, [](const auto& part) { return std::holds_alternative<ScopeMedia>(part); });
  });
  return {.space = answers,
          .key = {space.derive(fields)},
          .loosest = shows_media ? MatchLevel::kCanonical : MatchLevel::kNear};
}

Result<SplitRequest> split_request(const Request& request,
                                   std::span<const ContentDigest> contents) {
  const auto is_text = [](const ContentPart& part) {
    return std::holds_alternative<std::string>(part);
  };
  if (request.messages.empty() || request.messages.back().role != Role::kUser ||
      std::ranges::none_of(request.messages.back().parts, is_text)) {
    return fail(ErrorCode::kInvalidArgument,
                "request " + request.id.text() + " does not end with text of the user");
  }
  SplitRequest split;
  std::size_t media = 0;
  for (const Message& message : request.messages) {
    ScopeMessage& copy = split.messages.emplace_back(message.role);
    for (const ContentPart& part : message.parts) {
      if (const auto* text = std::get_if<std::string>(&part)) {
        copy.parts.emplace_back(*text);
      } else if (media < contents.size()) {
        const Modality modality = std::get<MediaItem>(part).modality;
        copy.parts.emplace_back(
            ScopeMedia{.modality = modality, .content = contents[media++], .options = {}});
      } else {
        media = contents.size() + 1;
      }
    }
  }
  if (media != contents.size()) {
    return fail(ErrorCode::kInvalidArgument, "request " + request.id.text() + " lacks the " +
                                                 std::to_string(contents.size()) +
                                                 " media items whose digests were given");
  }
  auto& last = split.messages.back().parts;
  const auto asked = std::find_if(last.rbegin(), last.rend(), [](const auto& part) {
    return std::holds_alternative<std::string>(part);
  });
  split.question = std::get<std::string>(std::exchange(*asked, QuestionSlot{}));
  return split;
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <utility>
#include <variant>

#include "afterimage/result.h"
#include "foundation/documents/document_reader.h"
#include "gateway/openai/engine_limits.h"
#include "gateway/openai/request.h"

namespace afterimage {
namespace {

/// A request that the engine supports has every text and every media item in the scope's messages,
/// in order.
class EngineRequest {
 public:
  explicit EngineRequest(const ApiRequest& asked) : parsed_(asked) {}

  Result<Request> build() && {
    for (const ScopeMessage& message : parsed_.scope.messages) {
      const std::size_t index = request_.messages.size();
      const auto& fields = parsed_.engine->messages;
      Message& made =
          request_.messages.emplace_back(index < fields.size() ? fields[index] : Message());
      made.role = message.role;
      for (const auto& part : message.parts) {
        AFI_TRY(ContentPart next,
                std::visit([this](const auto& one) { return this->content_of(one); }, part));
        made.parts.push_back(std::move(next));
      }
    }
    AFI_CHECK(next_media_ == parsed_.media.size());
    request_.rules = parsed_.engine->generation.rules;
    request_.is_completion = parsed_.operation == ApiOperation::kCompletion;
    return std::move(request_);
  }

 private:
  [[nodiscard]] Result<ContentPart> content_of(const std::string& text) const {
    return ContentPart(text);
  }
  [[nodiscard]] Result<ContentPart> content_of(const QuestionSlot& /*slot*/) const {
    return ContentPart(parsed_.question);
  }
  Result<ContentPart> content_of(const ScopeMedia& /*place*/) {
    AFI_CHECK(next_media_ < parsed_.media.size());
    const ApiMedia& media = parsed_.media[next_media_++];
    if (media.bytes == nullptr) {
      return fail(ErrorCode::kInvalidArgument, media.name + " has no bytes");
    }
    MediaItem item{.modality = media.modality,
                   .files = {media.bytes},
                   .frame_rate_mhz = 0,
                   .name = media.name,
                   .digest = media.digest};
    // Its rasteriser is not in the request's identity.
    if (is_document(item) && !media.options.contains("pages")) {
      return fail(ErrorCode::kInvalidArgument,
                  media.name + " is a PDF file, not an image: send it as a part of the type file");
    }
    return ContentPart(std::move(item));
  }

  const ApiRequest& parsed_;
  std::size_t next_media_ = 0;
  Request request_;
};

}  // namespace

Result<Request> engine_request(const ApiRequest& request, std::size_t prompt) {
  if (request.operation == ApiOperation::kEmbedding) {
    return fail(ErrorCode::kUnsupported,
                std::string(kThisEngine) + " does not support embeddings: set upstream.url");
  }
  AFI_CHECK(request.engine != nullptr);
  const ApiEngineFields& fields = *request.engine;
  if (fields.unsupported.has_value()) return std::unexpected(*fields.unsupported);
  if (!fields.prompts.empty()) {
    Request made;
    made.rules = fields.generation.rules;
    made.is_completion = true;
    const ApiPrompt& parts = fields.prompts.at(prompt);
    if (parts.size() != 1) {
      return fail(
          ErrorCode::kUnsupported,
          std::string(kThisEngine) +
              " does not support a prompt of texts and tokens here: send it to /completion");
    }
    if (const auto* const tokens = std::get_if<std::vector<TokenId>>(&parts.front())) {
      made.prompt_tokens = *tokens;
    } else {
      made.messages.emplace_back(Role::kUser)
          .parts.emplace_back(std::get<std::string>(parts.front()));
    }
    return made;
  }
  AFI_TRY(Request made, EngineRequest(request).build());
  AFI_TRY_VOID(DocumentReader().replace_documents(made));
  return made;
}

}  // namespace afterimage

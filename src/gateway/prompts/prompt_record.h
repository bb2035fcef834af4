// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/secret.h"
#include "afterimage/units.h"
#include "gateway/openai/request.h"
#include "gateway/prompts/keyed_print.h"
#include "gateway/prompts/prompt_parts.h"
#include "gateway/prompts/word_prints.h"

namespace afterimage {

/// What a media item counts as in bytes of a prompt: nobody but the server knows its tokens.
inline constexpr std::uint32_t kMediaBytes = 4096;

/// One part of a prompt as digests and lengths. Digests are keyed; 0: there is nothing of the kind.
struct PartRecord {
  PartPlace place = {};
  std::uint64_t digest =
      0;  // of everything, but for the media of a message, which are parts of their own
  std::uint32_t bytes = 0;       // that it adds to the prompt
  std::uint32_t text_bytes = 0;  // of those, of its text
  std::uint32_t media = 0;       // items of a message
  // Of a message:
  std::uint64_t text = 0;
  std::uint64_t reasoning = 0;
  std::uint64_t calls = 0;            // as they are written
  std::uint64_t canonical_calls = 0;  // as they are meant
  std::uint64_t others = 0;           // role and other members
  // Of a tool its name, of media their content, or the address without its query:
  std::uint64_t name = 0;
  std::uint64_t options = 0;  // of media
  std::uint32_t width = 0;    // of a picture
  std::uint32_t height = 0;
  bool has_content = false;      // media with bytes, not by address
  std::vector<WordPrint> words;  // of its text
  /// How many prompts of the tenant's history have it. The history's lock guards it.
  mutable std::uint32_t uses = 0;

  [[nodiscard]] Bytes size() const;
};

/// Who asked: names within a tenant, as far as the request says.
struct PromptOrigin {
  ApiOperation operation = ApiOperation::kChat;
  std::string conversation;  // a conversation or, without one, a user; empty: unknown
};

/// What is kept of a prompt: digests and lengths, no text.
struct PromptRecord {
  PromptOrigin origin;
  std::vector<std::shared_ptr<const PartRecord>> parts;  // in the prompt's order
  std::vector<std::uint64_t> links;                      // as of PrintedPrompt
  std::uint64_t bytes = 0;                               // of all parts

  /// Of the record without its parts, which other records may share.
  [[nodiscard]] Bytes own_size() const;
};

/// The pieces of a prompt with their digests.
struct PrintedPrompt {
  std::vector<PartPiece> pieces;      // refer to the request
  std::vector<std::uint64_t> prints;  // of each piece
  /// Each of everything of the prompt up to one place, where a ContentChain has a link: two prompts with the same
  /// one begin with the same content. A record is found by them.
  std::vector<std::uint64_t> links;
};

/// Makes records that can be compared with each other.
/// Threads  Any.
class PromptRecorder {
 public:
  /// `secret`: of this process.
  explicit PromptRecorder(const Secret& secret) : key_(secret) {}

  /// Cost     Each byte of the text is hashed once.
  [[nodiscard]] PrintedPrompt print(const ApiRequest& request) const;
  /// `earlier`: whose equal parts the record shares, which saves time and memory; nullptr: none.
  /// Cost     The words of parts that are not shared are hashed.
  [[nodiscard]] std::shared_ptr<const PromptRecord> record(PrintedPrompt prompt,
                                                           PromptOrigin origin,
                                                           const PromptRecord* earlier) const;

  [[nodiscard]] const PrintKey& key() const { return key_; }

 private:
  const PrintKey key_;
};

}  // namespace afterimage

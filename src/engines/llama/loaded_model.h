// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/kv_layout.h"
#include "afterimage/media.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "engines/llama/llama_options.h"
#include "engines/llama/span_parts.h"

namespace afterimage {

/// libllama and libmtmd behind words of ours: only loaded_model.cc and loaded_media.cc see their
/// headers, so what they change from release to release is changed there. It keeps
/// nothing and decides nothing; what the libraries would abort on is an error here.
///
/// Errors   kInvalidArgument: what the call asked for cannot be; kCorruption, kNotFound: files that
///          are not models; kLimitExceeded: more than a context or a batch holds; kUnsupported: not
///          with this model; kUnavailable: the library refused, with its own last words.
/// Threads  Any, for const calls: tokenising runs beside everything; encoding, and computing,
///          one call at a time each. Computing is done by one thread of its own (own_thread.h),
///          which `on_logits` is called on.
/// Source   include/llama.h and tools/mtmd/mtmd.h of the release that scripts/build-llama.sh pins.

struct ChatTurn {
  std::string role;
  std::string text;
};

/// One media item, decoded, or only its measure: then there is nothing to encode.
struct MediaInput {
  Modality modality = Modality::kImage;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::span<const std::uint8_t> rgb{};  // empty: only measured
  std::span<const std::byte> sound{};   // the file: the library decodes and resamples it
  bool measured_only = true;
};

/// A run of a prompt: words, or what became of media item `item`.
struct PromptPiece {
  static constexpr std::size_t kWords = SIZE_MAX;
  std::size_t item = kWords;
  std::vector<SpanPart> parts;
};

struct EncodedMedia {
  std::vector<SpanPart> parts;
  std::vector<float> rows;  // row_width() floats for each token of the parts; zeros for words
};

/// One of several inputs of a call, encoded, or why not.
struct EncodedInput {
  std::size_t input = 0;  // by its place in the call
  Result<EncodedMedia> media;
};

/// What the library says of a model.
struct ModelFacts {
  std::string library;              // its version, and what of the machine it uses
  std::string architecture;         // "qwen3vl"
  std::uint32_t row_width = 0;      // floats of one embedding, deepstack planes included
  TokenCount window{};              // of its sliding layers; 0: it has none
  bool recurrent = false;           // only states
  bool hybrid = false;              // attention and states
  bool places_in_pictures = false;  // positions are not token counts (M-RoPE)
  bool exact = false;               // see LlamaOptions::exact
  bool fused_attention = false;
};

class LoadedModel {
 public:
  using SequenceId = std::int32_t;
  using Position = std::int32_t;

  static Result<std::unique_ptr<const LoadedModel>> load(const LlamaOptions& options);
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  [[nodiscard]] const ModelFacts& facts() const;
  [[nodiscard]] bool takes(Modality modality) const;
  /// Stands for one media item in a text. Made by chance, so that no user's text contains it.
  [[nodiscard]] const std::string& marker() const;
  /// The source of the template: part of the model's identity.
  [[nodiscard]] const std::string& chat_template() const;

  /// The conversation as the model wants it, up to where its answer begins.
  Result<std::string> apply_template(std::span<const ChatTurn> turns) const;
  /// `text` has one marker for each of `media`.
  Result<std::vector<PromptPiece>> tokenize(const std::string& text,
                                            std::span<const MediaInput> media) const;
  /// Those that the encoder takes at once are encoded at once, and given together.
  void encode(std::span<const MediaInput> media,
              const std::function<void(std::vector<EncodedInput>)>& on_encoded) const;

  /// The bytes that a token stands for: text, of which it may be half a character.
  [[nodiscard]] std::string bytes_of(TokenId token) const;
  [[nodiscard]] bool ends(TokenId token) const;
  [[nodiscard]] bool knows(TokenId token) const;  // is it in the vocabulary?

  /// Appends words to a sequence. `on_logits` is given those of the last; empty: nobody wants them.
  Result<void> append(SequenceId sequence, std::span<const TokenId> tokens, Position at,
                      const std::function<void(std::span<const float>)>& on_logits) const;
  /// Appends a picture or a sound; where the sequence goes on behind it.
  Result<Position> append(SequenceId sequence, const SpanMedia& media, std::span<const float> rows,
                          Position at) const;

  /// All that is remembered of a sequence; with `partial`, only what full attention does not keep.
  Result<std::vector<std::byte>> save(SequenceId sequence, bool partial) const;
  /// Replaces a sequence by what was saved of another. On failure it is empty.
  Result<void> restore(SequenceId sequence, std::span<const std::byte> saved) const;
  /// Takes away what stands at `position` and behind. False: this model cannot, and all is still
  /// there.
  [[nodiscard]] bool cut(SequenceId sequence, Position position) const;
  void clear(SequenceId sequence) const;

 private:
  struct Parts;
  explicit LoadedModel(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <ggml-backend.h>
#include <gguf.h>
#include <llama.h>
#include <mtmd-helper.h>
#include <mtmd.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "afterimage/result.h"
#include "engines/llama_library/batch_scheduler.h"
#include "engines/llama_library/control_tokens.h"
#include "engines/llama_library/loaded_model.h"
#include "engines/llama_library/request_limits.h"
#include "engines/llama_library/schema_limits.h"

struct common_chat_templates;  // of llama.cpp's library "common"

/// Included by files named loaded_*.cc only: no other file includes the library's headers.
namespace afterimage {

class MeanVector;

// The parts of llama.cpp's API that this component relies on. If one of these, or a call below, no
// longer compiles, the API has changed: see the release notes and adapt this component.
static_assert(std::is_same_v<llama_token, std::int32_t>);
static_assert(std::is_same_v<llama_pos, std::int32_t>);
static_assert(std::is_same_v<llama_seq_id, std::int32_t>);
static_assert(sizeof(TokenId) == sizeof(llama_token));
static_assert(LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY == 1);

[[nodiscard]] Result<llama_context_params> context_params(const LlamaOptions& options,
                                                          const llama_model* model,
                                                          std::uint32_t batch);

/// What a model's file says of its rotary embeddings.
[[nodiscard]] RotaryFacts rotary_facts(const std::string& path, const llama_model* model);
/// Before any other call of the library; later calls have no effect. `exact`, `kernels`: see
/// LlamaOptions.
Result<void> start_library(bool exact, std::string_view kernels);
[[nodiscard]] WordSplit word_split_of(const llama_model* model);
/// Errors   kNotFound, kCorruption: not a whole GGUF file.
[[nodiscard]] Result<void> check_model_file(const std::string& path);
[[nodiscard]] std::vector<float> with_length_1(std::span<const float> row);

/// Deleter that calls `free`.
template <auto free>
struct FreeBy {
  template <typename T>
  void operator()(T* thing) const {
    free(thing);
  }
};
template <typename T, auto free>
using Owned = std::unique_ptr<T, FreeBy<free>>;
using OwnedWeights = Owned<llama_model, llama_model_free>;
using OwnedContext = Owned<llama_context, llama_free>;
using OwnedAdapter = Owned<llama_adapter_lora, llama_adapter_lora_free>;
using OwnedMedia = Owned<mtmd_context, mtmd_free>;
using OwnedBitmap = Owned<mtmd_bitmap, mtmd_bitmap_free>;
using OwnedChunk = Owned<mtmd_input_chunk, mtmd_input_chunk_free>;
using OwnedBatch = Owned<mtmd_batch, mtmd_batch_free>;
using OwnedChunks = Owned<mtmd_input_chunks, mtmd_input_chunks_free>;

/// Captures the library's log for this thread and clears what was captured before. The library
/// reports the cause of an error only in its log.
void clear_library_log();
/// An error whose message ends with the library's last log line on this thread.
std::unexpected<Error> library_error(ErrorCode code, const std::string& what);

struct LoadedModel::State {
  OwnedWeights model;
  std::vector<OwnedAdapter> adapters;
  OwnedContext context;
  OwnedMedia media;
  const llama_vocab* vocabulary = nullptr;
  WordSplit word_split = WordSplit::kByHand;
  ModelFacts facts;
  std::string weight_types;
  std::string marker;
  std::string separator;  // see ControlTokens
  ControlTokens control_tokens{{}};
  std::string chat_template;
  std::string assumed_template;
  /// nullptr: the template is one of libllama's own, chosen by name.
  std::shared_ptr<const common_chat_templates> templates;
  std::uint32_t batch = 0;
  mutable std::mutex encoding;
  LlamaOptions loaded_with;  // its context is at most the model's positions
  /// Made for the first embedding, and for the first hidden state; on the computing thread.
  mutable OwnedContext embedder;
  mutable OwnedContext states;
  /// Runs every call that touches the context. Last: it ends before what it uses.
  std::unique_ptr<BatchScheduler> computing;

  Result<void> load_weights(const LlamaOptions& options);
  /// kUnsupported: the model has too few positions for the self-check.
  Result<void> limit_context();
  Result<void> load_template(const LlamaOptions& options);
  CallArguments call_arguments = CallArguments::kFree;  // with `templates`
  Result<void> load_media(const LlamaOptions& options);
  Result<void> make_context(const LlamaOptions& options);
  /// Applies the adapters.
  [[nodiscard]] Result<void> adapt(llama_context* to) const;
  [[nodiscard]] Result<std::vector<float>> embed(std::span<const TokenId> tokens) const;
  [[nodiscard]] std::uint32_t longest_embedding() const;
  [[nodiscard]] Result<void> make_embedder() const;
  [[nodiscard]] Result<std::vector<float>> hidden_state(std::span<const PromptPart> prompt) const;
  [[nodiscard]] Result<void> make_states() const;
  Result<void> add_states(std::span<const TokenId> text, Position at, MeanVector& mean) const;
  /// A media item for the library. kCorruption: the embeddings are not of this item.
  [[nodiscard]] Result<OwnedChunk> chunk_of(const SpanMedia& media,
                                            std::span<const float> rows) const;
  /// Computes a media item in `in`, on the computing thread; returns the position after it.
  Result<Position> decode_media(llama_context* in, const mtmd_input_chunk* chunk,
                                std::span<const float> rows, SequenceId sequence,
                                Position at) const;
  /// Computes embeddings at their places in `in`, on the computing thread.
  [[nodiscard]] Result<void> decode_rows(llama_context* in, std::span<const float> rows,
                                         std::span<const Place> places, SequenceId sequence) const;
  /// One batch. On the computing thread.
  [[nodiscard]] Result<void> compute(std::span<const BatchRow> rows,
                                     const OnLogits& on_logits) const;
  /// kUnsupported: an image's positions depend on the images before it.
  [[nodiscard]] Result<void> check_media() const;
  /// Whether the encoder makes one item of two frames.
  [[nodiscard]] Result<bool> merges_frames() const;
  /// `frames`: of the only input, a video; both frames of each pair. Empty: dimensions only.
  [[nodiscard]] Result<OwnedChunks> tokenize(
      std::string_view text, std::span<const MediaInput> inputs, bool add_special = true,
      std::span<const std::vector<std::uint8_t>> frames = {}) const;
  /// Images and sounds; `first` is the index of the first of them in the whole call.
  void encode_together(std::span<const MediaInput> inputs, std::size_t first,
                       const std::function<void(std::vector<EncodedInput>)>& on_encoded) const;
  /// Keeps the pixels of a few frames at a time.
  [[nodiscard]] Result<EncodedMedia> encode_video(const MediaInput& video) const;
  /// `first`: with the tokens that the model puts before every text.
  [[nodiscard]] Result<SpanText> text_tokens(std::string_view text, bool add_special,
                                             bool parse_special) const;
  [[nodiscard]] Result<std::vector<PromptPiece>> pieces(std::string_view text,
                                                        std::span<const MediaInput> inputs,
                                                        bool first) const;
};

}  // namespace afterimage

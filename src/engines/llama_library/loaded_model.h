// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/kv.h"
#include "afterimage/media.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "engines/llama_library/batch_scheduler.h"
#include "engines/llama_library/llama_options.h"
#include "engines/llama_library/rotary_facts.h"
#include "engines/llama_library/span_parts.h"
#include "engines/llama_library/state_parts.h"
#include "engines/llama_library/video_frames.h"

namespace afterimage {

/// Wraps libllama and libmtmd. It holds no request state and makes no policy decision; conditions
/// on which the libraries would abort are returned as errors.
///
/// Errors   kInvalidArgument: an invalid request; kCorruption, kNotFound: files that are not
///          models; kLimitExceeded: more than a context or a batch holds; kUnsupported: not with
///          this model; kUnavailable: the library failed; the message ends with its last log line.
/// Threads  Any, for const calls. Tokenizing runs concurrently with everything; encoding and
///          computing are each serialized. Computing runs on one dedicated thread
///          (batch_scheduler.h), which also calls `on_logits`.
/// Source   include/llama.h and tools/mtmd/mtmd.h of the release pinned in scripts/build-llama.sh.

struct ChatTurn {
  std::string role;
  std::string text;
};

/// One channel of sound at any rate: the library resamples it.
struct SoundInput {
  std::uint32_t rate_hz = 0;
  std::uint64_t samples = 0;
  std::span<const float> mono{};  // empty: its length only
};

/// One decoded media item, or only its dimensions if it need not be encoded.
struct MediaInput {
  Modality modality = Modality::kImage;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::span<const std::uint8_t> rgb{};  // empty: dimensions only
  SoundInput sound{};
  std::vector<FramePair> pairs{};  // of a video
  /// Of a video: the pixels of both frames of each pair, one frame a call, each like `rgb`; empty:
  /// dimensions only.
  std::function<Result<std::vector<std::uint8_t>>()> next_frame{};
  bool dimensions_only = true;
};

/// A part of a tokenized prompt: text, or the expansion of media item `item`.
struct PromptPiece {
  static constexpr std::size_t kText = SIZE_MAX;
  std::size_t item = kText;
  std::vector<SpanPart> parts;
  // Of a media item:
  std::uint32_t positions = 0;  // with M-RoPE fewer than tokens
  std::uint32_t columns = 0;    // of tokens in an image, if it is one and they have places in it
};

struct EncodedMedia {
  std::vector<SpanPart> parts;
  std::vector<std::byte> rows;  // row_width() floats for each token of the parts; zeros for text
};

/// The result of encoding one of several inputs.
struct EncodedInput {
  std::size_t input = 0;  // index of the input in the call
  Result<EncodedMedia> media;
};

/// Properties of the model as the library reports them.
struct ModelFacts {
  std::string library;           // its version and the CPU features it uses
  std::string kernels;           // ours that compute for it: "avx512"; empty: the library's own
  std::string architecture;      // "qwen3vl"
  std::string assumed_template;  // its name, where the file has none: "gemma"
  std::uint32_t row_width = 0;   // floats of one embedding, deepstack planes included
  TokenCount window{};           // of sliding layers; 0: the model has none
  TokenCount window_cells{};     // that such a layer has for each lane
  TokenCount window_period{1};   // sums depend on a token's cell modulo this; 1: they may differ
  bool recurrent = false;        // recurrent layers only
  bool hybrid = false;           // attention and recurrent layers
  bool uses_mrope = false;       // positions are not token counts (M-RoPE)
  bool merges_frames = false;    // the encoder takes videos: it merges two frames
  bool causal_media = true;      // an image's tokens do not attend to later ones
  RotaryFacts rotary;
  std::uint32_t vocabulary = 0;  // number of token ids
  /// Tokens of one request: LlamaOptions::context, or the positions of the model if those are fewer.
  TokenCount context{};
  std::string weight_types;  // of its tensors: "F32, Q4_K, Q6_K"
  /// Exact computation was asked for, and nothing known prevents it; see self_check.h.
  bool should_be_exact = false;
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
  [[nodiscard]] bool supports(Modality modality) const;
  /// Stands for one media item in a text. Random, so that no user's text contains it.
  [[nodiscard]] const std::string& marker() const;
  /// A message's text so that no part of it becomes a control token: tokenize() understands the
  /// breaks. Text that spells none is returned as it is.
  [[nodiscard]] std::string without_control_tokens(std::string text) const;
  /// The source text of the chat template: part of the model's identity.
  [[nodiscard]] const std::string& chat_template() const;

  /// Renders the conversation with the chat template, up to the start of the assistant's answer.
  Result<std::string> apply_template(std::span<const ChatTurn> turns) const;
  /// `text` has one marker for each of `media`.
  Result<std::vector<PromptPiece>> tokenize(const std::string& text,
                                            std::span<const MediaInput> media) const;
  /// Items that the encoder can batch are encoded together and passed to `on_encoded` together. A
  /// video is encoded alone, a few pairs of frames at a time.
  void encode(std::span<const MediaInput> media,
              const std::function<void(std::vector<EncodedInput>)>& on_encoded) const;

  /// Plain text without media.
  [[nodiscard]] Result<std::vector<TokenId>> tokens_of(std::string_view text, bool add_special,
                                                       bool parse_special) const;
  /// The most tokens that embed() takes.
  [[nodiscard]] TokenCount longest_embedding() const;
  /// See Engine::embed().
  [[nodiscard]] Result<std::vector<float>> embed(std::span<const TokenId> tokens) const;
  /// A part of a prompt to compute: text, or a media item with its embeddings.
  struct PromptPart {
    std::span<const TokenId> text = {};
    const SpanMedia* media = nullptr;
    std::span<const float> rows = {};
  };
  /// See Engine::hidden_state(). The first call makes a context of its own.
  [[nodiscard]] Result<std::vector<float>> hidden_state(std::span<const PromptPart> prompt) const;
  /// Undoes without_control_tokens().
  [[nodiscard]] std::string without_breaks(std::string_view text) const;
  /// The bytes of a token's text; a token may hold part of a character. Control tokens have a text
  /// only if `control`.
  [[nodiscard]] std::string bytes_of(TokenId token, bool control = false) const;
  [[nodiscard]] bool ends(TokenId token) const;
  [[nodiscard]] bool is_in_vocabulary(TokenId token) const;  // whether it is in the vocabulary

  /// Appends text tokens to a sequence, together with what other sequences append meanwhile.
  /// Errors also as BatchScheduler::append(), which explains `cancel` and `meanwhile`.
  struct Append {
    SequenceId sequence = 0;
    std::span<const TokenId> tokens;
    Position at = 0;
    /// Receives the logits of the last token; empty: none are computed.
    std::function<void(std::span<const float>)> on_logits = {};
    std::stop_token cancel = {};
    std::function<void()> meanwhile = {};
  };
  Result<void> append(const Append& text) const;
  /// The same; `on_logits` receives the logits of the tokens at `wanted`, which is ascending.
  Result<void> append(SequenceId sequence, std::span<const TokenId> tokens, Position at,
                      std::span<const std::size_t> wanted, const OnLogits& on_logits) const;
  /// Appends tokens of several sequences in one batch, as many of each; further tokens of one are computed behind it.
  Result<void> append_together(std::span<const BatchRow> rows, const OnLogits& on_logits) const;
  /// Whether sequences may share a batch (true at first), and how many tokens a batch had.
  void share_batches(bool share) const;
  [[nodiscard]] BatchCounts batches() const;
  /// Appends an image or audio clip; returns the position after it.
  Result<Position> append(SequenceId sequence, const SpanMedia& media, std::span<const float> rows,
                          Position at) const;
  /// Appends the first `count` tokens of an image; `rows` are the whole image's. Returns the position
  /// after the image. kUnsupported: not an image, or its tokens attend to later ones.
  Result<Position> append_start(SequenceId sequence, const SpanMedia& media,
                                std::span<const float> rows, Position at, TokenCount count) const;
  /// Appends embeddings, each at a place: its positions in time, row and column. Without M-RoPE only
  /// the first counts.
  using Place = std::array<Position, 3>;
  Result<void> append_rows(SequenceId sequence, std::span<const float> rows,
                           std::span<const Place> places) const;

  /// The library's serialized state of a sequence; `partial` leaves out full-attention layers.
  Result<std::vector<std::byte>> save(SequenceId sequence, bool partial) const;
  /// The same in pieces, on the computing thread: only what `read` copies is copied.
  Result<void> read(SequenceId sequence, bool partial, const ReadState& read) const;
  /// Replaces a sequence with a state read from another one; `fill` then writes its rows, on the
  /// computing thread. On failure the sequence is empty.
  Result<void> restore(SequenceId sequence, std::span<const StatePart> parts,
                       const FillState& fill) const;
  /// Removes the tokens at `position` and after it. False: the model does not support this, and
  /// nothing was removed.
  [[nodiscard]] bool truncate(SequenceId sequence, Position position) const;
  void clear(SequenceId sequence) const;

  struct State;  // the library's objects, for the files that include its headers
  [[nodiscard]] const State& state() const { return *state_; }

 private:
  explicit LoadedModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace afterimage

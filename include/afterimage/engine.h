// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/digest.h"
#include "afterimage/identity.h"
#include "afterimage/kv.h"
#include "afterimage/media.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"

namespace afterimage {

struct KeyRotation;  // runtime/engine_api/key_rotation.h

/// KV that goes into and out of an engine is a KvSlice. This header says what an engine may be asked
/// to capture, and checks slices in both directions.
///
/// Errors   kInvalidArgument: not for this engine, prompt or position; kCorruption: rows or states
///          differ from what the layout requires.

KvOrigin kv_origin(const ModelIdentity& identity, const KvLayout& layout);

/// Number of rows of `group` that an engine restores to resume at `covered`: all of them (full), the
/// last window (sliding), one (recurrent) or none (shared).
std::uint64_t rows_at(const LayerGroup& group, TokenCount covered);
/// Bytes per row of `group`.
Bytes row_size(const LayerGroup& group);

/// As a position: the end of the run, rounded down to the layout's alignment.
inline constexpr TokenCount kEndOfRun = TokenCount::max();

/// What to capture from a run.
struct KvWanted {
  TokenCount rows_from{};  // rows [rows_from, rows_to) of full groups, after the run
  TokenCount rows_to{};    // at most the prompt's length, or kEndOfRun
  /// Strictly increasing; each is at or after the resume point and at most the prompt's length.
  /// kEndOfRun may be the last. The engine stops prefill at each of them, so that the captured
  /// state is exactly the one at that position.
  std::vector<TokenCount> snapshots;
};

/// Whether everything in `wanted` is available once the prompt has been prefilled.
bool within_prompt(const KvWanted& wanted);

/// Checks that `prompt`, which check_sequence() accepts, can resume at the end of `slice`.
///
/// Errors   kInvalidArgument: another origin; it covers nothing, or not less than the prompt (at
///          least one token must remain to be computed); it ends inside an unsplittable span or off
///          the alignment. kCorruption, naming the group: rows are missing, too many or of the
///          wrong size. A window must be exactly the last rows_at() rows.
Result<void> check_resume(const KvSlice& slice, const KvLayout& layout, const KvOrigin& origin,
                          const Sequence& prompt);

/// What an engine restores of a group to resume at the end of `slice`: exactly rows_at() rows in
/// order, or the state, or nothing. Requires a slice that check_resume() accepts.
std::span<const KvRows> rows_to_restore(const KvSlice& slice, const KvLayout& layout,
                                        std::size_t group);

/// kInvalidArgument if a run of `prompt` from `resumed_from` cannot capture `wanted`.
Result<void> check_wanted(const KvWanted& wanted, const KvLayout& layout, const Sequence& prompt,
                          TokenCount resumed_from);

/// kCorruption if what the engine captured of a run over `covered` tokens does not match `wanted`:
/// fewer rows, or another position.
Result<void> check_capture(const KvSlice& capture, const KvWanted& wanted, TokenCount covered,
                           const KvLayout& layout);

/// A token's place for rotary embeddings: time, row and column of M-RoPE. Text, and all tokens of
/// other engines, have one number three times.
using TokenPlace = std::array<std::int32_t, 3>;

/// SHA-256 over the logits of every generated position, byte for byte. Equal digests mean equal
/// computation.
using LogitsDigest = Digest<struct LogitsDigestTag>;

/// How the next token is chosen. The default is greedy: always the most likely token, and of equal
/// ones the lowest id. Penalties and biases change the logits first.
struct SamplingOptions {
  float temperature = 0;    // 0: greedy
  std::uint32_t top_k = 0;  // of the most likely tokens only; 0: all
  float top_p = 1;          // of the fewest tokens whose probabilities reach it
  float min_p = 0;          // of tokens at least this likely, relative to the most likely one
  float repeat_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::uint32_t penalty_window = 64;  // the penalties count the last tokens, of the prompt too
  std::optional<std::uint64_t> seed = std::nullopt;  // absent: another answer each time
  std::map<TokenId, float> logit_bias = {};          // added to a token's logit

  /// Whether another run gives the same answer.
  [[nodiscard]] bool is_reproducible() const { return temperature <= 0 || seed.has_value(); }
  /// Whether it always chooses the token with the highest logit.
  [[nodiscard]] bool takes_highest_logit() const;
  bool operator==(const SamplingOptions&) const = default;
};

/// One token of an answer, or one that was possible in its place. `bytes` may be part of a
/// character.
struct TokenLogprob {
  TokenId token{};
  std::string bytes;
  float logprob = 0;  // natural logarithm, of the model's distribution before sampling
};
struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // most likely first; of equal ones the lowest id first
};

/// An answer, read: what a chat client shows, and the functions that the model calls.
struct AnswerMessage {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;
  bool operator==(const AnswerMessage&) const = default;
};

/// How a model's answers to one request are constrained, and read. An engine derives it from the
/// request's tools and response format and from the chat template, and accepts only its own.
/// Threads  Any; immutable.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  /// Reads an answer's text up to here. While it is incomplete (`is_whole` false), what is read
  /// only grows with the text.
  [[nodiscard]] virtual Result<AnswerMessage> read(std::string_view text, bool is_whole) const = 0;
};

/// As GenerateOptions::max_tokens: until the model ends the answer, or the context is full.
inline constexpr TokenCount kNoTokenLimit = TokenCount::max();

struct GenerateOptions {
  TokenCount max_tokens{16};
  /// Called on the calling thread with each new piece of the answer, in whole characters; the
  /// pieces together are Completion::text. Returning false stops the run with kCancelled. Pieces
  /// already passed to the callback stay valid. No piece holds a part of a stop text.
  std::function<bool(std::string_view)> on_text = {};
  SamplingOptions sampling = {};
  /// The answer ends before the first of these texts. None is empty.
  std::vector<std::string> stop = {};
  /// Reports each token's log probability and those of this many most likely tokens.
  std::optional<std::uint32_t> top_logprobs = std::nullopt;
  /// Called like `on_text`, with each token before its text, if `top_logprobs` is set.
  std::function<void(const TokenLogprobs&)> on_logprobs = {};
  std::shared_ptr<const AnswerFormat> format = nullptr;  // nullptr: plain text
  /// Ends the run with kCancelled, also before the first text. An engine looks at it between batches;
  /// one whose batches are short need not.
  std::stop_token cancel = {};
  /// serve() calls it with the format that it derived from the request, before the first text.
  std::function<void(const std::shared_ptr<const AnswerFormat>&)> on_format = {};
  /// serve() calls it before the first text if the answer is bounded: if it uses KV of media that was
  /// computed at other places (Completion::moved).
  std::function<void()> on_bounded = {};
};

struct Completion {
  std::vector<TokenId> tokens;
  std::string text;
  bool ended = false;    // true: the model finished, or a stop text; false: max_tokens cut it off
  bool stopped = false;  // by a stop text, which is neither in `text` nor were its parts emitted
  std::vector<TokenLogprobs> logprobs = {};  // of each token, without the one that ends an answer
  LogitsDigest logits;
  Duration first_token_after{0};  // from the start of generate()
  TokenCount prefilled{};         // prompt tokens computed in this run
  TokenCount resumed_from{};      // prompt tokens before those, whose KV was restored
  /// Prompt tokens of media items that used KV computed at another place. Not 0: the answer is
  /// bounded, not exact, and so is everything computed after them.
  TokenCount moved{};
};

/// A request as an engine's model sees it, and how it will answer.
struct PreparedRequest {
  Sequence prompt;
  std::shared_ptr<const AnswerFormat> format = nullptr;  // nullptr: plain text
};

/// KV of one media item, computed at another place or after another context.
struct MovedMedia {
  std::size_t span = 0;  // of the prompt, with the same content
  /// Its first tokens, which are computed here, or restored as far as the resume point; the others
  /// are not.
  TokenCount recomputed{};
  TokenPlace from{};  // place of its first token where the KV was computed
  /// Of each group, as in KvSlice: rows of every token of the item, counted from its first.
  std::vector<std::vector<KvRows>> rows;
};

/// KV input and output of one run.
struct KvUse {
  const KvSlice* resume_from = nullptr;  // at its end; nullptr: start cold
  /// In order; each one's moved rows begin at or after the resume point. Not empty: nothing after the first moved
  /// row may be captured, neither with `wanted` nor with `on_end`, because it is not exact.
  std::span<const MovedMedia> moved = {};
  KvWanted wanted;  // default: nothing is captured
  /// Called once per run with the captured KV. If everything in `wanted` lies within the prompt, an
  /// engine that can calls it as soon as prefill has finished and the first token is out, so that
  /// requests waiting for this prefix do not wait for the whole answer. Otherwise it is called at
  /// the end of the run. A kept slice keeps its bytes, through its owner.
  std::function<void(KvSlice)> on_captured;
  /// Called at most once, at the end of a run that fed at least one generated token back, with the
  /// KV that the next turn of a conversation resumes from: rows [end_from, covered) of full groups and a
  /// snapshot there; `fed_back` are the generated tokens up to `covered`. Empty: not captured.
  std::function<void(KvSlice, std::span<const TokenId> fed_back)> on_end;
  TokenCount end_from{};  // at most the prompt's length
};

/// The rows of a media item, for MovedMedia. They refer to the slice's bytes. Requires a slice that
/// check_slice() accepts and that has the whole span.
std::vector<std::vector<KvRows>> rows_of(const MediaSpan& span, const KvSlice& slice);

/// The prompt's first token that takes moved rows; the prompt's length: none does.
TokenCount first_moved(const Sequence& prompt, std::span<const MovedMedia> moved);

/// kInvalidArgument: items out of order, covered by the resume point, at the prompt's end or longer
/// than their rows, or `use` captures what follows a moved row. Requires a prompt that check_sequence() accepts.
Result<void> check_moved(const KvUse& use, const KvLayout& layout, const Sequence& prompt,
                         TokenCount resumed_from);

/// What on_end receives.
KvWanted wanted_at_end(const KvUse& use);

/// A completion and the KV captured from it.
struct Generation {
  Completion completion;
  KvSlice kv;
  TokenCount covered{};  // tokens with KV at the end: the prompt and the answer tokens fed back
};

/// The result of encoding one of several items, or of several parts.
struct Encoded {
  std::size_t item = 0;  // index of the item, or part, in the call
  Result<EncoderOutput> output;
};

/// A part of a media item that the encoder treats by itself: a slice of a video, a tile of an image.
struct MediaPart {
  /// Of everything that the part's output depends on, besides the model and the recipe: usually
  /// decoded_digest() of what goes into the encoder.
  DecodedDigest input;
  TokenCount rows{};  // of the part's output
  bool operator==(const MediaPart&) const = default;
};

/// A media item in parts, with what encoding them takes: decoded frames, for example. Made by an
/// engine, which accepts only its own.
/// Threads  Any; immutable.
class SplitMedia {
 public:
  virtual ~SplitMedia() = default;
  /// In order; at least one.
  [[nodiscard]] virtual std::span<const MediaPart> parts() const = 0;
};

/// One part of a split item, to be encoded.
struct PartToEncode {
  const SplitMedia* item = nullptr;
  std::size_t part = 0;  // of item->parts()
};

/// The outputs of an item's parts, joined: every tensor is the rows of that tensor of each part, in
/// order. kCorruption: the parts differ in more than their rows.
Result<EncoderOutput> join_parts(std::span<const TensorViews> parts);

/// Whether a run resumed from cached KV equals a cold run, bit for bit, and how that is known.
struct Exactness {
  bool exact = false;
  std::string basis;  // for people: "self-check: 72 tokens in 3 other batches, every bit the same"
};

/// A model's tokens and prompts as text, for clients that count tokens or look at a prompt.
/// Threads  Any.
class Tokenizer {
 public:
  struct Options {
    bool add_special = false;   // with the tokens that the model puts around a text
    bool parse_special = true;  // a spelled control token becomes that token
  };
  virtual ~Tokenizer() = default;
  [[nodiscard]] virtual Result<std::vector<TokenId>> tokenize(std::string_view text,
                                                              Options options) const = 0;
  /// Of control tokens too. kInvalidArgument: not in the vocabulary.
  [[nodiscard]] virtual Result<std::string> bytes_of(TokenId token) const = 0;
  /// The conversation as the chat template renders it, up to the start of the answer. Errors as
  /// Engine::prepare_answer().
  [[nodiscard]] virtual Result<std::string> prompt_of(const Request& request) const = 0;
  /// The chat template's source or name; empty: none.
  [[nodiscard]] virtual const std::string& chat_template() const = 0;
  /// The tokens of a prompt and its answer together.
  [[nodiscard]] virtual TokenCount context() const = 0;
  /// The most tokens that Engine::embed() takes.
  [[nodiscard]] virtual TokenCount longest_embedding() const { return context(); }
  /// The tokens that end an answer.
  [[nodiscard]] virtual std::vector<TokenId> end_tokens() const = 0;
};

/// What an engine is doing now, and what it has done.
struct EngineLoad {
  std::uint32_t lanes = 0;      // requests that it computes at a time; others wait. 0: no limit
  std::uint32_t busy = 0;       // lanes with a request
  std::uint64_t batches = 0;    // that computed the next tokens of answers
  std::uint64_t generated = 0;  // tokens in those: more than batches where requests shared them
};

/// The interface of an inference engine. One object is one loaded model. An engine that exposes its
/// KV overrides kv_layout() and run(), and must pass tests/conformance/engine_conformance.h: a
/// resumed run equals a cold run, bit for bit.
///
/// Errors   Those of the media component for bad files; kUnsupported for a modality the model
///          lacks.
/// Threads  const calls may run concurrently.
class Engine {
 public:
  virtual ~Engine() = default;

  [[nodiscard]] virtual const ModelIdentity& identity() const = 0;
  /// How this engine preprocesses media of this modality before encoding. Part of every encoder
  /// key.
  [[nodiscard]] virtual PreprocessRecipe recipe(Modality modality) const = 0;

  /// Of this loaded model on this machine; constant. Default: not exact, because nobody checked.
  [[nodiscard]] virtual Exactness exactness() const { return {}; }

  /// What the item's headers say, for people who look into the cache. Default, and for a file that cannot
  /// be read: unknown.
  [[nodiscard]] virtual MediaSize size_of(const MediaItem& /*item*/) const { return {}; }

  /// Tokenizes text and turns media into spans of placeholders. `contents` are the digests of the
  /// request's media in order of appearance. Reads the headers of media files; decodes nothing.
  virtual Result<Sequence> prepare(const Request& request,
                                   std::span<const ContentDigest> contents) const = 0;

  /// prepare(), with the format of the answer. The default knows plain text only: kUnsupported,
  /// naming the field, if the request has tools or constrains its answer.
  virtual Result<PreparedRequest> prepare_answer(const Request& request,
                                                 std::span<const ContentDigest> contents) const;

  /// What the rules ask for and this engine does not enforce, as "response_format.multipleOf" and
  /// "tools.pattern": the model is told, and may write something else. In order, each once. Default:
  /// nothing, since what prepare_answer() does not take it refuses.
  [[nodiscard]] virtual std::vector<std::string> unenforced(const AnswerRules& /*rules*/) const {
    return {};
  }

  /// What of the clock the prompts of chats hold at this moment, such as the date that a chat template
  /// writes: an answer to yesterday's prompt is none to today's. Empty, the default: nothing.
  [[nodiscard]] virtual std::string clock_in_prompts(WallTime /*now*/) const { return {}; }

  [[nodiscard]] virtual EngineLoad load() const { return {}; }

  /// What holds where a client chooses nothing: limit and sampling.
  [[nodiscard]] virtual GenerateOptions default_options() const { return {}; }

  /// nullptr: the engine has none for clients.
  [[nodiscard]] virtual const Tokenizer* tokenizer() const { return nullptr; }

  /// The embedding of a text: one vector of length 1, pooled as the model does. The same tokens give
  /// the same vector. kInvalidArgument: no tokens, or unknown ones; kLimitExceeded: too many;
  /// kUnsupported: the engine makes no embeddings, which is the default.
  [[nodiscard]] virtual Result<std::vector<float>> embed(std::span<const TokenId> tokens) const;

  /// What the model makes of a prompt with its media: the hidden states after the last layer,
  /// averaged over the prompt's text tokens, of length 1. Nothing is generated, cached or resumed.
  /// Arguments and errors as of generate(); kUnsupported: the engine does not expose them, which is
  /// the default.
  [[nodiscard]] virtual Result<std::vector<float>> hidden_state(
      const Sequence& prompt, std::span<const TensorViews> embeddings) const;

  /// Decodes, preprocesses and encodes one item: the expensive step that a hit avoids.
  /// Shape    tensors[0] is [span length, hidden size].
  virtual Result<EncoderOutput> encode(const MediaItem& item) const = 0;
  /// Same results as encode() for each item, bit for bit. An engine that can encode several items
  /// at once passes them to `on_encoded` together; otherwise each item is passed as soon as it is
  /// ready.
  virtual void encode_all(std::span<const MediaItem* const> items,
                          const std::function<void(std::vector<Encoded>)>& on_encoded) const;

  /// The parts of an item that the encoder treats one by one. Declaring them is a promise, which
  /// tests/conformance/engine_conformance.h checks: encode(item) is join_parts() of what
  /// encode_parts() returns, bit for bit, whatever is encoded in the same call and in any order; and
  /// parts with the same `input` have the same output in every item and at every place. Each part is
  /// then cached by itself. Decodes and preprocesses the item; encodes nothing. nullptr, the default:
  /// the item is encoded as a whole. Errors as of encode().
  [[nodiscard]] virtual Result<std::shared_ptr<const SplitMedia>> split(
      const MediaItem& item) const;
  /// Encodes parts of items that split() returned, under the terms of encode_all(). The default
  /// fails each with kUnsupported.
  virtual void encode_parts(std::span<const PartToEncode> parts,
                            const std::function<void(std::vector<Encoded>)>& on_encoded) const;

  /// Prefills `prompt`, then decodes. `embeddings[i]` belongs to prompt.spans[i]. The same options
  /// give the same tokens if SamplingOptions::is_reproducible().
  /// kInvalidArgument: a tensor's shape does not match its span.
  virtual Result<Completion> generate(const Sequence& prompt,
                                      std::span<const TensorViews> embeddings,
                                      const GenerateOptions& options) const = 0;

  /// The layout of this model's KV; nullptr if the engine does not expose it. Constant per engine.
  [[nodiscard]] virtual const KvLayout* kv_layout() const { return nullptr; }

  /// nullptr, the default: KV of media is used only where it was computed.
  [[nodiscard]] virtual const KeyRotation* key_rotation() const { return nullptr; }
  /// For people, where key_rotation() is nullptr: "the model takes no images". Empty: unknown.
  [[nodiscard]] virtual std::string why_no_rotation() const { return ""; }
  /// The place of a token of `prompt`. Default: its index.
  [[nodiscard]] virtual TokenPlace place_of(const Sequence& prompt, TokenCount at) const;

  /// generate() that resumes from cached KV and captures KV. Tokens and logits are the same; only
  /// what follows `use.resume_from` is computed, and what `use.wanted` names is captured. Spans
  /// that end at or before the resume point need no embeddings. The engine keeps no reference to
  /// the slice, and an error changes nothing.
  ///
  /// With `use.moved` the result is approximate. An engine turns the keys of such rows to their new
  /// places and computes the items' first tokens, which is all that their embeddings are needed for.
  ///
  /// Errors   kUnsupported: no KV layout, or nothing can be moved; those of check_resume(),
  ///          check_wanted(), check_moved() and generate(); kCorruption: the engine's result does
  ///          not match the request.
  [[nodiscard]] Result<Generation> generate_from(const Sequence& prompt,
                                                 std::span<const TensorViews> embeddings,
                                                 const GenerateOptions& options,
                                                 const KvUse& use) const;

 protected:
  /// Implements generate_from(): called after `use` has been validated; the result is validated
  /// afterwards. Restores into a sequence of its own and clears that sequence on failure. Need not
  /// fill kv.origin or kv.cost, or call use.on_captured.
  virtual Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                                 const GenerateOptions& options, const KvUse& use) const;
};

/// The request's media items in order of appearance. Valid while the request lives.
std::vector<const MediaItem*> media_of(const Request& request);

}  // namespace afterimage

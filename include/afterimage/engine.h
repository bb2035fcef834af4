// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/kv_layout.h"
#include "afterimage/media.h"
#include "afterimage/model.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"

namespace afterimage {

/// What a model remembers of a prefix, on its way into and out of an engine.
///
/// Shape    Opaque bytes, u8: [tokens, row_bytes] for full and sliding groups, [1, state_bytes] for
///          recurrent ones; a shared group has nothing. What is inside a row is the engine's own
///          business, but it is the same wherever the row was computed and however the prompt was
///          cut.
/// Unit     Positions are counted from the start of the sequence; a row a token.
/// Errors   kInvalidArgument: not for this engine, prompt or position; kCorruption: not as large as
///          the layout says it must be. The bytes themselves are whoever stores them to check.
/// Threads  Values and views; whoever owns the bytes keeps them unchanged while a call reads them.

/// Names what wrote a state: model, weights, encoder, adapter, template, KV dtype and layout. A
/// state of another origin is never read, however well its sizes fit.
using KvOrigin = Digest<struct KvOriginTag>;
KvOrigin kv_origin(const ModelIdentity& identity, const KvLayout& layout);

/// Rows of `group` in a state that covers `covered` tokens: all of them, the last window, one,
/// none.
std::uint64_t rows_at(const LayerGroup& group, TokenCount covered);
/// Bytes of one of them.
Bytes row_size(const LayerGroup& group);

/// From where to go on. groups[i] belongs to layout.groups[i]: its rows in order of position, in as
/// many slices as they happen to lie in, together exactly rows_at(group, covered).
struct KvState {
  KvOrigin origin{};
  TokenCount covered{};
  std::vector<TensorViews> groups;
};

/// As a position: where the run ends, rounded down to the layout's alignment.
inline constexpr TokenCount kEndOfRun = TokenCount::max();

/// What to hand out of a run.
struct KvWanted {
  TokenCount rows_from{};  // rows [rows_from, rows_to) of full groups, after the run
  TokenCount rows_to{};    // at most the prompt's length, or kEndOfRun
  std::vector<TokenCount>
      snapshots;  // strictly increasing; not before the resume point, at most the
                  // prompt's length; kEndOfRun may be the last. The engine stops
                  // there, so that what is captured is exactly that position's.
};

/// Whether all of it is there once the prompt is prefilled.
bool within_prompt(const KvWanted& wanted);

/// What full groups do not keep: window rows and recurrent states as they were after `at` tokens.
struct KvSnapshot {
  TokenCount at{};
  std::vector<Tensor> groups;  // one a group; full and shared: empty
};

struct KvCapture {
  KvOrigin origin{};
  TokenCount covered{};  // when the run ended: its prompt, and what it fed back of its own answer
  TokenCount rows_from{};
  TokenCount rows_to{};
  std::vector<Tensor> rows;  // one a group; all but full: empty
  std::vector<KvSnapshot> snapshots;
};

/// Whether `prompt`, which check_sequence() accepts, can go on from `state`. kInvalidArgument:
/// another origin; it covers nothing, or not less than the prompt (a token must remain to be
/// computed); it ends inside an unsplittable span or off the alignment. kCorruption, naming the
/// group: rows are missing, too many or of another kind.
Result<void> check_state(const KvState& state, const KvLayout& layout, const KvOrigin& origin,
                         const Sequence& prompt);

/// kInvalidArgument if `wanted` is not what a run of `prompt` from `resumed_from` can give.
Result<void> check_wanted(const KvWanted& wanted, const KvLayout& layout, const Sequence& prompt,
                          TokenCount resumed_from);

/// kCorruption if an engine gave something else than `wanted`: fewer rows, another position.
Result<void> check_capture(const KvCapture& capture, const KvWanted& wanted,
                           const KvLayout& layout);

/// SHA-256 over the logits of every generated position, bit for bit. Equal digests: equal
/// computation.
using LogitsDigest = Digest<struct LogitsDigestTag>;

struct GenerateOptions {
  TokenCount max_tokens{16};
  /// Called with the answer's text as it grows, in whole characters, on the call's thread; all of
  /// it together is Completion::text. False: nobody wants more, and the run ends with kCancelled.
  /// What was handed out of it by then stays good.
  std::function<bool(std::string_view)> on_text;
};

struct Completion {
  std::vector<TokenId> tokens;
  std::string text;
  bool ended = false;  // the model had said all; false: max_tokens cut it off
  LogitsDigest logits;
  Duration first_token_after{0};  // from the start of generate()
  TokenCount prefilled{};         // prompt tokens that were computed
  TokenCount resumed_from{};      // and those before them, whose KV was restored
};

/// What an engine does with KV besides using it.
struct KvUse {
  const KvState* resume_from = nullptr;  // nullptr: start cold
  KvWanted wanted;                       // by default nothing
  /// Called once in the run: with what was wanted, as soon as the prompt is prefilled and its first
  /// token is out, if all of that lies within the prompt; else, and with an engine that cannot, at
  /// the end. What others wait for need not wait for an answer of a thousand tokens. Leaves the
  /// capture as it is.
  std::function<void(KvCapture&)> on_captured;
};

/// A completion, and the KV that was wanted of it.
struct Generation {
  Completion completion;
  KvCapture kv;
};

/// One of several items of a call, encoded, or why not.
struct Encoded {
  std::size_t item = 0;  // by its place in the call
  Result<EncoderOutput> output;
};

/// What Afterimage needs of an engine. One object is one loaded model. An engine that shows its KV
/// overrides kv_layout() and run(), and tests/conformance/engine_conformance.h holds it to "cold =
/// resumed, bit for bit".
///
/// Errors   Whatever media/ says of bad files; kUnsupported for a modality the model lacks.
/// Threads  const calls may run at the same time; the built-in engine does.
class Engine {
 public:
  virtual ~Engine() = default;

  [[nodiscard]] virtual const ModelIdentity& identity() const = 0;
  /// What this engine does to such media before encoding it. Part of every encoder key.
  [[nodiscard]] virtual PreprocessRecipe recipe(Modality modality) const = 0;

  /// Text to tokens, media to spans of placeholders. `contents` are the digests of the request's
  /// media in order of appearance. Reads headers of media files, decodes nothing.
  virtual Result<Sequence> prepare(const Request& request,
                                   std::span<const ContentDigest> contents) const = 0;

  /// Decodes, preprocesses and encodes one item: the dear step that a hit avoids.
  /// Shape: tensors[0] is [span length, hidden size].
  virtual Result<EncoderOutput> encode(const MediaItem& item) const = 0;
  /// encode() of each, with the same bits. An engine that can encodes several at once: those are
  /// given to `on_encoded` together, others one by one, as soon as they are there.
  virtual void encode_all(std::span<const MediaItem* const> items,
                          const std::function<void(std::vector<Encoded>)>& on_encoded) const;

  /// Prefills `prompt`, then decodes greedily. `embeddings[i]` belongs to prompt.spans[i].
  /// kInvalidArgument if their shapes are not what the spans promise.
  virtual Result<Completion> generate(const Sequence& prompt,
                                      std::span<const TensorViews> embeddings,
                                      const GenerateOptions& options) const = 0;

  /// How this model remembers; nullptr if the engine keeps its KV to itself. The same every time.
  [[nodiscard]] virtual const KvLayout* kv_layout() const { return nullptr; }

  /// generate(), with the same tokens and logits, but only what lies behind `use.resume_from` is
  /// computed, and what `use.wanted` names is handed out. Spans that end at or before the resume
  /// point may have no embeddings. Nothing is kept of the state, and on any error nothing has
  /// changed. kUnsupported: no KV layout; else what check_state(), check_wanted() and generate()
  /// say; kCorruption, too, if the engine did not give what it was asked for.
  [[nodiscard]] Result<Generation> generate_from(const Sequence& prompt,
                                                 std::span<const TensorViews> embeddings,
                                                 const GenerateOptions& options,
                                                 const KvUse& use) const;

 protected:
  /// What generate_from() does once `use` is known to fit, and before what it gives is checked.
  /// Restores into a sequence of its own, and wipes that on failure. Need not fill kv.origin, nor
  /// call use.on_captured.
  virtual Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                                 const GenerateOptions& options, const KvUse& use) const;
};

/// The request's media items in order of appearance. Valid while the request lives.
std::vector<const MediaItem*> media_of(const Request& request);

}  // namespace afterimage

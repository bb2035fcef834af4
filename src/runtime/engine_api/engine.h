// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/media.h"
#include "afterimage/model.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"
#include "runtime/engine_api/kv_state.h"

namespace afterimage {

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

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/reference_engine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "afterimage/identity.h"
#include "engines/reference/audio_encoder.h"
#include "engines/reference/audio_parts.h"
#include "engines/reference/decoder.h"
#include "engines/reference/identity.h"
#include "engines/reference/kernel.h"
#include "engines/reference/kv_packing.h"
#include "engines/reference/media_plan.h"
#include "engines/reference/prompt_rows.h"
#include "engines/reference/token_places.h"
#include "engines/reference/tokenizer.h"
#include "engines/reference/vision_encoder.h"
#include "engines/reference/vision_parts.h"
#include "foundation/media/decode.h"
#include "foundation/media/media_limits.h"
#include "foundation/media/probe.h"
#include "foundation/types/request_work.h"
#include "runtime/engine_api/answer_writer.h"
#include "runtime/engine_api/key_rotation.h"
#include "runtime/engine_api/logits_digest.h"
#include "runtime/engine_api/mean_vector.h"
#include "runtime/engine_api/token_sampler.h"

namespace afterimage {
namespace {

Tensor tensor_of(std::span<const Matrix* const> parts) {
  std::size_t rows = 0;
  for (const Matrix* part : parts) rows += part->rows();
  Tensor tensor{.dtype = DType::kF32, .shape = {rows, parts.front()->columns()}, .bytes = {}};
  for (const Matrix* part : parts) {
    const auto bytes = std::as_bytes(part->all());
    tensor.bytes.insert(tensor.bytes.end(), bytes.begin(), bytes.end());
  }
  return tensor;
}

/// One tensor a plane: the rows of every element of `encoded`, in order.
EncoderOutput joined(std::span<const std::vector<Matrix>> encoded) {
  EncoderOutput output;
  for (std::size_t plane = 0; plane < encoded.front().size(); ++plane) {
    std::vector<const Matrix*> parts;
    for (const std::vector<Matrix>& planes : encoded) parts.push_back(&planes[plane]);
    output.push_back(tensor_of(parts));
  }
  return output;
}

KeyRotation rotation_of(const DecoderOptions& options, const Decoder& decoder,
                        const KvPacking& packing) {
  return {.dtype = DType::kF32,
          .pairs = KeyRotation::Pairs::kHalves,
          .head_size = options.head_dim,
          .radians = decoder.frequencies(),
          .axes = decoder.axes(),
          .keys = packing.keys()};
}

TokenCount token_count(std::size_t count) { return TokenCount(static_cast<std::uint32_t>(count)); }

Result<PreprocessPlan> plan_of(const MediaItem& item, const ReferenceOptions& options) {
  AFI_TRY(const MediaInfo info, probe(item, options.limits));
  auto plan = plan_media(item.modality, info, options);
  if (!plan) return fail(plan.error().code, item.name + ": " + plan.error().message);
  return plan;
}

}  // namespace

struct ReferenceEngine::Model {
  Model(ReferenceOptions chosen, const Kernels& kernels, const Rng& weights)
      : options(std::move(chosen)),
        identity(identity_of(options, kernels)),
        clock(options.clock != nullptr ? *options.clock : machine_clock),
        decoder(options.decoder, kVocabulary, kernels, weights.split(1)),
        packing(options.decoder),
        rotation(rotation_of(options.decoder, decoder, packing)),
        movable(check_rotation(rotation, packing.layout()).has_value()),
        vision(options.vision, options.decoder.hidden, kernels, weights.split(2)),
        audio(options.audio, options.decoder.hidden, kernels, weights.split(3)) {}

  [[nodiscard]] bool uses_mrope() const {
    return options.decoder.sections != std::array<std::uint32_t, 3>{};
  }
  [[nodiscard]] Result<PromptRows> rows_of(const Sequence& prompt,
                                           std::span<const TensorViews> embeddings,
                                           TokenCount covered,
                                           std::span<const MovedMedia> moved = {}) const {
    return PromptRows::of(prompt, embeddings,
                          {.hidden = decoder.hidden(),
                           .planes = options.vision.deepstack_planes,
                           .covered = covered,
                           .moved = moved,
                           .places = uses_mrope()});
  }
  [[nodiscard]] TokenPlace place_of(const InputRow& row, std::size_t index) const {
    const auto at = static_cast<std::int32_t>(index);
    return row.place != nullptr ? *row.place : TokenPlace{at, at, at};
  }
  /// Of a video: the sampled frames at the encoder's size, two in one image.
  [[nodiscard]] Result<std::vector<Image>> slices_of(const MediaItem& item,
                                                     const PreprocessPlan& plan) const;
  /// Of a video, or of an image of a model with tiles.
  [[nodiscard]] Result<VisionParts> parts_of(const MediaItem& item,
                                             const PreprocessPlan& plan) const;
  /// Of audio, for a model that hears windows.
  [[nodiscard]] Result<AudioParts> windows_of(const MediaItem& item,
                                              const PreprocessPlan& plan) const;
  [[nodiscard]] Result<EncoderOutput> encode_audio(const MediaItem& item,
                                                   const PreprocessPlan& plan) const;
  [[nodiscard]] Matrix encode(const AudioParts& of, std::size_t part) const;
  [[nodiscard]] std::vector<Matrix> encode(const Image& image, const VisionParts& of) const;
  [[nodiscard]] Result<EncoderOutput> encode_part(const PartToEncode& part) const;
  [[nodiscard]] Matrix prefill(DecoderState& state, const Sequence& prompt,
                               std::span<const InputRow> rows, const KvUse& use, KvSlice& kv,
                               KvBuffers& buffers) const;
  Result<void> decode(DecoderState& state, Matrix logits, const Sequence& prompt,
                      const GenerateOptions& wanted, Completion& completion,
                      std::optional<TokenPlace> place,
                      const std::function<void()>& after_first_token) const;
  void capture_end(const DecoderState& state, const KvWanted& wanted, KvSlice& kv,
                   KvBuffers& buffers) const;

  ReferenceOptions options;
  ModelIdentity identity;
  SystemClock machine_clock;
  const Clock& clock;
  Decoder decoder;
  KvPacking packing;
  KeyRotation rotation;
  bool movable;  // `rotation` fits every layer
  VisionEncoder vision;
  AudioEncoder audio;
};

ReferenceEngine::ReferenceEngine(std::unique_ptr<const Model> model) : model_(std::move(model)) {}
ReferenceEngine::~ReferenceEngine() = default;

Result<std::unique_ptr<ReferenceEngine>> ReferenceEngine::create(ReferenceOptions options) {
  AFI_TRY_VOID(check_options(options));
  AFI_TRY(const Kernels* kernels, kernels_named(options.kernels));
  const Rng weights(options.weights_seed);
  auto model = std::make_unique<const Model>(std::move(options), *kernels, weights);
  return std::unique_ptr<ReferenceEngine>(new ReferenceEngine(std::move(model)));
}

const ModelIdentity& ReferenceEngine::identity() const { return model_->identity; }

Exactness ReferenceEngine::exactness() const {
  return {.exact = true, .basis = "every row is computed by itself, in one order of summation"};
}

MediaSize ReferenceEngine::size_of(const MediaItem& item) const {
  const auto info = probe(item, model_->options.limits);
  return info.has_value() ? info->size() : MediaSize();
}

/// Each request computes its tokens alone.
EngineLoad ReferenceEngine::load() const {
  return {.busy = busy_, .batches = generated_, .generated = generated_};
}

PreprocessRecipe ReferenceEngine::recipe(Modality modality) const {
  return recipe_of(modality, model_->options);
}

Result<Sequence> ReferenceEngine::prepare(const Request& request,
                                          std::span<const ContentDigest> contents) const {
  RequestWork::add(request_work().prepared);
  const auto items = media_of(request);
  if (items.size() != contents.size()) {
    return fail(ErrorCode::kInvalidArgument, std::to_string(contents.size()) + " digests for " +
                                                 std::to_string(items.size()) + " media items");
  }
  const auto is_known = [](TokenId token) {
    return token >= TokenId(0) && static_cast<std::size_t>(token) < kVocabulary;
  };
  if (!std::ranges::all_of(request.prompt_tokens, is_known)) {
    return fail(ErrorCode::kInvalidArgument, "the prompt has a token outside the vocabulary");
  }
  std::vector<PlacedMedia> placed;
  for (std::size_t i = 0; i < items.size(); ++i) {
    AFI_TRY(const PreprocessPlan plan, plan_of(*items[i], model_->options));
    const bool in_grid =
        model_->uses_mrope() && items[i]->modality == Modality::kImage && plan.tiles == TileGrid{};
    placed.push_back({.content = contents[i],
                      .length = plan.embeddings,
                      .columns = in_grid ? plan.grid.columns : 0});
  }
  return chat_sequence(request, placed);
}

// It seldom ends an answer by itself.
GenerateOptions ReferenceEngine::default_options() const { return {.max_tokens = TokenCount(64)}; }

Result<EncoderOutput> ReferenceEngine::encode(const MediaItem& item) const {
  AFI_TRY(const PreprocessPlan plan, plan_of(item, model_->options));
  const MediaLimits& limits = model_->options.limits;
  if (item.modality == Modality::kAudio) {
    return model_->encode_audio(item, plan);
  }
  if (item.modality == Modality::kImage && plan.tiles == TileGrid{}) {
    AFI_TRY(const Image image, decode_image(item, limits));
    const Image fitted = resize(image, model_->vision.pixels(plan.grid.columns),
                                model_->vision.pixels(plan.grid.rows));
    const std::vector<Matrix> planes = model_->vision.encode(fitted, plan.grid);
    return joined({&planes, 1});
  }
  AFI_TRY(const VisionParts parts, model_->parts_of(item, plan));
  std::vector<std::vector<Matrix>> encoded;
  for (const Image& image : parts.images()) {
    encoded.push_back(model_->encode(image, parts));
  }
  return joined(encoded);
}

Result<std::shared_ptr<const SplitMedia>> ReferenceEngine::split(const MediaItem& item) const {
  const ReferenceOptions& options = model_->options;
  const bool is_whole = (item.modality == Modality::kImage && options.vision.max_tiles == 0) ||
                        (item.modality == Modality::kAudio && options.audio.window_embeddings == 0);
  if (is_whole) return std::shared_ptr<const SplitMedia>();
  AFI_TRY(const PreprocessPlan plan, plan_of(item, options));
  if (item.modality == Modality::kAudio) {
    AFI_TRY(AudioParts windows, model_->windows_of(item, plan));
    return std::make_shared<const AudioParts>(std::move(windows));
  }
  AFI_TRY(VisionParts parts, model_->parts_of(item, plan));
  return std::make_shared<const VisionParts>(std::move(parts));
}

void ReferenceEngine::encode_parts(
    std::span<const PartToEncode> parts,
    const std::function<void(std::vector<Encoded>)>& on_encoded) const {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<Encoded> one;
    one.push_back({.item = i, .output = model_->encode_part(parts[i])});
    on_encoded(std::move(one));
  }
}

std::vector<Matrix> ReferenceEngine::Model::encode(const Image& image,
                                                   const VisionParts& of) const {
  return of.kind() == VisionParts::Kind::kSlice ? vision.encode_slice(image, of.grid())
                                                : vision.encode(image, of.grid());
}

Result<AudioParts> ReferenceEngine::Model::windows_of(const MediaItem& item,
                                                      const PreprocessPlan& plan) const {
  AFI_TRY(const Samples samples, decode_audio(item, options.limits));
  const std::size_t embeddings = plan.embeddings.value();
  return AudioParts(resample_for(samples, embeddings), embeddings, options.audio.window_embeddings);
}

Matrix ReferenceEngine::Model::encode(const AudioParts& of, std::size_t part) const {
  return audio.encode(of.samples(part), of.parts()[part].rows.value());
}

Result<EncoderOutput> ReferenceEngine::Model::encode_audio(const MediaItem& item,
                                                           const PreprocessPlan& plan) const {
  std::vector<Matrix> encoded;
  if (options.audio.window_embeddings == 0) {
    AFI_TRY(const Samples samples, decode_audio(item, options.limits));
    encoded.push_back(audio.encode(samples, plan.embeddings.value()));
  } else {
    AFI_TRY(const AudioParts windows, windows_of(item, plan));
    for (std::size_t i = 0; i < windows.parts().size(); ++i) encoded.push_back(encode(windows, i));
  }
  std::vector<const Matrix*> parts;
  for (const Matrix& part : encoded) parts.push_back(&part);
  return EncoderOutput{tensor_of(parts)};
}

Result<EncoderOutput> ReferenceEngine::Model::encode_part(const PartToEncode& part) const {
  if (const auto* const windows = dynamic_cast<const AudioParts*>(part.item)) {
    if (part.part >= windows->parts().size()) {
      return fail(ErrorCode::kInvalidArgument, "not a part of an item that this engine split");
    }
    if (windows->window() != options.audio.window_embeddings) {
      return fail(ErrorCode::kInvalidArgument, "a part that an engine of other options split");
    }
    const Matrix rows = encode(*windows, part.part);
    const Matrix* const only = &rows;
    return EncoderOutput{tensor_of({&only, 1})};
  }
  const auto* const of = dynamic_cast<const VisionParts*>(part.item);
  if (of == nullptr || part.part >= of->images().size()) {
    return fail(ErrorCode::kInvalidArgument, "not a part of an item that this engine split");
  }
  const Image& image = of->images()[part.part];
  const std::uint32_t frames = of->kind() == VisionParts::Kind::kSlice ? kFramesPerSlice : 1;
  if (image.width != vision.pixels(of->grid().columns) ||
      image.height != frames * vision.pixels(of->grid().rows)) {
    return fail(ErrorCode::kInvalidArgument, "a part that an engine of other options split");
  }
  const std::vector<Matrix> planes = encode(image, *of);
  return joined({&planes, 1});
}

Result<VisionParts> ReferenceEngine::Model::parts_of(const MediaItem& item,
                                                     const PreprocessPlan& plan) const {
  if (item.modality == Modality::kVideo) {
    AFI_TRY(std::vector<Image> slices, slices_of(item, plan));
    return VisionParts(VisionParts::Kind::kSlice, plan.grid, std::move(slices));
  }
  AFI_TRY(const Image image, decode_image(item, options.limits));
  return VisionParts(VisionParts::Kind::kTile, plan.grid,
                     cut_into_tiles(image, plan.tiles, vision.pixels(plan.grid.columns)));
}

Result<std::vector<Image>> ReferenceEngine::Model::slices_of(const MediaItem& item,
                                                             const PreprocessPlan& plan) const {
  // The padding of an odd count repeats the last frame.
  AFI_TRY(FrameReader frames, FrameReader::open(item, plan.frames, options.limits));
  std::vector<Image> slices;
  for (std::size_t i = 0; i < plan.frames.size(); ++i) {
    AFI_TRY(const std::optional<Frame> frame, frames.next());
    AFI_CHECK(frame.has_value());
    Image fitted =
        resize(frame->image, vision.pixels(plan.grid.columns), vision.pixels(plan.grid.rows));
    if (i % kFramesPerSlice == 0) {
      slices.push_back(std::move(fitted));
      continue;
    }
    Image& slice = slices.back();
    slice.height += fitted.height;
    slice.rgb.insert(slice.rgb.end(), fitted.rgb.begin(), fitted.rgb.end());
  }
  return slices;
}

Result<Completion> ReferenceEngine::generate(const Sequence& prompt,
                                             std::span<const TensorViews> embeddings,
                                             const GenerateOptions& options) const {
  AFI_TRY(Generation generation, run(prompt, embeddings, options, {}));
  return std::move(generation.completion);
}

const KvLayout* ReferenceEngine::kv_layout() const { return &model_->packing.layout(); }

const KeyRotation* ReferenceEngine::key_rotation() const {
  return model_->movable ? &model_->rotation : nullptr;
}

TokenPlace ReferenceEngine::place_of(const Sequence& prompt, TokenCount at) const {
  return model_->uses_mrope() ? mrope_places(prompt).at(at.value()) : Engine::place_of(prompt, at);
}

Result<std::vector<float>> ReferenceEngine::hidden_state(
    const Sequence& prompt, std::span<const TensorViews> embeddings) const {
  if (prompt.tokens.empty()) return fail(ErrorCode::kInvalidArgument, "an empty prompt");
  AFI_TRY_VOID(answer_limit(prompt, TokenCount(1), model_->options.max_context));
  AFI_TRY(const PromptRows rows, model_->rows_of(prompt, embeddings, TokenCount(0)));
  DecoderState state = model_->decoder.start();
  MeanVector mean;
  while (state.covered < rows.size()) {
    const auto next = rows.rows().subspan(state.covered);
    const auto chunk =
        next.first(std::min<std::size_t>(next.size(), model_->options.prefill_chunk.value()));
    const Matrix hidden = model_->decoder.forward(state, chunk);
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      if (chunk[i].media == nullptr) mean.add({hidden.row(i), hidden.columns()});
    }
  }
  return mean.finish();
}

// The restored state belongs to this call, so a failure leaves nothing behind.
Result<Generation> ReferenceEngine::run(const Sequence& prompt,
                                        std::span<const TensorViews> embeddings,
                                        const GenerateOptions& options, const KvUse& use) const {
  const ReferenceOptions& mine = model_->options;
  if (prompt.tokens.empty()) return fail(ErrorCode::kInvalidArgument, "an empty prompt");
  GenerateOptions limited = options;
  AFI_TRY(limited.max_tokens, answer_limit(prompt, options.max_tokens, mine.max_context));
  const Duration start = model_->clock.now();
  Generation result;
  Completion& completion = result.completion;
  ++busy_;
  const struct Done {
    std::atomic<std::uint32_t>& busy;
    ~Done() { --busy; }
  } done{busy_};
  if (use.resume_from != nullptr) completion.resumed_from = use.resume_from->end;
  AFI_TRY(const PromptRows rows,
          model_->rows_of(prompt, embeddings, completion.resumed_from, use.moved));
  DecoderState state = model_->decoder.start();
  if (use.resume_from != nullptr) model_->packing.restore(*use.resume_from, state);
  for (const MovedMedia& item : use.moved) {
    completion.moved += prompt.spans[item.span].length - item.recomputed;
  }
  completion.prefilled = token_count(rows.size()) - completion.resumed_from - completion.moved;
  const auto buffers = std::make_shared<KvBuffers>();
  result.kv.owner = buffers;
  Matrix logits = model_->prefill(state, prompt, rows.rows(), use, result.kv, *buffers);
  bool captured = false;
  const auto capture = [&] {
    model_->capture_end(state, use.wanted, result.kv, *buffers);
    captured = true;
    if (use.on_captured) use.on_captured(result.kv);
  };
  std::optional<TokenPlace> place;
  if (model_->uses_mrope()) place = rows.end();
  AFI_TRY_VOID(model_->decode(state, std::move(logits), prompt, limited, completion, place, [&] {
    if (within_prompt(use.wanted)) capture();
  }));
  completion.first_token_after -= start;
  if (!captured) capture();
  result.covered = token_count(state.covered);
  if (use.on_end && result.covered.value() > prompt.tokens.size()) {
    KvSlice at_end;
    const auto own = std::make_shared<KvBuffers>();
    at_end.owner = own;
    model_->capture_end(state, wanted_at_end(use), at_end, *own);
    use.on_end(std::move(at_end), completion.tokens);
  }
  generated_ += completion.tokens.size();
  return result;
}

// Prefills `rows`, the whole prompt's, and returns the logits of the last one. Where the rows of an
// item are moved, they are appended instead. An item is never the end of a prompt.
Matrix ReferenceEngine::Model::prefill(DecoderState& state, const Sequence& prompt,
                                       std::span<const InputRow> rows, const KvUse& use,
                                       KvSlice& kv, KvBuffers& buffers) const {
  const KvWanted& wanted = use.wanted;
  Matrix last(1, decoder.hidden());
  auto stop = wanted.snapshots.begin();
  auto item = use.moved.begin();
  for (;;) {
    const std::size_t moved_at = item == use.moved.end()
                                     ? rows.size()
                                     : (prompt.spans[item->span].offset + item->recomputed).value();
    if (item != use.moved.end() && moved_at == state.covered) {
      const std::size_t first = prompt.spans[item->span].offset.value();
      const TokenPlace to = place_of(rows[first], first);
      packing.append_moved(*item, rotation,
                           {to[0] - item->from[0], to[1] - item->from[1], to[2] - item->from[2]},
                           state);
      ++item;
      continue;
    }
    if (stop != wanted.snapshots.end() && stop->value() == state.covered) {
      kv.snapshots.push_back(packing.snapshot(state, buffers));
      ++stop;
    }
    if (state.covered == rows.size()) return decoder.logits(last);
    std::size_t end = std::min(state.covered + options.prefill_chunk.value(), moved_at);
    if (stop != wanted.snapshots.end()) end = std::min<std::size_t>(end, stop->value());
    const Matrix hidden = decoder.forward(state, rows.subspan(state.covered, end - state.covered));
    std::copy_n(hidden.row(hidden.rows() - 1), hidden.columns(), last.row(0));
  }
}

// Sets first_token_after to a point in time; run() subtracts its start.
Result<void> ReferenceEngine::Model::decode(DecoderState& state, Matrix logits,
                                            const Sequence& prompt, const GenerateOptions& wanted,
                                            Completion& completion, std::optional<TokenPlace> place,
                                            const std::function<void()>& after_first_token) const {
  const std::size_t most = wanted.max_tokens.value();
  LogitsHasher hasher;
  TokenSampler sampler(wanted.sampling, prompt);
  AnswerWriter writer(wanted, completion);
  const auto spelled = [](TokenId token) { return printable({&token, 1}); };
  completion.first_token_after = clock.now();
  while (completion.tokens.size() < most) {
    hasher.add(logits.all());
    const TokenId next = sampler.next(logits.all());
    completion.tokens.push_back(next);
    const bool is_first = completion.tokens.size() == 1;
    if (is_first) completion.first_token_after = clock.now();
    completion.ended = next == token(SpecialToken::kEos);
    if (!completion.ended && wanted.top_logprobs.has_value()) {
      writer.add(logprobs_of(logits.all(), next, *wanted.top_logprobs, spelled));
    }
    const auto written = completion.ended ? Result<void>() : writer.add(spelled(next));
    if (is_first) after_first_token();
    AFI_TRY_VOID(written);
    if (completion.ended || completion.tokens.size() == most) break;
    const InputRow row{.token = next, .place = place.has_value() ? &*place : nullptr};
    logits = decoder.logits(decoder.forward(state, {&row, 1}));
    if (place.has_value()) place = TokenPlace{(*place)[0] + 1, (*place)[1] + 1, (*place)[2] + 1};
  }
  AFI_TRY_VOID(writer.finish());
  completion.logits = std::move(hasher).finish();
  return {};
}

void ReferenceEngine::Model::capture_end(const DecoderState& state, const KvWanted& wanted,
                                         KvSlice& kv, KvBuffers& buffers) const {
  kv.end = std::min(wanted.rows_to, token_count(state.covered));
  kv.begin = wanted.rows_from;
  kv.rows = packing.rows(state, kv.begin.value(), kv.end.value(), buffers);
  const bool at_end = !wanted.snapshots.empty() && wanted.snapshots.back() == kEndOfRun;
  if (at_end) kv.snapshots.push_back(packing.snapshot(state, buffers));
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/llama_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

#include "engines/llama/lanes.h"
#include "engines/llama/llama_run.h"
#include "engines/llama/model_identity.h"
#include "engines/llama/prompt_media.h"
#include "engines/llama/rotation.h"
#include "engines/llama/rotation_check.h"
#include "engines/llama/self_check.h"
#include "engines/llama/sequence_rows.h"
#include "engines/llama_library/frame_size.h"
#include "engines/llama_library/loaded_chat.h"
#include "engines/llama_library/loaded_model.h"
#include "engines/llama_library/loaded_sampler.h"
#include "engines/llama_library/template_clock.h"
#include "foundation/media/decode.h"
#include "foundation/media/probe.h"
#include "foundation/types/request_work.h"
#include "runtime/engine_api/key_rotation.h"
#include "runtime/engine_api/token_sampler.h"

namespace afterimage {
namespace {

// See frame_pairs() and seen_size().
constexpr const char* kFrameSampling = "2 a second, at least 4, in pairs, large ones reduced";

/// The KV memories of such a model, in the order in which llama.cpp serializes them.
std::vector<KvKind> memories_of(const ModelFacts& facts) {
  std::vector<KvKind> kinds;
  if (!facts.recurrent) kinds.push_back(KvKind::kFull);
  if (facts.window.value() > 1) kinds.push_back(KvKind::kSliding);
  if (facts.recurrent || facts.hybrid) kinds.push_back(KvKind::kRecurrent);
  return kinds;
}

/// Learns the layout of the model's sequence state from a few tokens of it: the first of the self-check, which
/// sequence 0 holds, or else others.
Result<SequenceRows> learn_memories(const LoadedModel& model) {
  const ModelFacts& facts = model.facts();
  const bool slides = facts.window.value() > 1;
  if (slides && (facts.uses_mrope || facts.architecture == "llama4")) {
    model.clear(0);
    return fail(ErrorCode::kUnsupported, "its sliding windows are not measured in tokens");
  }
  constexpr std::array<TokenId, 3> kFewTokens{TokenId(0), TokenId(1), TokenId(2)};
  if (slides || !model.truncate(0, kFewTokens.size())) {
    model.clear(0);
    AFI_TRY_VOID(model.append({.tokens = kFewTokens}));
  }
  const auto written = model.save(0, false);
  std::vector<std::byte> joined;
  const auto read = model.read(0, false, [&](StatePieces pieces) -> Result<void> {
    for (const auto piece : pieces) joined.insert(joined.end(), piece.begin(), piece.end());
    return {};
  });
  model.clear(0);
  if (!written.has_value()) return std::unexpected(written.error());
  AFI_TRY_VOID(read);
  if (joined != *written) {
    return fail(ErrorCode::kUnsupported, "its state is not what the library's interface writes");
  }
  SequenceRows::Window window{.cells = facts.window_cells, .period = facts.window_period};
  if (slides) window.tokens = facts.window - TokenCount(1);
  return SequenceRows::learn(*written, TokenCount(kFewTokens.size()), memories_of(facts), window);
}

/// How keys turn, if images' KV can be used at other positions.
Result<KeyRotation> learn_rotation(const LoadedModel& model, const SequenceRows& rows) {
  const ModelFacts& facts = model.facts();
  if (!model.supports(Modality::kImage)) {
    return fail(ErrorCode::kUnsupported, "the model takes no images");
  }
  if (!facts.causal_media) {
    return fail(ErrorCode::kUnsupported, "the tokens of an image attend to later ones");
  }
  AFI_TRY(KeyRotation rotation, rotation_of(facts.rotary, rows));
  AFI_TRY_VOID(check_keys_turn(model, rows, rotation));
  return rotation;
}

Result<void> check_options(const LlamaOptions& options) {
  if (options.lanes == 0 || options.lanes > 64) {
    return fail(ErrorCode::kInvalidArgument,
                "lanes must be 1 to 64, not " + std::to_string(options.lanes));
  }
  if (options.context.value() < 256 || options.context.value() > (1U << 22U)) {
    return fail(ErrorCode::kInvalidArgument, "the context must be 256 to 4,194,304 tokens, not " +
                                                 std::to_string(options.context.value()));
  }
  if (options.batch.value() < 32 || options.batch.value() > 65'536) {
    return fail(ErrorCode::kInvalidArgument, "the batch must be 32 to 65,536 tokens, not " +
                                                 std::to_string(options.batch.value()));
  }
  const int least = options.image_min_tokens;
  const int most = options.image_max_tokens;
  if (least == 0 || most == 0 || least < -1 || most < -1 || (most > 0 && least > most)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a picture of {} to {} tokens: both must be at least 1, the second not "
                            "below the first",
                            least, most));
  }
  return {};
}

/// An item decoded for the encoder.
struct DecodedMedia {
  MediaInput input;
  Image image;  // input.rgb points into it once it no longer moves
  Samples sound;
  std::shared_ptr<std::optional<Error>> undecoded;  // of a video: why a frame could not be read
  std::size_t item = 0;                             // index of the item in the call
};

EncoderOutput output_of(EncodedMedia encoded, std::uint64_t width) {
  const std::uint64_t count = encoded.rows.size() / sizeof(float) / width;
  Tensor rows{.dtype = DType::kF32, .shape = {count, width}, .bytes = std::move(encoded.rows)};
  return {std::move(rows), to_tensor(encoded.parts)};
}

/// Requests share batches unless that would change bits that are promised to be exact.
void choose_batching(const LoadedModel& model, const SelfCheck& check) {
  model.share_batches(!model.facts().should_be_exact || check.same_beside_others);
}

/// Exactness is claimed only of a model that was asked to be exact and passed its self-check.
Exactness exactness_of(const ModelFacts& facts, const SelfCheck& check) {
  std::string basis = to_string(check);
  if (check.passed() && !facts.should_be_exact) {
    basis += ", which is not guaranteed with these options or this device";
  }
  return {.exact = check.passed() && facts.should_be_exact, .basis = std::move(basis)};
}

class LlamaTokenizer final : public Tokenizer {
 public:
  /// `model` outlives it.
  explicit LlamaTokenizer(const LoadedModel& model) : model_(model) {}

  Result<std::vector<TokenId>> tokenize(std::string_view text, Options options) const override {
    return model_.tokens_of(text, options.add_special, options.parse_special);
  }
  Result<std::string> bytes_of(TokenId token) const override {
    if (model_.is_in_vocabulary(token)) return model_.bytes_of(token, true);
    return fail(ErrorCode::kInvalidArgument,
                std::to_string(static_cast<std::int32_t>(token)) + " is not a token of this model");
  }
  Result<std::string> prompt_of(const Request& request) const override {
    AFI_TRY(const RenderedChat chat, render_chat(model_, request));
    return model_.without_breaks(chat.prompt);
  }
  const std::string& chat_template() const override { return model_.chat_template(); }
  TokenCount context() const override { return model_.facts().context; }
  TokenCount longest_embedding() const override { return model_.longest_embedding(); }
  std::vector<TokenId> end_tokens() const override {
    std::vector<TokenId> tokens;
    for (std::uint32_t id = 0; id < model_.facts().vocabulary; ++id) {
      const auto token = static_cast<TokenId>(id);
      if (model_.ends(token)) tokens.push_back(token);
    }
    return tokens;
  }

 private:
  const LoadedModel& model_;
};

bool is_control(const LoadedModel& model, TokenId token) {
  return model.bytes_of(token).empty() && !model.bytes_of(token, true).empty();
}

/// Where this many bytes begin that end with the prompt.
std::size_t place_of_bytes(const LoadedModel& model, const Sequence& prompt, std::size_t bytes) {
  const std::size_t least = prompt.spans.empty() ? 0 : prompt.spans.back().end().value();
  std::size_t at = prompt.tokens.size();
  for (std::size_t seen = 0; at > least && seen < bytes;) {
    seen += model.bytes_of(prompt.tokens[--at], true).size();
  }
  return at;
}

/// Before the control token that opens the message, if there is one; it cannot be merged with what follows.
std::size_t before_opening(const LoadedModel& model, const Sequence& prompt, std::size_t at) {
  constexpr std::size_t kOpening =
      16;  // tokens of "<|start_header_id|>user<|end_header_id|>" and its like
  const std::size_t least = prompt.spans.empty() ? 0 : prompt.spans.back().end().value();
  for (std::size_t back = at; back > least && at - back < kOpening; --back) {
    if (is_control(model, prompt.tokens[back - 1])) return back - 1;
  }
  return at;
}

/// Of the user's last message, and behind it.
std::size_t last_media(const Request& request) {
  std::size_t media = 0;
  for (const Message& message : request.messages | std::views::reverse) {
    media += static_cast<std::size_t>(std::ranges::count_if(
        message.parts, [](const ContentPart& p) { return std::holds_alternative<MediaItem>(p); }));
    if (message.role == Role::kUser) break;
  }
  return media;
}

/// See Sequence::branches.
std::vector<TokenCount> branches_of(const LoadedModel& model, const Request& request,
                                    const RenderedChat& chat, const Sequence& prompt) {
  std::vector<TokenCount> branches;
  const auto add = [&](std::size_t at) { branches.emplace_back(static_cast<std::uint32_t>(at)); };
  const std::size_t media = last_media(request);
  if (media > 0) {
    add(prompt.spans[prompt.spans.size() - media].offset.value());
  } else if (chat.from_question > 0) {
    add(before_opening(model, prompt, place_of_bytes(model, prompt, chat.from_question)));
  }
  if (chat.from_thought > 0) add(place_of_bytes(model, prompt, chat.from_thought));
  return branches;
}

}  // namespace

struct LlamaEngine::State {
  LlamaOptions options;
  TokenCount asked_context;  // more than options.context if the model has fewer positions
  std::unique_ptr<const LoadedModel> model;
  ModelIdentity identity;
  TemplateClock template_clock = TemplateClock::kNone;
  Exactness exactness;
  std::optional<SequenceRows> kv;
  std::string no_kv_reason;
  std::optional<KeyRotation> rotation;
  std::string no_rotation_reason;
  SystemClock machine_clock;
  mutable std::unique_ptr<Lanes> lanes;
  std::unique_ptr<const Tokenizer> tokenizer;

  [[nodiscard]] const Clock& clock() const {
    return options.clock != nullptr ? *options.clock : machine_clock;
  }
  [[nodiscard]] Result<void> check_supported(const MediaItem& item) const;
  [[nodiscard]] Result<MediaInput> measure(const MediaItem& item) const;
  [[nodiscard]] Result<void> check_length(const MediaItem& item, const MediaInfo& info) const;
  [[nodiscard]] Result<DecodedMedia> decode(const MediaItem& item) const;
};

LlamaEngine::LlamaEngine(std::unique_ptr<const State> state) : state_(std::move(state)) {}
LlamaEngine::~LlamaEngine() = default;

Result<std::unique_ptr<LlamaEngine>> LlamaEngine::create(LlamaOptions options) {
  AFI_TRY_VOID(check_options(options));
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  ModelFiles files(state->options);
  AFI_TRY(state->model, LoadedModel::load(state->options));
  state->asked_context = std::exchange(state->options.context, state->model->facts().context);
  state->template_clock = clock_of(state->model->chat_template());
  const auto checking = [&](float share) {
    if (state->options.progress) state->options.progress("self-check", share);
  };
  // Leaves tokens in sequence 0 for learn_memories(), which clears it.
  AFI_TRY(const SelfCheck check, self_check(*state->model, state->options.lanes, checking));
  choose_batching(*state->model, check);
  state->exactness = exactness_of(state->model->facts(), check);
  const bool exact = state->exactness.exact;
  AFI_TRY(const ModelFiles::Names names, files.names());
  state->identity = identity_of(state->options, *state->model, names, exact);
  state->lanes = std::make_unique<Lanes>(state->options.lanes);
  state->tokenizer = std::make_unique<LlamaTokenizer>(*state->model);
  auto memories = learn_memories(*state->model);
  if (memories.has_value()) {
    state->kv = *std::move(memories);
    auto rotation = learn_rotation(*state->model, *state->kv);
    if (rotation.has_value()) {
      state->rotation = *std::move(rotation);
    } else {
      state->no_rotation_reason = rotation.error().message;
    }
  } else {
    state->no_kv_reason = memories.error().message;
  }
  return std::unique_ptr<LlamaEngine>(new LlamaEngine(std::move(state)));
}

const ModelIdentity& LlamaEngine::identity() const { return state_->identity; }
const KvLayout* LlamaEngine::kv_layout() const {
  return state_->kv.has_value() ? &state_->kv->layout() : nullptr;
}
const KeyRotation* LlamaEngine::key_rotation() const {
  return state_->rotation.has_value() ? &*state_->rotation : nullptr;
}
std::string LlamaEngine::why_no_rotation() const { return state_->no_rotation_reason; }
TokenPlace LlamaEngine::place_of(const Sequence& prompt, TokenCount at) const {
  return place_in(prompt, at);
}
Exactness LlamaEngine::exactness() const { return state_->exactness; }
const Tokenizer* LlamaEngine::tokenizer() const { return state_->tokenizer.get(); }
Result<std::vector<float>> LlamaEngine::embed(std::span<const TokenId> tokens) const {
  return state_->model->embed(tokens);
}
EngineLoad LlamaEngine::load() const {
  const BatchCounts counts = state_->model->batches();
  return {.lanes = state_->options.lanes,
          .busy = state_->lanes->busy(),
          .batches = counts.batches,
          .generated = counts.tokens};
}

MediaSize LlamaEngine::size_of(const MediaItem& item) const {
  const auto info = probe(item, state_->options.limits);
  return info.has_value() ? info->size() : MediaSize();
}

std::string LlamaEngine::description() const {
  const ModelFacts& facts = state_->model->facts();
  std::string text =
      facts.architecture + ", " + facts.library.substr(0, facts.library.find(" CPU"));
  if (!facts.kernels.empty()) text += ", " + facts.kernels + " kernels of our own";
  text += "; weights " + facts.weight_types + "; resumed runs are " +
          (state_->exactness.exact ? "exact" : "not exact") + " (" + state_->exactness.basis + ")";
  if (!facts.assumed_template.empty()) {
    text += "; the file has no chat template: '" + facts.assumed_template +
            "' is used (--chat-template chooses another)";
  }
  if (state_->asked_context > state_->options.context) {
    text +=
        fmt::format("; requests have {} tokens at most, not {}: the model has no more positions",
                    state_->options.context.value(), state_->asked_context.value());
  }
  if (!state_->kv.has_value()) return text + "; KV is not reused: " + state_->no_kv_reason;
  for (const LayerGroup& group : kv_layout()->groups) {
    text += "; " + std::string(to_string(group.kind));
    if (group.kind == KvKind::kSliding) text += " " + std::to_string(group.window.value());
    text += " " + std::to_string(row_size(group).value()) + " bytes";
  }
  return text;
}

PreprocessRecipe LlamaEngine::recipe(Modality modality) const {
  const LlamaOptions& options = state_->options;
  PreprocessRecipe recipe{
      .processor =
          "afterimage-llama-" + std::string(kLlamaRevision) + " " + state_->model->facts().library,
      .options = {{"image_min_tokens", std::to_string(options.image_min_tokens)},
                  {"image_max_tokens", std::to_string(options.image_max_tokens)}}};
  if (modality == Modality::kImage) recipe.options["decoder"] = picture_decoder();
  if (modality == Modality::kVideo) {
    recipe.options["frames"] = kFrameSampling;
    recipe.options["decoder"] = video_decoder();
  }
  if (modality == Modality::kAudio)
    recipe.options["sound"] = "mono before resampling, " + sound_decoder();
  return recipe;
}

Result<void> LlamaEngine::State::check_supported(const MediaItem& item) const {
  if (model->supports(item.modality)) return {};
  const std::string what(to_string(item.modality));
  return fail(ErrorCode::kUnsupported,
              item.modality == Modality::kVideo && model->supports(Modality::kImage)
                  ? "this model takes no video: send its frames as images"
              : options.mmproj.empty()
                  ? "the model was loaded without its media encoder, so it takes no " + what +
                        ": pass --mmproj"
                  : "this model takes no " + what);
}

/// llama.cpp ends the process if a sound has almost no samples, and needs memory for each second, whatever
/// the file's rate.
Result<void> LlamaEngine::State::check_length(const MediaItem& item, const MediaInfo& info) const {
  constexpr double kLeast = 0.1;
  constexpr double kUsualRate = 48'000;
  const double seconds = static_cast<double>(info.samples) / info.sample_rate_hz;
  const double most = static_cast<double>(options.limits.max_samples) / kUsualRate;
  if (seconds >= kLeast && seconds <= most) return {};
  return fail(
      seconds < kLeast ? ErrorCode::kInvalidArgument : ErrorCode::kLimitExceeded,
      fmt::format("{}: {:.3g} seconds of sound; at least {} are needed and at most {:.6g} allowed",
                  item.name.empty() ? "unnamed audio" : item.name, seconds, kLeast, most));
}

/// Reads dimensions from the headers; decodes nothing.
Result<MediaInput> LlamaEngine::State::measure(const MediaItem& item) const {
  AFI_TRY_VOID(check_supported(item));
  AFI_TRY(const MediaInfo info, probe(item, options.limits));
  MediaInput input{.modality = item.modality, .width = info.width, .height = info.height};
  if (item.modality == Modality::kAudio) {
    AFI_TRY_VOID(check_length(item, info));
    input.sound = {.rate_hz = info.sample_rate_hz, .samples = info.samples};
  }
  if (item.modality != Modality::kVideo) return input;
  input.pairs = frame_pairs(info.frames, info.length);
  const FrameSize seen =
      seen_size({.width = info.width, .height = info.height}, 2 * input.pairs.size(),
                model->facts().architecture.starts_with("qwen3"));
  input.width = seen.width;
  input.height = seen.height;
  return input;
}

Result<DecodedMedia> LlamaEngine::State::decode(const MediaItem& item) const {
  DecodedMedia decoded;
  AFI_TRY(decoded.input, measure(item));
  decoded.input.dimensions_only = false;
  if (item.modality == Modality::kVideo) {
    std::vector<std::uint32_t> wanted;
    for (const FramePair& pair : decoded.input.pairs) {
      wanted.insert(wanted.end(), {pair.first, pair.second});
    }
    AFI_TRY(FrameReader opened, FrameReader::open(item, wanted, options.limits));
    const auto reader = std::make_shared<FrameReader>(std::move(opened));
    decoded.undecoded = std::make_shared<std::optional<Error>>();
    const FrameSize seen{.width = decoded.input.width, .height = decoded.input.height};
    decoded.input.next_frame = [reader, seen,
                                error = decoded.undecoded]() -> Result<std::vector<std::uint8_t>> {
      auto frame = reader->next();
      if (!frame.has_value()) {
        *error = frame.error();
        return std::unexpected(frame.error());
      }
      AFI_CHECK(frame->has_value());
      Image& image = (*frame)->image;
      if (image.width == seen.width && image.height == seen.height) return std::move(image.rgb);
      return resize(image, seen.width, seen.height).rgb;
    };
  }
  if (item.modality == Modality::kAudio) {
    AFI_TRY(decoded.sound, decode_audio(item, options.limits));
  }
  if (item.modality != Modality::kImage) return decoded;
  AFI_TRY(decoded.image, decode_image(item, options.limits));
  decoded.input.width = decoded.image.width;
  decoded.input.height = decoded.image.height;
  return decoded;
}

Result<Sequence> LlamaEngine::prepare(const Request& request,
                                      std::span<const ContentDigest> contents) const {
  AFI_TRY(PreparedRequest prepared, prepare_answer(request, contents));
  return std::move(prepared.prompt);
}

std::string LlamaEngine::clock_in_prompts(WallTime now) const {
  return moment_of(state_->template_clock, now);
}

std::vector<std::string> LlamaEngine::unenforced(const AnswerRules& rules) const {
  return afterimage::unenforced(*state_->model, rules);
}

Result<PreparedRequest> LlamaEngine::prepare_answer(const Request& request,
                                                    std::span<const ContentDigest> contents) const {
  RequestWork::add(request_work().prepared);
  const auto items = media_of(request);
  if (items.size() != contents.size()) {
    return fail(ErrorCode::kInvalidArgument, std::to_string(contents.size()) + " digests for " +
                                                 std::to_string(items.size()) + " media items");
  }
  std::vector<MediaInput> inputs;
  for (const MediaItem* item : items) {
    AFI_TRY(inputs.emplace_back(), state_->measure(*item));
  }
  AFI_TRY(const RenderedChat chat, render_chat(*state_->model, request));
  if (chat.lacks_tools) {
    return fail(ErrorCode::kUnsupported,
                "the model's chat template does not support 'tools': leave them out, or choose a "
                "template that does with --chat-template");
  }
  if (!request.prompt_tokens.empty()) {
    const auto is_known = [&](TokenId token) { return state_->model->is_in_vocabulary(token); };
    if (!std::ranges::all_of(request.prompt_tokens, is_known)) {
      return fail(ErrorCode::kInvalidArgument, "the prompt has a token outside the vocabulary");
    }
    return PreparedRequest{.prompt = {.tokens = request.prompt_tokens}, .format = chat.format};
  }
  AFI_TRY(const auto pieces, state_->model->tokenize(chat.prompt, inputs));
  Sequence sequence;
  for (const PromptPiece& piece : pieces) {
    if (piece.item == PromptPiece::kText) {
      for (const SpanPart& part : piece.parts) {
        const auto& words = std::get<SpanText>(part);
        sequence.tokens.insert(sequence.tokens.end(), words.begin(), words.end());
      }
      continue;
    }
    if (piece.item != sequence.spans.size()) {
      return fail(ErrorCode::kUnsupported,
                  "this model reorders media items, which is not supported");
    }
    const TokenCount length = length_of(piece.parts);
    const bool in_grid = state_->model->facts().uses_mrope;
    sequence.spans.push_back(
        {.offset = TokenCount(static_cast<std::uint32_t>(sequence.tokens.size())),
         .length = length,
         .modality = items[piece.item]->modality,
         .content = contents[piece.item],
         .splittable = false,
         .columns = in_grid ? piece.columns : 0,
         .positions = in_grid ? piece.positions : 0});
    sequence.tokens.insert(sequence.tokens.end(), length.value(), TokenId(0));
  }
  if (sequence.spans.size() == items.size()) {
    if (state_->kv.has_value() && !state_->kv->has_only_full_groups()) {
      sequence.branches = branches_of(*state_->model, request, chat, sequence);
    }
    return PreparedRequest{.prompt = std::move(sequence), .format = chat.format};
  }
  return fail(ErrorCode::kInvalidArgument, "the model produced no tokens for a media item");
}

GenerateOptions LlamaEngine::default_options() const {
  return {.max_tokens = kNoTokenLimit, .sampling = default_llama_sampling()};
}

Result<EncoderOutput> LlamaEngine::encode(const MediaItem& item) const {
  Result<EncoderOutput> output;
  const MediaItem* const only = &item;
  encode_all({&only, 1}, [&](std::vector<Encoded> one) { output = std::move(one.front().output); });
  return output;
}

void LlamaEngine::encode_all(std::span<const MediaItem* const> items,
                             const std::function<void(std::vector<Encoded>)>& on_encoded) const {
  std::vector<DecodedMedia> decoded;
  std::vector<Encoded> undecoded;
  for (std::size_t i = 0; i < items.size(); ++i) {
    auto read = state_->decode(*items[i]);
    if (!read.has_value()) {
      undecoded.push_back({.item = i, .output = std::unexpected(read.error())});
      continue;
    }
    read->item = i;
    decoded.push_back(*std::move(read));
  }
  if (!undecoded.empty()) on_encoded(std::move(undecoded));
  std::vector<MediaInput> inputs;
  for (DecodedMedia& one : decoded) {
    one.input.rgb = one.image.rgb;
    one.input.sound.mono = one.sound.mono;
    inputs.push_back(one.input);
  }
  state_->model->encode(inputs, [&](std::vector<EncodedInput> together) {
    std::vector<Encoded> outputs;
    for (EncodedInput& one : together) {
      const std::size_t item = decoded[one.input].item;
      outputs.push_back({.item = item, .output = {}});
      if (one.media.has_value()) {
        outputs.back().output = output_of(*std::move(one.media), state_->model->facts().row_width);
      } else {
        const Error& error = one.media.error();
        const auto& reason = decoded[one.input].undecoded;
        outputs.back().output = reason != nullptr && reason->has_value()
                                    ? std::unexpected(**reason)
                                    : fail(error.code, items[item]->name + ": " + error.message);
      }
    }
    on_encoded(std::move(outputs));
  });
}

Result<Completion> LlamaEngine::generate(const Sequence& prompt,
                                         std::span<const TensorViews> embeddings,
                                         const GenerateOptions& options) const {
  AFI_TRY(Generation made, run(prompt, embeddings, options, {}));
  return std::move(made.completion);
}

Result<std::vector<float>> LlamaEngine::hidden_state(
    const Sequence& prompt, std::span<const TensorViews> embeddings) const {
  AFI_TRY_VOID(answer_limit(prompt, TokenCount(1), state_->options.context));
  AFI_TRY_VOID(check_llama_prompt(*state_->model, prompt, embeddings, {}));
  return llama_hidden_state(*state_->model, prompt, embeddings);
}

Result<Generation> LlamaEngine::run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                                    const GenerateOptions& options, const KvUse& use) const {
  GenerateOptions limited = options;
  if (options.format != nullptr) {
    const auto* const format = dynamic_cast<const ChatFormat*>(options.format.get());
    if (format == nullptr) {
      return fail(ErrorCode::kInvalidArgument, "the format is another engine's");
    }
    std::ranges::copy(format->stops(), std::back_inserter(limited.stop));
  }
  AFI_TRY(limited.max_tokens, answer_limit(prompt, options.max_tokens, state_->options.context));
  AFI_TRY_VOID(check_llama_prompt(*state_->model, prompt, embeddings, use));
  const Lanes::Lane lane = state_->lanes->borrow(
      prompt, use.resume_from == nullptr ? TokenCount(0) : use.resume_from->end);
  const SequenceRows* const kv = state_->kv.has_value() ? &*state_->kv : nullptr;
  return LlamaRun(*state_->model, kv, key_rotation(), state_->options.context, state_->clock(),
                  lane, prompt, embeddings, use)
      .generate(limited);
}

}  // namespace afterimage

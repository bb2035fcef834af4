// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/llama/loaded_model.h"

#include <ggml-backend.h>
#include <llama.h>
#include <mtmd-helper.h>
#include <mtmd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <thread>
#include <type_traits>

#include "afterimage/digest.h"
#include "afterimage/platform/random.h"

namespace afterimage {
namespace {

// What the library promised when this was written. If one of these does not compile, or another
// call below, its interface has changed: see the release notes and mend it here.
static_assert(std::is_same_v<llama_token, std::int32_t>);
static_assert(std::is_same_v<llama_pos, std::int32_t>);
static_assert(std::is_same_v<llama_seq_id, std::int32_t>);
static_assert(sizeof(TokenId) == sizeof(llama_token));
static_assert(LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY == 1);

/// Calls `free` when it is let go.
template <auto free>
struct FreeBy {
  template <typename T>
  void operator()(T* thing) const {
    free(thing);
  }
};
template <typename T, auto free>
using Owned = std::unique_ptr<T, FreeBy<free>>;
using OwnedModel = Owned<llama_model, llama_model_free>;
using OwnedContext = Owned<llama_context, llama_free>;
using OwnedAdapter = Owned<llama_adapter_lora, llama_adapter_lora_free>;
using OwnedMedia = Owned<mtmd_context, mtmd_free>;
using OwnedBitmap = Owned<mtmd_bitmap, mtmd_bitmap_free>;
using OwnedChunk = Owned<mtmd_input_chunk, mtmd_input_chunk_free>;
using OwnedChunks = Owned<mtmd_input_chunks, mtmd_input_chunks_free>;

// ---- what the library says when something goes wrong ----------------------------------------

constexpr std::size_t kMostComplaint = 600;
thread_local std::string complaint;

void listen(ggml_log_level level, const char* text, void* /*unused*/) {
  if (level != GGML_LOG_LEVEL_ERROR || complaint.size() > kMostComplaint) return;
  complaint += text;
}

/// Once a process: the library's log is one for all models, and nobody but us listens.
void start_library() {
  static std::once_flag once;
  std::call_once(once, [] {
    llama_log_set(listen, nullptr);
    mtmd_helper_log_set(listen, nullptr);
    llama_backend_init();
  });
  complaint.clear();
}

std::unexpected<Error> refused(ErrorCode code, const std::string& what) {
  std::string words = std::exchange(complaint, {});
  std::ranges::replace(words, '\n', ' ');
  while (!words.empty() && words.back() == ' ') words.pop_back();
  return fail(code, words.empty() ? what : what + ": llama.cpp says: " + words);
}

// ---- loading -----------------------------------------------------------------------------------

std::string file_start(const std::string& path) {
  std::string start(4, '\0');
  if (std::FILE* const file = std::fopen(path.c_str(), "rb"); file != nullptr) {
    start.resize(std::fread(start.data(), 1, start.size(), file));
    std::fclose(file);
    return start;
  }
  return "";
}

Result<void> check_gguf(const std::string& path, std::string_view what) {
  const std::string start = file_start(path);
  if (start.empty()) {
    return fail(ErrorCode::kNotFound,
                "cannot read the " + std::string(what) + " '" + path + "': name a GGUF file");
  }
  if (start == "GGUF") return {};
  return fail(ErrorCode::kCorruption,
              "'" + path + "' is no GGUF file, which the " + std::string(what) + " must be");
}

Result<ggml_type> kv_type(const std::string& name) {
  for (const ggml_type type :
       {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
        GGML_TYPE_Q4_1, GGML_TYPE_IQ4_NL, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1}) {
    if (name == ggml_type_name(type)) return type;
  }
  return fail(ErrorCode::kInvalidArgument,
              "'" + name +
                  "' is no type for cached keys or values; f32, f16, bf16, q8_0, q4_0, "
                  "q4_1, iq4_nl, q5_0 and q5_1 are");
}

/// One callback of the library's for ours; 0 to 1.
template <const char* kWhat>
bool tell(float share, void* options) {
  const auto& progress = static_cast<const LlamaOptions*>(options)->progress;
  if (progress) progress(kWhat, share);
  return true;
}
constexpr char kModel[] = "model";
constexpr char kMmproj[] = "mmproj";

/// Devices that sum in orders of their own.
bool has_other_devices(bool uses_gpu) {
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    const auto type = ggml_backend_dev_type(ggml_backend_dev_get(i));
    if (type == GGML_BACKEND_DEVICE_TYPE_CPU) continue;
    if (uses_gpu || type == GGML_BACKEND_DEVICE_TYPE_ACCEL) return true;
  }
  return false;
}

bool build_is_exact() {
  const std::string_view says = llama_print_system_info();
  return !says.contains("LLAMAFILE = 1");
}

std::uint32_t threads_of(const LlamaOptions& options) {
  return options.threads != 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
}

llama_model_params model_params(const LlamaOptions& options) {
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = options.gpu_layers;
  params.use_extra_bufts = !options.exact;  // packed weights: other sums for other batches
  params.progress_callback = tell<kModel>;
  params.progress_callback_user_data = const_cast<LlamaOptions*>(&options);
  return params;
}

Result<llama_context_params> context_params(const LlamaOptions& options, std::uint32_t batch) {
  llama_context_params params = llama_context_default_params();
  AFI_TRY(params.type_k, kv_type(options.keys));
  AFI_TRY(params.type_v, kv_type(options.values));
  params.n_seq_max = options.lanes;
  params.n_ctx = options.context.value() * options.lanes;
  params.n_batch = params.n_ubatch = batch;
  params.n_threads = params.n_threads_batch = static_cast<std::int32_t>(threads_of(options));
  params.kv_unified = false;  // each lane its own cells, from 0 on: where a row lies is how it sums
  params.offload_kqv = options.gpu_layers != 0;
  params.no_perf = true;
  if (options.exact && !ggml_is_quantized(params.type_v)) {
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.swa_full = true;
  } else {
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_AUTO;
    params.swa_full = false;
  }
  return params;
}

std::string meta(const llama_model* model, const char* key) {
  std::array<char, 256> text{};
  const auto size = llama_model_meta_val_str(model, key, text.data(), text.size());
  return size < 0 ? "" : std::string(text.data());
}

// ---- media in and out --------------------------------------------------------------------------

/// `id` names the item among those of one call.
Result<OwnedBitmap> bitmap_of(const mtmd_context* context, const MediaInput& media,
                              const std::string& id) {
  OwnedBitmap bitmap;
  if (media.modality == Modality::kImage) {
    const bool measured = media.rgb.empty();
    bitmap.reset(
        mtmd_bitmap_init(media.width, media.height, measured ? nullptr : media.rgb.data()));
  } else {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(media.sound.data());
    const auto read = mtmd_helper_bitmap_init_from_buf(
        context, bytes, media.sound.size(), media.measured_only, mtmd_helper_init_opt_default());
    bitmap.reset(read.bitmap);
    if (read.video_ctx != nullptr) mtmd_helper_video_free(read.video_ctx);
  }
  if (bitmap == nullptr) return refused(ErrorCode::kCorruption, "a media item cannot be read");
  mtmd_bitmap_set_id(bitmap.get(), id.c_str());
  return bitmap;
}

SpanPart part_of(const mtmd_input_chunk* chunk) {
  if (mtmd_input_chunk_get_type(chunk) == MTMD_INPUT_CHUNK_TYPE_TEXT) {
    std::size_t count = 0;
    const llama_token* const tokens = mtmd_input_chunk_get_tokens_text(chunk, &count);
    SpanText text(count);
    if (count > 0) std::memcpy(text.data(), tokens, count * sizeof(TokenId));
    return text;
  }
  std::size_t size = 0;
  mtmd_input_chunk_save(chunk, nullptr, 0, &size);  // without pixels
  SpanMedia media{
      .length = TokenCount(static_cast<std::uint32_t>(mtmd_input_chunk_get_n_tokens(chunk))),
      .description = std::vector<std::byte>(size)};
  mtmd_input_chunk_save(chunk, reinterpret_cast<char*>(media.description.data()), size, &size);
  return media;
}

/// Which media item a chunk belongs to.
std::size_t item_of(const mtmd_input_chunk* chunk) {
  const char* const id = mtmd_input_chunk_get_id(chunk);
  return id == nullptr ? PromptPiece::kWords : std::stoul(id);
}

/// From the first chunk of an item to its last: what is between is the item's, too.
std::vector<PromptPiece> pieces_of(const mtmd_input_chunks* chunks) {
  std::vector<PromptPiece> pieces;
  const std::size_t count = mtmd_input_chunks_size(chunks);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t item = item_of(mtmd_input_chunks_get(chunks, i));
    std::size_t last = i;
    for (std::size_t j = i; item != PromptPiece::kWords && j < count; ++j) {
      if (item_of(mtmd_input_chunks_get(chunks, j)) == item) last = j;
    }
    PromptPiece& piece = pieces.emplace_back(PromptPiece{.item = item, .parts = {}});
    for (; i <= last; ++i) piece.parts.push_back(part_of(mtmd_input_chunks_get(chunks, i)));
    --i;
  }
  return pieces;
}

}  // namespace

struct LoadedModel::Parts {
  OwnedModel model;
  std::vector<OwnedAdapter> adapters;
  OwnedContext context;
  OwnedMedia media;
  const llama_vocab* vocabulary = nullptr;
  ModelFacts facts;
  std::string marker;
  std::string chat_template;
  std::uint32_t batch = 0;
  mutable std::mutex computing;
  mutable std::mutex encoding;

  Result<void> load_weights(const LlamaOptions& options);
  Result<void> load_media(const LlamaOptions& options);
  Result<void> make_context(const LlamaOptions& options);
  Result<void> check_media() const;
  [[nodiscard]] Result<OwnedChunks> tokenize(const std::string& text,
                                             std::span<const MediaInput> inputs) const;
};

LoadedModel::LoadedModel(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
LoadedModel::~LoadedModel() = default;

Result<std::unique_ptr<const LoadedModel>> LoadedModel::load(const LlamaOptions& options) {
  start_library();
  auto parts = std::make_unique<Parts>();
  AFI_TRY_VOID(parts->load_weights(options));
  AFI_TRY_VOID(parts->load_media(options));
  AFI_TRY_VOID(parts->make_context(options));
  AFI_TRY_VOID(parts->check_media());
  return std::unique_ptr<const LoadedModel>(new LoadedModel(std::move(parts)));
}

Result<void> LoadedModel::Parts::load_weights(const LlamaOptions& options) {
  AFI_TRY_VOID(check_gguf(options.model, "model"));
  model.reset(llama_model_load_from_file(options.model.c_str(), model_params(options)));
  if (model == nullptr) {
    return refused(ErrorCode::kCorruption, "cannot load the model '" + options.model + "'");
  }
  if (llama_model_has_encoder(model.get()) || !llama_model_has_decoder(model.get()) ||
      llama_model_is_diffusion(model.get())) {
    return fail(ErrorCode::kUnsupported, "'" + options.model +
                                             "' does not write one token after another: only such "
                                             "models are served");
  }
  for (const LlamaAdapter& adapter : options.adapters) {
    AFI_TRY_VOID(check_gguf(adapter.path, "adapter"));
    adapters.emplace_back(llama_adapter_lora_init(model.get(), adapter.path.c_str()));
    if (adapters.back() == nullptr) {
      return refused(ErrorCode::kCorruption, "cannot load the adapter '" + adapter.path + "'");
    }
  }
  vocabulary = llama_model_get_vocab(model.get());
  const char* const own = llama_model_chat_template(model.get(), nullptr);
  chat_template = !options.chat_template.empty() ? options.chat_template
                  : own != nullptr               ? own
                                                 : "";
  return {};
}

Result<void> LoadedModel::Parts::load_media(const LlamaOptions& options) {
  AFI_TRY(const auto chance, random_secret());
  marker = "<media-" + to_hex(chance) + ">";
  if (options.mmproj.empty()) return {};
  AFI_TRY_VOID(check_gguf(options.mmproj, "media encoder"));
  mtmd_context_params params = mtmd_context_params_default();
  params.use_gpu = options.gpu_layers != 0;
  params.print_timings = false;
  params.n_threads = static_cast<int>(threads_of(options));
  params.media_marker = marker.c_str();
  params.warmup = false;
  params.image_min_tokens = options.image_min_tokens;
  params.image_max_tokens = options.image_max_tokens;
  params.progress_callback = tell<kMmproj>;
  params.progress_callback_user_data = const_cast<LlamaOptions*>(&options);
  media.reset(mtmd_init_from_file(options.mmproj.c_str(), model.get(), params));
  if (media != nullptr) return {};
  return refused(ErrorCode::kInvalidArgument, "cannot load the media encoder '" + options.mmproj +
                                                  "' for the model '" + options.model + "'");
}

Result<void> LoadedModel::Parts::make_context(const LlamaOptions& options) {
  // A picture that is seen all at once must be computed all at once.
  constexpr std::uint32_t kWholePicture = 2'048;
  const bool whole = media != nullptr && mtmd_decode_use_non_causal(media.get(), nullptr);
  batch = std::max(options.batch.value(), whole ? kWholePicture : 1U);
  AFI_TRY(const llama_context_params params, context_params(options, batch));
  context.reset(llama_init_from_model(model.get(), params));
  if (context == nullptr) {
    return refused(ErrorCode::kUnavailable,
                   "cannot make room for " + std::to_string(options.lanes) + " requests of " +
                       std::to_string(options.context.value()) +
                       " tokens; a smaller context or fewer lanes take less");
  }
  std::vector<llama_adapter_lora*> chosen;
  std::vector<float> scales;
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    chosen.push_back(adapters[i].get());
    scales.push_back(options.adapters[i].scale);
  }
  if (!chosen.empty() &&
      llama_set_adapters_lora(context.get(), chosen.data(), chosen.size(), scales.data()) != 0) {
    return refused(ErrorCode::kInvalidArgument, "the adapters do not go with the model");
  }
  const bool fused = params.flash_attn_type != LLAMA_FLASH_ATTN_TYPE_DISABLED;
  const auto rope = llama_model_rope_type(model.get());
  facts = {.library = std::string("llama.cpp ") + llama_version() + " " + llama_print_system_info(),
           .architecture = meta(model.get(), "general.architecture"),
           .row_width = static_cast<std::uint32_t>(llama_model_n_embd_inp(model.get())),
           .window = TokenCount(static_cast<std::uint32_t>(llama_model_n_swa(model.get()))),
           .recurrent = llama_model_is_recurrent(model.get()),
           .hybrid = llama_model_is_hybrid(model.get()),
           .places_in_pictures = rope == LLAMA_ROPE_TYPE_MROPE || rope == LLAMA_ROPE_TYPE_IMROPE,
           .exact = options.exact && !fused && build_is_exact() &&
                    !has_other_devices(options.gpu_layers != 0 && llama_supports_gpu_offload()),
           .fused_attention = fused};
  return {};
}

/// Embeddings are kept by what they show. Where a picture's place depends on the pictures before
/// it, that would not do.
Result<void> LoadedModel::Parts::check_media() const {
  if (media == nullptr || !mtmd_support_vision(media.get())) return {};
  const std::array inputs{MediaInput{.width = 64, .height = 64},
                          MediaInput{.width = 64, .height = 64}};
  AFI_TRY(const OwnedChunks chunks, tokenize(marker + "x" + marker, inputs));
  std::vector<std::vector<Position>> places;
  for (std::size_t i = 0; i < mtmd_input_chunks_size(chunks.get()); ++i) {
    const mtmd_input_chunk* const chunk = mtmd_input_chunks_get(chunks.get(), i);
    const std::size_t item = item_of(chunk);
    if (item == PromptPiece::kWords) continue;
    places.resize(item + 1);
    const mtmd_image_tokens* const tokens = mtmd_input_chunk_get_tokens_image(chunk);
    places[item].push_back(mtmd_input_chunk_get_n_pos(chunk));
    for (std::size_t token = 0; token < mtmd_input_chunk_get_n_tokens(chunk); ++token) {
      const mtmd_decoder_pos at = mtmd_image_tokens_get_decoder_pos(tokens, 0, token);
      for (const std::uint32_t axis : {at.t, at.x, at.y, at.z}) {
        places[item].push_back(static_cast<Position>(axis));
      }
    }
  }
  if (places.size() == 2 && places[0] == places[1]) return {};
  return fail(ErrorCode::kUnsupported,
              "with this media encoder a picture is not the same wherever it stands; without "
              "--mmproj the model answers to text");
}

const ModelFacts& LoadedModel::facts() const { return parts_->facts; }
const std::string& LoadedModel::marker() const { return parts_->marker; }
const std::string& LoadedModel::chat_template() const { return parts_->chat_template; }

bool LoadedModel::takes(Modality modality) const {
  const mtmd_context* const media = parts_->media.get();
  if (media == nullptr) return false;
  if (modality == Modality::kImage) return mtmd_support_vision(media);
  return modality == Modality::kAudio && mtmd_support_audio(media);
}

Result<std::string> LoadedModel::apply_template(std::span<const ChatTurn> turns) const {
  std::vector<llama_chat_message> messages;
  for (const ChatTurn& turn : turns) {
    if (turn.text.contains('\0')) {
      return fail(ErrorCode::kInvalidArgument, "a message holds a zero byte, which no text may");
    }
    messages.push_back({turn.role.c_str(), turn.text.c_str()});
  }
  const auto apply = [&](char* text, std::int32_t size) {
    return llama_chat_apply_template(parts_->chat_template.c_str(), messages.data(),
                                     messages.size(), true, text, size);
  };
  const std::int32_t size = apply(nullptr, 0);
  if (size < 0) {
    return fail(ErrorCode::kUnsupported,
                "the model's chat template is none that llama.cpp applies by itself; name one that "
                "is like it: chatml, gemma, llama3, mistral-v7, …");
  }
  std::string text(static_cast<std::size_t>(size) + 1, '\0');
  apply(text.data(), static_cast<std::int32_t>(text.size()));
  text.pop_back();
  return text;
}

Result<OwnedChunks> LoadedModel::Parts::tokenize(const std::string& text,
                                                 std::span<const MediaInput> inputs) const {
  std::vector<OwnedBitmap> bitmaps;
  std::vector<const mtmd_bitmap*> pointers;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    AFI_TRY(OwnedBitmap bitmap, bitmap_of(media.get(), inputs[i], std::to_string(i)));
    pointers.push_back(bitmap.get());
    bitmaps.push_back(std::move(bitmap));
  }
  OwnedChunks chunks(mtmd_input_chunks_init());
  const mtmd_input_text input{
      .text = text.data(), .text_len = text.size(), .add_special = true, .parse_special = true};
  if (mtmd_tokenize(media.get(), chunks.get(), &input, pointers.data(), pointers.size()) != 0) {
    return refused(ErrorCode::kInvalidArgument, "a media item cannot be made ready for the model");
  }
  return chunks;
}

Result<std::vector<PromptPiece>> LoadedModel::tokenize(const std::string& text,
                                                       std::span<const MediaInput> media) const {
  complaint.clear();
  if (parts_->media != nullptr) {
    AFI_TRY(const OwnedChunks chunks, parts_->tokenize(text, media));
    return pieces_of(chunks.get());
  }
  const auto size = static_cast<std::int32_t>(text.size());
  SpanText tokens(text.size() + 2);  // no token is less than a byte, and two may be added
  const auto count = llama_tokenize(parts_->vocabulary, text.data(), size,
                                    reinterpret_cast<llama_token*>(tokens.data()),
                                    static_cast<std::int32_t>(tokens.size()), true, true);
  if (count < 0) return refused(ErrorCode::kInvalidArgument, "the text cannot be tokenised");
  tokens.resize(static_cast<std::size_t>(count));
  return std::vector<PromptPiece>{{.item = PromptPiece::kWords, .parts = {std::move(tokens)}}};
}

Result<EncodedMedia> LoadedModel::encode(const MediaInput& input) const {
  complaint.clear();
  AFI_TRY(const OwnedChunks chunks, parts_->tokenize(parts_->marker, {&input, 1}));
  EncodedMedia encoded;
  const std::uint64_t width = parts_->facts.row_width;
  std::size_t first = SIZE_MAX;
  std::size_t last = 0;
  for (std::size_t i = 0; i < mtmd_input_chunks_size(chunks.get()); ++i) {
    if (item_of(mtmd_input_chunks_get(chunks.get(), i)) == PromptPiece::kWords) continue;
    first = std::min(first, i);
    last = i;
  }
  for (std::size_t i = first; first != SIZE_MAX && i <= last; ++i) {
    const mtmd_input_chunk* const chunk = mtmd_input_chunks_get(chunks.get(), i);
    encoded.parts.push_back(part_of(chunk));
    const std::size_t floats = length_of(encoded.parts.back()).value() * width;
    if (mtmd_input_chunk_get_type(chunk) == MTMD_INPUT_CHUNK_TYPE_TEXT) {
      encoded.rows.resize(encoded.rows.size() + floats);
      continue;
    }
    const std::scoped_lock lock(parts_->encoding);
    if (mtmd_encode_chunk(parts_->media.get(), chunk) != 0) {
      return refused(ErrorCode::kInvalidArgument, "a media item cannot be encoded");
    }
    // The next call writes over it.
    const float* const rows = mtmd_get_output_embd(parts_->media.get());
    encoded.rows.insert(encoded.rows.end(), rows, rows + floats);
  }
  if (!encoded.parts.empty()) return encoded;
  return fail(ErrorCode::kInvalidArgument, "the model makes nothing of a media item");
}

std::string LoadedModel::text_of(std::span<const TokenId> tokens) const {
  const auto* const ids = reinterpret_cast<const llama_token*>(tokens.data());
  const auto count = static_cast<std::int32_t>(tokens.size());
  std::string text(tokens.size() * 8 + 16, '\0');
  const auto write = [&] {
    return llama_detokenize(parts_->vocabulary, ids, count, text.data(),
                            static_cast<std::int32_t>(text.size()), false, false);
  };
  std::int32_t size = write();
  if (size < 0) {
    text.resize(static_cast<std::size_t>(-size));
    size = write();
  }
  text.resize(static_cast<std::size_t>(std::max(size, 0)));
  return text;
}

bool LoadedModel::ends(TokenId token) const {
  return llama_vocab_is_eog(parts_->vocabulary, static_cast<llama_token>(token));
}

bool LoadedModel::knows(TokenId token) const {
  const auto id = static_cast<llama_token>(token);
  return id >= 0 && id < llama_vocab_n_tokens(parts_->vocabulary);
}

Result<void> LoadedModel::append(
    SequenceId sequence, std::span<const TokenId> tokens, Position at,
    const std::function<void(std::span<const float>)>& on_logits) const {
  std::vector<llama_pos> positions(tokens.size());
  std::vector<std::int8_t> wanted(tokens.size());
  std::vector<std::int32_t> owners(tokens.size(), 1);
  std::vector<llama_seq_id*> owner(tokens.size(), &sequence);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    positions[i] = at + static_cast<Position>(i);
  }
  if (on_logits && !tokens.empty()) wanted.back() = 1;
  auto* const ids = const_cast<llama_token*>(reinterpret_cast<const llama_token*>(tokens.data()));
  for (std::size_t done = 0; done < tokens.size();) {
    const std::size_t count = std::min<std::size_t>(tokens.size() - done, parts_->batch);
    const llama_batch batch{.n_tokens = static_cast<std::int32_t>(count),
                            .token = ids + done,
                            .embd = nullptr,
                            .pos = positions.data() + done,
                            .n_seq_id = owners.data() + done,
                            .seq_id = owner.data() + done,
                            .logits = wanted.data() + done};
    const std::scoped_lock lock(parts_->computing);
    complaint.clear();
    if (llama_decode(parts_->context.get(), batch) != 0) {
      return refused(ErrorCode::kUnavailable, "the model did not take " + std::to_string(count) +
                                                  " tokens at " + std::to_string(at));
    }
    done += count;
    if (done < tokens.size() || !on_logits) continue;
    const float* const logits = llama_get_logits_ith(parts_->context.get(), -1);
    const auto size = llama_vocab_n_tokens(parts_->vocabulary);
    on_logits({logits, static_cast<std::size_t>(size)});
  }
  return {};
}

Result<LoadedModel::Position> LoadedModel::append(SequenceId sequence, const SpanMedia& media,
                                                  std::span<const float> rows, Position at) const {
  const auto* const text = reinterpret_cast<const char*>(media.description.data());
  const OwnedChunk chunk(mtmd_input_chunk_load(text, media.description.size()));
  const auto length = static_cast<std::uint32_t>(media.length.value());
  if (chunk == nullptr || mtmd_input_chunk_get_n_tokens(chunk.get()) != length ||
      rows.size() != std::uint64_t{length} * parts_->facts.row_width) {
    return refused(ErrorCode::kCorruption, "embeddings do not fit the place they are for");
  }
  const bool whole = mtmd_decode_use_non_causal(parts_->media.get(), chunk.get());
  if (whole && length > parts_->batch) {
    return fail(ErrorCode::kLimitExceeded,
                "a picture of " + std::to_string(length) +
                    " tokens, which are computed at once, "
                    "and the batch holds " +
                    std::to_string(parts_->batch) +
                    ": raise the batch, or lower the most tokens of a picture");
  }
  Position next = at;
  const std::scoped_lock lock(parts_->computing);
  complaint.clear();
  if (mtmd_helper_decode_image_chunk(
          parts_->media.get(), parts_->context.get(), chunk.get(), const_cast<float*>(rows.data()),
          at, sequence, static_cast<std::int32_t>(parts_->batch), &next, nullptr, nullptr) != 0) {
    return refused(ErrorCode::kUnavailable, "the model did not take a media item");
  }
  return next;
}

Result<std::vector<std::byte>> LoadedModel::save(SequenceId sequence, bool partial) const {
  const llama_state_seq_flags flags =
      partial ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : LLAMA_STATE_SEQ_FLAGS_NONE;
  const std::scoped_lock lock(parts_->computing);
  complaint.clear();
  llama_context* const context = parts_->context.get();
  std::vector<std::byte> saved(llama_state_seq_get_size_ext(context, sequence, flags));
  const std::size_t written = llama_state_seq_get_data_ext(
      context, reinterpret_cast<std::uint8_t*>(saved.data()), saved.size(), sequence, flags);
  if (!saved.empty() && written == saved.size()) return saved;
  return refused(ErrorCode::kUnavailable, "a sequence's state cannot be read");
}

Result<void> LoadedModel::restore(SequenceId sequence, std::span<const std::byte> saved) const {
  const std::scoped_lock lock(parts_->computing);
  complaint.clear();
  llama_context* const context = parts_->context.get();
  llama_memory_seq_rm(llama_get_memory(context), sequence, -1, -1);
  const std::size_t read =
      llama_state_seq_set_data_ext(context, reinterpret_cast<const std::uint8_t*>(saved.data()),
                                   saved.size(), sequence, LLAMA_STATE_SEQ_FLAGS_NONE);
  if (read == saved.size()) return {};
  // A part may be there already.
  llama_memory_seq_rm(llama_get_memory(context), sequence, -1, -1);
  return refused(ErrorCode::kCorruption,
                 "the model did not take the state of " + std::to_string(saved.size()) + " bytes");
}

void LoadedModel::clear(SequenceId sequence) const {
  const std::scoped_lock lock(parts_->computing);
  llama_memory_seq_rm(llama_get_memory(parts_->context.get()), sequence, -1, -1);
}

}  // namespace afterimage

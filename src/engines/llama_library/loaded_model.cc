// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>
#include <utility>

#include "afterimage/digest.h"
#include "afterimage/secret.h"
#include "engines/llama_kernels/library_kernels.h"
#include "engines/llama_kernels/library_memory.h"
#include "engines/llama_library/file_name.h"
#include "engines/llama_library/library.h"
#include "foundation/platform/environment.h"

namespace afterimage {
namespace {

constexpr std::size_t kMaxErrorLog = 600;
thread_local std::string error_log;

void record_library_log(ggml_log_level level, const char* text, void* /*unused*/) {
  if (level != GGML_LOG_LEVEL_ERROR || error_log.size() > kMaxErrorLog) return;
  error_log += text;
}

}  // namespace

/// Once per process: the library has one log callback for all models, reads its environment once,
/// and must not change its kernels while a model computes.
Result<void> start_library(bool exact, std::string_view kernels) {
  static std::once_flag once;
  static Result<void> started;
  std::call_once(once, [&] {
    // From eight rows on, the library multiplies weights of types that our kernels don't know tile by
    // tile, which sums in another order than row by row. A model loaded later as fast is then slower,
    // too; one loaded later as exact fails its self-check if a fast one came first.
    if (exact) set_environment_default("GGML_CPU_TILED_MM", "0");
    llama_log_set(record_library_log, nullptr);
    mtmd_helper_log_set(record_library_log, nullptr);
    llama_backend_init();
    use_fresh_pages();
    started = use_batch_independent_kernels(kernels);
  });
  clear_library_log();
  return started;
}

namespace {

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
    return fail(ErrorCode::kNotFound, "cannot read the " + std::string(what) + " '" + path +
                                          "': pass the path of a GGUF file");
  }
  if (start == "GGUF") return {};
  return fail(ErrorCode::kCorruption,
              "'" + path + "' is not a GGUF file; the " + std::string(what) + " must be one");
}

struct GgufOutline {
  std::set<std::string> types;  // of its tensors
};

/// Reads a file's index and checks that all its tensors lie within the file: the library computes
/// with what is missing of a media encoder, and ends the process at a page that is missing of a
/// model.
Result<GgufOutline> read_outline(const std::string& path) {
  clear_library_log();
  const Owned<gguf_context, gguf_free> file(
      gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}));
  if (file == nullptr) return library_error(ErrorCode::kCorruption, "cannot read '" + path + "'");
  const std::uint64_t begin = gguf_get_data_offset(file.get());
  std::uint64_t end = begin;
  GgufOutline outline;
  for (std::int64_t i = 0; i < gguf_get_n_tensors(file.get()); ++i) {
    end = std::max(
        end, begin + gguf_get_tensor_offset(file.get(), i) + gguf_get_tensor_size(file.get(), i));
    outline.types.insert(ggml_type_name(gguf_get_tensor_type(file.get(), i)));
  }
  std::error_code none;
  const std::uint64_t size = std::filesystem::file_size(path, none);
  if (!none && size >= end) return outline;
  return fail(ErrorCode::kCorruption, "'" + path + "' has " + std::to_string(size) + " of " +
                                          std::to_string(end) + " bytes: it is truncated");
}

Result<ggml_type> kv_type(const std::string& name) {
  for (const ggml_type type :
       {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
        GGML_TYPE_Q4_1, GGML_TYPE_IQ4_NL, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1}) {
    if (name == ggml_type_name(type)) return type;
  }
  return fail(ErrorCode::kInvalidArgument,
              "'" + name +
                  "' is not a KV cache type; use f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, "
                  "q5_0 or q5_1");
}

/// The library's progress callback, forwarded to LlamaOptions::progress; 0 to 1.
template <const char* kWhat>
bool report_progress(float share, void* options) {
  const auto& progress = static_cast<const LlamaOptions*>(options)->progress;
  if (progress) progress(kWhat, share);
  return true;
}
constexpr char kModel[] = "model";
constexpr char kMmproj[] = "mmproj";

/// Whether the model may use devices other than the CPU, which sum in another order.
bool has_other_devices(bool uses_gpu) {
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    const auto type = ggml_backend_dev_type(ggml_backend_dev_get(i));
    if (type == GGML_BACKEND_DEVICE_TYPE_CPU) continue;
    if (uses_gpu || type == GGML_BACKEND_DEVICE_TYPE_ACCEL) return true;
  }
  return false;
}

bool build_is_exact() {
  const std::string_view info = llama_print_system_info();
  return !info.contains("LLAMAFILE = 1");
}

std::uint32_t threads_of(const LlamaOptions& options) {
  return options.threads != 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
}

llama_model_params model_params(const LlamaOptions& options) {
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = options.gpu_layers;
  // Repacked weights make sums depend on the batch size, and our kernels can't read them.
  params.use_extra_bufts = !options.exact && batch_independent_kernels().empty();
  params.progress_callback = report_progress<kModel>;
  params.progress_callback_user_data = const_cast<LlamaOptions*>(&options);
  return params;
}

std::string meta(const llama_model* model, const char* key) {
  std::array<char, 256> text{};
  const auto size = llama_model_meta_val_str(model, key, text.data(), text.size());
  return size < 0 ? "" : std::string(text.data());
}

/// Not a model whose tokens see later ones, or that is made for embeddings.
bool answers_chats(const llama_model* model) {
  const std::string architecture = meta(model, "general.architecture");
  return meta(model, (architecture + ".attention.causal").c_str()) != "false" &&
         meta(model, (architecture + ".pooling_type").c_str()).empty();
}

/// The name of a built-in template of the family that writes turns with these tokens.
std::string template_of_tokens(std::span<const std::string> control_tokens) {
  constexpr auto kFamilies = std::to_array<std::pair<std::string_view, const char*>>(
      {{"<|im_start|>", "chatml"},
       {"<start_of_turn>", "gemma"},
       {"<|start_header_id|>", "llama3"},
       {"<|start_of_role|>", "granite"},
       {"<|START_OF_TURN_TOKEN|>", "command-r"},
       {"<|assistant|>", "phi3"},
       {"[INST]", "mistral-v7"}});
  for (const auto& [token, name] : kFamilies) {
    if (std::ranges::find(control_tokens, token) != control_tokens.end()) return name;
  }
  return "chatml";
}

/// Of a sliding layer, for each lane: as llama_kv_cache_iswa has them.
TokenCount window_cells(const llama_context* context, bool is_full) {
  constexpr std::uint32_t kPadding = 256;
  const std::uint32_t all = llama_n_ctx_seq(context);
  if (is_full) return TokenCount(all);
  const auto window = static_cast<std::uint32_t>(llama_model_n_swa(llama_get_model(context)));
  const std::uint32_t needed = std::min(all, window + llama_n_ubatch(context));
  return TokenCount((needed + kPadding - 1) / kPadding * kPadding);
}

}  // namespace

WordSplit word_split_of(const llama_model* model) {
  return word_split_of(meta(model, "tokenizer.ggml.model"), meta(model, "tokenizer.ggml.pre"));
}

Result<void> check_model_file(const std::string& path) {
  AFI_TRY_VOID(check_gguf(path, "model"));
  AFI_TRY_VOID(read_outline(path));
  return {};
}

Result<llama_context_params> context_params(const LlamaOptions& options, const llama_model* model,
                                            std::uint32_t batch) {
  llama_context_params params = llama_context_default_params();
  AFI_TRY(params.type_k, kv_type(options.keys));
  AFI_TRY(params.type_v, kv_type(options.values));
  params.n_seq_max = options.lanes;
  params.n_ctx = options.context.value() * options.lanes;
  params.n_batch = params.n_ubatch = batch;
  params.n_threads = params.n_threads_batch = static_cast<std::int32_t>(threads_of(options));
  params.kv_unified = false;  // own cells per lane, from 0: the order of sums follows the cells
  params.offload_kqv = options.gpu_layers != 0;
  params.no_perf = true;
  const bool fuses =
      !batch_independent_kernels().empty() || !options.exact || ggml_is_quantized(params.type_v);
  params.flash_attn_type = fuses ? LLAMA_FLASH_ATTN_TYPE_AUTO : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  // Cells of a window are used again: only our kernels then keep the order of sums.
  params.swa_full = options.exact && batch_independent_kernels().empty();
  if (llama_model_n_swa(model) > 0 && options.exact && !params.swa_full) {
    params.n_batch = params.n_ubatch = std::max(batch, kFewestSpareCells);
  }
  return params;
}

void clear_library_log() { error_log.clear(); }

std::unexpected<Error> library_error(ErrorCode code, const std::string& what) {
  std::string words = std::exchange(error_log, {});
  std::ranges::replace(words, '\n', ' ');
  while (!words.empty() && words.back() == ' ') words.pop_back();
  return fail(code, words.empty() ? what : what + ": llama.cpp says: " + words);
}

LoadedModel::LoadedModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
LoadedModel::~LoadedModel() = default;

Result<std::unique_ptr<const LoadedModel>> LoadedModel::load(const LlamaOptions& options) {
  AFI_TRY_VOID(start_library(options.exact, options.kernels));
  auto state = std::make_unique<State>();
  state->loaded_with = options;
  state->loaded_with.progress = nullptr;
  AFI_TRY_VOID(state->load_weights(options));
  AFI_TRY_VOID(state->limit_context());
  AFI_TRY_VOID(state->load_template(options));
  AFI_TRY_VOID(state->load_media(options));
  AFI_TRY_VOID(state->make_context(state->loaded_with));
  AFI_TRY_VOID(state->check_media());
  AFI_TRY(state->facts.merges_frames, state->merges_frames());
  return std::unique_ptr<const LoadedModel>(new LoadedModel(std::move(state)));
}

Result<void> LoadedModel::State::load_weights(const LlamaOptions& options) {
  AFI_TRY_VOID(check_gguf(options.model, "model"));
  std::set<std::string> types;
  for (const std::string& path : files_of(options.model)) {
    AFI_TRY(GgufOutline outline, read_outline(path));
    types.merge(outline.types);
  }
  weight_types = fmt::format("{}", fmt::join(types, ", "));
  model.reset(llama_model_load_from_file(options.model.c_str(), model_params(options)));
  if (model == nullptr) {
    return library_error(ErrorCode::kCorruption, "cannot load the model '" + options.model + "'");
  }
  if (llama_model_has_encoder(model.get()) || !llama_model_has_decoder(model.get()) ||
      llama_model_is_diffusion(model.get())) {
    return fail(ErrorCode::kUnsupported, "'" + options.model +
                                             "' is not a decoder-only text model: only such "
                                             "models are supported");
  }
  for (const LlamaAdapter& adapter : options.adapters) {
    AFI_TRY_VOID(check_gguf(adapter.path, "adapter"));
    AFI_TRY_VOID(read_outline(adapter.path));
    adapters.emplace_back(llama_adapter_lora_init(model.get(), adapter.path.c_str()));
    if (adapters.back() == nullptr) {
      return library_error(ErrorCode::kCorruption,
                           "cannot load the adapter '" + adapter.path + "'");
    }
  }
  vocabulary = llama_model_get_vocab(model.get());
  word_split = word_split_of(model.get());
  std::vector<std::string> spellings;
  for (llama_token token = 0; token < llama_vocab_n_tokens(vocabulary); ++token) {
    // These are the tokens that llama_tokenize finds in a text only if parse_special is set.
    constexpr int kParsed = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN;
    if ((llama_vocab_get_attr(vocabulary, token) & kParsed) == 0) continue;
    spellings.emplace_back(llama_vocab_get_text(vocabulary, token));
  }
  const std::string family = template_of_tokens(spellings);
  control_tokens = ControlTokens(std::move(spellings));
  const char* const own = llama_model_chat_template(model.get(), nullptr);
  chat_template = !options.chat_template.empty() ? options.chat_template
                  : own != nullptr               ? own
                                                 : "";
  if (chat_template.empty() && answers_chats(model.get())) {
    chat_template = assumed_template = family;
  }
  return {};
}

/// As llama-server: beyond the positions that a model was trained with, its answers mean nothing, and
/// a model that keeps a vector for each position has none there, on which the library ends the process.
Result<void> LoadedModel::State::limit_context() {
  constexpr std::uint32_t kFewest = 128;  // more than the self-check computes
  const std::int32_t positions = llama_model_n_ctx_train(model.get());
  if (positions <= 0) return {};  // its file does not say
  const auto most = static_cast<std::uint32_t>(positions);
  if (most < kFewest) {
    return fail(ErrorCode::kUnsupported, "'" + loaded_with.model + "' has " + std::to_string(most) +
                                             " positions, and at least " + std::to_string(kFewest) +
                                             " are needed");
  }
  loaded_with.context = std::min(loaded_with.context, TokenCount(most));
  return {};
}

Result<void> LoadedModel::State::load_media(const LlamaOptions& options) {
  AFI_TRY(const auto chance, random_secret());
  marker = "<media-" + to_hex(chance) + ">";
  separator = "<break-" + to_hex(chance) + ">";
  if (options.mmproj.empty()) return {};
  AFI_TRY_VOID(check_gguf(options.mmproj, "media encoder"));
  AFI_TRY_VOID(read_outline(options.mmproj));
  mtmd_context_params params = mtmd_context_params_default();
  params.use_gpu = options.gpu_layers != 0;
  params.print_timings = false;
  params.n_threads = static_cast<int>(threads_of(options));
  params.media_marker = marker.c_str();
  params.warmup = false;
  params.image_min_tokens = options.image_min_tokens;
  params.image_max_tokens = options.image_max_tokens;
  params.progress_callback = report_progress<kMmproj>;
  params.progress_callback_user_data = const_cast<LlamaOptions*>(&options);
  media.reset(mtmd_init_from_file(options.mmproj.c_str(), model.get(), params));
  if (media != nullptr) return {};
  return library_error(ErrorCode::kInvalidArgument, "cannot load the media encoder '" +
                                                        options.mmproj + "' for the model '" +
                                                        options.model + "'");
}

Result<void> LoadedModel::State::make_context(const LlamaOptions& options) {
  // An image with non-causal attention must be computed in one batch.
  constexpr std::uint32_t kWholePicture = 2'048;
  const bool whole = media != nullptr && mtmd_decode_use_non_causal(media.get(), nullptr);
  batch = std::max(options.batch.value(), whole ? kWholePicture : 1U);
  AFI_TRY(const llama_context_params params, context_params(options, model.get(), batch));
  context.reset(llama_init_from_model(model.get(), params));
  if (context == nullptr) {
    return library_error(ErrorCode::kUnavailable,
                         "cannot allocate memory for " + std::to_string(options.lanes) +
                             " requests of " + std::to_string(options.context.value()) +
                             " tokens; reduce the context size or the lanes");
  }
  AFI_TRY_VOID(adapt(context.get()));
  const bool fused = params.flash_attn_type != LLAMA_FLASH_ATTN_TYPE_DISABLED;
  const std::string kernels(batch_independent_kernels());
  const auto rope = llama_model_rope_type(model.get());
  facts = {.library = std::string("llama.cpp ") + llama_version() + " " +
                      llama_print_system_info() +
                      (kernels.empty() ? "" : std::string(" order of sums ") + kOrderOfSums),
           .kernels = kernels,
           .architecture = meta(model.get(), "general.architecture"),
           .assumed_template = assumed_template,
           .row_width = static_cast<std::uint32_t>(llama_model_n_embd_inp(model.get())),
           .window = TokenCount(static_cast<std::uint32_t>(llama_model_n_swa(model.get()))),
           .window_cells = window_cells(context.get(), params.swa_full),
           .window_period = !options.exact    ? TokenCount(1)
                            : params.swa_full ? TokenCount(llama_n_ctx_seq(context.get()))
                                              : TokenCount(kKeyOrderPeriod),
           .recurrent = llama_model_is_recurrent(model.get()),
           .hybrid = llama_model_is_hybrid(model.get()),
           .uses_mrope = rope == LLAMA_ROPE_TYPE_MROPE || rope == LLAMA_ROPE_TYPE_IMROPE,
           .causal_media = !whole,
           .rotary = rotary_facts(options.model, model.get()),
           .vocabulary = static_cast<std::uint32_t>(llama_vocab_n_tokens(vocabulary)),
           .context = options.context,
           .weight_types = weight_types,
           .should_be_exact =
               options.exact && (!kernels.empty() || (!fused && build_is_exact())) &&
               !has_other_devices(options.gpu_layers != 0 && llama_supports_gpu_offload()),
           .fused_attention = fused};
  computing = std::make_unique<BatchScheduler>(
      [this](std::span<const BatchRow> rows, const OnLogits& on_logits) {
        return compute(rows, on_logits);
      },
      batch);
  return {};
}

Result<void> LoadedModel::State::adapt(llama_context* to) const {
  std::vector<llama_adapter_lora*> chosen;
  std::vector<float> scales;
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    chosen.push_back(adapters[i].get());
    scales.push_back(loaded_with.adapters[i].scale);
  }
  if (chosen.empty() ||
      llama_set_adapters_lora(to, chosen.data(), chosen.size(), scales.data()) == 0) {
    return {};
  }
  return library_error(ErrorCode::kInvalidArgument, "the adapters do not match the model");
}

const ModelFacts& LoadedModel::facts() const { return state_->facts; }
const std::string& LoadedModel::marker() const { return state_->marker; }
std::string LoadedModel::without_control_tokens(std::string text) const {
  return state_->control_tokens.broken_by(state_->separator, std::move(text));
}
const std::string& LoadedModel::chat_template() const { return state_->chat_template; }

bool LoadedModel::supports(Modality modality) const {
  const mtmd_context* const media = state_->media.get();
  if (media == nullptr) return false;
  if (modality == Modality::kImage) return mtmd_support_vision(media);
  if (modality == Modality::kVideo) return state_->facts.merges_frames;
  return modality == Modality::kAudio && mtmd_support_audio(media);
}

Result<std::string> LoadedModel::apply_template(std::span<const ChatTurn> turns) const {
  std::vector<llama_chat_message> messages;
  for (const ChatTurn& turn : turns) {
    if (turn.text.contains('\0')) {
      return fail(ErrorCode::kInvalidArgument,
                  "a message contains a zero byte, which is not allowed");
    }
    messages.push_back({turn.role.c_str(), turn.text.c_str()});
  }
  const auto apply = [&](char* text, std::int32_t size) {
    return llama_chat_apply_template(state_->chat_template.c_str(), messages.data(),
                                     messages.size(), true, text, size);
  };
  const std::int32_t size = apply(nullptr, 0);
  if (size < 0) {
    return fail(ErrorCode::kUnsupported,
                "llama.cpp has no built-in version of the model's chat template; choose a similar "
                "one with --chat-template: chatml, gemma, llama3, mistral-v7, …");
  }
  std::string text(static_cast<std::size_t>(size) + 1, '\0');
  apply(text.data(), static_cast<std::int32_t>(text.size()));
  text.pop_back();
  return text;
}

std::string LoadedModel::without_breaks(std::string_view text) const {
  std::string whole;
  for (const std::string_view part : split_at(state_->separator, text)) whole += part;
  return whole;
}

std::string LoadedModel::bytes_of(TokenId token, bool control) const {
  std::string text(32, '\0');
  const auto write = [&] {
    return llama_token_to_piece(state_->vocabulary, static_cast<llama_token>(token), text.data(),
                                static_cast<std::int32_t>(text.size()), 0, control);
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
  return llama_vocab_is_eog(state_->vocabulary, static_cast<llama_token>(token));
}

bool LoadedModel::is_in_vocabulary(TokenId token) const {
  const auto id = static_cast<llama_token>(token);
  return id >= 0 && id < llama_vocab_n_tokens(state_->vocabulary);
}

Result<void> LoadedModel::State::compute(std::span<const BatchRow> rows,
                                         const OnLogits& on_logits) const {
  std::vector<llama_token> tokens;
  std::vector<llama_pos> positions;
  std::vector<llama_seq_id> sequences;
  std::vector<std::int8_t> has_logits;
  std::vector<std::int32_t> owners(rows.size(), 1);
  std::vector<llama_seq_id*> owner(rows.size());
  for (const BatchRow& row : rows) {
    tokens.push_back(static_cast<llama_token>(row.token));
    positions.push_back(row.position);
    sequences.push_back(row.sequence);
    has_logits.push_back(row.wants_logits ? 1 : 0);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) owner[i] = &sequences[i];
  const llama_batch together{.n_tokens = static_cast<std::int32_t>(rows.size()),
                             .token = tokens.data(),
                             .embd = nullptr,
                             .pos = positions.data(),
                             .n_seq_id = owners.data(),
                             .seq_id = owner.data(),
                             .logits = has_logits.data()};
  clear_library_log();
  if (llama_decode(context.get(), together) != 0) {
    return library_error(ErrorCode::kUnavailable, "the model rejected " +
                                                      std::to_string(rows.size()) + " tokens at " +
                                                      std::to_string(rows.front().position));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].wants_logits) continue;
    on_logits(
        i, {llama_get_logits_ith(context.get(), static_cast<std::int32_t>(i)), facts.vocabulary});
  }
  return {};
}

Result<void> LoadedModel::append(const Append& text) const {
  const std::size_t last = text.tokens.size() - 1;
  const OnLogits on_logits = [&](std::size_t, std::span<const float> logits) {
    text.on_logits(logits);
  };
  return state_->computing->append(
      {.sequence = text.sequence,
       .tokens = text.tokens,
       .at = text.at,
       .wanted = std::span(&last, text.on_logits && !text.tokens.empty() ? 1 : 0),
       .on_logits = on_logits,
       .cancel = text.cancel},
      text.meanwhile);
}

Result<void> LoadedModel::append(SequenceId sequence, std::span<const TokenId> tokens, Position at,
                                 std::span<const std::size_t> wanted,
                                 const OnLogits& on_logits) const {
  return state_->computing->append(
      {.sequence = sequence, .tokens = tokens, .at = at, .wanted = wanted, .on_logits = on_logits});
}

Result<void> LoadedModel::append_together(std::span<const BatchRow> rows,
                                          const OnLogits& on_logits) const {
  return state_->computing->run([&] { return state_->compute(rows, on_logits); });
}

void LoadedModel::share_batches(bool share) const { state_->computing->share_batches(share); }
BatchCounts LoadedModel::batches() const { return state_->computing->counts(); }

bool LoadedModel::truncate(SequenceId sequence, Position position) const {
  return state_->computing->run([&] {
    return llama_memory_seq_rm(llama_get_memory(state_->context.get()), sequence, position, -1);
  });
}

void LoadedModel::clear(SequenceId sequence) const {
  state_->computing->run(
      [&] { llama_memory_seq_rm(llama_get_memory(state_->context.get()), sequence, -1, -1); });
}

}  // namespace afterimage

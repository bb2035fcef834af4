// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "afterimage/result.h"
#include "engines/llama_library/library.h"
#include "engines/llama_library/temporary_thread.h"

namespace afterimage {
namespace {

/// A WAV file, which the library resamples. It gets no file of a client: its decoders would see other
/// sounds in some than what was checked.
std::vector<unsigned char> wav_of(const SoundInput& sound) {
  constexpr std::uint32_t kFloat = 3;
  AFI_CHECK(sound.samples < UINT32_MAX / sizeof(float) - 36);  // the engine's limits are lower
  const auto bytes = static_cast<std::uint32_t>(sound.samples * sizeof(float));
  std::vector<unsigned char> wav;
  const auto add = [&wav](std::string_view text) {
    wav.insert(wav.end(), text.begin(), text.end());
  };
  const auto number = [&wav](std::uint32_t value, unsigned width) {
    for (unsigned i = 0; i < width; ++i) wav.push_back(static_cast<unsigned char>(value >> 8 * i));
  };
  add("RIFF");
  number(36 + bytes, 4);
  add("WAVEfmt ");
  number(16, 4);
  number(kFloat, 2);
  number(1, 2);  // channel
  number(sound.rate_hz, 4);
  number(sound.rate_hz * static_cast<std::uint32_t>(sizeof(float)), 4);
  number(sizeof(float), 2);
  number(8 * sizeof(float), 2);
  add("data");
  number(bytes, 4);
  const std::size_t head = wav.size();
  wav.resize(head + bytes);
  if (!sound.mono.empty()) std::memcpy(wav.data() + head, sound.mono.data(), bytes);
  return wav;
}

/// `id` identifies the item within one call.
Result<OwnedBitmap> bitmap_of(const mtmd_context* context, const MediaInput& media,
                              const std::string& id) {
  OwnedBitmap bitmap;
  if (media.modality == Modality::kImage) {
    const bool measured = media.rgb.empty();
    bitmap.reset(
        mtmd_bitmap_init(media.width, media.height, measured ? nullptr : media.rgb.data()));
  } else {
    const auto wav = wav_of(media.sound);
    const auto read = mtmd_helper_bitmap_init_from_buf(
        context, wav.data(), wav.size(), media.dimensions_only, mtmd_helper_init_opt_default());
    bitmap.reset(read.bitmap);
    if (read.video_ctx != nullptr) mtmd_helper_video_free(read.video_ctx);
  }
  if (bitmap == nullptr)
    return library_error(ErrorCode::kCorruption, "a media item cannot be read");
  mtmd_bitmap_set_id(bitmap.get(), id.c_str());
  return bitmap;
}

/// A video, frame by frame, as mtmd_tokenize() asks for it.
struct VideoSource {
  const MediaInput* video = nullptr;
  std::span<const std::vector<std::uint8_t>> frames{};  // empty: dimensions only
  std::string id;
  bool has_timestamps = false;

  static int next(std::size_t index, void* self, mtmd_bitmap** frame, char** text) {
    const auto& source = *static_cast<const VideoSource*>(self);
    const std::size_t of_pair = source.has_timestamps ? 3 : 2;  // with the text before it
    const std::size_t pair = index / of_pair;
    std::size_t place = index % of_pair;
    constexpr int kEnd = -1;
    constexpr int kFailed = -2;
    if (pair >= source.video->pairs.size()) return kEnd;
    if (source.has_timestamps && place == 0) {
      *text = strdup(timestamp_of(source.video->pairs[pair]).c_str());  // the library frees it
      return *text == nullptr ? kFailed : 0;
    }
    if (source.has_timestamps) --place;
    const auto& frames = source.frames;
    *frame = mtmd_bitmap_init(source.video->width, source.video->height,
                              frames.empty() ? nullptr : frames[2 * pair + place].data());
    mtmd_bitmap_set_id(*frame, source.id.c_str());
    mtmd_bitmap_set_mergeable(*frame, true);
    return 0;
  }
};

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

/// Tokens in a row of an image; 0: they have no places in it.
std::uint32_t columns_of(const mtmd_input_chunk* chunk) {
  const auto* const image = mtmd_input_chunk_get_tokens_image(chunk);
  if (image == nullptr) return 0;
  const std::size_t count = mtmd_input_chunk_get_n_tokens(chunk);
  for (std::uint32_t i = 0; i < count; ++i) {
    const mtmd_decoder_pos at = mtmd_image_tokens_get_decoder_pos(image, 0, i);
    if (at.t != 0) return 0;  // positions count tokens
    if (at.y != 0) return i;  // the first token of the second row
  }
  return static_cast<std::uint32_t>(count);
}

/// Which media item a chunk belongs to.
std::size_t item_of(const mtmd_input_chunk* chunk) {
  const char* const id = mtmd_input_chunk_get_id(chunk);
  return id == nullptr ? PromptPiece::kText : std::stoul(id);
}

/// An item reaches from its first chunk to its last, including text chunks between them.
std::vector<PromptPiece> pieces_of(const mtmd_input_chunks* chunks) {
  std::vector<PromptPiece> pieces;
  const std::size_t count = mtmd_input_chunks_size(chunks);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t item = item_of(mtmd_input_chunks_get(chunks, i));
    std::size_t last = i;
    for (std::size_t j = i; item != PromptPiece::kText && j < count; ++j) {
      if (item_of(mtmd_input_chunks_get(chunks, j)) == item) last = j;
    }
    PromptPiece& piece = pieces.emplace_back(PromptPiece{.item = item, .parts = {}});
    if (item != PromptPiece::kText && last == i) {
      piece.columns = columns_of(mtmd_input_chunks_get(chunks, i));
    }
    for (; i <= last; ++i) {
      const mtmd_input_chunk* const chunk = mtmd_input_chunks_get(chunks, i);
      piece.parts.push_back(part_of(chunk));
      piece.positions += static_cast<std::uint32_t>(mtmd_input_chunk_get_n_pos(chunk));
    }
    --i;
  }
  return pieces;
}

/// An image or audio chunk waiting for the encoder, and where its rows go.
struct ToEncode {
  std::size_t item = 0;
  const mtmd_input_chunk* chunk = nullptr;
  std::size_t at = 0;  // offset of the first float in the item's rows
  std::size_t floats = 0;
};

/// One item's parts with space for their rows; chunks to be encoded are added to `waiting`.
Result<EncodedMedia> lay_out(const mtmd_input_chunks* chunks, std::size_t width, std::size_t item,
                             std::vector<ToEncode>& waiting) {
  EncodedMedia result;
  std::size_t floats = 0;
  const std::size_t before = waiting.size();
  for (std::size_t i = 0; i < mtmd_input_chunks_size(chunks); ++i) {
    const mtmd_input_chunk* const chunk = mtmd_input_chunks_get(chunks, i);
    const bool words = item_of(chunk) == PromptPiece::kText;
    if (words && waiting.size() == before) continue;  // precedes the item
    result.parts.push_back(part_of(chunk));
    const std::size_t own = length_of(result.parts.back()).value() * width;
    if (!words) waiting.push_back({.item = item, .chunk = chunk, .at = floats, .floats = own});
    floats += own;
  }
  while (!result.parts.empty() && std::holds_alternative<SpanText>(result.parts.back())) {
    floats -= length_of(result.parts.back()).value() * width;
    result.parts.pop_back();  // follows the item
  }
  if (result.parts.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the model produced no tokens for it");
  }
  result.rows.resize(floats * sizeof(float));
  return result;
}

struct EncoderBatch {
  OwnedBatch batch;
  std::size_t count = 0;  // chunks taken from the front of the queue
};

/// As many waiting chunks, from the first, as the encoder accepts in one batch; at least one.
EncoderBatch fill_batch(mtmd_context* context, std::span<const ToEncode> waiting) {
  EncoderBatch taken{.batch = OwnedBatch(mtmd_batch_init(context))};
  for (const ToEncode& one : waiting) {
    if (mtmd_batch_add_chunk(taken.batch.get(), one.chunk) != 0) break;
    ++taken.count;
  }
  taken.count = std::max<std::size_t>(taken.count, 1);  // a chunk that is refused fails alone
  return taken;
}

/// Encodes one batch; returns the number of chunks in it.
std::size_t encode_batch(mtmd_context* context, std::span<const ToEncode> waiting,
                         std::vector<Result<EncodedMedia>>& encoded) {
  clear_library_log();
  const EncoderBatch batch = fill_batch(context, waiting);
  const bool good = mtmd_batch_encode(batch.batch.get()) == 0;
  for (const ToEncode& one : waiting.first(batch.count)) {
    Result<EncodedMedia>& item = encoded[one.item];
    if (!good) item = library_error(ErrorCode::kInvalidArgument, "it cannot be encoded");
    if (!item.has_value()) continue;
    // Copied now: the next batch overwrites the library's buffer.
    const float* const rows = mtmd_batch_get_output_embd(batch.batch.get(), one.chunk);
    std::memcpy(item->rows.data() + one.at * sizeof(float), rows, one.floats * sizeof(float));
  }
  return batch.count;
}

}  // namespace

/// Embeddings are cached by image content, which is wrong for encoders whose image positions depend
/// on the images before; such an encoder is refused.
Result<void> LoadedModel::State::check_media() const {
  if (media == nullptr || !mtmd_support_vision(media.get())) return {};
  const std::array inputs{MediaInput{.width = 64, .height = 64},
                          MediaInput{.width = 64, .height = 64}};
  AFI_TRY(const OwnedChunks chunks, tokenize(marker + "x" + marker, inputs));
  std::vector<std::vector<Position>> positions;
  for (std::size_t i = 0; i < mtmd_input_chunks_size(chunks.get()); ++i) {
    const mtmd_input_chunk* const chunk = mtmd_input_chunks_get(chunks.get(), i);
    const std::size_t item = item_of(chunk);
    if (item == PromptPiece::kText) continue;
    positions.resize(item + 1);
    const mtmd_image_tokens* const tokens = mtmd_input_chunk_get_tokens_image(chunk);
    positions[item].push_back(mtmd_input_chunk_get_n_pos(chunk));
    for (std::size_t token = 0; token < mtmd_input_chunk_get_n_tokens(chunk); ++token) {
      const mtmd_decoder_pos at = mtmd_image_tokens_get_decoder_pos(tokens, 0, token);
      for (const std::uint32_t axis : {at.t, at.x, at.y, at.z}) {
        positions[item].push_back(static_cast<Position>(axis));
      }
    }
  }
  if (positions.size() == 2 && positions[0] == positions[1]) return {};
  return fail(ErrorCode::kUnsupported,
              "with this media encoder an image's positions depend on other images, so it cannot "
              "be cached; without --mmproj the model serves text");
}

Result<bool> LoadedModel::State::merges_frames() const {
  if (media == nullptr || !mtmd_support_vision(media.get())) return false;
  const MediaInput video{.modality = Modality::kVideo,
                         .width = 64,
                         .height = 64,
                         .pairs = {{.first = 0, .second = 1}}};
  AFI_TRY(const OwnedChunks chunks, tokenize(marker, {&video, 1}));
  std::size_t count = 0;
  for (std::size_t i = 0; i < mtmd_input_chunks_size(chunks.get()); ++i) {
    if (item_of(mtmd_input_chunks_get(chunks.get(), i)) != PromptPiece::kText) ++count;
  }
  return count == 1;
}

Result<OwnedChunks> LoadedModel::State::tokenize(
    std::string_view text, std::span<const MediaInput> inputs, bool add_special,
    std::span<const std::vector<std::uint8_t>> frames) const {
  AFI_TRY_VOID(check_runs(text, word_split));
  std::vector<OwnedBitmap> bitmaps;
  std::vector<const mtmd_bitmap*> pointers;
  std::deque<VideoSource> videos;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string id = std::to_string(i);
    if (inputs[i].modality == Modality::kVideo) {
      VideoSource& video = videos.emplace_back(
          VideoSource{.video = &inputs[i],
                      .frames = frames,
                      .id = id,
                      .has_timestamps = facts.architecture.starts_with("qwen3")});
      bitmaps.emplace_back(
          mtmd_bitmap_init_lazy(media.get(), id.c_str(), &video, VideoSource::next));
    } else {
      AFI_TRY(bitmaps.emplace_back(), bitmap_of(media.get(), inputs[i], id));
    }
    pointers.push_back(bitmaps.back().get());
  }
  OwnedChunks chunks(mtmd_input_chunks_init());
  const mtmd_input_text input{.text = text.data(),
                              .text_len = text.size(),
                              .add_special = add_special,
                              .parse_special = true};
  if (mtmd_tokenize(media.get(), chunks.get(), &input, pointers.data(), pointers.size()) != 0) {
    return library_error(ErrorCode::kInvalidArgument,
                         "a media item cannot be preprocessed for the model");
  }
  return chunks;
}

Result<std::vector<PromptPiece>> LoadedModel::tokenize(const std::string& text,
                                                       std::span<const MediaInput> media) const {
  clear_library_log();
  const auto parts = split_at(state_->separator, text);
  if (parts.size() > 1 && llama_vocab_get_add_eos(state_->vocabulary)) {
    return fail(ErrorCode::kUnsupported,
                "a message spells a control token, and this model ends every text with one");
  }
  std::vector<PromptPiece> pieces;
  std::size_t items = 0;  // in the parts before
  for (const std::string_view part : parts) {
    const bool first = part.data() == parts.front().data();
    std::size_t here = 0;
    for (std::size_t at = 0; (at = part.find(state_->marker, at)) != std::string_view::npos; ++at) {
      ++here;
    }
    AFI_TRY(auto more, state_->pieces(part, media.subspan(items, here), first));
    for (PromptPiece& piece : more) {
      if (piece.item != PromptPiece::kText) piece.item += items;
      pieces.push_back(std::move(piece));
    }
    items += here;
  }
  return pieces;
}

Result<SpanText> LoadedModel::State::text_tokens(std::string_view text, bool add_special,
                                                 bool parse_special) const {
  AFI_TRY_VOID(check_runs(text, word_split));
  SpanText tokens(text.size() + 2);  // a token is at least one byte; two may be added
  const auto count =
      llama_tokenize(vocabulary, text.data(), static_cast<std::int32_t>(text.size()),
                     reinterpret_cast<llama_token*>(tokens.data()),
                     static_cast<std::int32_t>(tokens.size()), add_special, parse_special);
  if (count < 0) return library_error(ErrorCode::kInvalidArgument, "the text cannot be tokenized");
  tokens.resize(static_cast<std::size_t>(count));
  return tokens;
}

Result<std::vector<TokenId>> LoadedModel::tokens_of(std::string_view text, bool add_special,
                                                    bool parse_special) const {
  clear_library_log();
  return state_->text_tokens(text, add_special, parse_special);
}

Result<std::vector<PromptPiece>> LoadedModel::State::pieces(std::string_view text,
                                                            std::span<const MediaInput> inputs,
                                                            bool first) const {
  if (media != nullptr) {
    AFI_TRY(const OwnedChunks chunks, tokenize(text, inputs, first));
    return pieces_of(chunks.get());
  }
  AFI_TRY(SpanText tokens, text_tokens(text, first, true));
  return std::vector<PromptPiece>{{.item = PromptPiece::kText, .parts = {std::move(tokens)}}};
}

void LoadedModel::encode(std::span<const MediaInput> inputs,
                         const std::function<void(std::vector<EncodedInput>)>& on_encoded) const {
  for (std::size_t i = 0; i < inputs.size();) {
    if (inputs[i].next_frame) {
      std::vector<EncodedInput> one;
      one.push_back({i, state_->encode_video(inputs[i])});
      on_encoded(std::move(one));
      ++i;
      continue;
    }
    const std::size_t first = i;
    while (i < inputs.size() && !inputs[i].next_frame) ++i;
    state_->encode_together(inputs.subspan(first, i - first), first, on_encoded);
  }
}

Result<EncodedMedia> LoadedModel::State::encode_video(const MediaInput& video) const {
  constexpr std::size_t kPixelBytes = std::size_t{32} << 20U;  // of the frames held at a time
  clear_library_log();
  AFI_TRY(const OwnedChunks outline, tokenize(marker, {&video, 1}));
  std::vector<ToEncode> places;
  std::vector<Result<EncodedMedia>> encoded;
  encoded.emplace_back(lay_out(outline.get(), facts.row_width, 0, places));
  if (!encoded.front().has_value()) return std::move(encoded.front());
  if (places.size() != video.pairs.size()) {
    return fail(ErrorCode::kUnsupported, "the encoder does not take its frames in pairs");
  }
  const std::size_t of_pair = std::size_t{2} * 3 * video.width * video.height;
  const std::size_t most =
      std::max<std::size_t>(1, kPixelBytes / std::max<std::size_t>(1, of_pair));
  for (std::size_t done = 0; done < places.size();) {
    const std::size_t count = std::min(most, places.size() - done);
    const auto pairs = video.pairs.begin() + static_cast<std::ptrdiff_t>(done);
    const MediaInput some{.modality = Modality::kVideo,
                          .width = video.width,
                          .height = video.height,
                          .pairs = {pairs, pairs + static_cast<std::ptrdiff_t>(count)}};
    std::vector<std::vector<std::uint8_t>> frames;
    for (std::size_t i = 0; i < 2 * count; ++i) {
      AFI_TRY(frames.emplace_back(), video.next_frame());
      AFI_CHECK(frames.back().size() == of_pair / 2);
    }
    AFI_TRY(const OwnedChunks chunks, tokenize(marker, {&some, 1}, true, frames));
    frames = {};
    std::vector<ToEncode> waiting;
    AFI_TRY_VOID(lay_out(chunks.get(), facts.row_width, 0, waiting));
    if (waiting.size() != count) {
      return fail(ErrorCode::kUnsupported, "the encoder does not take its frames in pairs");
    }
    for (std::size_t i = 0; i < count; ++i) {
      AFI_CHECK(waiting[i].floats == places[done + i].floats);
      waiting[i].at = places[done + i].at;
    }
    for (std::size_t at = 0; at < count && encoded.front().has_value();) {
      const std::scoped_lock lock(encoding);
      at += run_on_temporary_thread(
          [&] { return encode_batch(media.get(), std::span(waiting).subspan(at), encoded); });
    }
    if (!encoded.front().has_value()) break;
    done += count;
  }
  return std::move(encoded.front());
}

void LoadedModel::State::encode_together(
    std::span<const MediaInput> inputs, std::size_t first,
    const std::function<void(std::vector<EncodedInput>)>& on_encoded) const {
  std::vector<Result<EncodedMedia>> encoded;
  std::vector<OwnedChunks> prepared(inputs.size());
  std::vector<ToEncode> waiting;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    clear_library_log();
    auto chunks = tokenize(marker, inputs.subspan(i, 1));
    if (!chunks.has_value()) {
      encoded.emplace_back(std::unexpected(chunks.error()));
      continue;
    }
    prepared[i] = *std::move(chunks);
    encoded.emplace_back(lay_out(prepared[i].get(), facts.row_width, i, waiting));
  }
  std::size_t delivered = 0;  // items before this one were passed to on_encoded
  const auto deliver_until = [&](std::size_t item) {
    std::vector<EncodedInput> together;
    for (; delivered < item; ++delivered)
      together.push_back({first + delivered, std::move(encoded[delivered])});
    if (!together.empty()) on_encoded(std::move(together));
  };
  for (std::size_t done = 0; done < waiting.size();) {
    {
      const std::scoped_lock lock(encoding);
      done += run_on_temporary_thread(
          [&] { return encode_batch(media.get(), std::span(waiting).subspan(done), encoded); });
    }
    deliver_until(done < waiting.size() ? waiting[done].item : inputs.size());
  }
  deliver_until(inputs.size());
}

Result<OwnedChunk> LoadedModel::State::chunk_of(const SpanMedia& of,
                                                std::span<const float> rows) const {
  const auto* const text = reinterpret_cast<const char*>(of.description.data());
  OwnedChunk chunk(mtmd_input_chunk_load(text, of.description.size()));
  const auto length = static_cast<std::uint32_t>(of.length.value());
  if (chunk == nullptr || mtmd_input_chunk_get_n_tokens(chunk.get()) != length ||
      rows.size() != std::uint64_t{length} * facts.row_width) {
    return library_error(ErrorCode::kCorruption, "the embeddings do not match their span parts");
  }
  const bool whole = mtmd_decode_use_non_causal(media.get(), chunk.get());
  if (whole && length > batch) {
    return fail(ErrorCode::kLimitExceeded,
                "an image of " + std::to_string(length) +
                    " tokens must be computed in one batch, "
                    "and a batch holds " +
                    std::to_string(batch) +
                    ": raise the batch size or lower the maximum tokens per image");
  }
  return chunk;
}

Result<LoadedModel::Position> LoadedModel::State::decode_media(llama_context* in,
                                                               const mtmd_input_chunk* chunk,
                                                               std::span<const float> rows,
                                                               SequenceId sequence,
                                                               Position at) const {
  Position next = at;
  clear_library_log();
  if (mtmd_helper_decode_image_chunk(media.get(), in, chunk, const_cast<float*>(rows.data()), at,
                                     sequence, static_cast<std::int32_t>(batch), &next, nullptr,
                                     nullptr) != 0) {
    return library_error(ErrorCode::kUnavailable, "the model rejected a media item");
  }
  return next;
}

Result<LoadedModel::Position> LoadedModel::append(SequenceId sequence, const SpanMedia& media,
                                                  std::span<const float> rows, Position at) const {
  AFI_TRY(const OwnedChunk chunk, state_->chunk_of(media, rows));
  return state_->computing->run(
      [&] { return state_->decode_media(state_->context.get(), chunk.get(), rows, sequence, at); });
}

Result<LoadedModel::Position> LoadedModel::append_start(SequenceId sequence, const SpanMedia& media,
                                                        std::span<const float> rows, Position at,
                                                        TokenCount count) const {
  AFI_TRY(const OwnedChunk chunk, state_->chunk_of(media, rows));
  const auto* const image = mtmd_input_chunk_get_tokens_image(chunk.get());
  if (image == nullptr || count > media.length ||
      mtmd_decode_use_non_causal(state_->media.get(), chunk.get())) {
    return fail(ErrorCode::kUnsupported, "the first tokens of this item cannot be computed alone");
  }
  const bool in_grid = mtmd_decode_use_mrope(state_->media.get());
  std::vector<Place> places;
  for (std::size_t i = 0; i < count.value(); ++i) {
    const mtmd_decoder_pos of = mtmd_image_tokens_get_decoder_pos(image, at, i);
    const Position next = at + static_cast<Position>(i);
    places.push_back(in_grid ? Place{static_cast<Position>(of.t), static_cast<Position>(of.y),
                                     static_cast<Position>(of.x)}
                             : Place{next, next, next});
  }
  AFI_TRY_VOID(append_rows(sequence, rows.first(count.value() * facts().row_width), places));
  return at + mtmd_input_chunk_get_n_pos(chunk.get());
}

Result<void> LoadedModel::append_rows(SequenceId sequence, std::span<const float> rows,
                                      std::span<const Place> places) const {
  return state_->computing->run(
      [&] { return state_->decode_rows(state_->context.get(), rows, places, sequence); });
}

Result<void> LoadedModel::State::decode_rows(llama_context* in, std::span<const float> rows,
                                             std::span<const Place> places,
                                             SequenceId sequence) const {
  clear_library_log();
  for (std::size_t from = 0; from < places.size(); from += batch) {
    const auto some = places.subspan(from, std::min<std::size_t>(batch, places.size() - from));
    // Axis by axis; the fourth is always 0. Without M-RoPE the library reads the first only.
    std::vector<llama_pos> positions(4 * some.size());
    for (std::size_t i = 0; i < some.size(); ++i) {
      for (std::size_t axis = 0; axis < 3; ++axis) {
        positions[axis * some.size() + i] = some[i][axis];
      }
    }
    std::vector<std::int32_t> owners(some.size(), 1);
    std::vector<llama_seq_id*> owner(some.size(), &sequence);
    std::vector<std::int8_t> has_logits(some.size());
    // const_cast: the library only reads.
    const llama_batch together{
        .n_tokens = static_cast<std::int32_t>(some.size()),
        .token = nullptr,
        .embd = const_cast<float*>(rows.subspan(from * facts.row_width).data()),
        .pos = positions.data(),
        .n_seq_id = owners.data(),
        .seq_id = owner.data(),
        .logits = has_logits.data()};
    if (llama_decode(in, together) != 0) {
      return library_error(ErrorCode::kUnavailable, "the model rejected embeddings");
    }
  }
  return {};
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "afterimage/result.h"
#include "foundation/media/formats.h"
#include "foundation/media/media_limits.h"

namespace afterimage {

namespace {

Result<MediaInfo> probed(const MediaItem& item, Modality modality,
                         const std::vector<MediaFile>& files, const MediaLimits& limits) {
  if (item.modality != modality) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: declared as {}, but decoded as {}", files[0].name,
                            to_string(item.modality), to_string(modality)));
  }
  return probe(item, limits);
}

Result<std::vector<MediaFile>> probed_files(const MediaItem& item, Modality modality,
                                            const MediaLimits& limits) {
  AFI_TRY(std::vector<MediaFile> files, files_of(item, limits));
  AFI_TRY_VOID(probed(item, modality, files, limits));
  return files;
}

Result<Image> decode_stored(const MediaFile& file, const PictureHeader& header) {
  switch (header.format) {
    case FileFormat::kJpeg:
      return decode_jpeg(file, header);
    case FileFormat::kPng:
      return decode_png(file, header);
    case FileFormat::kWebp:
      return decode_webp(file, header);
    case FileFormat::kPpm:
      return decode_ppm(file, header);
    case FileFormat::kBmp:
      return decode_bmp(file, header);
    case FileFormat::kIco:
      return decode_ico(file, header);
    case FileFormat::kHeic:
    case FileFormat::kAvif:
      return decode_heif(file, header);
    case FileFormat::kTiff:
      return decode_tiff(file, header);
    case FileFormat::kJpeg2000:
      return decode_jpeg2000(file, header);
    case FileFormat::kGif: {
      AFI_TRY(std::vector<Frame> frames, decode_gif(file, header, 1));
      return std::move(frames[0].image);
    }
    default:
      return corrupt(file, "not an image");
  }
}

/// Decodes a still image, or the first frame of an animation, that has passed probe().
Result<Image> decode_still(const MediaFile& file) {
  AFI_TRY(const PictureHeader header, read_picture_header(file));
  AFI_TRY(Image stored, decode_stored(file, header));
  Image image = turn_upright(std::move(stored), header.orientation);
  AFI_CHECK(image.rgb.size() == 3 * std::size_t{image.width} * image.height);
  return image;
}

/// The files of a folder, each decoded when it is wanted.
class FolderFrames final : public FrameSource {
 public:
  FolderFrames(const std::vector<MediaFile>& files, std::uint32_t frame_rate_mhz,
               std::span<const std::uint32_t> positions)
      : files_(&files), frame_rate_mhz_(frame_rate_mhz), left_(positions) {}

  Result<Frame> next() override {
    const std::int64_t index = left_.front();
    left_ = left_.subspan(1);
    AFI_TRY(Image image, decode_still((*files_)[static_cast<std::size_t>(index)]));
    return Frame{.image = std::move(image),
                 .at = Duration(index * kMillihertzNanoseconds / frame_rate_mhz_)};
  }

 private:
  const std::vector<MediaFile>* files_;
  std::uint32_t frame_rate_mhz_;
  std::span<const std::uint32_t> left_;
};

Result<std::vector<Frame>> decode_animation(const MediaFile& file) {
  AFI_TRY(const PictureHeader header, read_picture_header(file));
  if (header.format == FileFormat::kGif) return decode_gif(file, header, header.frames);
  if (header.frames != 1) return decode_webp_animation(file, header, header.frames);
  AFI_TRY(Image image, decode_still(file));
  std::vector<Frame> frames;
  frames.push_back({.image = std::move(image)});
  return frames;
}

/// An animation, which is decoded whole: each of its frames is drawn over those before.
class AnimationFrames final : public FrameSource {
 public:
  AnimationFrames(const MediaFile& file, std::span<const std::uint32_t> positions)
      : file_(&file), left_(positions) {}

  Result<Frame> next() override {
    if (all_.empty()) {
      AFI_TRY(all_, decode_animation(*file_));
    }
    const std::uint32_t position = left_.front();
    left_ = left_.subspan(1);
    if (position >= all_.size()) {
      return corrupt(*file_, fmt::format("{} frames, fewer than its header says", all_.size()));
    }
    const bool again = !left_.empty() && left_.front() == position;
    return again ? all_[position] : std::move(all_[position]);
  }

 private:
  const MediaFile* file_;
  std::span<const std::uint32_t> left_;
  std::vector<Frame> all_;
};

/// Of a video file, more frames are decoded than are kept at a time.
Result<void> check_kept(const MediaFile& file, const MediaInfo& info, std::size_t kept,
                        const MediaLimits& limits) {
  const std::uint64_t pixels = std::uint64_t{info.width} * info.height;
  if (kept <= limits.max_frames && kept <= limits.max_total_pixels / pixels) return {};
  return fail(ErrorCode::kLimitExceeded,
              fmt::format("{}: {} frames of {}x{} pixels; at most {} frames and {} pixels in total "
                          "are allowed",
                          file.name, kept, info.width, info.height, limits.max_frames,
                          limits.max_total_pixels));
}

}  // namespace

Result<Image> decode_image(const MediaItem& item, const MediaLimits& limits) {
  AFI_TRY(const std::vector<MediaFile> files, probed_files(item, Modality::kImage, limits));
  return decode_still(files[0]);
}

Result<Samples> decode_audio(const MediaItem& item, const MediaLimits& limits) {
  AFI_TRY(const std::vector<MediaFile> files, files_of(item, limits));
  if (item.modality != Modality::kAudio || files.size() != 1) {
    AFI_TRY_VOID(probed(item, Modality::kAudio, files, limits));  // says why not
  }
  AFI_TRY(const SoundHeader header, probe_sound(files[0], limits));
  switch (header.format) {
    case FileFormat::kMp3:
      return decode_mp3(files[0], header);
    case FileFormat::kWav:
    case FileFormat::kFlac:
    case FileFormat::kAiff:
    case FileFormat::kCaf:
      return decode_sound(files[0], header);
    default:
      return decode_coded(files[0], header);
  }
}

struct FrameReader::State {
  MediaItem item;  // keeps the files' bytes
  std::vector<MediaFile> files;
  std::vector<std::uint32_t> positions;
  std::size_t read = 0;
  std::unique_ptr<FrameSource> source;
  std::optional<Error> failed;
};

FrameReader::FrameReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
FrameReader::FrameReader(FrameReader&& other) noexcept = default;
FrameReader& FrameReader::operator=(FrameReader&& other) noexcept = default;
FrameReader::~FrameReader() = default;

Result<FrameReader> FrameReader::open(const MediaItem& item,
                                      std::span<const std::uint32_t> positions,
                                      const MediaLimits& limits) {
  auto state = std::make_unique<State>();
  state->item = item;
  state->positions.assign(positions.begin(), positions.end());
  AFI_TRY(state->files, files_of(item, limits));
  AFI_TRY(const MediaInfo info, probed(item, Modality::kVideo, state->files, limits));
  AFI_CHECK(std::ranges::is_sorted(positions));
  const MediaFile& file = state->files[0];
  if (!positions.empty() && positions.back() >= info.frames) {
    return corrupt(file, fmt::format("frame {} of {}", positions.back() + 1, info.frames));
  }
  if (is_folder_of_frames(item)) {
    state->source =
        std::make_unique<FolderFrames>(state->files, item.frame_rate_mhz, state->positions);
  } else if (is_video_file(info.format)) {
    AFI_TRY(state->source, open_video_frames(file, state->positions, limits));
  } else {
    state->source = std::make_unique<AnimationFrames>(file, state->positions);
  }
  return FrameReader(std::move(state));
}

Result<std::optional<Frame>> FrameReader::next() {
  if (state_->read == state_->positions.size()) return std::optional<Frame>();
  if (state_->failed.has_value()) return std::unexpected(*state_->failed);
  auto frame = state_->source->next();
  if (!frame.has_value()) {
    state_->failed = frame.error();
    return std::unexpected(frame.error());
  }
  ++state_->read;
  return std::optional<Frame>(*std::move(frame));
}

Result<std::vector<Frame>> decode_frames(const MediaItem& item,
                                         std::span<const std::uint32_t> positions,
                                         const MediaLimits& limits) {
  AFI_TRY(const std::vector<MediaFile> files, files_of(item, limits));
  AFI_TRY(const MediaInfo info, probed(item, Modality::kVideo, files, limits));
  AFI_CHECK(std::ranges::adjacent_find(positions, std::ranges::greater_equal()) == positions.end());
  if (is_video_file(info.format)) {
    AFI_TRY_VOID(check_kept(files[0], info, positions.size(), limits));
  }
  AFI_TRY(FrameReader reader, FrameReader::open(item, positions, limits));
  std::vector<Frame> frames;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    AFI_TRY(std::optional<Frame> frame, reader.next());
    frames.push_back(*std::move(frame));
  }
  return frames;
}

Result<std::vector<Frame>> decode_video(const MediaItem& item, const MediaLimits& limits) {
  AFI_TRY(const std::vector<MediaFile> files, files_of(item, limits));
  AFI_TRY(const MediaInfo info, probed(item, Modality::kVideo, files, limits));
  std::vector<std::uint32_t> all(info.frames);
  std::iota(all.begin(), all.end(), 0U);
  return decode_frames(item, all, limits);
}

std::string sound_decoder() { return fmt::format("{}; {}", mp3_decoder(), coded_sound_decoder()); }

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>
#include <gif_lib.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {

namespace {

constexpr std::uint32_t kExtension = 0x21;
constexpr std::uint32_t kImage = 0x2C;
constexpr std::uint32_t kTrailer = 0x3B;

struct Rect {
  std::uint32_t left, top, width, height;
};

/// One interlace pass: rows first, first + step, first + 2 step, …
struct Pass {
  std::uint32_t first, step;
};

void skip_palette(ByteCursor& cursor, std::uint32_t flags) {
  const bool present = (flags & 0x80U) != 0;
  if (present) cursor.take(std::uint64_t{3} << ((flags & 7U) + 1));
}

void skip_sub_blocks(ByteCursor& cursor) {
  while (const std::uint32_t length = cursor.big(1)) cursor.take(length);
}

/// Skips the frame that starts here, and says where on the screen it lies.
Rect skip_frame(ByteCursor& cursor) {
  const std::uint32_t left = cursor.little(2);
  const std::uint32_t top = cursor.little(2);
  const std::uint32_t width = cursor.little(2);
  const std::uint32_t height = cursor.little(2);
  skip_palette(cursor, cursor.big(1));
  cursor.big(1);  // bits of the first LZW code
  skip_sub_blocks(cursor);
  return {.left = left, .top = top, .width = width, .height = height};
}

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

int read_some(GifFileType* gif, GifByteType* out, int count) {
  auto* rest = static_cast<std::span<const std::byte>*>(gif->UserData);
  const auto taken = rest->first(std::min(rest->size(), static_cast<std::size_t>(count)));
  std::memcpy(out, taken.data(), taken.size());
  *rest = rest->subspan(taken.size());
  return static_cast<int>(taken.size());
}

/// Plays a GIF: keeps the screen, draws each frame on it, and applies the frame's disposal method.
///
/// Pixels that no frame has drawn are transparent, which is rendered white. The header's background
/// colour is ignored, as in all browsers.
class GifPlayer {
 public:
  GifPlayer(const MediaFile& file, const PictureHeader& header)
      : file_(file), header_(header), rest_(file.bytes) {
    gif_.reset(DGifOpen(&rest_, read_some, &open_error_));
    screen_ = {.width = header.width, .height = header.height, .rgb = {}};
    screen_.rgb.assign(3 * std::size_t{header.width} * header.height, 0xFF);
  }

  Result<std::vector<Frame>> play(std::uint32_t wanted) {
    if (gif_ == nullptr) return damaged();
    std::vector<Frame> frames;
    while (frames.size() < wanted) {
      GifRecordType type = UNDEFINED_RECORD_TYPE;
      if (DGifGetRecordType(gif_.get(), &type) == GIF_ERROR) return damaged();
      if (type == EXTENSION_RECORD_TYPE) {
        AFI_TRY_VOID(read_extension());
      } else if (type == IMAGE_DESC_RECORD_TYPE) {
        AFI_TRY_VOID(show_frame(frames, frames.size() + 1 == wanted));
      } else {
        return corrupt(file_, "its GIF frames do not match those counted in its headers");
      }
    }
    return frames;
  }

 private:
  std::unexpected<Error> damaged() const {
    const char* reason = GifErrorString(gif_ == nullptr ? open_error_ : gif_->Error);
    return corrupt(file_, fmt::format("its GIF data is damaged: {}",
                                      reason == nullptr ? "it ends early" : reason));
  }

  Result<void> read_extension() {
    int label = 0;
    GifByteType* block = nullptr;
    if (DGifGetExtension(gif_.get(), &label, &block) == GIF_ERROR) return damaged();
    while (block != nullptr) {
      if (label == GRAPHICS_EXT_FUNC_CODE) {
        const GifByteType* body = block + 1;  // the first byte is the block's length
        if (DGifExtensionToGCB(block[0], body, &control_) == GIF_ERROR) return damaged();
      }
      if (DGifGetExtensionNext(gif_.get(), &block) == GIF_ERROR) return damaged();
    }
    return {};
  }

  /// The last one takes the screen along.
  Result<void> show_frame(std::vector<Frame>& frames, bool is_last) {
    if (DGifGetImageDesc(gif_.get()) == GIF_ERROR) return damaged();
    const GifImageDesc& image = gif_->Image;
    const Rect rect{static_cast<std::uint32_t>(image.Left), static_cast<std::uint32_t>(image.Top),
                    static_cast<std::uint32_t>(image.Width),
                    static_cast<std::uint32_t>(image.Height)};
    if (rect.left + rect.width > header_.width || rect.top + rect.height > header_.height) {
      return corrupt(file_, "a GIF frame extends beyond the screen");
    }
    std::optional<Image> before;
    if (!is_last && control_.DisposalMode == DISPOSE_PREVIOUS) before = screen_;
    AFI_TRY_VOID(draw(rect));
    if (is_last) {
      frames.push_back({.image = std::move(screen_), .at = at_});
      return {};
    }
    frames.push_back({.image = screen_, .at = at_});
    at_ += shown_for(std::chrono::milliseconds(10) * control_.DelayTime);
    if (before) screen_ = *std::move(before);
    if (control_.DisposalMode == DISPOSE_BACKGROUND) clear(rect);
    control_ = kNoControl;
    return {};
  }

  Result<void> draw(const Rect& rect) {
    static constexpr Pass kPlain[] = {{0, 1}};
    static constexpr Pass kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
    const auto passes =
        gif_->Image.Interlace ? std::span<const Pass>(kInterlaced) : std::span<const Pass>(kPlain);
    std::vector<GifPixelType> line(rect.width);
    for (const Pass& pass : passes) {
      for (std::uint32_t y = pass.first; y < rect.height; y += pass.step) {
        if (DGifGetLine(gif_.get(), line.data(), static_cast<int>(line.size())) == GIF_ERROR) {
          return damaged();
        }
        AFI_TRY_VOID(paint(line, pixel(rect.left, rect.top + y)));
      }
    }
    return {};
  }

  Result<void> paint(std::span<const GifPixelType> line, std::uint8_t* rgb) {
    const ColorMapObject* palette =
        gif_->Image.ColorMap != nullptr ? gif_->Image.ColorMap : gif_->SColorMap;
    if (palette == nullptr) return corrupt(file_, "a GIF frame without a palette");
    for (const GifPixelType index : line) {
      if (index != control_.TransparentColor) {
        if (index >= palette->ColorCount) return corrupt(file_, "a GIF colour outside its palette");
        const GifColorType& colour = palette->Colors[index];
        rgb[0] = colour.Red;
        rgb[1] = colour.Green;
        rgb[2] = colour.Blue;
      }
      rgb += 3;
    }
    return {};
  }

  void clear(const Rect& rect) {
    for (std::uint32_t y = rect.top; y < rect.top + rect.height; ++y) {
      std::fill_n(pixel(rect.left, y), 3 * std::size_t{rect.width}, std::uint8_t{0xFF});
    }
  }

  std::uint8_t* pixel(std::uint32_t x, std::uint32_t y) {
    return screen_.rgb.data() + 3 * (std::size_t{y} * screen_.width + x);
  }

  static constexpr GraphicsControlBlock kNoControl{.DisposalMode = DISPOSAL_UNSPECIFIED,
                                                   .UserInputFlag = false,
                                                   .DelayTime = 0,
                                                   .TransparentColor = NO_TRANSPARENT_COLOR};

  const MediaFile& file_;
  const PictureHeader& header_;
  std::span<const std::byte> rest_;
  int open_error_ = 0;
  std::unique_ptr<GifFileType, CloseGif> gif_;
  GraphicsControlBlock control_ = kNoControl;
  Image screen_;
  Duration at_{0};
};

/// Of a graphic control extension; leaves the cursor at the next sub-block.
Duration read_delay(ByteCursor& cursor) {
  const std::uint32_t size = cursor.big(1);
  if (size != 4) {  // not one that says so; a player ignores it
    cursor.take(size);
    return Duration{0};
  }
  cursor.take(1);  // flags
  const std::uint32_t hundredths = cursor.little(2);
  cursor.take(1);  // transparent colour
  return std::chrono::milliseconds(10) * hundredths;
}

/// A first frame that exceeds the screen enlarges it, as in Pillow and Chromium.
Result<void> place_frame(const MediaFile& file, const Rect& frame, PictureHeader& header) {
  if (frame.width == 0 || frame.height == 0) {
    return corrupt(file, fmt::format("frame {} of a {}x{} GIF is empty", header.frames,
                                     header.width, header.height));
  }
  if (header.frames == 1) {
    header.width = std::max(header.width, frame.left + frame.width);
    header.height = std::max(header.height, frame.top + frame.height);
  } else if (frame.left + frame.width > header.width || frame.top + frame.height > header.height) {
    header.unplayable = fmt::format("frame {} exceeds the screen of {}x{} pixels", header.frames,
                                    header.width, header.height);
  }
  return {};
}

}  // namespace

Result<PictureHeader> read_gif_header(const MediaFile& file) {
  ByteCursor cursor(file.bytes.subspan(6));  // "GIF89a"
  PictureHeader header{.format = FileFormat::kGif};
  header.width = cursor.little(2);
  header.height = cursor.little(2);
  const std::uint32_t flags = cursor.big(1);
  cursor.take(2);  // background colour, pixel aspect ratio
  skip_palette(cursor, flags);
  header.frames = 0;
  Duration delay{0};
  while (true) {
    // A GIF without its trailer was perhaps cut between two frames, and would play as a shorter clip. Its first frame is
    // whole.
    if (header.frames != 0 && cursor.rest().empty()) {
      header.unplayable = "a GIF that ends before its trailer";
      break;
    }
    const std::uint32_t record = cursor.big(1);
    if (record == kExtension) {
      if (cursor.big(1) == GRAPHICS_EXT_FUNC_CODE) delay = read_delay(cursor);
      skip_sub_blocks(cursor);
    } else if (record == kImage) {
      const Rect frame = skip_frame(cursor);
      if (cursor.ended_early()) return corrupt(file, "a GIF that ends within a frame");
      ++header.frames;
      header.length += shown_for(std::exchange(delay, Duration{0}));
      AFI_TRY_VOID(place_frame(file, frame, header));
    }
    if (cursor.ended_early()) return corrupt(file, "a GIF that ends before its trailer");
    if (record == kTrailer) break;
    if (record != kExtension && record != kImage) {
      return corrupt(file, fmt::format("a GIF with an unknown record 0x{:02x}", record));
    }
  }
  if (header.frames == 0) return corrupt(file, "a GIF that contains no image");
  return header;
}

Result<std::vector<Frame>> decode_gif(const MediaFile& file, const PictureHeader& header,
                                      std::uint32_t frames) {
  return GifPlayer(file, header).play(frames);
}

}  // namespace afterimage

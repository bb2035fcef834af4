// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/engine.h"
#include "foundation/platform/random.h"
#include "testing/media_files.h"

/// Whether the parts that an engine splits media into are what Engine::split() promises.
namespace afterimage::testing {

/// Videos that overlap: windows of one film, the same frames in another order, and copies that differ
/// from the first in one pixel of one frame. `frames` are those of a window.
inline std::vector<MediaItem> overlapping_videos(std::uint32_t frames = 4, std::uint32_t width = 16,
                                                 std::uint32_t height = 16) {
  const auto film = [&](std::vector<std::uint32_t> seeds, std::uint32_t changed_frame) {
    std::vector<FileContent> files;
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      Image picture = make_picture(width, height, seeds[i]);
      if (i == changed_frame) picture.rgb.back() ^= 0x80U;
      files.push_back(make_png(picture));
    }
    return folder_item(std::move(files), 1'000, "film");
  };
  const auto window = [&](std::uint32_t first) {
    std::vector<std::uint32_t> seeds;
    for (std::uint32_t i = 0; i < frames; ++i) seeds.push_back(first + i);
    return seeds;
  };
  constexpr std::uint32_t kNone = UINT32_MAX;
  std::vector<MediaItem> items{film(window(1), kNone), film(window(3), kNone),
                               film(window(2), kNone)};
  std::vector<std::uint32_t> backwards = window(1);
  std::ranges::reverse(backwards);
  items.push_back(film(backwards, kNone));
  items.push_back(film({1, 1, 1, 1}, kNone));
  items.push_back(film({1}, kNone));
  for (std::uint32_t i = 0; i < frames; ++i) items.push_back(film(window(1), i));
  return items;
}

/// Pictures of 2 x 2 tiles of `side` pixels: one, its tiles in other places, copies that differ from it in one
/// pixel, the same pixels in another container, and pictures of other numbers of tiles.
inline std::vector<MediaItem> overlapping_pictures(std::uint32_t side = 16) {
  const Image first = make_picture(2 * side, 2 * side);
  const auto shifted = [&](std::size_t columns, std::size_t rows) {
    Image moved = first;
    for (std::size_t y = 0; y < moved.height; ++y) {
      for (std::size_t x = 0; x < moved.width; ++x) {
        const std::size_t from =
            (y + rows * side) % moved.height * moved.width + (x + columns * side) % moved.width;
        for (std::size_t c = 0; c < 3; ++c)
          moved.rgb[3 * (y * moved.width + x) + c] = first.rgb[3 * from + c];
      }
    }
    return moved;
  };
  std::vector<MediaItem> items;
  const auto add = [&](FileContent file) {
    items.push_back(media_item(Modality::kImage, std::move(file), "screenshot"));
  };
  add(make_png(first));
  add(make_webp(first));
  for (const auto [columns, rows] : {std::pair{1, 0}, {0, 1}, {1, 1}}) {
    add(make_png(shifted(static_cast<std::size_t>(columns), static_cast<std::size_t>(rows))));
  }
  for (const std::size_t at : {std::size_t{0}, first.rgb.size() / 2 - 1, first.rgb.size() - 1}) {
    Image changed = first;
    changed.rgb[at] ^= 0x80U;
    add(make_png(changed));
  }
  add(make_png(make_picture(side, side)));
  add(make_png(make_picture(3 * side, side)));
  add(make_png(make_picture(7, 90)));
  return items;
}

/// Recordings of windows of `window` samples at 16 kHz: one, the same from its second and from within its first
/// window, its windows in other places, copies that differ in one sample, shorter ones, other containers and
/// another rate.
inline std::vector<MediaItem> overlapping_sounds(std::size_t window = 4 * std::size_t{1'280}) {
  std::vector<float> first(4 * window - window / 3);
  for (std::size_t i = 0; i < first.size(); ++i) {
    first[i] = static_cast<float>(i * 2'654'435'761U % 65'537) / 65'537.0F - 0.5F;
  }
  std::vector<MediaItem> items;
  const auto add = [&](FileContent file) {
    items.push_back(media_item(Modality::kAudio, std::move(file), "recording"));
  };
  add(make_wav(first, 16'000));
  add(make_flac(first, 16'000));
  add(make_wav(first, 8'000));
  for (const std::size_t from : {window, window / 2, 3 * window}) {
    add(make_wav({first.begin() + static_cast<std::ptrdiff_t>(from), first.end()}, 16'000));
  }
  for (const std::size_t length : {std::size_t{1}, window - 1, window, window + 1, 2 * window}) {
    add(make_wav({first.begin(), first.begin() + static_cast<std::ptrdiff_t>(length)}, 16'000));
  }
  std::vector<float> turned = first;
  std::ranges::rotate(turned, turned.begin() + static_cast<std::ptrdiff_t>(window));
  add(make_wav(turned, 16'000));
  for (const std::size_t at : {std::size_t{0}, window - 1, window, first.size() - 1}) {
    std::vector<float> changed = first;
    changed[at] += 0.25F;
    add(make_wav(changed, 16'000));
  }
  return items;
}

/// One part, and what it was encoded to.
struct EncodedPart {
  PartToEncode part;
  MediaPart declared;
  EncoderOutput output;
};

inline bool same_output(const EncoderOutput& a, const EncoderOutput& b) {
  return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) {
    return x.dtype == y.dtype && x.shape == y.shape && x.bytes == y.bytes;
  });
}

/// Encodes the parts in one call; "" or what was wrong with the call.
inline std::string encode_together(const Engine& engine, std::span<const PartToEncode> parts,
                                   std::vector<EncoderOutput>& outputs) {
  std::vector<int> times(parts.size());
  std::string wrong;
  outputs.assign(parts.size(), {});
  engine.encode_parts(parts, [&](std::vector<Encoded> some) {
    for (Encoded& one : some) {
      if (one.item >= parts.size()) {
        wrong = "a part was passed that was not asked for";
      } else if (!one.output.has_value()) {
        wrong = to_string(one.output.error());
      } else {
        ++times[one.item];
        outputs[one.item] = *std::move(one.output);
      }
    }
  });
  const bool once = std::ranges::all_of(times, [](int count) { return count == 1; });
  return wrong.empty() && !once ? "a part was not passed exactly once" : wrong;
}

/// "" or how the item's parts differ from the whole. Appends the parts to `all`.
inline std::string difference_from_whole(const Engine& engine, const MediaItem& item,
                                         const SplitMedia& split, std::vector<EncodedPart>& all) {
  const auto declared = split.parts();
  if (declared.empty()) return "split into nothing";
  std::vector<PartToEncode> parts;
  for (std::size_t i = 0; i < declared.size(); ++i) parts.push_back({.item = &split, .part = i});
  std::vector<EncoderOutput> outputs;
  if (std::string wrong = encode_together(engine, parts, outputs); !wrong.empty()) return wrong;
  std::vector<TensorViews> views;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    views.push_back(views_of(outputs[i]).value());
    if (views[i].empty() || views[i][0].shape()[0] != declared[i].rows.value()) {
      return "part " + std::to_string(i) + " has other rows than declared";
    }
  }
  const auto joined = join_parts(views);
  if (!joined.has_value()) return to_string(joined.error());
  const auto whole = engine.encode(item);
  if (!whole.has_value()) return to_string(whole.error());
  if (!same_output(*joined, *whole)) return "the parts together are not the whole";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    all.push_back({.part = parts[i], .declared = declared[i], .output = std::move(outputs[i])});
  }
  return "";
}

/// "" or which part has another output when it is encoded with others, or in another order.
inline std::string difference_in_batches(const Engine& engine, const std::vector<EncodedPart>& all,
                                         Rng& rng) {
  for (int round = 0; round < 8; ++round) {
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (round == 0 || rng.chance(0.4)) chosen.push_back(i);
    }
    for (std::size_t i = chosen.size(); i > 1; --i) {
      std::swap(chosen[i - 1], chosen[rng.below(i)]);
    }
    std::vector<PartToEncode> parts;
    for (const std::size_t i : chosen) parts.push_back(all[i].part);
    std::vector<EncoderOutput> outputs;
    if (std::string wrong = encode_together(engine, parts, outputs); !wrong.empty()) return wrong;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (!same_output(outputs[i], all[chosen[i]].output)) {
        return "part " + std::to_string(chosen[i]) + " has another output in a batch of " +
               std::to_string(chosen.size());
      }
    }
  }
  return "";
}

/// "" or the first way in which the engine breaks the promise of split() for these items. Items that
/// it does not split are fine; `split_items` counts the others.
inline std::string parts_difference(const Engine& engine, std::span<const MediaItem> items,
                                    Rng& rng, std::size_t* split_items = nullptr) {
  std::vector<std::shared_ptr<const SplitMedia>> splits;
  std::vector<EncodedPart> all;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string where = "item " + std::to_string(i) + ": ";
    auto split = engine.split(items[i]);
    if (!split.has_value()) return where + to_string(split.error());
    if (*split == nullptr) continue;
    if (split_items != nullptr) ++*split_items;
    const auto again = engine.split(items[i]);
    if (!again.has_value() || *again == nullptr ||
        !std::ranges::equal((*again)->parts(), (*split)->parts())) {
      return where + "split in another way the second time";
    }
    splits.push_back(*std::move(split));
    const std::string found = difference_from_whole(engine, items[i], *splits.back(), all);
    if (!found.empty()) return where + found;
  }
  std::map<DecodedDigest, const EncodedPart*> known;
  for (const EncodedPart& part : all) {
    const auto [first, fresh] = known.emplace(part.declared.input, &part);
    if (!fresh && !same_output(first->second->output, part.output)) {
      return "two parts with the same input have different outputs";
    }
  }
  return difference_in_batches(engine, all, rng);
}

}  // namespace afterimage::testing

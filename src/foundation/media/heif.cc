// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/heif.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "foundation/media/boxes.h"
#include "foundation/media/cursor.h"

namespace afterimage {

namespace {

constexpr std::size_t kMaxHeifItems = 4'096;
constexpr std::size_t kMaxHeifTiles = 1'024;  // a phone's picture of 48 Mpx has 192
constexpr std::size_t kMaxHeifBoxes = 4'096;

/// The body of the first box of this type; empty: there is none.
std::span<const std::byte> find_box(std::span<const std::byte> within, std::string_view type) {
  ByteCursor cursor(within);
  for (std::size_t boxes = 0; boxes < kMaxHeifBoxes && !cursor.rest().empty(); ++boxes) {
    const auto box = next_box(cursor);
    if (!box.has_value()) break;
    if (box->type == type) return box->body;
  }
  return {};
}

/// A number of 0, 4 or 8 bytes.
std::uint64_t sized_number(ByteCursor& cursor, std::uint32_t bytes) {
  if (bytes == 8) {
    const std::uint64_t high = cursor.big(4);
    return high << 32U | cursor.big(4);
  }
  return bytes == 4 ? cursor.big(4) : 0;
}

struct HeifReference {
  std::string_view type;
  std::uint32_t from = 0;
  std::vector<std::uint32_t> to;
};

struct HeifItem {
  std::uint32_t id = 0;
  std::string_view type;  // "hvc1"
  std::span<const std::byte> bytes;
  bool is_in_one_piece = false;
  std::vector<Box> properties;  // in the order in which they are applied
};

/// The items of a file, their data and what is said about them.
class HeifItems {
 public:
  static Result<HeifItems> read(const MediaFile& file);

  [[nodiscard]] Result<const HeifItem*> item(std::uint32_t id) const {
    const auto found = std::ranges::find(items_, id, &HeifItem::id);
    if (found != items_.end()) return &*found;
    return corrupt(*file_, fmt::format("its item {} is missing", id));
  }
  [[nodiscard]] std::uint32_t primary() const { return primary_; }
  [[nodiscard]] std::span<const HeifReference> references() const { return references_; }
  [[nodiscard]] const MediaFile& file() const { return *file_; }

 private:
  explicit HeifItems(const MediaFile& file) : file_(&file) {}
  Result<void> read_types(std::span<const std::byte> box);
  Result<void> read_places(std::span<const std::byte> box, std::span<const std::byte> idat);
  Result<void> read_references(std::span<const std::byte> box);
  Result<void> read_properties(std::span<const std::byte> box);
  Result<void> add_properties(std::span<const std::byte> box, std::span<const Box> all);

  const MediaFile* file_;
  std::uint32_t primary_ = 0;
  std::vector<HeifItem> items_;
  std::vector<HeifReference> references_;
};

Result<HeifItems> HeifItems::read(const MediaFile& file) {
  std::span<const std::byte> meta;
  ByteCursor boxes(file.bytes);
  for (std::size_t count = 0; !boxes.rest().empty(); ++count) {
    const auto box = next_box(boxes);
    if (!box.has_value() || count == kMaxHeifBoxes) {
      return corrupt(file, fmt::format("it ends inside its box number {}", count + 1));
    }
    if (box->type == "meta" && meta.empty()) meta = box->body;
  }
  if (meta.size() < 4) {
    return unsupported(file, "a sequence of pictures without a still one: send it as MP4");
  }
  meta = meta.subspan(4);  // version and flags
  HeifItems items(file);
  ByteCursor primary(find_box(meta, "pitm"));
  const std::uint32_t version = primary.big(4) >> 24U;
  items.primary_ = primary.big(version == 0 ? 2 : 4);
  if (primary.ended_early())
    return corrupt(file, "it does not say which of its items is the picture");
  AFI_TRY_VOID(items.read_types(find_box(meta, "iinf")));
  AFI_TRY_VOID(items.read_places(find_box(meta, "iloc"), find_box(meta, "idat")));
  AFI_TRY_VOID(items.read_references(find_box(meta, "iref")));
  AFI_TRY_VOID(items.read_properties(find_box(meta, "iprp")));
  return items;
}

Result<void> HeifItems::read_types(std::span<const std::byte> box) {
  ByteCursor cursor(box);
  const std::uint32_t version = cursor.big(4) >> 24U;
  cursor.take(version == 0 ? 2 : 4);  // the number of items: there are as many as there are
  while (!cursor.rest().empty()) {
    const auto entry = next_box(cursor);
    if (!entry.has_value()) return corrupt(*file_, "its list of items ends early");
    if (items_.size() == kMaxHeifItems) {
      return fail(ErrorCode::kLimitExceeded,
                  fmt::format("{}: more than {} items", file_->name, kMaxHeifItems));
    }
    ByteCursor fields(entry->body);
    const std::uint32_t entry_version = fields.big(4) >> 24U;
    if (entry->type != "infe" || entry_version < 2) continue;
    HeifItem item;
    item.id = fields.big(entry_version == 2 ? 2 : 4);
    const std::uint32_t protection = fields.big(2);
    item.type = as_text(fields.take(4));
    if (fields.ended_early()) return corrupt(*file_, "its list of items ends early");
    if (protection != 0) item.type = "encrypted";
    items_.push_back(std::move(item));
  }
  // By number, so that each is found at once.
  std::ranges::stable_sort(items_, {}, &HeifItem::id);
  return {};
}

Result<void> HeifItems::read_places(std::span<const std::byte> box,
                                    std::span<const std::byte> idat) {
  ByteCursor cursor(box);
  const std::uint32_t version = cursor.big(4) >> 24U;
  const std::uint32_t sizes = cursor.big(2);
  const std::uint32_t offset_bytes = sizes >> 12U;
  const std::uint32_t length_bytes = sizes >> 8U & 0xFU;
  const std::uint32_t base_bytes = sizes >> 4U & 0xFU;
  const std::uint32_t index_bytes = version == 0 ? 0 : sizes & 0xFU;
  const std::uint32_t count = cursor.big(version < 2 ? 2 : 4);
  for (const std::uint32_t bytes : {offset_bytes, length_bytes, base_bytes, index_bytes}) {
    if (bytes != 0 && bytes != 4 && bytes != 8) return corrupt(*file_, "places of another size");
  }
  if (version > 2) return unsupported(*file_, "places of its items of a later version");
  if (count > kMaxHeifItems) {
    return fail(ErrorCode::kLimitExceeded,
                fmt::format("{}: more than {} items", file_->name, kMaxHeifItems));
  }
  for (std::uint32_t i = 0; i < count && !cursor.ended_early(); ++i) {
    const std::uint32_t id = cursor.big(version < 2 ? 2 : 4);
    const std::uint32_t construction = version == 0 ? 0 : cursor.big(2) & 0xFU;
    const std::uint32_t elsewhere = cursor.big(2);
    const std::uint64_t base = sized_number(cursor, base_bytes);
    const std::uint32_t extents = cursor.big(2);
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    if (extents == 1) {
      cursor.take(index_bytes);
      offset = sized_number(cursor, offset_bytes);
      length = sized_number(cursor, length_bytes);
    } else {
      cursor.take(std::uint64_t{extents} * (index_bytes + offset_bytes + length_bytes));
    }
    const auto found = std::ranges::lower_bound(items_, id, {}, &HeifItem::id);
    if (found == items_.end() || found->id != id) continue;
    if (extents != 1 || elsewhere != 0 || construction > 1) continue;
    const auto within = construction == 1 ? idat : file_->bytes;
    if (base > within.size() || offset > within.size() - base) {
      return corrupt(*file_, fmt::format("its item {} is not in the file", id));
    }
    const auto rest = within.subspan(static_cast<std::size_t>(base + offset));
    if (length == 0) length = rest.size();
    if (length > rest.size()) return corrupt(*file_, fmt::format("its item {} ends early", id));
    found->bytes = rest.first(static_cast<std::size_t>(length));
    found->is_in_one_piece = true;
  }
  if (cursor.ended_early()) return corrupt(*file_, "the places of its items end early");
  return {};
}

Result<void> HeifItems::read_references(std::span<const std::byte> box) {
  if (box.empty()) return {};
  ByteCursor cursor(box);
  const std::size_t width = cursor.big(4) >> 24U == 0 ? 2 : 4;
  std::size_t total = 0;
  while (!cursor.rest().empty()) {
    const auto entry = next_box(cursor);
    if (!entry.has_value()) return corrupt(*file_, "its references end early");
    ByteCursor fields(entry->body);
    HeifReference reference{.type = entry->type, .from = fields.big(width), .to = {}};
    const std::uint32_t count = fields.big(2);
    total += count + 1;
    if (total > kMaxHeifItems) {
      return fail(ErrorCode::kLimitExceeded,
                  fmt::format("{}: more than {} references", file_->name, kMaxHeifItems));
    }
    for (std::uint32_t i = 0; i < count; ++i) reference.to.push_back(fields.big(width));
    if (fields.ended_early()) return corrupt(*file_, "its references end early");
    references_.push_back(std::move(reference));
  }
  return {};
}

Result<void> HeifItems::read_properties(std::span<const std::byte> box) {
  std::vector<Box> all;
  ByteCursor cursor(find_box(box, "ipco"));
  while (!cursor.rest().empty()) {
    const auto property = next_box(cursor);
    if (!property.has_value()) return corrupt(*file_, "its properties end early");
    if (all.size() == kMaxHeifBoxes) {
      return fail(ErrorCode::kLimitExceeded,
                  fmt::format("{}: more than {} properties", file_->name, kMaxHeifBoxes));
    }
    all.push_back(*property);
  }
  // There may be several lists.
  ByteCursor lists(box);
  for (std::size_t i = 0; i < kMaxHeifBoxes && !lists.rest().empty(); ++i) {
    const auto list = next_box(lists);
    if (!list.has_value()) return corrupt(*file_, "its properties end early");
    if (list->type == "ipma") AFI_TRY_VOID(add_properties(list->body, all));
  }
  return {};
}

Result<void> HeifItems::add_properties(std::span<const std::byte> box, std::span<const Box> all) {
  ByteCursor cursor(box);
  const std::uint32_t head = cursor.big(4);
  const bool is_wide = (head & 1U) != 0;
  const std::uint32_t count = std::min<std::uint32_t>(cursor.big(4), kMaxHeifItems);
  std::size_t total = 0;
  for (std::uint32_t i = 0; i < count && !cursor.ended_early(); ++i) {
    const std::uint32_t id = cursor.big(head >> 24U == 0 ? 2 : 4);
    const std::uint32_t properties = cursor.big(1);
    const auto found = std::ranges::lower_bound(items_, id, {}, &HeifItem::id);
    for (std::uint32_t p = 0; p < properties && !cursor.ended_early(); ++p) {
      const std::uint32_t value = cursor.big(is_wide ? 2 : 1);
      const std::uint32_t index = value & (is_wide ? 0x7FFFU : 0x7FU);
      if (index == 0 || found == items_.end() || found->id != id) continue;
      if (index > all.size())
        return corrupt(*file_, fmt::format("its property {} is missing", index));
      static constexpr std::array<std::string_view, 14> kKnown = {
          "ispe", "hvcC", "av1C", "irot", "imir", "clap", "colr",
          "pixi", "pasp", "auxC", "clli", "mdcv", "cclv", "amve"};
      const Box& property = all[index - 1];
      const bool is_essential = (value & (is_wide ? 0x8000U : 0x80U)) != 0;
      if (is_essential && std::ranges::find(kKnown, property.type) == kKnown.end()) {
        // A reader without it must not show the item.
        found->type = "unknown property";
      }
      if (++total > 4 * kMaxHeifItems) {
        return fail(ErrorCode::kLimitExceeded, file_->name + ": too many properties");
      }
      found->properties.push_back(property);
    }
  }
  if (cursor.ended_early()) return corrupt(*file_, "its properties end early");
  return {};
}

std::span<const std::byte> property_of(const HeifItem& item, std::string_view type) {
  const auto found = std::ranges::find(item.properties, type, &Box::type);
  return found == item.properties.end() ? std::span<const std::byte>() : found->body;
}

struct HeifSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};

Result<HeifSize> size_of(const HeifItem& item, const MediaFile& file) {
  ByteCursor cursor(property_of(item, "ispe"));
  cursor.take(4);
  const HeifSize size{.width = cursor.big(4), .height = cursor.big(4)};
  if (cursor.ended_early() || size.width == 0 || size.height == 0) {
    return corrupt(file, fmt::format("its item {} has no size", item.id));
  }
  return size;
}

std::optional<HeifColour> colour_of(const HeifItem& item) {
  for (const Box& property : item.properties) {
    if (property.type != "colr" || !as_text(property.body).starts_with("nclx")) continue;
    ByteCursor cursor(property.body.subspan(4));
    cursor.take(4);  // primaries and transfer
    const std::uint32_t matrix = cursor.big(2);
    const std::uint32_t full = cursor.big(1);
    if (!cursor.ended_early())
      return HeifColour{.matrix = matrix, .is_full_range = full >> 7U != 0};
  }
  return std::nullopt;
}

/// Of one item that is coded as a whole.
Result<HeifCoded> coded_item(const HeifItem& item, const MediaFile& file) {
  HeifCoded coded;
  coded.is_av1 = item.type == "av01";
  if (!coded.is_av1 && item.type != "hvc1") {
    return unsupported(file,
                       fmt::format("a picture coded as \"{}\"; HEVC (hvc1) and AV1 (av01) are "
                                   "read: convert it to PNG or JPEG",
                                   item.type));
  }
  if (!item.is_in_one_piece) return unsupported(file, "a picture in several pieces");
  coded.configuration = property_of(item, coded.is_av1 ? "av1C" : "hvcC");
  if (coded.configuration.empty()) return corrupt(file, "a picture without its decoder's settings");
  AFI_TRY(const HeifSize size, size_of(item, file));
  coded.width = coded.tile_width = size.width;
  coded.height = coded.tile_height = size.height;
  coded.tiles.push_back(item.bytes);
  coded.colour = colour_of(item);
  return coded;
}

struct HeifGrid {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  HeifSize size;
};

Result<HeifGrid> read_grid(const HeifItem& item, const MediaFile& file) {
  ByteCursor cursor(item.bytes);
  cursor.take(1);
  const std::size_t width = (cursor.big(1) & 1U) == 0 ? 2 : 4;
  HeifGrid grid;
  grid.rows = cursor.big(1) + 1;
  grid.columns = cursor.big(1) + 1;
  grid.size.width = cursor.big(width);
  grid.size.height = cursor.big(width);
  if (cursor.ended_early()) return corrupt(file, "its grid ends early");
  if (grid.rows * grid.columns > kMaxHeifTiles) {
    return fail(ErrorCode::kLimitExceeded,
                fmt::format("{}: {} tiles; at most {} are allowed", file.name,
                            grid.rows * grid.columns, kMaxHeifTiles));
  }
  return grid;
}

Result<HeifCoded> coded_grid(const HeifItems& items, const HeifItem& item) {
  const MediaFile& file = items.file();
  AFI_TRY(const HeifGrid grid, read_grid(item, file));
  const auto tiles = std::ranges::find_if(items.references(), [&](const HeifReference& reference) {
    return reference.type == "dimg" && reference.from == item.id;
  });
  if (tiles == items.references().end() || tiles->to.size() != grid.rows * grid.columns) {
    return corrupt(file, "a grid without all of its tiles");
  }
  HeifCoded coded;
  for (const std::uint32_t id : tiles->to) {
    AFI_TRY(const HeifItem* const tile_item, items.item(id));
    AFI_TRY(const HeifCoded tile, coded_item(*tile_item, file));
    if (coded.tiles.empty()) {
      coded = tile;
      coded.tiles.clear();
    }
    if (tile.is_av1 != coded.is_av1 || tile.tile_width != coded.tile_width ||
        tile.tile_height != coded.tile_height ||
        !std::ranges::equal(tile.configuration, coded.configuration)) {
      return unsupported(file, "a grid of tiles of different kinds");
    }
    coded.tiles.push_back(tile.tiles.front());
  }
  coded.rows = grid.rows;
  coded.columns = grid.columns;
  coded.width = grid.size.width;
  coded.height = grid.size.height;
  const std::uint64_t across = std::uint64_t{coded.tile_width} * grid.columns;
  const std::uint64_t down = std::uint64_t{coded.tile_height} * grid.rows;
  if (across < coded.width || across - coded.tile_width >= coded.width || down < coded.height ||
      down - coded.tile_height >= coded.height) {
    return corrupt(file, "a grid of another size than its tiles");
  }
  if (const auto colour = colour_of(item)) coded.colour = colour;
  return coded;
}

Result<HeifCoded> coded_of(const HeifItems& items, const HeifItem& item) {
  if (item.type == "grid") return coded_grid(items, item);
  return coded_item(item, items.file());
}

/// The second turn after the first.
Orientation turned(Orientation first, Orientation second) {
  const Image marked{.width = 2, .height = 3, .rgb = [] {
                       std::vector<std::uint8_t> places(18);
                       std::iota(places.begin(), places.end(), std::uint8_t{0});
                       return places;
                     }()};
  const Image both = turn_upright(turn_upright(marked, first), second);
  for (std::uint8_t number = 1; number <= 8; ++number) {
    const auto one = static_cast<Orientation>(number);
    const Image image = turn_upright(marked, one);
    if (image.width == both.width && image.rgb == both.rgb) return one;
  }
  AFI_CHECK(false);
  return Orientation::kUpright;
}

/// Rounds half up. `denominator` is not zero.
std::int64_t divided(std::int64_t numerator, std::int64_t denominator) {
  const std::int64_t twice = 2 * numerator + denominator;
  const std::int64_t quotient = twice / (2 * denominator);
  return twice % (2 * denominator) < 0 ? quotient - 1 : quotient;
}

Result<HeifCrop> read_crop(std::span<const std::byte> body, const HeifCrop& of,
                           const MediaFile& file) {
  ByteCursor cursor(body);
  std::array<std::int64_t, 8> numbers{};
  for (std::size_t i = 0; i < 8; ++i) {
    const std::uint32_t number = cursor.big(4);
    // Offsets of the middle have a sign.
    numbers[i] = i == 4 || i == 6 ? static_cast<std::int32_t>(number) : std::int64_t{number};
  }
  const auto [w, wd, h, hd, x, xd, y, yd] = numbers;
  constexpr std::int64_t kMostParts = 65'536;  // of a pixel
  const auto is_fraction = [](std::int64_t below) { return below > 0 && below <= kMostParts; };
  if (cursor.ended_early() || !is_fraction(wd) || !is_fraction(hd) || !is_fraction(xd) ||
      !is_fraction(yd)) {
    return corrupt(file, "a crop without a size");
  }
  const std::int64_t width = w / wd;
  const std::int64_t height = h / hd;
  // From the middle, which lies between two pixels if the picture has an even number of them.
  const std::int64_t left = divided(2 * x + (of.width - width) * xd, 2 * xd);
  const std::int64_t top = divided(2 * y + (of.height - height) * yd, 2 * yd);
  if (width <= 0 || height <= 0 || left < 0 || top < 0 || left + width > of.width ||
      top + height > of.height) {
    return corrupt(file, "a crop beyond the picture");
  }
  return HeifCrop{.left = static_cast<std::uint32_t>(left),
                  .top = static_cast<std::uint32_t>(top),
                  .width = static_cast<std::uint32_t>(width),
                  .height = static_cast<std::uint32_t>(height)};
}

Result<void> read_transforms(const HeifItem& item, const MediaFile& file, HeifImage& image) {
  static constexpr std::array kTurns = {Orientation::kUpright, Orientation::kTurnCounterclockwise,
                                        Orientation::kUpsideDown, Orientation::kTurnClockwise};
  for (const Box& property : item.properties) {
    ByteCursor cursor(property.body);
    if (property.type == "clap") {
      if (image.orientation != Orientation::kUpright) {
        return unsupported(file, "a picture that is cropped after it was turned");
      }
      AFI_TRY(image.crop, read_crop(property.body, image.crop, file));
    } else if (property.type == "irot") {
      image.orientation = turned(image.orientation, kTurns[cursor.big(1) & 3U]);
    } else if (property.type == "imir") {
      const bool is_sideways = (cursor.big(1) & 1U) != 0;
      image.orientation =
          turned(image.orientation, is_sideways ? Orientation::kMirrored : Orientation::kFlipped);
    }
  }
  return {};
}

bool is_alpha(const HeifItem& item) {
  const auto body = property_of(item, "auxC");
  if (body.size() < 4) return false;
  std::string_view name = as_text(body.subspan(4));
  name = name.substr(0, name.find('\0'));
  return name == "urn:mpeg:mpegB:cicp:systems:auxiliary:alpha" ||
         name == "urn:mpeg:hevc:2015:auxid:1";
}

}  // namespace

Result<HeifImage> read_heif(const MediaFile& file) {
  AFI_TRY(const HeifItems items, HeifItems::read(file));
  AFI_TRY(const HeifItem* const primary, items.item(items.primary()));
  HeifImage image;
  AFI_TRY(image.picture, coded_of(items, *primary));
  image.crop = {.width = image.picture.width, .height = image.picture.height};
  AFI_TRY_VOID(read_transforms(*primary, file, image));
  for (const HeifReference& reference : items.references()) {
    const bool is_of_it = std::ranges::find(reference.to, primary->id) != reference.to.end();
    if (reference.type == "auxl" && is_of_it && !image.alpha.has_value()) {
      AFI_TRY(const HeifItem* const item, items.item(reference.from));
      if (!is_alpha(*item)) continue;
      AFI_TRY(HeifCoded alpha, coded_of(items, *item));
      if (alpha.width != image.picture.width || alpha.height != image.picture.height) {
        return unsupported(file, "alpha of another size than the picture");
      }
      image.alpha = std::move(alpha);
    }
    if (reference.type == "prem" && reference.from == primary->id) image.is_premultiplied = true;
  }
  return image;
}

Result<PictureHeader> read_heif_header(const MediaFile& file) {
  AFI_TRY(const HeifImage image, read_heif(file));
  const auto side = [](const HeifCoded& coded, std::uint32_t HeifCoded::* tile,
                       std::uint32_t HeifCoded::* count) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(UINT32_MAX, std::uint64_t{coded.*tile} * (coded.*count)));
  };
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  for (const HeifCoded* coded : {&image.picture, image.alpha ? &*image.alpha : nullptr}) {
    if (coded == nullptr) continue;
    width = std::max(width, side(*coded, &HeifCoded::tile_width, &HeifCoded::columns));
    height = std::max(height, side(*coded, &HeifCoded::tile_height, &HeifCoded::rows));
  }
  return PictureHeader{.format = sniff(file.bytes),
                       .width = image.crop.width,
                       .height = image.crop.height,
                       .coded_width = width,
                       .coded_height = height,
                       .orientation = image.orientation};
}

}  // namespace afterimage

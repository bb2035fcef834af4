// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/documents/omissions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <vector>

namespace afterimage {
namespace {

constexpr int kMostCharacters = 1'000'000;
constexpr int kMostAnnotations = 20'000;

constexpr int kInvisibleText = 3;  // FPDF_TEXTRENDERMODE_INVISIBLE: text under a scan
constexpr int kClippingText = 7;   // FPDF_TEXTRENDERMODE_CLIP
constexpr int kHidden = 0x02;      // FPDF_ANNOT_FLAG_HIDDEN
constexpr int kNoView = 0x20;      // FPDF_ANNOT_FLAG_NOVIEW
constexpr unsigned long kEmptyText = 2;
constexpr double kThin = 0.01;       // of a box: one side, relative to both
constexpr float kThinPoints = 0.1F;  // of a text

// FPDF_ANNOT_…
constexpr int kLink = 2;
constexpr int kFreeText = 3;
constexpr int kPopup = 16;
constexpr int kWidget = 20;
// FPDF_FORMFIELD_…
constexpr int kComboBox = 4;
constexpr int kTextField = 6;

/// Annotations that readers draw themselves where the file has no appearance, and PDFium does not.
struct Mark {
  int subtype;
  const char* name;
};
constexpr auto kMarks = std::to_array<Mark>({{kFreeText, "FreeText"},
                                             {4, "Line"},
                                             {7, "Polygon"},
                                             {8, "PolyLine"},
                                             {13, "Stamp"},
                                             {14, "Caret"},
                                             {15, "Ink"},
                                             {28, "Redact"}});

/// A character without ink of its own: white space, or one that only joins or directs others.
bool is_blank(unsigned unicode) {
  struct Range {
    unsigned first;
    unsigned last;
  };
  static constexpr auto kBlank = std::to_array<Range>({{0, 0x20},
                                                       {0x7F, 0xA0},
                                                       {0xAD, 0xAD},
                                                       {0x1680, 0x1680},
                                                       {0x2000, 0x200F},
                                                       {0x2028, 0x202F},
                                                       {0x205F, 0x2064},
                                                       {0x3000, 0x3000},
                                                       {0xFEFF, 0xFEFF},
                                                       {0xFFFE, 0xFFFF}});
  return std::ranges::any_of(kBlank, [unicode](const Range& range) {
    return range.first <= unicode && unicode <= range.last;
  });
}

PageRect moved(const PageRect& rect, const PageMatrix& by) {
  PageRect out;
  bool first = true;
  for (const float x : {rect.left, rect.right}) {
    for (const float y : {rect.bottom, rect.top}) {
      const float to_x = by.a * x + by.c * y + by.e;
      const float to_y = by.b * x + by.d * y + by.f;
      out.left = first ? to_x : std::min(out.left, to_x);
      out.right = first ? to_x : std::max(out.right, to_x);
      out.bottom = first ? to_y : std::min(out.bottom, to_y);
      out.top = first ? to_y : std::max(out.top, to_y);
      first = false;
    }
  }
  return out;
}

/// First `inner`, then `outer`.
PageMatrix joined(const PageMatrix& inner, const PageMatrix& outer) {
  return {.a = inner.a * outer.a + inner.b * outer.c,
          .b = inner.a * outer.b + inner.b * outer.d,
          .c = inner.c * outer.a + inner.d * outer.c,
          .d = inner.c * outer.b + inner.d * outer.d,
          .e = inner.e * outer.a + inner.f * outer.c + outer.e,
          .f = inner.e * outer.b + inner.f * outer.d + outer.f};
}

class Omissions {
 public:
  Omissions(const PdfiumCalls& calls, const DrawnPage& drawn) : calls_(calls), drawn_(drawn) {}

  Result<bool> find() && {
    AFI_TRY_VOID(read_text());
    const int objects = calls_.count_objects(drawn_.page);
    for (int i = 0; i < objects; ++i) {
      AFI_TRY_VOID(read_object(calls_.object(drawn_.page, i), {}, 0));
    }
    AFI_TRY_VOID(check_fonts());
    AFI_TRY_VOID(read_annotations());
    holds_anything_ = holds_anything_ || objects > 0;
    const bool is_empty = !has_ink_between(0, 0, drawn_.width - 1, drawn_.height - 1);
    return !left_out_ && !(is_empty && holds_anything_);
  }

 private:
  /// Corners included. False: all pixels have one colour.
  [[nodiscard]] bool has_ink_between(int left, int top, int right, int bottom) const {
    const auto pixel = [&](int x, int y) {
      return drawn_.rgbx.data() + 4 * (static_cast<std::ptrdiff_t>(y) * drawn_.width + x);
    };
    const std::uint8_t* const first = pixel(left, top);
    for (int y = top; y <= bottom; ++y) {
      for (int x = left; x <= right; ++x) {
        if (std::memcmp(first, pixel(x, y), 3) != 0) return true;
      }
    }
    return false;
  }

  /// Whether a rectangle of the page, and the pixels around it, have more than one colour; true where
  /// nothing of it is on the page.
  [[nodiscard]] bool has_ink(const PageRect& rect) const {
    std::array<int, 2> x{};
    std::array<int, 2> y{};
    const auto place = [&](float from_x, float from_y, std::size_t corner) {
      return calls_.to_device(drawn_.page, 0, 0, drawn_.width, drawn_.height, 0, from_x, from_y,
                              &x[corner], &y[corner]) != 0;
    };
    if (!place(rect.left, rect.bottom, 0) || !place(rect.right, rect.top, 1)) return true;
    const auto [left, right] = std::ranges::minmax(x);
    const auto [top, bottom] = std::ranges::minmax(y);
    if (right < 0 || bottom < 0 || left >= drawn_.width || top >= drawn_.height) return true;
    return has_ink_between(std::max(left, 1) - 1, std::max(top, 1) - 1,
                           std::min(right, drawn_.width - 2) + 1,
                           std::min(bottom, drawn_.height - 2) + 1);
  }

  [[nodiscard]] std::string name_of_font(void* font) const {
    if (font == nullptr) return "without a name";
    std::array<char, 128> name{};
    const std::size_t size = calls_.font_name(font, name.data(), name.size());
    return size > 1 && size <= name.size() ? std::string(name.data()) : "without a name";
  }

  Result<void> read_text() {
    void* const text = calls_.open_text(drawn_.page);
    if (text == nullptr) return {};
    const int count = calls_.count_characters(text);
    const bool too_many = count > kMostCharacters;
    for (int i = 0; i < count && !too_many; ++i) read_character(text, i);
    calls_.close_text(text);
    if (!too_many) return {};
    return fail(ErrorCode::kLimitExceeded, fmt::format("{}: {} characters; at most {} are allowed",
                                                       drawn_.name, count, kMostCharacters));
  }

  void read_character(void* text, int index) {
    void* const object = calls_.text_object(text, index);
    if (object == nullptr) return;
    read_.insert(object);
    const unsigned unicode = calls_.unicode(text, index);
    if (!is_visible(object) || is_blank(unicode) || calls_.is_generated(text, index) == 1) return;
    double left = 0;
    double right = 0;
    double bottom = 0;
    double top = 0;
    // The box of a glyph that no font has is a line: as wide as the character, and of no height.
    const bool has_box =
        calls_.character_box(text, index, &left, &right, &bottom, &top) != 0 &&
        std::min(right - left, top - bottom) > kThin * (right - left + top - bottom);
    void* const font = calls_.font(object);
    const bool is_missing = !has_box && !has_glyph(font, unicode);
    FontUse& use = use_of(font);
    if (!is_embedded(font) && (is_missing || calls_.has_no_unicode(text, index) == 1)) {
      ++use.missing;
      return;
    }
    use.is_drawn = true;
    left_out_ = left_out_ || is_missing || !has_ink(rect_of(left, top, right, bottom));
  }

  [[nodiscard]] bool is_visible(void* text_object) const {
    const int mode = calls_.render_mode(text_object);
    return mode != kInvisibleText && mode != kClippingText;
  }
  [[nodiscard]] bool is_embedded(void* font) const {
    return font != nullptr && calls_.is_embedded(font) != 0;
  }
  [[nodiscard]] bool has_glyph(void* font, unsigned unicode) const {
    return font != nullptr && calls_.glyph(font, unicode, 12) != nullptr;
  }
  static PageRect rect_of(double left, double top, double right, double bottom) {
    return {.left = static_cast<float>(left),
            .top = static_cast<float>(top),
            .right = static_cast<float>(right),
            .bottom = static_cast<float>(bottom)};
  }

  /// A text of one character that is a space or has no glyph is not among the page's characters.
  void read_lost_text(void* object, const PageRect& bounds) {
    if (read_.contains(object) || !is_visible(object)) return;
    void* const font = calls_.font(object);
    if (is_embedded(font) || bounds.right - bounds.left > kThinPoints) return;
    ++use_of(font).lost;
    left_out_ = true;
  }

  /// One lost text of a font may be a space. Several, and nothing of the font that is drawn, are not.
  [[nodiscard]] Result<void> check_fonts() const {
    for (const FontUse& use : fonts_) {
      const std::uint32_t missing = use.missing + (use.is_drawn || use.lost == 1 ? 0 : use.lost);
      if (missing == 0) continue;
      return fail(
          ErrorCode::kUnsupported,
          fmt::format("{}: {} of its characters have the font {}, which is neither in the "
                      "file nor one of PDFium's own, and would be missing: save the PDF with "
                      "its fonts embedded",
                      drawn_.name, missing, name_of_font(use.font)));
    }
    return {};
  }

  Result<void> read_object(void* object, const PageMatrix& placed, int depth) {
    if (object == nullptr || depth == kMaxFormDepth) return {};
    const int type = calls_.object_type(object);
    if (type == kObjectIsForm) {
      PageMatrix own;
      if (calls_.object_matrix(object, &own) == 0) own = {};
      const int count = calls_.count_inner(object);
      for (int i = 0; i < count; ++i) {
        AFI_TRY_VOID(read_object(calls_.inner(object, static_cast<unsigned long>(i)),
                                 joined(own, placed), depth + 1));
      }
    }
    PageRect bounds;
    if (calls_.object_bounds(object, &bounds.left, &bounds.bottom, &bounds.right, &bounds.top) ==
        0) {
      return {};
    }
    if (type == kObjectIsText) read_lost_text(object, bounds);
    if (type != kObjectIsImage || has_ink(moved(bounds, placed))) return {};
    left_out_ = true;
    void* const decoded = calls_.picture_bitmap(object);
    if (decoded == nullptr) {
      return fail(ErrorCode::kCorruption,
                  drawn_.name + ": a picture on it cannot be decoded, and would be missing");
    }
    calls_.destroy_bitmap(decoded);
    return {};
  }

  Result<void> read_annotations() {
    const int count = calls_.count_annotations(drawn_.page);
    if (count > kMostAnnotations) {
      return fail(ErrorCode::kLimitExceeded,
                  fmt::format("{}: {} annotations; at most {} are allowed", drawn_.name, count,
                              kMostAnnotations));
    }
    for (int i = 0; i < count; ++i) {
      void* const annotation = calls_.annotation(drawn_.page, i);
      if (annotation == nullptr) continue;
      auto read = read_annotation(annotation);
      calls_.close_annotation(annotation);
      AFI_TRY_VOID(std::move(read));
    }
    return {};
  }

  Result<void> read_annotation(void* annotation) {
    const int subtype = calls_.subtype(annotation);
    PageRect rect;
    if ((calls_.annotation_flags(annotation) & (kHidden | kNoView)) != 0 || subtype == kLink ||
        subtype == kPopup || calls_.annotation_rect(annotation, &rect) == 0) {
      return {};
    }
    holds_anything_ = true;
    const bool has_appearance = calls_.appearance(annotation, 0, nullptr, 0) > kEmptyText;
    const auto* const mark = std::ranges::find(kMarks, subtype, &Mark::subtype);
    const int field = subtype == kWidget ? calls_.field_type(drawn_.form, annotation) : 0;
    if (field < 0) {
      return fail(ErrorCode::kUnsupported,
                  drawn_.name +
                      ": a form field has no name, and would be missing: print the PDF to "
                      "a new one");
    }
    if (!has_appearance && mark != kMarks.end()) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{}: a {} annotation has no appearance in the file, and would be "
                              "missing: print the PDF to a new one, with its comments",
                              drawn_.name, mark->name));
    }
    if (subtype != kWidget) {
      left_out_ = left_out_ || !has_appearance || !has_ink(rect);
      return subtype == kFreeText ? read_words(annotation, comment_of(annotation), rect)
                                  : Result<void>();
    }
    if (field < kComboBox || field > kTextField) return {};
    return read_words(annotation, value_of(annotation), rect);
  }

  /// `words` as the file has them, which the annotation's appearance shows.
  Result<void> read_words(void* annotation, const std::vector<char16_t>& words,
                          const PageRect& rect) {
    if (std::ranges::all_of(words, is_blank)) return {};
    left_out_ = left_out_ || !has_ink(rect);
    std::vector<void*> fonts;
    const int count = calls_.count_annotation_objects(annotation);
    for (int i = 0; i < count; ++i) {
      void* const object = calls_.annotation_object(annotation, i);
      if (object != nullptr && calls_.object_type(object) == kObjectIsText) {
        fonts.push_back(calls_.font(object));
      }
    }
    for (const char16_t unit : words) {
      const auto has_it = [&](void* font) { return is_embedded(font) || has_glyph(font, unit); };
      if (is_blank(unit) || std::ranges::any_of(fonts, has_it)) continue;
      left_out_ = true;
      if (fonts.empty()) return {};  // its appearance may hold other objects that hold them
      return fail(
          ErrorCode::kUnsupported,
          fmt::format("{}: a form field or comment has characters that its font lacks ({}), "
                      "and they would be missing: print the PDF to a new one, with its "
                      "fonts embedded",
                      drawn_.name, name_of_font(fonts.front())));
    }
    return {};
  }

  [[nodiscard]] std::vector<char16_t> value_of(void* annotation) const {
    return read_utf16([&](void* text, unsigned long size) {
      return calls_.field_value(drawn_.form, annotation, text, size);
    });
  }
  [[nodiscard]] std::vector<char16_t> comment_of(void* annotation) const {
    return read_utf16([&](void* text, unsigned long size) {
      return calls_.annotation_text(annotation, "Contents", text, size);
    });
  }
  static std::vector<char16_t> read_utf16(const auto& read) {
    const unsigned long size = read(nullptr, 0);
    std::vector<char16_t> text(size / sizeof(char16_t));
    if (!text.empty()) read(text.data(), size);
    return text;
  }

  const PdfiumCalls& calls_;
  const DrawnPage& drawn_;
  /// Of one font, on this page.
  struct FontUse {
    void* font = nullptr;
    std::uint32_t missing = 0;  // characters without a glyph
    std::uint32_t lost = 0;     // texts of one character that is a space or has no glyph
    bool is_drawn = false;      // one of its characters at least
  };
  FontUse& use_of(void* font) {
    const auto known = std::ranges::find(fonts_, font, &FontUse::font);
    return known != fonts_.end() ? *known : fonts_.emplace_back(font);
  }

  std::vector<FontUse> fonts_;  // in the order of their first characters
  std::set<void*> read_;        // texts that have characters
  bool left_out_ = false;
  bool holds_anything_ = false;
};

}  // namespace

Result<bool> shows_everything(const PdfiumCalls& calls, const DrawnPage& drawn) {
  return Omissions(calls, drawn).find();
}

}  // namespace afterimage

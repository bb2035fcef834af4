// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What PDFium would leave out of a page without an error: it is drawn, refused by name, or part of the page's identity.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "foundation/documents/document_reader.h"
#include "foundation/media/decode.h"
#include "testing/pdf_files.h"

namespace afterimage {
namespace {

using namespace testing;
using ::testing::HasSubstr;

constexpr const char* kHelvetica = "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>";
constexpr const char* kPlace = "/Rect [20 20 120 40] /F 4";

/// One page with a font F, object 3, and what else belongs to it from object 6 on.
struct OnePage {
  std::string drawing;
  std::string font = kHelvetica;
  std::string page_fields = {};     // of the page
  std::string catalog_fields = {};  // of the catalog
  std::vector<std::string> objects = {};
};

FileContent file_of(const OnePage& page) {
  std::vector<std::string> objects = {
      fmt::format("<</Type /Catalog /Pages 2 0 R {}>>", page.catalog_fields),
      "<</Type /Pages /Kids [4 0 R] /Count 1>>", page.font,
      fmt::format("<</Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] /Resources <</Font <</F 3 0 "
                  "R>> /XObject <</P 6 0 R>>>> /Contents 5 0 R {}>>",
                  page.page_fields),
      pdf_stream("", page.drawing)};
  objects.insert(objects.end(), page.objects.begin(), page.objects.end());
  return pdf_of_objects(objects);
}

constexpr const char* kTitle = "0 g BT /F 12 Tf 10 80 Td (Form) Tj ET";

/// A page with one annotation, object 6, whose appearances follow as objects 7, 8, …
FileContent annotated(const std::string& annotation,
                      const std::vector<std::string>& appearances = {},
                      const std::string& place = kPlace) {
  OnePage page{.drawing = kTitle, .page_fields = "/Annots [6 0 R]"};
  page.objects.push_back("<</Type /Annot " + annotation + " " + place + ">>");
  for (const std::string& drawing : appearances) {
    page.objects.push_back(
        pdf_stream("/Type /XObject /Subtype /Form /BBox [0 0 100 20] /Resources "
                   "<</Font <</F 3 0 R>>>>",
                   drawing));
  }
  return file_of(page);
}

/// The same with a form that has the annotation as its field. `form`: further members.
FileContent filled_in(const std::string& field, const std::vector<std::string>& appearances = {},
                      const std::string& form = {}) {
  OnePage page{.drawing = kTitle,
               .page_fields = "/Annots [6 0 R]",
               .catalog_fields =
                   "/AcroForm <</Fields [6 0 R] /DA (/F 12 Tf 0 g) /DR <</Font <</F 3 0 R>>>> " +
                   form + ">>"};
  page.objects.push_back("<</Type /Annot /Subtype /Widget /T (field) " + field + " " + kPlace +
                         ">>");
  for (const std::string& drawing : appearances) {
    page.objects.push_back(
        pdf_stream("/Type /XObject /Subtype /Form /BBox [0 0 100 20] /Resources "
                   "<</Font <</F 3 0 R>>>>",
                   drawing));
  }
  return file_of(page);
}

std::string words(const std::string& text) {
  return fmt::format("/Tx BMC q BT /F 12 Tf 0 g 2 5 Td ({}) Tj ET Q EMC", text);
}

/// A font by name only, with one of the encodings for Chinese, Japanese or Korean text.
std::string font_of_script(const std::string& name, const std::string& encoding,
                           const std::string& ordering) {
  return fmt::format(
      "<</Type /Font /Subtype /Type0 /BaseFont /{0} /Encoding /{1} /DescendantFonts [<</Type /Font "
      "/Subtype /CIDFontType0 /BaseFont /{0} /CIDSystemInfo <</Registry (Adobe) /Ordering ({2}) "
      "/Supplement 0>> /FontDescriptor <</Type /FontDescriptor /FontName /{0} /Flags 4 /FontBBox "
      "[0 "
      "-200 1000 900] /ItalicAngle 0 /Ascent 800 /Descent -200 /CapHeight 700 /StemV 80>>>>]>>",
      name, encoding, ordering);
}

class Omissions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (pdfium_library().empty()) {
      GTEST_SKIP() << "no PDFium: scripts/fetch-pdfium.py build/pdfium";
    }
  }

  static Result<MediaItem> read(FileContent file) {
    const DocumentReader reader({.library = pdfium_library(), .longer_side = 400});
    AFI_TRY(std::vector<MediaItem> pages,
            reader.pages(media_item(Modality::kImage, std::move(file), "report.pdf")));
    return std::move(pages.at(0));
  }
  static MediaItem page_of(FileContent file) {
    auto page = read(std::move(file));
    if (page.has_value()) return *std::move(page);
    ADD_FAILURE() << page.error().message;
    return media_item(Modality::kImage, make_png(make_picture(1, 1)));
  }
  static Error refusal(FileContent file) {
    const auto page = read(std::move(file));
    if (!page.has_value()) return page.error();
    ADD_FAILURE() << "a page, instead of an error";
    return {};
  }
  static std::vector<std::uint8_t> pixels(const MediaItem& page) {
    return decode_image(page).value().rgb;
  }
};

// Regression: two forms that differ in what was filled in were one page to every cache, and empty to the model.
TEST_F(Omissions, WhatIsFilledInIsOnThePage) {
  const auto text = [](const std::string& value, const std::string& more = "") {
    return "/FT /Tx /V (" + value + ") /DA (/F 12 Tf 0 g) " + more;
  };
  const auto choice = [](const std::string& value, const std::string& more = "") {
    return "/FT /Ch /Ff 131072 /Opt [(red) (blue)] /V (" + value + ") /DA (/F 12 Tf 0 g) " + more;
  };
  const auto box = [](const std::string& state, const std::string& more = "") {
    return "/FT /Btn /V /" + state + " /AS /" + state + " " + more;
  };
  const std::vector<std::string> boxes = {"0 0 20 20 re f", "0 0 20 20 re S"};
  const std::string two = "/AP <</N <</Yes 7 0 R /Off 8 0 R>>>>";
  const std::string one = "/AP <</N 7 0 R>>";
  const std::string signature = "/FT /Sig /V <</Type /Sig /Filter /Adobe.PPKLite>> " + one;
  const std::string need = "/NeedAppearances true";
  const struct {
    const char* name;
    FileContent first;
    FileContent second;
  } kCases[] = {
      {"text", filled_in(text("REJECTED", one), {words("REJECTED")}),
       filled_in(text("APPROVED", one), {words("APPROVED")})},
      {"text without an appearance", filled_in(text("REJECTED")), filled_in(text("APPROVED"))},
      {"text whose appearance is out of date",
       filled_in(text("REJECTED", one), {words("OLD")}, need),
       filled_in(text("APPROVED", one), {words("OLD")}, need)},
      {"check box", filled_in(box("Yes", two), boxes), filled_in(box("Off", two), boxes)},
      {"check box without an appearance", filled_in(box("Yes")), filled_in(box("Off"))},
      {"choice", filled_in(choice("red", one), {words("red")}),
       filled_in(choice("blue", one), {words("blue")})},
      {"choice without an appearance", filled_in(choice("red")), filled_in(choice("blue"))},
      {"signature", filled_in(signature, {words("Ann")}), filled_in(signature, {words("Bob")})},
      {"a field of no form",
       annotated("/Subtype /Widget /T (field) " + text("REJECTED", one), {words("REJECTED")}),
       annotated("/Subtype /Widget /T (field) " + text("APPROVED", one), {words("APPROVED")})},
      {"stamp", annotated("/Subtype /Stamp " + one, {words("REJECTED")}),
       annotated("/Subtype /Stamp " + one, {words("APPROVED")})},
      {"free text without an appearance",
       annotated("/Subtype /FreeText /Contents (REJECTED) /DA (/F 12 Tf 0 g)"),
       annotated("/Subtype /FreeText /Contents (APPROVED) /DA (/F 12 Tf 0 g)")},
  };
  const auto empty = pixels(page_of(file_of({.drawing = kTitle})));
  for (const auto& c : kCases) {
    const MediaItem first = page_of(c.first);
    const MediaItem second = page_of(c.second);
    EXPECT_NE(*first.files[0], *second.files[0]) << c.name;
    EXPECT_NE(pixels(first), pixels(second)) << c.name;
    EXPECT_NE(pixels(first), empty) << c.name;
    EXPECT_EQ(*first.files[0], *page_of(c.first).files[0]) << c.name;
  }
}

TEST_F(Omissions, AHiddenFieldIsNotOnThePage) {
  const auto hidden = [](const std::string& value) {
    return page_of(
        annotated("/Subtype /Widget /T (field) /FT /Tx /V (" + value + ") /DA (/F 12 Tf 0 g)", {},
                  "/Rect [20 20 120 40] /F 2"));
  };
  EXPECT_EQ(*hidden("REJECTED").files[0], *hidden("APPROVED").files[0]);
}

TEST_F(Omissions, AFieldWithoutANameIsRefused) {
  const Error error =
      refusal(annotated("/Subtype /Widget /FT /Tx /V (YES) /AP <</N 7 0 R>>", {words("YES")}));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("report.pdf, page 1: a form field has no name"));
}

TEST_F(Omissions, AnXfaFormIsRefusedByName) {
  const Error error = refusal(filled_in("/FT /Tx /V (YES)", {"<xdp:xdp/>"}, "/XFA 7 0 R"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("report.pdf: an XFA form"));
}

// Regression: text in fonts by name only gave a white page with the digest of any white page.
TEST_F(Omissions, TextWhoseFontIsMissingIsRefusedByTheFontsName) {
  const std::string draw = "0 g BT /F 24 Tf 10 40 Td ";
  const struct {
    const char* name;
    OnePage page;
    const char* said;
  } kCases[] = {
      {"Chinese",
       {draw + "<5408540C> Tj ET", font_of_script("STSong-Light", "UniGB-UCS2-H", "GB1")},
       "2 of its characters"},
      {"Chinese beside Latin",
       {draw + "<5408004E006F> Tj ET", font_of_script("STSong-Light", "UniGB-UCS2-H", "GB1")},
       "the font STSong-Light,"},
      {"Japanese",
       {draw + "<65E5672C> Tj ET", font_of_script("HeiseiMin-W3", "UniJIS-UCS2-H", "Japan1")},
       "HeiseiMin-W3"},
      {"Korean",
       {draw + "<D55C> Tj 30 0 Td <AD6D> Tj ET",
        font_of_script("HYSMyeongJo-Medium", "UniKS-UCS2-H", "Korea1")},
       "HYSMyeongJo-Medium"},
      {"Cyrillic",
       {draw + "(AAA) Tj ET",
        "<</Type /Font /Subtype /TrueType /BaseFont /Arial /Encoding <</Type /Encoding "
        "/Differences [65 /afii10017]>>>>"},
       "Arial"},
      {"glyphs by number, of another font",
       {draw + "<0041> Tj ET", font_of_script("Unknown", "Identity-H", "Identity")},
       "Unknown"},
  };
  for (const auto& c : kCases) {
    const Error error = refusal(file_of(c.page));
    EXPECT_EQ(error.code, ErrorCode::kUnsupported) << c.name << ": " << error.message;
    EXPECT_THAT(error.message, HasSubstr("report.pdf, page 1: ")) << c.name;
    EXPECT_THAT(error.message, HasSubstr(c.said)) << c.name;
    EXPECT_THAT(error.message, HasSubstr("fonts embedded")) << c.name;
  }
}

TEST_F(Omissions, AFieldWhoseFontLacksItsCharactersIsRefused) {
  for (const std::string value : {"<FEFF5408540C>", "<FEFF540800200035>", "<FEFF041F>"}) {
    const Error error = refusal(filled_in("/FT /Tx /V " + value + " /DA (/F 12 Tf 0 g)"));
    EXPECT_EQ(error.code, ErrorCode::kUnsupported) << value << ": " << error.message;
    EXPECT_THAT(error.message, HasSubstr("report.pdf, page 1: a form field")) << value;
  }
  EXPECT_TRUE(read(filled_in("/FT /Tx /V <FEFF00E420AC2019> /DA (/F 12 Tf 0 g)")).has_value())
      << "Latin letters and signs";
}

TEST_F(Omissions, APageWithTextButNoInkIsNeverEqualToAnother) {
  const auto page = [](const std::string& state, const std::string& text) {
    return page_of(file_of({.drawing = state + " BT /F 24 Tf 10 40 Td (" + text + ") Tj ET"}));
  };
  std::set<std::vector<std::byte>> seen;
  const auto blank = pixels(page_of(file_of({})));
  for (const char* state : {"1 g", "3 Tr"}) {  // white; invisible
    for (const char* text : {"YES", "NOPE"}) {
      const MediaItem made = page(state, text);
      EXPECT_EQ(pixels(made), blank) << state;
      EXPECT_TRUE(seen.insert(*made.files[0]).second) << state << " " << text;
    }
  }
  EXPECT_TRUE(seen.insert(*page_of(file_of({})).files[0]).second);
  // White text beside black.
  const std::string black = "0 g 150 10 20 20 re f 1 g";
  EXPECT_EQ(pixels(page(black, "YES")), pixels(page(black, "NOPE")));
  EXPECT_NE(*page(black, "YES").files[0], *page(black, "NOPE").files[0]);
}

TEST_F(Omissions, EmptyPagesOfAllFilesAreOne) {
  EXPECT_EQ(*page_of(file_of({})).files[0],
            *page_of(file_of({.catalog_fields = "/Lang (en)"})).files[0]);
}

TEST_F(Omissions, AMarkThatIsNotDrawnIsRefusedByItsKind) {
  for (const auto& [kind, fields] : std::vector<std::pair<std::string, std::string>>{
           {"Stamp", "/Name /Approved"},
           {"Line", "/L [20 20 100 40] /C [1 0 0]"},
           {"Polygon", "/Vertices [20 20 100 40 50 20] /C [1 0 0]"},
           {"Redact", "/QuadPoints [20 40 120 40 20 20 120 20]"}}) {
    const Error error = refusal(annotated("/Subtype /" + kind + " " + fields));
    EXPECT_EQ(error.code, ErrorCode::kUnsupported) << kind << ": " << error.message;
    EXPECT_THAT(error.message, HasSubstr("report.pdf, page 1: a " + kind + " annotation"));
  }
  for (const std::string drawn :
       {"/Subtype /Square /C [1 0 0]", "/Subtype /Ink /InkList [[20 20 100 40]] /C [1 0 0]",
        "/Subtype /Link"}) {
    EXPECT_TRUE(read(annotated(drawn)).has_value()) << drawn;
  }
}

TEST_F(Omissions, APictureThatCannotBeDecodedIsRefused) {
  const auto picture = [](const std::string& fields, const std::string& data) {
    OnePage page{.drawing = std::string(kTitle) + " q 50 0 0 50 10 10 cm /P Do Q"};
    page.objects.push_back(pdf_stream(
        "/Type /XObject /Subtype /Image /Width 8 /Height 8 /ColorSpace /DeviceGray " + fields,
        data));
    return file_of(page);
  };
  for (const char* filter : {"JPXDecode", "DCTDecode", "Unknown"}) {
    const Error error =
        refusal(picture(fmt::format("/BitsPerComponent 8 /Filter /{}", filter), "neither"));
    EXPECT_EQ(error.code, ErrorCode::kCorruption) << filter << ": " << error.message;
    EXPECT_THAT(error.message, HasSubstr("report.pdf, page 1: a picture")) << filter;
  }
  // Nobody says whether these are white or damaged.
  const auto made = [&](const std::string& data) {
    return page_of(picture("/BitsPerComponent 1 /Filter /JBIG2Decode", data));
  };
  EXPECT_EQ(pixels(made("one")), pixels(made("two")));
  EXPECT_NE(*made("one").files[0], *made("two").files[0]);
  const std::string grey(64, '\x40');
  EXPECT_EQ(*page_of(picture("/BitsPerComponent 8", grey)).files[0],
            *page_of(picture("/BitsPerComponent 8 /Interpolate false", grey)).files[0]);
}

}  // namespace
}  // namespace afterimage

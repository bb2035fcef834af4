// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/documents/document_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "foundation/media/cursor.h"
#include "foundation/media/decode.h"
#include "testing/pdf_files.h"

namespace afterimage {
namespace {

using namespace testing;
using ::testing::HasSubstr;

MediaItem pdf(FileContent file) {
  return media_item(Modality::kImage, std::move(file), "report.pdf");
}
MediaItem pdf(std::vector<PdfPage> pages) { return pdf(make_pdf(std::move(pages))); }

/// Skipped, and shown as skipped, where PDFium is not.
class Documents : public ::testing::Test {
 protected:
  void SetUp() override {
    if (pdfium_library().empty()) {
      GTEST_SKIP() << "no PDFium: scripts/fetch-pdfium.py build/pdfium";
    }
    options_.library = pdfium_library();
  }
  [[nodiscard]] Result<std::vector<MediaItem>> pages(const MediaItem& document) const {
    return DocumentReader(options_).pages(document);
  }
  [[nodiscard]] Error refusal(const MediaItem& document) const {
    const auto pages = this->pages(document);
    if (pages.has_value()) {
      ADD_FAILURE() << pages->size() << " pages";
      return {};
    }
    return pages.error();
  }

  DocumentReaderOptions options_;
};

TEST(DocumentsWithoutPdfium, SayHowToGetIt) {
  const DocumentReader reader({.library = "libno-such-pdfium.so"});
  const auto pages = reader.pages(pdf({text_page("one")}));
  ASSERT_FALSE(pages.has_value());
  EXPECT_EQ(pages.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(pages.error().message, HasSubstr("scripts/fetch-pdfium.py build/pdfium"));
  EXPECT_THAT(pages.error().message, HasSubstr("AFTERIMAGE_PDFIUM"));
  EXPECT_FALSE(reader.rasterizer().has_value());
}

TEST(DocumentsWithoutPdfium, AnotherLibraryIsRefused) {
  const DocumentReader reader({.library = "libm.so.6"});
  const auto pages = reader.pages(pdf({text_page("one")}));
  ASSERT_FALSE(pages.has_value());
  EXPECT_THAT(pages.error().message, HasSubstr("FPDF_InitLibraryWithConfig"));
}

TEST(DocumentsWithoutPdfium, WhatIsNoPdfIsRefusedBeforeThat) {
  const DocumentReader reader({.library = "libno-such-pdfium.so"});
  const auto picture = reader.pages(pdf(make_png(make_picture(4, 4))));
  ASSERT_FALSE(picture.has_value());
  EXPECT_EQ(picture.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(picture.error().message, HasSubstr("report.pdf: not a PDF file"));
  EXPECT_FALSE(is_document(pdf(make_png(make_picture(4, 4)))));
  EXPECT_FALSE(is_document(MediaItem()));
  EXPECT_TRUE(is_document(pdf({text_page("one")})));
  EXPECT_EQ(reader.pages(pdf(FileContent())).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(reader.pages(MediaItem()).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(Documents, PagesAreImagesInOrder) {
  const auto pages = this->pages(pdf({text_page("one"), text_page("two")}));
  ASSERT_TRUE(pages.has_value()) << pages.error().message;
  ASSERT_EQ(pages->size(), 2U);
  for (const MediaItem& page : *pages) {
    EXPECT_EQ(page.modality, Modality::kImage);
    const Image image = decode_image(page).value();
    EXPECT_EQ(image.width, 1'024U);
    EXPECT_EQ(image.height, 512U);
  }
  EXPECT_EQ((*pages)[1].name, "report.pdf, page 2");
  EXPECT_NE(*(*pages)[0].files[0], *(*pages)[1].files[0]);
}

TEST_F(Documents, ColoursAndPlacesAreThoseOfThePage) {
  options_.longer_side = 100;
  const auto pages =
      this->pages(pdf({{.width = 100, .height = 50, .drawing = "1 0 0 rg 0 0 50 50 re f"}}));
  ASSERT_TRUE(pages.has_value()) << pages.error().message;
  const Image image = decode_image((*pages)[0]).value();
  ASSERT_EQ(image.width, 100U);
  const auto pixel = [&](std::size_t x, std::size_t y) {
    const auto* rgb = &image.rgb[3 * (y * 100 + x)];
    return std::array<int, 3>{rgb[0], rgb[1], rgb[2]};
  };
  EXPECT_EQ(pixel(10, 25), (std::array<int, 3>{255, 0, 0})) << "red, not blue";
  EXPECT_EQ(pixel(90, 25), (std::array<int, 3>{255, 255, 255})) << "paper is white";
}

TEST_F(Documents, EqualPagesAreEqualItemsInEveryDocumentAndPlace) {
  const auto first = pages(pdf({text_page("one"), text_page("two"), text_page("three")})).value();
  const auto second =
      pages(pdf({text_page("two"), text_page("one"), text_page("three", 2)})).value();
  EXPECT_EQ(*first[0].files[0], *second[1].files[0]);
  EXPECT_EQ(*first[1].files[0], *second[0].files[0]);
  EXPECT_NE(*first[2].files[0], *second[2].files[0]) << "one box has another colour";
}

TEST_F(Documents, TheRasterizerIsNamedByItsLibraryAndSize) {
  const std::string name = DocumentReader(options_).rasterizer().value();
  EXPECT_THAT(name, ::testing::MatchesRegex(
                        "pdfium [0-9a-f]+, 1024 pixels, with form fields, long pages cut"));
  options_.longer_side = 512;
  EXPECT_NE(DocumentReader(options_).rasterizer().value(), name);
}

TEST_F(Documents, LimitsAreCheckedBeforeAPageIsRasterised) {
  const PdfPage page = text_page("one");
  const auto picture_page = [](std::uint32_t side) {
    return PdfPage{.picture_width = side, .picture_height = side};
  };
  const struct {
    const char* name;
    PdfContent content;
    void (*limit)(DocumentLimits& limits);
    const char* said;
  } kCases[] = {
      {"bytes", {.pages = {page}}, [](DocumentLimits& l) { l.max_file = Bytes(100); }, "bytes"},
      {"pages",
       {.pages = {page, page, page}},
       [](DocumentLimits& l) { l.max_pages = 2; },
       "3 pages; at most 2 are allowed: send fewer at a time, or set AFTERIMAGE_PDF_MAX_PAGES"},
      {"pages, with the pieces of a long one",
       {.pages = {page, {.width = 100, .height = 1'700}}},
       [](DocumentLimits& l) { l.max_pages = 3; },
       "4 images of its pages, of which some are long; at most 3 are allowed"},
      {"100,000 pages that are claimed",
       {.pages = {page}, .claimed_pages = 100'000},
       [](DocumentLimits&) {},
       "100000 pages; at most 100 are allowed"},
      {"a huge page",
       {.pages = {page, {.width = 20'000, .height = 10}}},
       [](DocumentLimits&) {},
       "page 2 has 20000 x 10 points; at most 14400"},
      {"pixels of all pages",
       {.pages = {page, page}},
       [](DocumentLimits& l) { l.max_total_pixels = 1'000'000; },
       "its pages have 1048576 pixels"},
      {"pixels of a picture",
       {.pages = {picture_page(30'000)}},
       [](DocumentLimits&) {},
       "a picture on page 1 has 30000 x 30000 pixels"},
      {"objects of a page",
       {.pages = {page}},
       [](DocumentLimits& l) { l.max_objects = 3; },
       "more objects on a page than are allowed"},
  };
  for (const auto& c : kCases) {
    options_.limits = {};
    c.limit(options_.limits);
    const Error error = refusal(pdf(make_pdf(c.content)));
    EXPECT_EQ(error.code, ErrorCode::kLimitExceeded) << c.name << ": " << error.message;
    EXPECT_THAT(error.message, HasSubstr(c.said)) << c.name;
    EXPECT_THAT(error.message, ::testing::StartsWith("report.pdf: ")) << c.name;
  }
  options_.limits = {};
  EXPECT_TRUE(pages(pdf({picture_page(8)})).has_value());
}

/// Every look at it takes a second.
class HastyClock final : public Clock {
 public:
  [[nodiscard]] Duration now() const override { return now_ += std::chrono::seconds(1); }

 private:
  mutable Duration now_{0};
};

TEST_F(Documents, RasterisingEndsWhenTheTimeIsOver) {
  PdfPage page;
  for (int i = 0; i < 3'000; ++i) page.drawing += "0 g 0 0 5 5 re f\n";
  const HastyClock clock;
  options_.clock = &clock;
  const Error error = refusal(pdf({page}));
  EXPECT_EQ(error.code, ErrorCode::kLimitExceeded);
  EXPECT_THAT(error.message, HasSubstr("rasterising takes longer than 30 s"));
  options_.clock = nullptr;
  EXPECT_TRUE(pages(pdf({page})).has_value());
}

TEST_F(Documents, AFileThatOpensWithoutAPasswordIsReadWhateverItsOwnerForbids) {
  const auto plain = pages(pdf(fuzzed_pdf("two_pages"))).value();
  for (const char* const name :
       {"locked_rc4_40", "locked_rc4_128", "locked_aes_128", "locked_aes_256"}) {
    const auto locked = pages(pdf(fuzzed_pdf(name)));
    ASSERT_TRUE(locked.has_value()) << name << ": " << locked.error().message;
    ASSERT_EQ(locked->size(), plain.size()) << name;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(*(*locked)[i].files[0], *plain[i].files[0]) << name << ", page " << i + 1;
    }
  }
}

TEST_F(Documents, AFileWithAPasswordIsRefused) {
  const FileContent forged =
      make_pdf(PdfContent{.pages = {text_page("one")}, .needs_password = true});
  for (const FileContent& file :
       {forged, fuzzed_pdf("password_rc4_128"), fuzzed_pdf("password_aes_256")}) {
    const Error error = refusal(pdf(file));
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_EQ(error.message,
              "report.pdf: the PDF is encrypted; save it without a password and send that");
  }
}

TEST_F(Documents, AFileMayBeginWithOtherBytes) {
  const FileContent whole = make_pdf({text_page("one")});
  const auto expected = pages(pdf(whole)).value();
  for (const std::size_t before : {1U, 3U, 500U, 1'024U, 1'025U}) {
    FileContent file(before, std::byte{'\n'});
    file.insert(file.end(), whole.begin(), whole.end());
    EXPECT_EQ(is_document(pdf(file)), before <= 1'024) << before;
    if (before > 1'024) continue;
    const auto found = pages(pdf(file));
    ASSERT_TRUE(found.has_value()) << before << ": " << found.error().message;
    EXPECT_EQ(*found->at(0).files[0], *expected[0].files[0]) << before;
  }
  const std::string text = "a letter about %PDF-files and %PDF-x.y";
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_FALSE(is_document(pdf(FileContent(bytes.begin(), bytes.end()))));
}

/// Lines of text, 12 points apart, on a page as of a cash register.
PdfPage receipt(double width, double height) {
  PdfPage page{.width = width, .height = height, .drawing = "0 g BT /F 8 Tf 12 TL 5 "};
  page.drawing += std::to_string(static_cast<int>(height) - 20) + " Td ";
  for (int line = 0; line < static_cast<int>(height) / 12 - 2; ++line) {
    page.drawing += "(item " + std::to_string(line) + " for 12) Tj T* ";
  }
  page.drawing += "ET";
  return page;
}

// It became 56 x 1,024 pixels, with text 2.7 pixels high.
TEST_F(Documents, ALongPageIsCutBetweenItsLines) {
  const auto parts = pages(pdf({receipt(164, 3'000), text_page("one")})).value();
  ASSERT_EQ(parts.size(), 5U);
  EXPECT_EQ(parts[0].name, "report.pdf, page 1, part 1 of 4");
  EXPECT_EQ(parts[4].name, "report.pdf, page 2");
  std::uint32_t rows = 0;
  const auto is_blank = [](const Image& image, std::uint32_t y) {
    const auto row = std::span(image.rgb).subspan(std::size_t{3} * y * image.width,
                                                  std::size_t{3} * image.width);
    return std::ranges::all_of(row, [](std::uint8_t level) { return level == 255; });
  };
  for (std::size_t i = 0; i < 4; ++i) {
    const Image image = decode_image(parts[i]).value();
    EXPECT_EQ(image.width, 199U);
    EXPECT_LE(image.height, 1'024U);
    EXPECT_GE(image.height, 700U);
    EXPECT_TRUE(is_blank(image, 0)) << i;
    rows += image.height;
  }
  EXPECT_EQ(rows, 3'648U);
}

TEST_F(Documents, PiecesOfALongPageAreThePage) {
  // A page without a blank row, a wide one, and ones at the borders of what is long.
  const PdfPage full{.width = 100, .height = 2'000, .drawing = "0 0 1 rg 10 0 20 2000 re f"};
  const PdfPage wide{.width = 2'000, .height = 100, .drawing = "0 1 0 rg 0 10 2000 20 re f"};
  options_.longer_side = 512;
  for (const auto& [page, width, height, count] :
       {std::tuple{full, 61U, 1'216U, 3U}, std::tuple{wide, 1'216U, 61U, 3U},
        std::tuple{PdfPage{.width = 1'000, .height = 2'000}, 256U, 512U, 1U},
        std::tuple{PdfPage{.width = 100, .height = 842}, 61U, 512U, 1U},
        std::tuple{PdfPage{.width = 100, .height = 844}, 61U, 513U, 2U}}) {
    const auto parts = pages(pdf({page})).value();
    EXPECT_EQ(parts.size(), count);
    std::uint32_t across = 0;
    for (const MediaItem& part : parts) {
      const Image image = decode_image(part).value();
      EXPECT_LE(std::max(image.width, image.height), 512U);
      across += width > height ? image.width : image.height;
      EXPECT_EQ(width > height ? image.height : image.width, std::min(width, height));
    }
    EXPECT_EQ(across, std::max(width, height));
  }
}

// White text has no ink: the pieces of two such pages are not the same, whatever they show.
TEST_F(Documents, PiecesOfAPageThatDoesNotShowAllAreItsFilesAlone) {
  PdfPage page = receipt(164, 1'700);
  page.drawing += " 1 g BT /F 8 Tf 5 5 Td (secret) Tj ET";
  const auto hidden = pages(pdf({page})).value();
  ASSERT_EQ(hidden.size(), 3U);
  EXPECT_THAT(std::string(as_text(*hidden[1].files[0]).substr(0, 120)),
              ::testing::ContainsRegex("# page 1 of [0-9a-f]{64}, part 2 of 3\n"));
}

TEST_F(Documents, ABrokenTreeOfPagesIsAnError) {
  const Error none = refusal(pdf(make_pdf(PdfContent{})));
  EXPECT_EQ(none.code, ErrorCode::kCorruption) << none.message;
  const Error missing =
      refusal(pdf(make_pdf(PdfContent{.pages = {text_page("one")}, .claimed_pages = 3})));
  EXPECT_EQ(missing.code, ErrorCode::kCorruption) << missing.message;
}

// PDFium repairs what it can. Whatever it makes of a file, it is pages or an error.
TEST_F(Documents, AFileThatIsCutOffOrDamagedIsPagesOrAnError) {
  options_.longer_side = 64;
  const FileContent whole = make_pdf({text_page("one"), text_page("two")});
  for (std::size_t size = 0; size < whole.size(); size += 13) {
    const auto pages = this->pages(
        pdf(FileContent(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))));
    if (!pages.has_value()) EXPECT_FALSE(pages.error().message.empty());
  }
  for (std::size_t at = 5; at < whole.size(); at += 7) {
    FileContent damaged = whole;
    damaged[at] ^= std::byte{0x10};
    const auto pages = this->pages(pdf(damaged));
    if (pages.has_value()) EXPECT_LE(pages->size(), 100U);
  }
}

TEST_F(Documents, ThreadsMayReadDocumentsTogether) {
  options_.longer_side = 256;
  const MediaItem document = pdf({text_page("one"), text_page("two"), text_page("three")});
  const auto expected = pages(document).value();
  const DocumentReader reader(options_);
  std::array<bool, 4> equal{};
  {
    std::vector<std::jthread> threads;
    for (bool& is_equal : equal) {
      threads.emplace_back([&] {
        const auto mine = reader.pages(document);
        is_equal = mine.has_value() && *mine->at(2).files[0] == *expected[2].files[0];
      });
    }
  }
  EXPECT_EQ(equal, (std::array{true, true, true, true}));
}

}  // namespace
}  // namespace afterimage

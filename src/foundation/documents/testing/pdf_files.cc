// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "testing/pdf_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "foundation/platform/environment.h"

namespace afterimage::testing {
namespace {

constexpr std::size_t kFirstPage = 4;       // after the catalog, the tree and the font
constexpr std::size_t kObjectsPerPage = 3;  // the page, its content and its picture

std::string encryption(const std::string& kind, const std::string& user) {
  return fmt::format(
      " /ID [<{0}> <{0}>] /Encrypt <</Filter /Standard {1} /P -4 /O <{0}> /U <{2}>>>",
      std::string(64, '5'), kind, user);
}

void add_page(const PdfPage& page, std::vector<std::string>& objects) {
  const std::size_t content = objects.size() + 2;
  std::string resources = "/Font <</F 3 0 R>>";
  std::string drawing = page.drawing;
  if (page.picture_width != 0) {
    resources += fmt::format(" /XObject <</P {} 0 R>>", content + 1);
    drawing += "\nq 50 0 0 50 10 10 cm /P Do Q";
  }
  objects.push_back(fmt::format(
      "<</Type /Page /Parent 2 0 R /MediaBox [0 0 {} {}] /Resources <<{}>> /Contents {} 0 R>>",
      page.width, page.height, resources, content));
  objects.push_back(pdf_stream("", drawing));
  objects.push_back(
      pdf_stream(fmt::format("/Type /XObject /Subtype /Image /Width {} /Height {} /ColorSpace "
                             "/DeviceGray /BitsPerComponent 1",
                             page.picture_width, page.picture_height),
                 "\x55"));
}

}  // namespace

std::string pdf_stream(const std::string& fields, const std::string& data) {
  return fmt::format("<<{} /Length {}>>\nstream\n{}\nendstream", fields, data.size(), data);
}

FileContent pdf_of_objects(const std::vector<std::string>& objects, const std::string& trailer) {
  std::string file = "%PDF-1.7\n";
  std::vector<std::size_t> offsets;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    offsets.push_back(file.size());
    file += fmt::format("{} 0 obj\n{}\nendobj\n", i + 1, objects[i]);
  }
  const std::size_t table = file.size();
  file += fmt::format("xref\n0 {}\n0000000000 65535 f \n", objects.size() + 1);
  for (const std::size_t offset : offsets) file += fmt::format("{:010} 00000 n \n", offset);
  file += fmt::format("trailer\n<</Size {} /Root 1 0 R{}>>\nstartxref\n{}\n%%EOF\n",
                      objects.size() + 1, trailer, table);
  const auto bytes = std::as_bytes(std::span(file));
  return {bytes.begin(), bytes.end()};
}

FileContent make_pdf(const PdfContent& content) {
  std::string kids;
  for (std::size_t i = 0; i < content.pages.size(); ++i) {
    kids += fmt::format("{} 0 R ", kFirstPage + i * kObjectsPerPage);
  }
  const auto count = content.claimed_pages >= 0 ? content.claimed_pages
                                                : static_cast<std::int64_t>(content.pages.size());
  std::vector<std::string> objects = {
      "<</Type /Catalog /Pages 2 0 R>>",
      fmt::format("<</Type /Pages /Kids [{}] /Count {}>>", kids, count),
      "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>"};
  for (const PdfPage& page : content.pages) add_page(page, objects);
  std::string trailer;
  if (content.needs_password) {
    trailer += encryption("/V 2 /R 3 /Length 128", std::string(64, '5'));
  }
  return pdf_of_objects(objects, trailer);
}

FileContent make_pdf(std::vector<PdfPage> pages) {
  return make_pdf(PdfContent{.pages = std::move(pages)});
}

FileContent fuzzed_pdf(const std::string& name) {
  std::ifstream file(AFTERIMAGE_PDF_SEEDS "/" + name, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

PdfPage text_page(const std::string& text, std::uint32_t seed) {
  PdfPage page;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const std::uint32_t mixed = (seed * 2'654'435'761U) >> (4 * i);
    page.drawing +=
        fmt::format("{:.1f} {:.1f} {:.1f} rg {} {} 25 15 re f\n", mixed % 9 / 10.0,
                    mixed / 16 % 9 / 10.0, mixed / 256 % 9 / 10.0, 10 + 30 * i, 10 + mixed % 30);
  }
  page.drawing += fmt::format("0 g BT /F 14 Tf 10 75 Td ({}) Tj ET", text);
  return page;
}

std::string pdfium_library() {
  const std::string named = environment("AFTERIMAGE_PDFIUM").value_or(AFTERIMAGE_PDFIUM_BUILT);
  return std::filesystem::exists(named) ? named : "";
}

}  // namespace afterimage::testing

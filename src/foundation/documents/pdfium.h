// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "foundation/documents/pdfium_calls.h"
#include "foundation/platform/shared_library.h"

/// Private to this room: PDFium, as far as it is used. Nothing here is installed.
namespace afterimage {

/// How rasterising a page ended. kIncomplete: something on the page has no ink, so that its pixels are
/// not all that it holds.
enum class Rasterized : unsigned char { kDone, kIncomplete, kOutOfTime };

/// PDFium, loaded and initialised. Its functions share state without locks, so that every call holds
/// one lock of the process.
class Pdfium {
 public:
  /// The library is loaded once, and stays until the process ends.
  /// kUnavailable: it cannot be loaded, or is none.
  static Result<const Pdfium*> open(const std::string& library);

  /// First 16 hexadecimal digits of the SHA-256 of the library's file.
  [[nodiscard]] const std::string& version() const { return version_; }

  /// An open file, whose bytes outlive it.
  class Document {
   public:
    /// kUnsupported: encrypted with a password other than the empty one, or an XFA form; kCorruption: it cannot be read. `name` is for messages.
    static Result<Document> open(const Pdfium& library, std::span<const std::byte> bytes,
                                 const std::string& name);
    Document(Document&& other) noexcept;
    Document& operator=(Document&&) = delete;
    ~Document();

    [[nodiscard]] int page_count() const;
    /// Zero if the page has no size.
    [[nodiscard]] PageSize page_size(int page) const;
    /// What is on a page. `visit` gets the size in pixels of every picture.
    ///
    /// Errors  kCorruption: it cannot be read; kLimitExceeded: more than `max_objects`.
    Result<void> visit_pictures(int page, std::uint32_t max_objects,
                                const std::function<Result<void>(unsigned, unsigned)>& visit) const;
    /// Rasterises a page with its annotations and form fields on white into rows of `width` RGBx pixels.
    /// `is_over` is asked again and again; once it is true, rasterising ends.
    ///
    /// Errors  kCorruption: it cannot be read; those of shows_everything().
    Result<Rasterized> rasterize(int page, std::span<std::uint8_t> rgbx, std::uint32_t width,
                                 std::uint32_t height, const std::function<bool()>& is_over) const;

   private:
    Document(const Pdfium& library, void* handle, std::unique_ptr<FormCallbacks> callbacks,
             void* form, std::string name);
    const Pdfium* library_;
    void* handle_;
    std::unique_ptr<FormCallbacks> callbacks_;  // outlive the form
    void* form_;
    std::string name_;
  };

 private:
  /// A page, open while this lives. The caller holds the lock.
  class OpenPage;

  Pdfium(SharedLibrary library, const PdfiumCalls& calls)
      : library_(std::move(library)), calls_(calls) {}
  Result<void> start();
  Result<void> visit_objects(void* object, bool is_page, int depth, std::uint32_t& left,
                             const std::string& name,
                             const std::function<Result<void>(unsigned, unsigned)>& visit) const;

  SharedLibrary library_;
  std::string version_;
  PdfiumCalls calls_;
};

}  // namespace afterimage

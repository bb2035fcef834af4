// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/shared_library.h"

/// Private to this room: PDFium's C API (fpdfview.h, fpdf_edit.h, fpdf_progressive.h), as far as it is
/// used. Nothing here is installed.
namespace afterimage {

struct PageSize {
  float width = 0;  // points
  float height = 0;
};

/// How rasterising a page ended.
enum class Rasterized : unsigned char { kDone, kOutOfTime, kFailed };

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
    /// kUnsupported: encrypted; kCorruption: it cannot be read. `name` is for messages.
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
    /// Rasterises a page on white into rows of `width` RGBx pixels. `is_over` is asked again and again;
    /// once it is true, rasterising ends.
    [[nodiscard]] Rasterized rasterize(int page, std::span<std::uint8_t> rgbx, std::uint32_t width,
                                       std::uint32_t height,
                                       const std::function<bool()>& is_over) const;

   private:
    Document(const Pdfium& library, void* handle, std::string name)
        : library_(&library), handle_(handle), name_(std::move(name)) {}
    const Pdfium* library_;
    void* handle_;
    std::string name_;
  };

 private:
  struct PauseRequest;
  /// A page, open while this lives. The caller holds the lock.
  class OpenPage;

  explicit Pdfium(SharedLibrary library) : library_(std::move(library)) {}
  Result<void> bind();
  Result<void> start();
  Result<void> visit_objects(void* object, bool is_page, int depth, std::uint32_t& left,
                             const std::string& name,
                             const std::function<Result<void>(unsigned, unsigned)>& visit) const;

  SharedLibrary library_;
  std::string version_;

  void (*init_)(const void* config) = nullptr;
  void* (*load_)(const void* bytes, std::size_t size, const char* password) = nullptr;
  unsigned long (*last_error_)() = nullptr;
  void (*close_)(void* document) = nullptr;
  int (*security_)(void* document) = nullptr;
  int (*page_count_)(void* document) = nullptr;
  int (*page_size_)(void* document, int page, PageSize* size) = nullptr;
  void* (*load_page_)(void* document, int page) = nullptr;
  void (*close_page_)(void* page) = nullptr;
  int (*count_objects_)(void* page) = nullptr;
  void* (*object_)(void* page, int index) = nullptr;
  int (*object_type_)(void* object) = nullptr;
  int (*count_inner_)(void* form) = nullptr;
  void* (*inner_)(void* form, unsigned long index) = nullptr;
  int (*picture_size_)(void* picture, unsigned* width, unsigned* height) = nullptr;
  void* (*bitmap_)(int width, int height, int format, void* first, int stride) = nullptr;
  void (*destroy_bitmap_)(void* bitmap) = nullptr;
  int (*fill_)(void* bitmap, int left, int top, int width, int height,
               unsigned long color) = nullptr;
  int (*render_)(void* bitmap, void* page, int left, int top, int width, int height, int turns,
                 int flags, PauseRequest* pause) = nullptr;
  void (*end_render_)(void* page) = nullptr;
};

}  // namespace afterimage

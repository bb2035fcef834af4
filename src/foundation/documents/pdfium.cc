// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/documents/pdfium.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <utility>

#include "afterimage/result.h"
#include "foundation/crypto/sha256.h"
#include "foundation/documents/omissions.h"
#include "foundation/platform/files.h"
#include "foundation/platform/mutex.h"

namespace afterimage {
namespace {

// As the headers of PDFium declare them.
constexpr int kFourBytesOpaque = 3;     // FPDFBitmap_BGRx
constexpr int kWithAnnotations = 0x01;  // FPDF_ANNOT
constexpr int kRedFirst = 0x10;         // FPDF_REVERSE_BYTE_ORDER
constexpr unsigned long kWhite = 0xFFFFFFFF;
constexpr int kRenderDone = 2;                 // FPDF_RENDER_DONE
constexpr int kRenderPaused = 1;               // FPDF_RENDER_TOBECONTINUED
constexpr unsigned long kNeedsPassword = 4;    // FPDF_ERR_PASSWORD
constexpr unsigned long kUnknownSecurity = 5;  // FPDF_ERR_SECURITY
constexpr int kWholeXfa = 2;                   // FORMTYPE_XFA_FULL
constexpr int kXfaForeground = 3;              // FORMTYPE_XFA_FOREGROUND

/// FPDF_LIBRARY_CONFIG.
struct Config {
  int version = 2;
  const char** font_paths = nullptr;
  void* isolate = nullptr;
  unsigned embedder_slot = 0;
};

/// Held across every call into the library.
Mutex& calls() {
  static Mutex mutex;
  return mutex;
}

Result<std::string> hash_of_file(const std::string& path) {
  Sha256 sha;
  AFI_TRY_VOID(
      visit_blocks(path, 1_MiB, [&](std::span<const std::byte> block) { sha.update(block); }));
  const auto digest = sha.finish();
  std::string text;
  for (const std::byte byte : std::span(digest).first(8)) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  }
  return text;
}

std::unexpected<Error> encrypted(const std::string& name) {
  return fail(ErrorCode::kUnsupported,
              name + ": the PDF is encrypted; save it without a password and send that");
}

std::unexpected<Error> damaged(const std::string& name, int page) {
  return fail(ErrorCode::kCorruption, fmt::format("{}: page {} is damaged", name, page + 1));
}

}  // namespace

/// IFSDK_PAUSE.
struct PauseRequest {
  int version = 1;
  int (*need_to_pause)(PauseRequest* self) = nullptr;
  void* user = nullptr;
};

/// FPDF_FORMFILLINFO: none is called without JavaScript and a user.
struct FormCallbacks {
  int version = 1;
  std::array<void*, 64> none = {};  // more than version 2 has
};

class Pdfium::OpenPage {
 public:
  OpenPage(const PdfiumCalls& calls, void* document, void* form, int page)
      : calls_(calls), form_(form), page_(calls.load_page(document, page)) {
    if (page_ != nullptr) calls_.after_load(page_, form_);
  }
  ~OpenPage() {
    if (page_ == nullptr) return;
    calls_.before_close(page_, form_);
    calls_.close_page(page_);
  }
  OpenPage(const OpenPage&) = delete;
  OpenPage& operator=(const OpenPage&) = delete;
  [[nodiscard]] void* get() const { return page_; }

 private:
  const PdfiumCalls& calls_;
  void* form_;
  void* page_;
};

Result<const Pdfium*> Pdfium::open(const std::string& library) {
  // Never destroyed: PDFium cannot be started a second time in a process.
  static auto& loaded = *new std::map<std::string, std::unique_ptr<const Pdfium>>();
  static Mutex mutex;  // not that of the calls, which is held while a page is rasterised
  const MutexLock lock(mutex);
  if (const auto it = loaded.find(library); it != loaded.end()) return it->second.get();
  AFI_TRY(SharedLibrary opened, SharedLibrary::open(library));
  AFI_TRY(const PdfiumCalls calls, PdfiumCalls::bind(opened));
  std::unique_ptr<Pdfium> pdfium(new Pdfium(std::move(opened), calls));
  AFI_TRY_VOID(pdfium->start());
  return loaded.emplace(library, std::move(pdfium)).first->second.get();
}

Result<void> Pdfium::start() {
  Dl_info found{};
  if (::dladdr(reinterpret_cast<const void*>(calls_.load), &found) == 0 ||
      found.dli_fname == nullptr) {
    return fail(ErrorCode::kUnavailable, "the file of PDFium's library cannot be found");
  }
  AFI_TRY(version_, hash_of_file(found.dli_fname));
  // No folder of fonts: the machine's would change the pixels.
  std::array<const char*, 1> no_fonts = {nullptr};
  const Config config{.font_paths = no_fonts.data()};
  const MutexLock lock(calls());
  calls_.init(&config);
  return {};
}

Result<void> Pdfium::visit_objects(
    void* object, bool is_page, int depth, std::uint32_t& left, const std::string& name,
    const std::function<Result<void>(unsigned, unsigned)>& visit) const {
  const int count = is_page ? calls_.count_objects(object) : calls_.count_inner(object);
  for (int i = 0; i < count; ++i) {
    if (depth == kMaxFormDepth || left == 0) {
      return fail(ErrorCode::kLimitExceeded,
                  name + (left == 0 ? ": more objects on a page than are allowed"
                                    : ": objects within objects, too deep"));
    }
    --left;
    void* const inner =
        is_page ? calls_.object(object, i) : calls_.inner(object, static_cast<unsigned long>(i));
    if (inner == nullptr) continue;
    const int type = calls_.object_type(inner);
    if (type == kObjectIsForm) {
      AFI_TRY_VOID(visit_objects(inner, false, depth + 1, left, name, visit));
    }
    unsigned width = 0;
    unsigned height = 0;
    if (type == kObjectIsImage && calls_.picture_size(inner, &width, &height) != 0) {
      AFI_TRY_VOID(visit(width, height));
    }
  }
  return {};
}

Result<Pdfium::Document> Pdfium::Document::open(const Pdfium& library,
                                                std::span<const std::byte> bytes,
                                                const std::string& name) {
  const MutexLock lock(calls());
  const PdfiumCalls& call = library.calls_;
  // Without a password, PDFium tries the empty one: such files open in every reader, and only their owner's
  // password is a secret, which is for printing and editing.
  void* const handle = call.load(bytes.data(), bytes.size(), nullptr);
  if (handle == nullptr) {
    const unsigned long why = call.last_error();
    if (why == kNeedsPassword || why == kUnknownSecurity) return encrypted(name);
    return fail(ErrorCode::kCorruption, name + ": the PDF is damaged or cut off");
  }
  const int form = call.form_type(handle);
  if (form == kWholeXfa || form == kXfaForeground) {
    call.close(handle);
    return fail(
        ErrorCode::kUnsupported,
        name + ": an XFA form, which PDFium does not draw here: print it to a PDF of pages");
  }
  // Fields are drawn by a form environment only, also in a file without a form.
  auto callbacks = std::make_unique<FormCallbacks>();
  void* environment = call.open_form(handle, callbacks.get());
  if (environment == nullptr) {
    callbacks->version = 2;  // of builds with XFA
    environment = call.open_form(handle, callbacks.get());
  }
  if (environment != nullptr) {
    return Document(library, handle, std::move(callbacks), environment, name);
  }
  call.close(handle);
  return fail(ErrorCode::kUnavailable, name + ": PDFium makes no form environment");
}

Pdfium::Document::Document(const Pdfium& library, void* handle,
                           std::unique_ptr<FormCallbacks> callbacks, void* form, std::string name)
    : library_(&library),
      handle_(handle),
      callbacks_(std::move(callbacks)),
      form_(form),
      name_(std::move(name)) {}

Pdfium::Document::Document(Document&& other) noexcept
    : library_(other.library_),
      handle_(std::exchange(other.handle_, nullptr)),
      callbacks_(std::move(other.callbacks_)),
      form_(std::exchange(other.form_, nullptr)),
      name_(std::move(other.name_)) {}

Pdfium::Document::~Document() {
  if (handle_ == nullptr) return;
  const MutexLock lock(calls());
  library_->calls_.close_form(form_);
  library_->calls_.close(handle_);
}

int Pdfium::Document::page_count() const {
  const MutexLock lock(calls());
  return library_->calls_.page_count(handle_);
}

PageSize Pdfium::Document::page_size(int page) const {
  const MutexLock lock(calls());
  PageSize size;
  return library_->calls_.page_size(handle_, page, &size) != 0 ? size : PageSize{};
}

Result<void> Pdfium::Document::visit_pictures(
    int page, std::uint32_t max_objects,
    const std::function<Result<void>(unsigned, unsigned)>& visit) const {
  const MutexLock lock(calls());
  const OpenPage open(library_->calls_, handle_, form_, page);
  if (open.get() == nullptr) return damaged(name_, page);
  std::uint32_t left = max_objects;
  return library_->visit_objects(open.get(), true, 0, left, name_, visit);
}

Result<Rasterized> Pdfium::Document::rasterize(int page, std::span<std::uint8_t> rgbx,
                                               std::uint32_t width, std::uint32_t height,
                                               const std::function<bool()>& is_over) const {
  AFI_CHECK(rgbx.size() == std::size_t{4} * width * height);
  const auto columns = static_cast<int>(width);
  const auto rows = static_cast<int>(height);
  const PdfiumCalls& call = library_->calls_;
  const MutexLock lock(calls());
  const OpenPage open(call, handle_, form_, page);
  if (open.get() == nullptr) return damaged(name_, page);
  void* const bitmap = call.bitmap(columns, rows, kFourBytesOpaque, rgbx.data(), 4 * columns);
  if (bitmap == nullptr) return damaged(name_, page);
  call.fill(bitmap, 0, 0, columns, rows, kWhite);
  auto over = is_over;
  PauseRequest pause{.need_to_pause =
                         [](PauseRequest* self) {
                           return (*static_cast<std::function<bool()>*>(self->user))() ? 1 : 0;
                         },
                     .user = &over};
  const int ended =
      call.render(bitmap, open.get(), 0, 0, columns, rows, 0, kWithAnnotations | kRedFirst, &pause);
  call.end_render(open.get());
  if (ended == kRenderDone) {
    call.draw_form(form_, bitmap, open.get(), 0, 0, columns, rows, 0, kWithAnnotations | kRedFirst);
  }
  call.destroy_bitmap(bitmap);
  if (ended == kRenderPaused) return Rasterized::kOutOfTime;
  if (ended != kRenderDone) return damaged(name_, page);
  AFI_TRY(const bool is_whole,
          shows_everything(call, {.page = open.get(),
                                  .form = form_,
                                  .rgbx = rgbx,
                                  .width = columns,
                                  .height = rows,
                                  .name = fmt::format("{}, page {}", name_, page + 1)}));
  return is_whole ? Rasterized::kDone : Rasterized::kIncomplete;
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/documents/pdfium.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <utility>

#include "afterimage/check.h"
#include "foundation/crypto/sha256.h"
#include "foundation/platform/files.h"

namespace afterimage {
namespace {

// As the headers of PDFium declare them.
constexpr int kObjectIsImage = 3;       // FPDF_PAGEOBJ_IMAGE
constexpr int kObjectIsForm = 5;        // FPDF_PAGEOBJ_FORM
constexpr int kFourBytesOpaque = 3;     // FPDFBitmap_BGRx
constexpr int kWithAnnotations = 0x01;  // FPDF_ANNOT
constexpr int kRedFirst = 0x10;         // FPDF_REVERSE_BYTE_ORDER
constexpr unsigned long kWhite = 0xFFFFFFFF;
constexpr int kRenderDone = 2;                 // FPDF_RENDER_DONE
constexpr int kRenderPaused = 1;               // FPDF_RENDER_TOBECONTINUED
constexpr unsigned long kNeedsPassword = 4;    // FPDF_ERR_PASSWORD
constexpr unsigned long kUnknownSecurity = 5;  // FPDF_ERR_SECURITY
constexpr int kNotEncrypted = -1;              // of FPDF_GetSecurityHandlerRevision
constexpr int kMaxDepth = 32;                  // of forms within forms

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

}  // namespace

/// IFSDK_PAUSE.
struct Pdfium::PauseRequest {
  int version = 1;
  int (*need_to_pause)(PauseRequest* self) = nullptr;
  void* user = nullptr;
};

class Pdfium::OpenPage {
 public:
  OpenPage(const Pdfium& library, void* document, int page)
      : library_(library), page_(library.load_page_(document, page)) {}
  ~OpenPage() {
    if (page_ != nullptr) library_.close_page_(page_);
  }
  OpenPage(const OpenPage&) = delete;
  OpenPage& operator=(const OpenPage&) = delete;
  [[nodiscard]] void* get() const { return page_; }

 private:
  const Pdfium& library_;
  void* page_;
};

Result<const Pdfium*> Pdfium::open(const std::string& library) {
  // Never destroyed: PDFium cannot be started a second time in a process.
  static auto& loaded = *new std::map<std::string, std::unique_ptr<const Pdfium>>();
  static Mutex mutex;  // not that of the calls, which is held while a page is rasterised
  const MutexLock lock(mutex);
  if (const auto it = loaded.find(library); it != loaded.end()) return it->second.get();
  AFI_TRY(SharedLibrary opened, SharedLibrary::open(library));
  std::unique_ptr<Pdfium> pdfium(new Pdfium(std::move(opened)));
  AFI_TRY_VOID(pdfium->bind());
  AFI_TRY_VOID(pdfium->start());
  return loaded.emplace(library, std::move(pdfium)).first->second.get();
}

Result<void> Pdfium::bind() {
  AFI_TRY_VOID(library_.bind(init_, "FPDF_InitLibraryWithConfig"));
  AFI_TRY_VOID(library_.bind(load_, "FPDF_LoadMemDocument64"));
  AFI_TRY_VOID(library_.bind(last_error_, "FPDF_GetLastError"));
  AFI_TRY_VOID(library_.bind(close_, "FPDF_CloseDocument"));
  AFI_TRY_VOID(library_.bind(security_, "FPDF_GetSecurityHandlerRevision"));
  AFI_TRY_VOID(library_.bind(page_count_, "FPDF_GetPageCount"));
  AFI_TRY_VOID(library_.bind(page_size_, "FPDF_GetPageSizeByIndexF"));
  AFI_TRY_VOID(library_.bind(load_page_, "FPDF_LoadPage"));
  AFI_TRY_VOID(library_.bind(close_page_, "FPDF_ClosePage"));
  AFI_TRY_VOID(library_.bind(count_objects_, "FPDFPage_CountObjects"));
  AFI_TRY_VOID(library_.bind(object_, "FPDFPage_GetObject"));
  AFI_TRY_VOID(library_.bind(object_type_, "FPDFPageObj_GetType"));
  AFI_TRY_VOID(library_.bind(count_inner_, "FPDFFormObj_CountObjects"));
  AFI_TRY_VOID(library_.bind(inner_, "FPDFFormObj_GetObject"));
  AFI_TRY_VOID(library_.bind(picture_size_, "FPDFImageObj_GetImagePixelSize"));
  AFI_TRY_VOID(library_.bind(bitmap_, "FPDFBitmap_CreateEx"));
  AFI_TRY_VOID(library_.bind(destroy_bitmap_, "FPDFBitmap_Destroy"));
  AFI_TRY_VOID(library_.bind(fill_, "FPDFBitmap_FillRect"));
  AFI_TRY_VOID(library_.bind(render_, "FPDF_RenderPageBitmap_Start"));
  return library_.bind(end_render_, "FPDF_RenderPage_Close");
}

Result<void> Pdfium::start() {
  Dl_info found{};
  if (::dladdr(reinterpret_cast<const void*>(load_), &found) == 0 || found.dli_fname == nullptr) {
    return fail(ErrorCode::kUnavailable, "the file of PDFium's library cannot be found");
  }
  AFI_TRY(version_, hash_of_file(found.dli_fname));
  // No folder of fonts: the machine's would change the pixels.
  std::array<const char*, 1> no_fonts = {nullptr};
  const Config config{.font_paths = no_fonts.data()};
  const MutexLock lock(calls());
  init_(&config);
  return {};
}

Result<void> Pdfium::visit_objects(
    void* object, bool is_page, int depth, std::uint32_t& left, const std::string& name,
    const std::function<Result<void>(unsigned, unsigned)>& visit) const {
  const int count = is_page ? count_objects_(object) : count_inner_(object);
  for (int i = 0; i < count; ++i) {
    if (depth == kMaxDepth || left == 0) {
      return fail(ErrorCode::kLimitExceeded,
                  name + (left == 0 ? ": more objects on a page than are allowed"
                                    : ": objects within objects, too deep"));
    }
    --left;
    void* const inner =
        is_page ? object_(object, i) : inner_(object, static_cast<unsigned long>(i));
    if (inner == nullptr) continue;
    const int type = object_type_(inner);
    if (type == kObjectIsForm) {
      AFI_TRY_VOID(visit_objects(inner, false, depth + 1, left, name, visit));
    }
    unsigned width = 0;
    unsigned height = 0;
    if (type == kObjectIsImage && picture_size_(inner, &width, &height) != 0) {
      AFI_TRY_VOID(visit(width, height));
    }
  }
  return {};
}

Result<Pdfium::Document> Pdfium::Document::open(const Pdfium& library,
                                                std::span<const std::byte> bytes,
                                                const std::string& name) {
  const MutexLock lock(calls());
  void* const handle = library.load_(bytes.data(), bytes.size(), nullptr);
  if (handle == nullptr) {
    const unsigned long why = library.last_error_();
    if (why == kNeedsPassword || why == kUnknownSecurity) return encrypted(name);
    return fail(ErrorCode::kCorruption, name + ": the PDF is damaged or cut off");
  }
  if (library.security_(handle) != kNotEncrypted) {
    library.close_(handle);
    return encrypted(name);
  }
  return Document(library, handle, name);
}

Pdfium::Document::Document(Document&& other) noexcept
    : library_(other.library_),
      handle_(std::exchange(other.handle_, nullptr)),
      name_(std::move(other.name_)) {}

Pdfium::Document::~Document() {
  if (handle_ == nullptr) return;
  const MutexLock lock(calls());
  library_->close_(handle_);
}

int Pdfium::Document::page_count() const {
  const MutexLock lock(calls());
  return library_->page_count_(handle_);
}

PageSize Pdfium::Document::page_size(int page) const {
  const MutexLock lock(calls());
  PageSize size;
  return library_->page_size_(handle_, page, &size) != 0 ? size : PageSize{};
}

Result<void> Pdfium::Document::visit_pictures(
    int page, std::uint32_t max_objects,
    const std::function<Result<void>(unsigned, unsigned)>& visit) const {
  const MutexLock lock(calls());
  const OpenPage open(*library_, handle_, page);
  if (open.get() == nullptr) {
    return fail(ErrorCode::kCorruption, fmt::format("{}: page {} is damaged", name_, page + 1));
  }
  std::uint32_t left = max_objects;
  return library_->visit_objects(open.get(), true, 0, left, name_, visit);
}

Rasterized Pdfium::Document::rasterize(int page, std::span<std::uint8_t> rgbx, std::uint32_t width,
                                       std::uint32_t height,
                                       const std::function<bool()>& is_over) const {
  AFI_CHECK(rgbx.size() == std::size_t{4} * width * height);
  const auto columns = static_cast<int>(width);
  const auto rows = static_cast<int>(height);
  const MutexLock lock(calls());
  const OpenPage open(*library_, handle_, page);
  void* const bitmap = library_->bitmap_(columns, rows, kFourBytesOpaque, rgbx.data(), 4 * columns);
  if (open.get() == nullptr || bitmap == nullptr) {
    if (bitmap != nullptr) library_->destroy_bitmap_(bitmap);
    return Rasterized::kFailed;
  }
  library_->fill_(bitmap, 0, 0, columns, rows, kWhite);
  auto over = is_over;
  PauseRequest pause{.need_to_pause =
                         [](PauseRequest* self) {
                           return (*static_cast<std::function<bool()>*>(self->user))() ? 1 : 0;
                         },
                     .user = &over};
  const int ended = library_->render_(bitmap, open.get(), 0, 0, columns, rows, 0,
                                      kWithAnnotations | kRedFirst, &pause);
  library_->end_render_(open.get());
  library_->destroy_bitmap_(bitmap);
  if (ended == kRenderDone) return Rasterized::kDone;
  return ended == kRenderPaused ? Rasterized::kOutOfTime : Rasterized::kFailed;
}

}  // namespace afterimage

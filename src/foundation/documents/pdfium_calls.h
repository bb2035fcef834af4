// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>

#include "afterimage/result.h"
#include "foundation/platform/shared_library.h"

/// Private to this room: the functions of PDFium's C API (fpdfview.h, fpdf_edit.h, fpdf_progressive.h,
/// fpdf_text.h, fpdf_annot.h, fpdf_formfill.h) that are used. Nothing here is installed.
namespace afterimage {

struct PageSize {
  float width = 0;  // points
  float height = 0;
};

/// FS_RECTF: a rectangle on a page, in points from its lower left corner.
struct PageRect {
  float left = 0;
  float top = 0;
  float right = 0;
  float bottom = 0;
};

/// FS_MATRIX.
struct PageMatrix {
  float a = 1;
  float b = 0;
  float c = 0;
  float d = 1;
  float e = 0;
  float f = 0;
};

struct PauseRequest;
struct FormCallbacks;

/// PDFium's functions share state without locks: every call holds one lock of the process.
struct PdfiumCalls {
  /// kUnavailable: the library lacks one.
  static Result<PdfiumCalls> bind(const SharedLibrary& library);

  void (*init)(const void* config) = nullptr;
  void* (*load)(const void* bytes, std::size_t size, const char* password) = nullptr;
  unsigned long (*last_error)() = nullptr;
  void (*close)(void* document) = nullptr;
  int (*page_count)(void* document) = nullptr;
  int (*page_size)(void* document, int page, PageSize* size) = nullptr;
  void* (*load_page)(void* document, int page) = nullptr;
  void (*close_page)(void* page) = nullptr;
  int (*to_device)(void* page, int left, int top, int width, int height, int turns, double page_x,
                   double page_y, int* x, int* y) = nullptr;

  int (*count_objects)(void* page) = nullptr;
  void* (*object)(void* page, int index) = nullptr;
  int (*object_type)(void* object) = nullptr;
  int (*object_bounds)(void* object, float* left, float* bottom, float* right,
                       float* top) = nullptr;
  int (*object_matrix)(void* object, PageMatrix* matrix) = nullptr;
  int (*count_inner)(void* form) = nullptr;
  void* (*inner)(void* form, unsigned long index) = nullptr;
  int (*picture_size)(void* picture, unsigned* width, unsigned* height) = nullptr;
  void* (*picture_bitmap)(void* picture) = nullptr;

  void* (*bitmap)(int width, int height, int format, void* first, int stride) = nullptr;
  void (*destroy_bitmap)(void* bitmap) = nullptr;
  int (*fill)(void* bitmap, int left, int top, int width, int height,
              unsigned long color) = nullptr;
  int (*render)(void* bitmap, void* page, int left, int top, int width, int height, int turns,
                int flags, PauseRequest* pause) = nullptr;
  void (*end_render)(void* page) = nullptr;

  void* (*open_text)(void* page) = nullptr;
  void (*close_text)(void* text) = nullptr;
  int (*count_characters)(void* text) = nullptr;
  unsigned (*unicode)(void* text, int index) = nullptr;
  int (*has_no_unicode)(void* text, int index) = nullptr;
  int (*is_generated)(void* text, int index) = nullptr;
  int (*character_box)(void* text, int index, double* left, double* right, double* bottom,
                       double* top) = nullptr;
  void* (*text_object)(void* text, int index) = nullptr;
  int (*render_mode)(void* text_object) = nullptr;
  void* (*font)(void* text_object) = nullptr;
  int (*is_embedded)(void* font) = nullptr;
  std::size_t (*font_name)(void* font, char* name, std::size_t size) = nullptr;
  const void* (*glyph)(void* font, unsigned unicode, float size) = nullptr;

  int (*form_type)(void* document) = nullptr;
  void* (*open_form)(void* document, FormCallbacks* callbacks) = nullptr;
  void (*close_form)(void* form) = nullptr;
  void (*after_load)(void* page, void* form) = nullptr;
  void (*before_close)(void* page, void* form) = nullptr;
  void (*draw_form)(void* form, void* bitmap, void* page, int left, int top, int width, int height,
                    int turns, int flags) = nullptr;

  int (*count_annotations)(void* page) = nullptr;
  void* (*annotation)(void* page, int index) = nullptr;
  void (*close_annotation)(void* annotation) = nullptr;
  int (*subtype)(void* annotation) = nullptr;
  int (*annotation_flags)(void* annotation) = nullptr;
  int (*annotation_rect)(void* annotation, PageRect* rect) = nullptr;
  /// Sizes in bytes, of texts in UTF-16 with an end.
  unsigned long (*appearance)(void* annotation, int mode, void* text, unsigned long size) = nullptr;
  unsigned long (*annotation_text)(void* annotation, const char* key, void* text,
                                   unsigned long size) = nullptr;
  int (*count_annotation_objects)(void* annotation) = nullptr;
  void* (*annotation_object)(void* annotation, int index) = nullptr;
  int (*field_type)(void* form, void* annotation) = nullptr;
  unsigned long (*field_value)(void* form, void* annotation, void* text,
                               unsigned long size) = nullptr;
};

// As the headers of PDFium declare them.
inline constexpr int kObjectIsText = 1;   // FPDF_PAGEOBJ_TEXT
inline constexpr int kObjectIsImage = 3;  // FPDF_PAGEOBJ_IMAGE
inline constexpr int kObjectIsForm = 5;   // FPDF_PAGEOBJ_FORM

/// Forms within forms: a page with deeper ones is refused.
inline constexpr int kMaxFormDepth = 32;

}  // namespace afterimage

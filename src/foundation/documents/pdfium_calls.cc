// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/documents/pdfium_calls.h"

namespace afterimage {
namespace {

Result<void> bind_pages(const SharedLibrary& library, PdfiumCalls& calls) {
  AFI_TRY_VOID(library.bind(calls.init, "FPDF_InitLibraryWithConfig"));
  AFI_TRY_VOID(library.bind(calls.load, "FPDF_LoadMemDocument64"));
  AFI_TRY_VOID(library.bind(calls.last_error, "FPDF_GetLastError"));
  AFI_TRY_VOID(library.bind(calls.close, "FPDF_CloseDocument"));
  AFI_TRY_VOID(library.bind(calls.page_count, "FPDF_GetPageCount"));
  AFI_TRY_VOID(library.bind(calls.page_size, "FPDF_GetPageSizeByIndexF"));
  AFI_TRY_VOID(library.bind(calls.load_page, "FPDF_LoadPage"));
  AFI_TRY_VOID(library.bind(calls.close_page, "FPDF_ClosePage"));
  AFI_TRY_VOID(library.bind(calls.to_device, "FPDF_PageToDevice"));
  AFI_TRY_VOID(library.bind(calls.bitmap, "FPDFBitmap_CreateEx"));
  AFI_TRY_VOID(library.bind(calls.destroy_bitmap, "FPDFBitmap_Destroy"));
  AFI_TRY_VOID(library.bind(calls.fill, "FPDFBitmap_FillRect"));
  AFI_TRY_VOID(library.bind(calls.render, "FPDF_RenderPageBitmap_Start"));
  return library.bind(calls.end_render, "FPDF_RenderPage_Close");
}

Result<void> bind_objects(const SharedLibrary& library, PdfiumCalls& calls) {
  AFI_TRY_VOID(library.bind(calls.count_objects, "FPDFPage_CountObjects"));
  AFI_TRY_VOID(library.bind(calls.object, "FPDFPage_GetObject"));
  AFI_TRY_VOID(library.bind(calls.object_type, "FPDFPageObj_GetType"));
  AFI_TRY_VOID(library.bind(calls.object_bounds, "FPDFPageObj_GetBounds"));
  AFI_TRY_VOID(library.bind(calls.object_matrix, "FPDFPageObj_GetMatrix"));
  AFI_TRY_VOID(library.bind(calls.count_inner, "FPDFFormObj_CountObjects"));
  AFI_TRY_VOID(library.bind(calls.inner, "FPDFFormObj_GetObject"));
  AFI_TRY_VOID(library.bind(calls.picture_size, "FPDFImageObj_GetImagePixelSize"));
  return library.bind(calls.picture_bitmap, "FPDFImageObj_GetBitmap");
}

Result<void> bind_text(const SharedLibrary& library, PdfiumCalls& calls) {
  AFI_TRY_VOID(library.bind(calls.open_text, "FPDFText_LoadPage"));
  AFI_TRY_VOID(library.bind(calls.close_text, "FPDFText_ClosePage"));
  AFI_TRY_VOID(library.bind(calls.count_characters, "FPDFText_CountChars"));
  AFI_TRY_VOID(library.bind(calls.unicode, "FPDFText_GetUnicode"));
  AFI_TRY_VOID(library.bind(calls.has_no_unicode, "FPDFText_HasUnicodeMapError"));
  AFI_TRY_VOID(library.bind(calls.is_generated, "FPDFText_IsGenerated"));
  AFI_TRY_VOID(library.bind(calls.character_box, "FPDFText_GetCharBox"));
  AFI_TRY_VOID(library.bind(calls.text_object, "FPDFText_GetTextObject"));
  AFI_TRY_VOID(library.bind(calls.render_mode, "FPDFTextObj_GetTextRenderMode"));
  AFI_TRY_VOID(library.bind(calls.font, "FPDFTextObj_GetFont"));
  AFI_TRY_VOID(library.bind(calls.is_embedded, "FPDFFont_GetIsEmbedded"));
  AFI_TRY_VOID(library.bind(calls.font_name, "FPDFFont_GetBaseFontName"));
  return library.bind(calls.glyph, "FPDFFont_GetGlyphPath");
}

Result<void> bind_forms(const SharedLibrary& library, PdfiumCalls& calls) {
  AFI_TRY_VOID(library.bind(calls.form_type, "FPDF_GetFormType"));
  AFI_TRY_VOID(library.bind(calls.open_form, "FPDFDOC_InitFormFillEnvironment"));
  AFI_TRY_VOID(library.bind(calls.close_form, "FPDFDOC_ExitFormFillEnvironment"));
  AFI_TRY_VOID(library.bind(calls.after_load, "FORM_OnAfterLoadPage"));
  AFI_TRY_VOID(library.bind(calls.before_close, "FORM_OnBeforeClosePage"));
  AFI_TRY_VOID(library.bind(calls.draw_form, "FPDF_FFLDraw"));
  AFI_TRY_VOID(library.bind(calls.count_annotations, "FPDFPage_GetAnnotCount"));
  AFI_TRY_VOID(library.bind(calls.annotation, "FPDFPage_GetAnnot"));
  AFI_TRY_VOID(library.bind(calls.close_annotation, "FPDFPage_CloseAnnot"));
  AFI_TRY_VOID(library.bind(calls.subtype, "FPDFAnnot_GetSubtype"));
  AFI_TRY_VOID(library.bind(calls.annotation_flags, "FPDFAnnot_GetFlags"));
  AFI_TRY_VOID(library.bind(calls.annotation_rect, "FPDFAnnot_GetRect"));
  AFI_TRY_VOID(library.bind(calls.appearance, "FPDFAnnot_GetAP"));
  AFI_TRY_VOID(library.bind(calls.annotation_text, "FPDFAnnot_GetStringValue"));
  AFI_TRY_VOID(library.bind(calls.count_annotation_objects, "FPDFAnnot_GetObjectCount"));
  AFI_TRY_VOID(library.bind(calls.annotation_object, "FPDFAnnot_GetObject"));
  AFI_TRY_VOID(library.bind(calls.field_type, "FPDFAnnot_GetFormFieldType"));
  return library.bind(calls.field_value, "FPDFAnnot_GetFormFieldValue");
}

}  // namespace

Result<PdfiumCalls> PdfiumCalls::bind(const SharedLibrary& library) {
  PdfiumCalls calls;
  AFI_TRY_VOID(bind_pages(library, calls));
  AFI_TRY_VOID(bind_objects(library, calls));
  AFI_TRY_VOID(bind_text(library, calls));
  AFI_TRY_VOID(bind_forms(library, calls));
  return calls;
}

}  // namespace afterimage

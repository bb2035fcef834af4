// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/content_parts.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <utility>

#include "foundation/documents/document_reader.h"
#include "foundation/json/json_fields.h"
#include "foundation/media/probe.h"
#include "foundation/text/data_url.h"
#include "gateway/openai/attached_bytes.h"
#include "gateway/openai/engine_limits.h"
#include "gateway/openai/identity_rules.h"

namespace afterimage {
namespace {

/// The field of a message part that holds a media item.
struct MediaField {
  std::string_view name;
  Modality modality;
};
constexpr auto kMediaFields = std::to_array<MediaField>({{"image_url", Modality::kImage},
                                                         {"video_url", Modality::kVideo},
                                                         {"audio_url", Modality::kAudio},
                                                         {"input_audio", Modality::kAudio}});

/// Of a data URL, or of base64 alone.
Result<DataUrl> decoded(std::string_view text) {
  if (is_data_url(text)) return decode_data_url(text);
  AFI_TRY(std::vector<std::byte> bytes, decode_base64(text));
  return DataUrl{.type = {}, .bytes = std::move(bytes)};
}

FileBytes bytes_of(DataUrl& data) {
  return std::make_shared<const std::vector<std::byte>>(std::move(data.bytes));
}

class PartReader {
 public:
  PartReader(ApiEngineFields* engine, ApiRequest& request, ScopeMessage& message)
      : engine_(engine), request_(request), message_(message) {}

  Result<std::string> read(const JsonValue& part, const std::string& name) {
    if (engine_ != nullptr) engine_->note(check_engine_takes_part(part, name));
    const JsonValue type = part["type"];
    if (type.is(JsonKind::kString)) {
      if (type.text() == "text") {
        const JsonValue text = part["text"];
        if (!text.is(JsonKind::kString)) return wrong_field(name + ".text", "must be a string");
        add_data_urls(text.text(), request_.attached);
        add_attached_members(part, {"type", "text"}, request_.attached);
        message_.parts.emplace_back(std::string(text.text()));
        return canonical(part, {"type", "text", kCacheControl});
      }
      if (type.text() == "file") {
        return engine_ != nullptr ? read_document(part, name) : read_upload(part, name);
      }
      const auto* field = std::ranges::find(kMediaFields, type.text(), &MediaField::name);
      if (field != kMediaFields.end() && !part[field->name].is_none()) {
        return read_media(part, *field, name + "." + std::string(field->name));
      }
    } else if (!part.is(JsonKind::kString)) {  // some servers accept plain strings as parts
      return wrong_field(name + ".type", "must be a string");
    }
    add_attached(part, request_.attached);
    return canonical(part);
  }

 private:
  Result<std::string> read_media(const JsonValue& part, const MediaField& field,
                                 const std::string& name) {
    const bool is_input_audio = field.name == "input_audio";
    const std::string_view url_field = is_input_audio ? "data" : "url";
    const std::string_view option = is_input_audio ? "format" : "detail";
    const JsonValue value = part[field.name];
    const JsonValue url = value.is(JsonKind::kString) ? value : value[url_field];
    const std::string url_name =
        value.is(JsonKind::kString) ? name : name + "." + std::string(url_field);
    if (!url.is(JsonKind::kString) || url.text().empty())
      return wrong_field(url_name, "must be a non-empty string");

    ApiMedia media{.modality = field.modality,
                   .name = name,
                   .begin = url.begin_offset(),
                   .end = url.end_offset()};
    const JsonValue asked = value[option];
    const bool is_placed = asked.is(JsonKind::kString) || asked.is(JsonKind::kNull);
    if (engine_ != nullptr && engine_ignores_media_option(option)) {
      if (asked.is(JsonKind::kString) && asked.text() != "auto") {
        engine_->ignored.push_back(name + "." + std::string(option));
      }
    } else if (asked.is(JsonKind::kString)) {
      media.options[std::string(option)] = asked.text();
    }
    AFI_TRY_VOID(read_bytes(url.text(), is_input_audio, url_name, media));
    add_media(std::move(media));

    std::string rest = "[";
    append_json_string(rest, field.name);
    rest.push_back(',');
    append_canonical(rest, part, {"type", field.name, kCacheControl});
    rest.push_back(',');
    add_attached_members(part, {"type", field.name}, request_.attached);
    if (!value.is(JsonKind::kString)) {
      append_canonical(rest, value, {url_field, is_placed ? option : url_field});
      add_attached_members(value, {url_field}, request_.attached);
    }
    rest.push_back(']');
    return rest;
  }

  /// A PDF file, of which the engine sees the pages.
  Result<std::string> read_document(const JsonValue& part, const std::string& name) {
    const JsonValue data = part["file"]["file_data"];
    ApiMedia media{.modality = Modality::kImage, .name = name + ".file"};
    if (!data.is(JsonKind::kString) || !is_data_url(data.text())) {
      engine_->note(fail(ErrorCode::kUnsupported,
                         media.name + ".file_data must be a data URL of a PDF file, for " +
                             std::string(kThisEngine)));
      return canonical(part);
    }
    AFI_TRY_VOID(read_bytes(data.text(), false, media.name + ".file_data", media));
    if (!is_document({.files = {media.bytes}})) {
      engine_->note(fail(ErrorCode::kUnsupported, media.name + " is " +
                                                      describe_content(*media.bytes) +
                                                      ", and not a PDF file, the only kind that " +
                                                      std::string(kThisEngine) + " reads"));
    }
    // Another library may rasterise the same file to other pixels.
    auto rasterizer = DocumentReader().rasterizer();
    if (!rasterizer.has_value()) {
      engine_->note(fail(ErrorCode::kUnsupported, media.name + ": " + rasterizer.error().message));
    }
    media.options["pages"] = std::move(rasterizer).value_or("");
    add_media(std::move(media));
    return std::string(R"(["file"])");
  }

  /// A file of any kind, which another server gets as it is, with its name.
  Result<std::string> read_upload(const JsonValue& part, const std::string& name) {
    const JsonValue file = part["file"];
    const JsonValue data = file["file_data"];
    auto read = decoded(data.text());
    if (!data.is(JsonKind::kString) || !read.has_value() || read->bytes.empty()) {
      add_attached(part, request_.attached);
      return canonical(part);
    }
    ApiMedia media{.modality = Modality::kImage, .bytes = bytes_of(*read), .name = name + ".file"};
    media.options["mime"] = read->type;
    add_media(std::move(media));
    add_attached_members(part, {"type", "file"}, request_.attached);
    add_attached_members(file, {"file_data"}, request_.attached);
    std::string rest = R"(["file",)";
    append_canonical(rest, part, {"type", "file"});
    rest.push_back(',');
    append_canonical(rest, file, {"file_data"});
    rest.push_back(']');
    return rest;
  }

  void add_media(ApiMedia media) {
    message_.parts.emplace_back(
        ScopeMedia{.modality = media.modality, .content = {}, .options = media.options});
    request_.media.push_back(std::move(media));
  }

  Result<void> read_bytes(std::string_view url, bool is_input_audio, const std::string& name,
                          ApiMedia& media) const {
    std::string joined;
    if (engine_ != nullptr && url.find_first_of("\r\n") != std::string_view::npos) {
      // Lines, as "base64" and MIME write them. Another server may not take these.
      std::ranges::copy_if(url, std::back_inserter(joined),
                           [](char c) { return !std::string_view(" \t\r\n").contains(c); });
      url = joined;
    }
    if (!is_input_audio && !is_data_url(url)) {
      // The bytes without their "data:…;base64,", which no address looks like: it has a colon.
      const bool may_be_bare = engine_ != nullptr && !url.contains(':');
      auto bare = may_be_bare ? decoded(url) : Result<DataUrl>(DataUrl());
      if (bare.has_value() && !bare->bytes.empty()) {
        media.bytes = bytes_of(*bare);
        return {};
      }
      media.address = url;
      return {};
    }
    Result<DataUrl> data = decoded(url);
    if (!data.has_value()) return wrong_field(name, "cannot be decoded: " + data.error().message);
    if (is_data_url(url)) media.options["mime"] = data->type;
    media.bytes = bytes_of(*data);
    return {};
  }

  ApiEngineFields* engine_;
  ApiRequest& request_;
  ScopeMessage& message_;
};

}  // namespace

Result<std::string> read_content_part(const JsonValue& part, const std::string& name,
                                      ApiEngineFields* engine, ApiRequest& request,
                                      ScopeMessage& message) {
  return PartReader(engine, request, message).read(part, name);
}

}  // namespace afterimage

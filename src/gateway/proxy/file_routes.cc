// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/file_routes.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "foundation/json/json_writer.h"
#include "gateway/files/file_store.h"
#include "gateway/files/multipart.h"
#include "gateway/proxy/route_reply.h"

namespace afterimage {
namespace {

constexpr std::string_view kFilesPath = "/v1/files";
constexpr std::string_view kContentPath = "/content";
constexpr std::uint64_t kLongestList = 10'000;

ApiForm api_form_of(const HttpHeaders& headers) {
  return headers.find("anthropic-version").has_value() ? ApiForm::kAnthropic : ApiForm::kOpenAi;
}

std::string time_text(std::int64_t seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

std::string file_json(const FileInfo& file, ApiForm form) {
  JsonObject json;
  json.add_text("id", file.id);
  if (form == ApiForm::kAnthropic) {
    json.add_text("type", "file")
        .add_text("filename", file.name)
        .add_text("mime_type", file.type)
        .add_number("size_bytes", file.size)
        .add_text("created_at", time_text(file.created))
        .add_text("expires_at", time_text(file.expires))
        .add("downloadable", "true");
    return json.text();
  }
  return json.add_text("object", "file")
      .add_number("bytes", file.size)
      .add_number("created_at", static_cast<std::uint64_t>(file.created))
      .add_number("expires_at", static_cast<std::uint64_t>(file.expires))
      .add_text("filename", file.name)
      .add_text("purpose", file.purpose)
      .add_text("status", "processed")
      .text();
}

std::string deleted_json(std::string_view id, ApiForm form) {
  JsonObject json;
  json.add_text("id", id);
  if (form == ApiForm::kAnthropic) return json.add_text("type", "file_deleted").text();
  return json.add_text("object", "file").add("deleted", "true").text();
}

HttpReply file_error(const Error& error, ApiForm form) {
  switch (error.code) {
    case ErrorCode::kNotFound:
      return route_error(form, 404, error.message, "not_found");
    case ErrorCode::kLimitExceeded:
      return route_error(form, 413, error.message, "file_too_large");
    default:
      return route_error(form, 400, error.message, "invalid_form");
  }
}

Result<FileInfo> upload(Gateway& gateway, const HttpRequest& request, const Tenant& tenant) {
  const std::string type(request.headers.find("content-type").value_or(""));
  AFI_TRY(const std::vector<FormPart> parts, parse_multipart(type, *request.body));
  const FormPart* given = nullptr;
  FileInfo file;
  for (const FormPart& part : parts) {
    if (part.name == "file") {
      given = &part;
    } else if (part.name == "purpose") {
      file.purpose = part.content;
    } else {
      return fail(
          ErrorCode::kUnsupported,
          "the field '" + part.name +
              "' is not supported: send file and purpose; files.ttl says how long it is kept");
    }
  }
  if (given == nullptr) return fail(ErrorCode::kInvalidArgument, "the form has no field 'file'");
  if (file.purpose.empty()) file.purpose = "user_data";
  const bool is_word =
      file.purpose.size() <= 64 && std::ranges::all_of(file.purpose, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
      });
  if (!is_word) return fail(ErrorCode::kInvalidArgument, "purpose must be a word, such as vision");
  IdGenerator& ids = gateway.parts().ids;
  file.id = "file-" + ids.suffix();
  file.name = given->filename.empty() ? "upload" : given->filename;
  file.type = given->type;
  file.created =
      std::chrono::floor<std::chrono::seconds>(ids.clock().now()).time_since_epoch().count();
  return gateway.files().add(tenant.id, std::move(file), given->content);
}

/// Larger bodies are read on threads of their own.
void post_upload(Gateway& gateway, HttpRequest request, const Responder& responder,
                 const Tenant& tenant, ApiForm form) {
  const bool posted =
      gateway.readers().post([&gateway, request = std::move(request), responder, tenant, form] {
        const auto file = upload(gateway, request, tenant);
        responder.reply(file.has_value() ? json_reply(file_json(*file, form))
                                         : file_error(file.error(), form));
      });
  if (posted) return;
  responder.reply(
      route_error(form, 503, "too many large requests are waiting; try again soon", "overloaded"));
}

HttpReply list_files(Gateway& gateway, std::string_view target, const Tenant& tenant,
                     ApiForm form) {
  const auto limit = query_count(target, "limit", kLongestList, kLongestList);
  if (!limit.has_value())
    return route_error(form, 400, "limit must be from 1 to 10000", "invalid_query");
  const std::string_view purpose = query_value(target, "purpose");
  std::string_view after = query_value(target, "after");
  if (after.empty()) after = query_value(target, "after_id");
  auto files = gateway.files().list(tenant.id);
  if (query_value(target, "order") == "asc") std::ranges::reverse(files);
  if (!after.empty()) {
    const auto last =
        std::ranges::find_if(files, [&](const auto& file) { return file->id == after; });
    files.erase(files.begin(), last == files.end() ? last : last + 1);
  }
  if (!purpose.empty()) {
    std::erase_if(files, [&](const auto& file) { return file->purpose != purpose; });
  }
  const bool has_more = files.size() > *limit;
  if (has_more) files.resize(*limit);
  JsonArray data;
  for (const auto& file : files) data.add(file_json(*file, form));
  JsonObject json;
  if (form == ApiForm::kOpenAi) json.add_text("object", "list");
  json.add("data", data.text()).add("has_more", has_more ? "true" : "false");
  json.add("first_id", files.empty() ? "null" : json_string(files.front()->id));
  json.add("last_id", files.empty() ? "null" : json_string(files.back()->id));
  return json_reply(json.text());
}

HttpReply file_content(Gateway& gateway, const Tenant& tenant, std::string_view id, ApiForm form) {
  const auto file = gateway.files().content(tenant.id, id);
  if (!file.has_value()) return file_error(file.error(), form);
  // Never as what it says it is: a browser would run a page of a client's.
  return {.status = 200,
          .headers = {{"Content-Type", "application/octet-stream"},
                      {"X-Content-Type-Options", "nosniff"}},
          .body = file->bytes};
}

HttpReply one_file(Gateway& gateway, const HttpRequest& request, const Tenant& tenant,
                   std::string_view id, ApiForm form) {
  if (request.method == "DELETE") {
    const auto erased = gateway.files().erase(tenant.id, id);
    if (!erased.has_value()) return file_error(erased.error(), form);
    return json_reply(deleted_json(id, form));
  }
  if (request.method != "GET") return wrong_method(form, "GET, DELETE");
  const auto file = gateway.files().info(tenant.id, id);
  if (!file.has_value()) return file_error(file.error(), form);
  return json_reply(file_json(*file, form));
}

}  // namespace

void handle_files(Gateway& gateway, HttpRequest request, const Responder& responder,
                  std::string_view path) {
  const ApiForm form = api_form_of(request.headers);
  const auto tenant = admitted(gateway, request, responder, form);
  if (!tenant.has_value()) return;
  if (path == kFilesPath) {
    if (request.method == "POST") {
      return post_upload(gateway, std::move(request), responder, *tenant, form);
    }
    return responder.reply(request.method == "GET"
                               ? list_files(gateway, request.target, *tenant, form)
                               : wrong_method(form, "GET, POST"));
  }
  std::string_view id = path.substr(kFilesPath.size() + 1);
  const bool wants_content = id.ends_with(kContentPath);
  if (wants_content) id.remove_suffix(kContentPath.size());
  if (id.empty() || id.contains('/')) {
    return responder.reply(
        route_error(form, 404, "there is nothing at " + std::string(path), "not_found"));
  }
  if (!wants_content) return responder.reply(one_file(gateway, request, *tenant, id, form));
  responder.reply(request.method == "GET" ? file_content(gateway, *tenant, id, form)
                                          : wrong_method(form, "GET"));
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/responses/response_store.h"

#include <utility>

namespace afterimage {
namespace {

std::unexpected<Error> not_found(std::string_view id) {
  return fail(ErrorCode::kNotFound, "there is no response '" + std::string(id) +
                                        "': it was not stored, or it has expired or was deleted");
}

}  // namespace

bool ResponseStore::put(const std::string& tenant, const std::string& id, StoredResponse response) {
  const Bytes size(response.response.size() + response.items.size() + response.messages.size() +
                   response.first_instructions.size());
  return kept_.put(tenant, id, std::make_shared<const StoredResponse>(std::move(response)), size);
}

Result<std::shared_ptr<const StoredResponse>> ResponseStore::find(const std::string& tenant,
                                                                  std::string_view id) {
  auto found = kept_.find(tenant, std::string(id));
  if (found == nullptr) return not_found(id);
  return found;
}

Result<void> ResponseStore::erase(const std::string& tenant, std::string_view id) {
  if (!kept_.erase(tenant, std::string(id))) return not_found(id);
  return {};
}

std::uint64_t ResponseStore::erase_with_media() {
  return kept_.erase_if([](const auto&, const auto&, const StoredResponse& kept) {
    for (const std::string* text : {&kept.items, &kept.messages}) {
      for (const std::string_view part : {R"("image_url")", R"("input_image")", R"("input_audio")",
                                          R"("video_url")", R"("file")", R"("input_file")"}) {
        if (text->contains(part)) return true;
      }
    }
    return false;
  });
}

std::uint64_t ResponseStore::erase_tenants(const std::function<bool(std::string_view)>& chosen) {
  return kept_.erase_if(
      [&](const std::string& tenant, const auto&, const auto&) { return chosen(tenant); });
}

}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/response_routes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "foundation/json/json_text.h"
#include "foundation/json/json_writer.h"
#include "gateway/proxy/route_reply.h"
#include "gateway/responses/response_store.h"

namespace afterimage {
namespace {

constexpr std::string_view kStoredResponses = "/v1/responses/";
constexpr std::string_view kItems = "/input_items";
constexpr std::uint64_t kItemsAtOnce = 20;
constexpr std::uint64_t kMostItemsAtOnce = 100;

HttpReply bad_item_query(std::string_view why) {
  return route_error(ApiForm::kOpenAi, 400, why, "invalid_query");
}

HttpReply response_not_found(const Error& error) {
  return route_error(ApiForm::kOpenAi, 404, error.message, "not_found");
}

/// The newest first, as OpenAI lists them; a list at a time.
HttpReply list_items(const StoredResponse& stored, std::string_view target) {
  const auto limit = query_count(target, "limit", kItemsAtOnce, kMostItemsAtOnce);
  if (!limit.has_value()) return bad_item_query("limit must be from 1 to 100");
  JsonReader reader;
  const auto root = reader.read(stored.items);
  if (!root.has_value()) return response_not_found(root.error());
  std::vector<JsonValue> items;
  for (const JsonValue item : *root) items.push_back(item);
  if (query_value(target, "order") != "asc") std::ranges::reverse(items);
  const std::string_view after = query_value(target, "after");
  if (!after.empty()) {
    const auto last = std::ranges::find_if(
        items, [&](const JsonValue& item) { return item["id"].text() == after; });
    items.erase(items.begin(), last == items.end() ? last : last + 1);
  }
  const bool has_more = items.size() > *limit;
  if (has_more) items.resize(*limit);
  JsonArray data;
  for (const JsonValue& item : items) data.add(item.source());
  const auto id = [](const JsonValue& item) { return json_string(item["id"].text()); };
  return json_reply(JsonObject()
                        .add_text("object", "list")
                        .add("data", data.text())
                        .add("first_id", items.empty() ? "null" : id(items.front()))
                        .add("last_id", items.empty() ? "null" : id(items.back()))
                        .add("has_more", has_more ? "true" : "false")
                        .text());
}

HttpReply one_response(Gateway& gateway, const HttpRequest& request, const Tenant& tenant,
                       std::string_view id) {
  ResponseStore& store = gateway.stored_responses();
  if (request.method == "DELETE") {
    const auto erased = store.erase(tenant.id, id);
    if (!erased.has_value()) return response_not_found(erased.error());
    return json_reply(JsonObject()
                          .add_text("id", id)
                          .add_text("object", "response")
                          .add("deleted", "true")
                          .text());
  }
  if (request.method != "GET") return wrong_method(ApiForm::kOpenAi, "GET, DELETE");
  if (query_value(request.target, "stream") == "true") {
    return bad_item_query("stream: a stored response is returned whole; leave it out");
  }
  const auto found = store.find(tenant.id, id);
  if (!found.has_value()) return response_not_found(found.error());
  return json_reply((*found)->response);
}

}  // namespace

void handle_stored_response(Gateway& gateway, const HttpRequest& request,
                            const Responder& responder, std::string_view path) {
  const auto tenant = admitted(gateway, request, responder, ApiForm::kOpenAi);
  if (!tenant.has_value()) return;
  std::string_view id = path.substr(kStoredResponses.size());
  const bool wants_items = id.ends_with(kItems);
  if (wants_items) id.remove_suffix(kItems.size());
  if (id.empty() || id.contains('/')) {
    return responder.reply(route_error(ApiForm::kOpenAi, 404,
                                       "there is nothing at " + std::string(path), "not_found"));
  }
  if (!wants_items) return responder.reply(one_response(gateway, request, *tenant, id));
  if (request.method != "GET") return responder.reply(wrong_method(ApiForm::kOpenAi, "GET"));
  const auto found = gateway.stored_responses().find(tenant->id, id);
  responder.reply(found.has_value() ? list_items(**found, request.target)
                                    : response_not_found(found.error()));
}

}  // namespace afterimage

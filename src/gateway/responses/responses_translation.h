// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "foundation/json/json_writer.h"
#include "gateway/protocol/translation.h"
#include "gateway/responses/response_store.h"
#include "gateway/responses/responses_request.h"

namespace afterimage {

/// OpenAI's POST /v1/responses by way of a chat completion. A complete response is stored, unless the
/// request says "store": false.
///
/// Shape    A stream is response.created, response.in_progress, then for each item
///          response.output_item.added, its parts and deltas, response.output_item.done, then
///          response.completed or response.incomplete; or response.failed instead of the rest.
/// Errors   As Translation.
class ResponsesTranslation final : public Translation {
 public:
  /// `id` is the response's without "resp_", unique; `created` in seconds since 1970. `store`
  /// outlives it.
  ResponsesTranslation(std::string id, std::int64_t created, ResponseStore& store)
      : id_(std::move(id)), created_(created), store_(store) {}

  [[nodiscard]] std::string_view name() const override { return "responses"; }
  [[nodiscard]] Result<std::string> request(std::string_view body,
                                            const ClientContext& context) override;
  [[nodiscard]] const std::vector<std::string>& ignored() const override { return asked_.ignored; }
  [[nodiscard]] std::size_t billing_lines() const override { return asked_.billing_lines; }
  [[nodiscard]] std::optional<Comparison> comparison() const override;
  [[nodiscard]] std::string response_id() const override { return "resp_" + id_; }
  [[nodiscard]] bool streams() const override { return asked_.stream; }
  [[nodiscard]] std::string error_body(unsigned status, std::string_view message,
                                       std::string_view code,
                                       std::string_view request_id) const override;

 private:
  enum class ItemKind : unsigned char { kReasoning, kMessage, kCall };
  struct Part {
    std::string_view type;    // "output_text", "refusal", "reasoning_text"
    std::string_view member;  // that holds its text
    std::string text;
  };
  struct Item {
    ItemKind kind = ItemKind::kMessage;
    std::string id;
    std::vector<Part> parts;
    std::uint64_t call = 0;
    std::string call_id;
    std::string name;  // in the chat
    ResponsesTool tool;
    std::string arguments;
  };

  void on_begin(std::string_view model) override;
  void on_reasoning(std::string_view text) override;
  void on_text(std::string_view text) override;
  void on_refusal(std::string_view text) override;
  Result<void> on_call(const AnswerCall& call) override;
  void on_finish(std::string_view reason, std::string_view stop) override;
  void on_usage(const TokenUsage& usage) override;
  std::string take_events() override;
  Result<std::string> finish() override;
  std::string failure_event(const Error& error) override;

  void add_text(ItemKind kind, const Part& part, std::string_view text);
  void open(Item item);
  [[nodiscard]] Item new_call(const AnswerCall& call) const;
  void close_part();
  void close_call(const Item& item);
  void close();
  /// In a stream: an event with the next sequence number. `members` are those besides it and the type.
  void say(std::string_view type, std::string_view members);
  /// "\"item_id\":…,\"output_index\":…" of the last item, with "content_index" for its last part.
  [[nodiscard]] std::string place(bool of_part) const;
  [[nodiscard]] static std::string part_json(const Part& part);
  static void add_call(JsonObject& json, const Item& item, std::string_view status);
  [[nodiscard]] static std::string item_json(const Item& item, std::string_view status);
  [[nodiscard]] std::string response_json(std::string_view status, std::string_view error) const;
  void say_response(std::string_view type, const std::string& response);
  void keep(const std::string& response);

  std::string id_;
  std::int64_t created_;
  ResponseStore& store_;
  std::string tenant_;
  ResponsesRequest asked_;
  std::string model_;
  std::vector<Item> items_;
  bool is_open_ = false;       // the last item
  bool part_is_open_ = false;  // its last part
  std::string reason_;
  bool has_usage_ = false;
  TokenUsage usage_;
  std::uint64_t sequence_ = 0;
  std::string events_;
};

}  // namespace afterimage

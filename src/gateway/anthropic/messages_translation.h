// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/anthropic/messages_request.h"
#include "gateway/protocol/translation.h"

namespace afterimage {

/// Anthropic's POST /v1/messages by way of a chat completion.
///
/// Shape    A stream is message_start, then for each block content_block_start, its deltas and
///          content_block_stop, with a ping after the first start, then message_delta with the usage,
///          and message_stop; or an error event instead of the rest. Servers may mix the pieces of
///          two tool calls, which blocks cannot: calls after the first are sent when all is known.
/// Errors   As Translation.
class MessagesTranslation final : public Translation {
 public:
  /// `id` is the message's, unique.
  explicit MessagesTranslation(std::string id) : id_(std::move(id)) {}

  [[nodiscard]] std::string_view name() const override { return "messages"; }
  [[nodiscard]] Result<std::string> request(std::string_view body,
                                            const ClientContext& context) override;
  [[nodiscard]] std::string_view id_header() const override { return "request-id"; }
  [[nodiscard]] const std::vector<std::string>& ignored() const override { return asked_.ignored; }
  [[nodiscard]] std::size_t billing_lines() const override { return asked_.billing_lines; }
  [[nodiscard]] std::optional<Comparison> comparison() const override;
  [[nodiscard]] std::string response_id() const override { return "msg_" + id_; }
  [[nodiscard]] bool streams() const override { return asked_.stream; }
  [[nodiscard]] std::string error_body(unsigned status, std::string_view message,
                                       std::string_view code,
                                       std::string_view request_id) const override;

 private:
  enum class BlockKind : unsigned char { kThinking, kText, kCall };
  struct Block {
    BlockKind kind = BlockKind::kText;
    std::string text;  // or the thinking, or a call's arguments
    std::uint64_t call = 0;
    std::string id;    // of a call
    std::string name;  // of a call
  };

  void on_prompt(const TokenUsage& usage) override { usage_ = usage; }
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

  void add_text(BlockKind kind, std::string_view text);
  void open(Block block);
  void close();
  void say_delta(std::string_view type, std::string_view member, std::string_view text);
  /// In a stream: a complete event.
  void say(std::string_view type, std::string_view data);
  Result<void> check_calls();
  [[nodiscard]] std::string usage_json() const;
  [[nodiscard]] std::string message_json(bool is_complete) const;
  [[nodiscard]] std::string stop_json() const;

  std::string id_;
  MessagesRequest asked_;
  std::string model_;
  std::vector<Block> blocks_;
  bool is_open_ = false;  // the last block
  bool refused_ = false;
  std::string reason_;
  std::string stop_;
  TokenUsage usage_;
  std::string events_;
};

/// An error of Anthropic's API: {"type":"error","error":{"type":…,"message":…},"request_id":…}.
[[nodiscard]] std::string anthropic_error(unsigned status, std::string_view message,
                                          std::string_view request_id);

}  // namespace afterimage

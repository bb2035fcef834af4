// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/result.h"
#include "foundation/http/message.h"
#include "gateway/protocol/answer_reader.h"
#include "gateway/protocol/chat_content.h"
#include "gateway/protocol/diagnosis.h"

namespace afterimage {

/// What a translation may know of the client and its moment.
struct ClientContext {
  std::string tenant;  // whose files and responses it may name
  FileLookup files;
  bool keeps_billing_lines = false;  // else they are left out: see stabilise.h
};

/// One request of another protocol, by way of a chat completion: the request becomes a chat's, and
/// the chat's answer, whole or streamed, one of the other protocol. Used once.
///
/// Threads  One at a time; request() first, then one of the others.
class Translation : protected AnswerListener {
 public:
  Translation() = default;
  Translation(const Translation&) = delete;
  Translation& operator=(const Translation&) = delete;
  ~Translation() override = default;

  /// The protocol's name in decisions, logs and metrics.
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// The body of the chat completion that asks the same; equal questions have equal bodies, apart from
  /// fields that are no part of a request's identity.
  ///
  /// Errors   kInvalidArgument: not a request of the protocol. kUnsupported: a chat completion
  ///          cannot ask this. kNotFound: a file or an earlier response that the client does not
  ///          have. All name the field.
  [[nodiscard]] virtual Result<std::string> request(std::string_view body,
                                                    const ClientContext& context) = 0;
  /// The header in which the protocol's clients look for the request's id; empty: none of its own.
  [[nodiscard]] virtual std::string_view id_header() const { return {}; }
  /// What of the request was left out of the chat: "context_management", "tools[3]".
  [[nodiscard]] virtual const std::vector<std::string>& ignored() const = 0;
  /// How many of them were billing lines.
  [[nodiscard]] virtual std::size_t billing_lines() const { return 0; }
  /// The tokens of the prompt, where they are known before the answer is read.
  void know_prompt(const TokenUsage& usage) { on_prompt(usage); }
  /// What the client wants its prompt compared with.
  struct Comparison {
    std::string response_id;  // of an earlier response; empty: there is none yet
  };
  /// nullopt: the client does not ask why its prompt was computed again.
  [[nodiscard]] virtual std::optional<Comparison> comparison() const { return std::nullopt; }
  /// As the client gets it, and may name it later; empty: the chat's own.
  [[nodiscard]] virtual std::string response_id() const { return {}; }
  /// What the comparison found. Before the answer is read.
  void diagnose(PromptDiagnosis diagnosis) { diagnosis_ = std::move(diagnosis); }
  /// The client asked for events.
  [[nodiscard]] virtual bool streams() const = 0;
  /// An error, as the protocol says it.
  [[nodiscard]] virtual std::string error_body(unsigned status, std::string_view message,
                                               std::string_view code,
                                               std::string_view request_id) const = 0;

  /// The answer to the complete body of a chat's: events or JSON. Errors as AnswerReader.
  [[nodiscard]] Result<std::string> whole(std::string_view body);
  /// The same; an error becomes what ends a response whose head was sent.
  [[nodiscard]] std::string whole_or_failure(std::string_view body);
  /// The events, or the JSON at the end, for a part of a chat's event stream. Never fails: an error
  /// becomes the protocol's event.
  [[nodiscard]] std::string feed(std::string_view bytes);
  [[nodiscard]] std::string end();

 protected:
  /// The events since the last call.
  [[nodiscard]] virtual std::string take_events() = 0;
  /// The answer is complete: the last events, or the JSON. kInvalidArgument: what the model wrote
  /// cannot be said in the protocol.
  [[nodiscard]] virtual Result<std::string> finish() = 0;
  /// The response ends with this error, after its head was sent: an event, or JSON.
  [[nodiscard]] virtual std::string failure_event(const Error& error) = 0;
  [[nodiscard]] const PromptDiagnosis& diagnosis() const { return diagnosis_; }

 private:
  std::string finish_or_fail();

  AnswerReader reader_{*this};
  bool is_over_ = false;
  PromptDiagnosis diagnosis_;
};

/// Replaces a chat's response by the protocol's, and names in X-Afterimage-Ignored what was left out of
/// the request. `translation` may go on being used by the body.
[[nodiscard]] HttpReply translated(HttpReply reply, const std::shared_ptr<Translation>& translation,
                                   std::string_view request_id);

}  // namespace afterimage

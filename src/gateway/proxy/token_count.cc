// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/token_count.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "foundation/json/json_text.h"
#include "foundation/json/json_writer.h"
#include "gateway/anthropic/messages_request.h"
#include "gateway/anthropic/messages_translation.h"
#include "gateway/proxy/retry_after.h"

namespace afterimage {
namespace {

constexpr std::size_t kLargestReply = std::size_t{64} << 20U;  // vLLM lists every token

/// A path at which a server may count, and the member of its response that says how many.
struct CountPath {
  std::string_view path;
  std::string_view member;
  bool is_theirs = false;  // asked as the client asks, and counted with whatever tokenizer
};
constexpr CountPath kVllm{.path = "/tokenize", .member = "count"};
constexpr CountPath kLlamaServer{.path = "/v1/chat/completions/input_tokens",
                                 .member = "input_tokens"};
/// LiteLLM, and servers that have Anthropic's API themselves.
constexpr CountPath kAnthropic{
    .path = "/v1/messages/count_tokens", .member = "input_tokens", .is_theirs = true};

/// One request to count, which tries one path after the other.
class TokenCountRequest final : public std::enable_shared_from_this<TokenCountRequest> {
 public:
  TokenCountRequest(Gateway& gateway, HttpRequest request, Responder responder)
      : gateway_(gateway),
        request_(std::move(request)),
        responder_(std::move(responder)),
        id_(gateway.parts().ids.request()) {
    // The engine of this process is asked the way that needs no guess.
    if (gateway.parts().backend.takes_anything()) paths_.push_back(kVllm);
    paths_.push_back(kLlamaServer);
    if (gateway.parts().backend.takes_anything()) paths_.push_back(kAnthropic);
  }

  void begin() {
    auto tenant = identify(*gateway_.config()->tenants, request_.headers, "");
    if (!tenant.has_value()) {
      retry_after_ = tenant.error().retry_after;
      return refuse(words_of(tenant.error()).status, tenant.error().message);
    }
    tenant_ = *std::move(tenant);
    const bool posted = gateway_.readers().post([self = shared_from_this()] { self->read(); });
    if (!posted) refuse(503, "too many large requests are waiting; try again soon");
  }

 private:
  /// What the backend says, gathered.
  class Gathering final : public BackendListener {
   public:
    explicit Gathering(std::shared_ptr<TokenCountRequest> request) : request_(std::move(request)) {}
    void on_head(unsigned status, HttpHeaders /*headers*/) override { status_ = status; }
    void on_bytes(std::string_view bytes) override {
      if (body_.size() + bytes.size() <= kLargestReply) body_.append(bytes);
    }
    void on_end() override { request_->answered(status_, body_); }
    void on_error(const Error& error) override { request_->refuse(502, error.message); }

   private:
    std::shared_ptr<TokenCountRequest> request_;
    unsigned status_ = 0;
    std::string body_;
  };

  void read() {
    const auto asked =
        read_messages_request(*request_.body, gateway_.files_of(tenant_), MessagesUse::kCount);
    if (!asked.has_value()) {
      const ErrorCode code = asked.error().code;
      const bool too_large = code == ErrorCode::kLimitExceeded;
      return refuse(too_large                      ? 413
                    : code == ErrorCode::kNotFound ? 404
                                                   : 400,
                    asked.error().message);
    }
    chat_ = std::make_shared<const std::string>(asked->chat);
    ask();
  }

  void ask() {
    HttpHeaders headers = request_.headers;
    headers.set("Content-Type", "application/json");
    headers.set("X-Request-Id", id_);
    if (tenant_.key_is_ours) remove_keys(headers);
    gateway_.parts().backend.ask({.method = "POST",
                                  .target = std::string(paths_[at_].path),
                                  .headers = std::move(headers),
                                  .body = paths_[at_].is_theirs ? request_.body : chat_,
                                  .operation = std::nullopt,
                                  .request = nullptr,
                                  .tenant = tenant_.cache_namespace,
                                  .tenant_name = tenant_.owner},
                                 std::make_shared<Gathering>(shared_from_this()));
  }

  void answered(unsigned status, const std::string& body) {
    JsonReader reader;
    const auto root = reader.read(body);
    const bool readable = status == 200 && root.has_value();
    const auto count = readable ? (*root)[paths_[at_].member].count() : std::nullopt;
    if (count.has_value()) {
      return reply(200, JsonObject().add_number("input_tokens", *count).text(),
                   paths_[at_].is_theirs);
    }
    const bool does_not_count = status == 200 || status == 404 || status == 405 || status == 501;
    if (!does_not_count) {
      const JsonValue said = root.has_value() ? (*root)["error"]["message"] : JsonValue();
      return refuse(status, said.is(JsonKind::kString) ? said.text() : "the request was refused");
    }
    if (++at_ < paths_.size()) return ask();
    refuse(501,
           "the model's server does not count tokens: it has neither /tokenize for chats nor "
           "/v1/chat/completions/input_tokens nor /v1/messages/count_tokens");
  }

  void refuse(unsigned status, std::string_view message) {
    reply(status, anthropic_error(status, message, id_));
  }
  /// `is_theirs`: nobody here knows with whose tokenizer it was counted.
  void reply(unsigned status, std::string body, bool is_theirs = false) {
    HttpHeaders headers{
        {"Content-Type", "application/json"}, {"X-Request-Id", id_}, {"request-id", id_}};
    if (is_theirs) headers.add("X-Afterimage-Token-Count", "unverified");
    add_retry_after(headers, retry_after_);
    responder_.reply({.status = status, .headers = std::move(headers), .body = std::move(body)});
  }

  Gateway& gateway_;
  HttpRequest request_;
  Responder responder_;
  std::string id_;
  Tenant tenant_;
  std::optional<Duration> retry_after_;
  std::shared_ptr<const std::string> chat_;
  std::vector<CountPath> paths_;
  std::size_t at_ = 0;
};

}  // namespace

void count_tokens(Gateway& gateway, HttpRequest request, const Responder& responder) {
  std::make_shared<TokenCountRequest>(gateway, std::move(request), responder)->begin();
}

}  // namespace afterimage

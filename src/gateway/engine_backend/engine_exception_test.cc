// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Exceptions of an engine or a library end one request, not the process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "foundation/platform/wall_clocks.h"
#include "gateway/service/service.h"
#include "testing/forwarding_engine.h"
#include "testing/running_gateway.h"
#include "testing/tiny_engine.h"

namespace afterimage {
namespace {

using ::testing::HasSubstr;
using testing::json;
using ::testing::Not;
using testing::question;
using testing::Said;

enum class Throws : unsigned char { kNever, kIdentifying, kPreparing, kComputing, kStreaming };

/// Throws where a test says.
class ThrowingEngine final : public testing::ForwardingEngine {
 public:
  ThrowingEngine(std::unique_ptr<const Engine> engine, const std::atomic<Throws>& throws)
      : ForwardingEngine(*engine), engine_(std::move(engine)), throws_(throws) {}

  [[nodiscard]] const ModelIdentity& identity() const override {
    if (throws_ == Throws::kIdentifying) throw std::runtime_error("no identity");
    return ForwardingEngine::identity();
  }
  Result<PreparedRequest> prepare_answer(const Request& request,
                                         std::span<const ContentDigest> contents) const override {
    if (throws_ == Throws::kPreparing) throw std::bad_alloc();
    return ForwardingEngine::prepare_answer(request, contents);
  }

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    if (throws_ == Throws::kComputing) throw std::runtime_error("no logits");
    if (throws_ != Throws::kStreaming) {
      return ForwardingEngine::run(prompt, embeddings, options, use);
    }
    GenerateOptions breaks_off = options;
    breaks_off.on_text = [&](std::string_view text) -> bool {
      options.on_text(text);
      throw 7;  // not even a std::exception
    };
    return ForwardingEngine::run(prompt, embeddings, breaks_off, use);
  }

 private:
  std::unique_ptr<const Engine> engine_;
  const std::atomic<Throws>& throws_;
};

class EngineExceptions : public ::testing::Test {
 protected:
  EngineExceptions() {
    const auto read = [] {
      return parse_settings("[listen]\nport = 0\n[admin]\nport = 0\n[log]\nlevel = \"error\"\n",
                            "test.toml");
    };
    service_ =
        Service::start(
            {.settings = read().value(),
             .read_settings = read,
             .engine = std::make_unique<ThrowingEngine>(testing::tiny_engine(clock_), throws_),
             .version = "test",
             .log =
                 [this](std::string_view line) {
                   const std::scoped_lock lock(mutex_);
                   log_ += line;
                   return true;
                 }},
            clock_, wall_)
            .value();
  }
  Said chat(const std::string& body) {
    return testing::ask(service_->port(), "POST", "/v1/chat/completions", body);
  }
  Said chat_throwing(Throws where, const std::string& body) {
    throws_ = where;
    Said said = chat(body);
    throws_ = Throws::kNever;
    return said;
  }
  /// Ends the service.
  const std::string& log() {
    service_.reset();
    return log_;
  }

  std::atomic<Throws> throws_ = Throws::kNever;
  std::mutex mutex_;
  std::string log_;
  SystemClock clock_;
  SystemWallClock wall_;
  std::unique_ptr<Service> service_;
};

TEST_F(EngineExceptions, AreAnsweredWith500AndLogged) {
  for (const Throws where : {Throws::kPreparing, Throws::kComputing}) {
    const bool streams = where == Throws::kComputing;
    const std::string body =
        question(streams ? "What is it?" : "Where is it?",
                 streams ? R"(,"max_tokens":4,"stream":true)" : R"(,"max_tokens":4)");
    const Said said = chat_throwing(where, body);
    EXPECT_EQ(said.status, 500U);
    const json error = json::parse(said.body)["error"];
    EXPECT_EQ(error["code"], "engine_exception") << said.body;
    EXPECT_EQ(error["type"], "server_error");
    const Said again = chat(body);  // what the request held was given back
    EXPECT_EQ(again.status, 200U);
    EXPECT_EQ(again.header("X-Cache"), "MISS") << "no error was stored";
  }
  const std::string metrics = testing::ask(service_->admin_port(), "GET", "/metrics", "").body;
  EXPECT_THAT(metrics, HasSubstr(R"(afterimage_requests_total{code="500",operation="chat")"));
  EXPECT_THAT(log(), HasSubstr(R"("event":"engine_exception")"));
  EXPECT_THAT(log_, HasSubstr("no logits"));
}

TEST_F(EngineExceptions, BreakOffAStreamThatHasBegun) {
  const std::string body = question("What is it?", R"(,"max_tokens":4,"stream":true)");
  const Said said = chat_throwing(Throws::kStreaming, body);
  EXPECT_EQ(said.status, 200U);
  EXPECT_THAT(said.body, Not(HasSubstr("[DONE]")));
  const Said again = chat(body);
  EXPECT_THAT(again.body, HasSubstr("[DONE]"));
  EXPECT_EQ(again.header("X-Cache"), "MISS") << "nothing of it was stored";
  EXPECT_THAT(log(), HasSubstr(R"("event":"engine_exception")"));
}

// Large bodies are read on threads of their own, where nobody else would catch it.
TEST_F(EngineExceptions, WhileARequestIsReadAreAnsweredWith500) {
  for (const std::size_t size : {10UL, 100'000UL}) {
    const std::string body = question(std::string(size, 'x'), R"(,"max_tokens":4)");
    const Said said = chat_throwing(Throws::kIdentifying, body);
    EXPECT_EQ(said.status, 500U) << size;
    const json error = json::parse(said.body)["error"];
    EXPECT_EQ(error["type"], "server_error") << said.body;
    if (size > 64 * 1024) EXPECT_EQ(error["code"], "internal");
    EXPECT_EQ(chat(question("What is it?", R"(,"max_tokens":4)")).status, 200U);
  }
  EXPECT_THAT(log(), HasSubstr("no identity"));
}

}  // namespace
}  // namespace afterimage

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>

#include "afterimage/identity.h"
#include "afterimage/question.h"
#include "caches/answers/split_request.h"

namespace afterimage {
namespace {

ContentDigest digest(unsigned n) {
  ContentDigest digest;
  digest.bytes[0] = static_cast<std::byte>(n);
  return digest;
}

ScopeMedia picture(unsigned n) {
  return {.modality = Modality::kImage, .content = digest(n), .options = {}};
}

/// Everything that a scope depends on, so that a test can change one thing at a time.
struct Inputs {
  Secret root = [] {
    Secret secret;
    for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = static_cast<std::byte>(i);
    return secret;
  }();
  ModelIdentity model{.model = "m",
                      .weights_epoch = "1",
                      .encoder = "e",
                      .adapter = "",
                      .chat_template = "t",
                      .kv_dtype = DType::kF32};
  TenantId tenant{"acme"};
  Scope scope{
      .inputs = {},
      .messages = {{.role = Role::kSystem, .parts = {"Be brief."}},
                   {.role = Role::kUser, .parts = {picture(1), "Who is it?"}},
                   {.role = Role::kAssistant, .parts = {"A cat."}},
                   {.role = Role::kUser, .parts = {picture(2), "and", picture(3), QuestionSlot{}}}},
      .tools = "[]",
      .response_format = "",
      .sampling = {{"temperature", "0"}, {"max_tokens", "64"}},
      .other = {}};

  [[nodiscard]] ScopeId id() const {
    return identify(scope, Namespace::of(model, tenant, root).value());
  }
};

TEST(Scope, TheSameFieldsGiveTheSameKey) { EXPECT_EQ(Inputs().id(), Inputs().id()); }

TEST(Scope, MediaAnywhereLimitTheScopeToCanonical) {
  Inputs inputs;
  EXPECT_EQ(inputs.id().loosest, MatchLevel::kCanonical);
  inputs.scope.messages.pop_back();
  EXPECT_EQ(inputs.id().loosest, MatchLevel::kCanonical) << "the picture of an earlier turn";
  inputs.scope.messages[1].parts.erase(inputs.scope.messages[1].parts.begin());
  EXPECT_EQ(inputs.id().loosest, MatchLevel::kNear);
}

TEST(Scope, EveryFieldChangesTheScope) {
  const struct {
    const char* name;
    std::function<void(Inputs&)> change;
  } kCases[] = {
      {"model", [](Inputs& i) { i.model.model = "m2"; }},
      {"weights", [](Inputs& i) { i.model.weights_epoch = "2"; }},
      {"encoder", [](Inputs& i) { i.model.encoder = "e2"; }},
      {"adapter", [](Inputs& i) { i.model.adapter = "lora"; }},
      {"chat template", [](Inputs& i) { i.model.chat_template = "t2"; }},
      {"kv dtype", [](Inputs& i) { i.model.kv_dtype = DType::kF16; }},
      {"root secret", [](Inputs& i) { i.root[31] ^= std::byte{1}; }},
      {"tenant", [](Inputs& i) { i.tenant = TenantId("acme2"); }},
      {"preprocessing", [](Inputs& i) { i.scope.inputs.bytes[31] = std::byte{1}; }},
      {"system prompt", [](Inputs& i) { i.scope.messages[0].parts[0] = "Be brief!"; }},
      {"no system prompt", [](Inputs& i) { i.scope.messages.erase(i.scope.messages.begin()); }},
      {"who said it", [](Inputs& i) { i.scope.messages[0].role = Role::kUser; }},
      {"earlier question", [](Inputs& i) { i.scope.messages[1].parts[1] = "Who is she?"; }},
      {"earlier answer", [](Inputs& i) { i.scope.messages[2].parts[0] = "A dog."; }},
      {"earlier picture", [](Inputs& i) { i.scope.messages[1].parts[0] = picture(9); }},
      {"one turn more", [](Inputs& i) { i.scope.messages.emplace_back(Role::kUser); }},
      {"picture", [](Inputs& i) { i.scope.messages[3].parts[0] = picture(9); }},
      {"last byte of a picture",
       [](Inputs& i) {
         ScopeMedia other = picture(2);
         other.content.bytes[31] = std::byte{1};
         i.scope.messages[3].parts[0] = other;
       }},
      {"order of pictures",
       [](Inputs& i) { std::swap(i.scope.messages[3].parts[0], i.scope.messages[3].parts[2]); }},
      {"one picture less",
       [](Inputs& i) { i.scope.messages[3].parts.erase(i.scope.messages[3].parts.begin()); }},
      {"modality",
       [](Inputs& i) {
         std::get<ScopeMedia>(i.scope.messages[3].parts[0]).modality = Modality::kVideo;
       }},
      {"detail",
       [](Inputs& i) {
         std::get<ScopeMedia>(i.scope.messages[3].parts[0]).options["detail"] = "low";
       }},
      {"place of the question",
       [](Inputs& i) { std::swap(i.scope.messages[3].parts[2], i.scope.messages[3].parts[3]); }},
      {"words beside the question", [](Inputs& i) { i.scope.messages[3].parts[1] = "or"; }},
      {"words moved between messages",
       [](Inputs& i) {
         i.scope.messages[1].parts[1] = "Who is it?A cat.";
         i.scope.messages[2].parts[0] = "";
       }},
      {"tools", [](Inputs& i) { i.scope.tools = R"([{"name":"f"}])"; }},
      {"response format", [](Inputs& i) { i.scope.response_format = "json_object"; }},
      {"temperature", [](Inputs& i) { i.scope.sampling["temperature"] = "1"; }},
      {"temperature left out", [](Inputs& i) { i.scope.sampling.erase("temperature"); }},
      {"seed", [](Inputs& i) { i.scope.sampling["seed"] = "1"; }},
      {"max tokens", [](Inputs& i) { i.scope.sampling["max_tokens"] = "65"; }},
      {"unknown field", [](Inputs& i) { i.scope.other["mirostat"] = "2"; }},
      {"unknown field without a value", [](Inputs& i) { i.scope.other["mirostat"] = ""; }},
      {"field in another map", [](Inputs& i) {
         i.scope.sampling.erase("temperature");
         i.scope.other["temperature"] = "0";
       }}};
  std::set<ScopeKey> keys{Inputs().id().key};
  for (const auto& c : kCases) {
    Inputs inputs;
    c.change(inputs);
    EXPECT_TRUE(keys.insert(inputs.id().key).second) << c.name;
  }
}

TEST(Scope, AllScopesOfATenantsModelShareOneSpace) {
  Inputs inputs;
  inputs.scope.tools = "other";
  EXPECT_EQ(inputs.id().space, Inputs().id().space);
  inputs.tenant = TenantId("acme2");
  EXPECT_NE(inputs.id().space, Inputs().id().space);
}

TEST(Scope, MatchesItsGoldenVectors) {
  const ScopeId id = Inputs().id();
  EXPECT_EQ(id.key.hex(), "4d9f443f7e185978aa876149de8338ee4c62cdcea6055eec4854801b047ce684");
  EXPECT_EQ(id.space.hex(), "7fffcefb49254a3cc3d5f0e6b782685e9de8a6c18a343c0f86d15ffb562ebd4e");
}

ContentPart file(const std::string& name) {
  return MediaItem{.modality = Modality::kImage, .files = {}, .frame_rate_mhz = 0, .name = name};
}

Request request(std::vector<Message> messages) {
  Request request;
  request.messages = std::move(messages);
  return request;
}

TEST(SplitRequest, TakesTheLastTextOfTheLastMessage) {
  const Request asked =
      request({{.role = Role::kSystem, .parts = {"Be brief."}},
               {.role = Role::kUser, .parts = {file("a"), "Look:", file("b"), "What is it?"}}});
  const std::vector<ContentDigest> contents{digest(1), digest(2)};
  const auto split = split_request(asked, contents);
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->question, "What is it?");
  ASSERT_EQ(split->messages.size(), 2U);
  const auto& parts = split->messages[1].parts;
  ASSERT_EQ(parts.size(), 4U);
  EXPECT_EQ(std::get<ScopeMedia>(parts[0]).content, digest(1));
  EXPECT_EQ(std::get<std::string>(parts[1]), "Look:");
  EXPECT_EQ(std::get<ScopeMedia>(parts[2]).content, digest(2));
  EXPECT_TRUE(std::holds_alternative<QuestionSlot>(parts[3]));
}

TEST(SplitRequest, RejectsWhatCannotBeIdentified) {
  const std::vector<ContentDigest> one{digest(1)};
  const struct {
    const char* name;
    Request asked;
    std::vector<ContentDigest> contents;
  } kCases[] = {
      {"nothing asked", request({}), {}},
      {"the model spoke last", request({{.role = Role::kAssistant, .parts = {"Well"}}}), {}},
      {"a tool spoke last", request({{.role = Role::kTool, .parts = {"42"}}}), {}},
      {"no words", request({{.role = Role::kUser, .parts = {file("a")}}}), one},
      {"a picture without digest",
       request({{.role = Role::kUser, .parts = {file("a"), "What?"}}}),
       {}},
      {"a digest without picture", request({{.role = Role::kUser, .parts = {"What?"}}}), one}};
  for (const auto& c : kCases) {
    const auto split = split_request(c.asked, c.contents);
    ASSERT_FALSE(split.has_value()) << c.name;
    EXPECT_EQ(split.error().code, ErrorCode::kInvalidArgument) << c.name;
  }
}

TEST(SplitRequest, IgnoresFileNames) {
  const std::vector<ContentDigest> one{digest(1)};
  const auto scope_of = [&](const std::string& name) {
    Inputs inputs;
    inputs.scope.messages =
        split_request(request({{.role = Role::kUser, .parts = {file(name), "What?"}}}), one)
            ->messages;
    return inputs.id();
  };
  EXPECT_EQ(scope_of("a.png"), scope_of("b.png"));
}

}  // namespace
}  // namespace afterimage

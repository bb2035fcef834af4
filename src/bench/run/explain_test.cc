// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/run/explain.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "caches/prefix/prefix_explanation.h"
#include "engines/reference/reference_engine.h"
#include "testing/forwarding_engine.h"
#include "testing/media_files.h"
#include "testing/tiny_engine.h"

namespace afterimage {
namespace {

Message says(Role role, std::vector<ContentPart> parts) {
  return {.role = role, .parts = std::move(parts)};
}

MediaItem picture(std::uint32_t seed) {
  return testing::media_item(Modality::kImage,
                             testing::make_png(testing::make_picture(40, 30, seed)),
                             "picture" + std::to_string(seed));
}

Request request(const std::string& id, std::vector<Message> messages,
                const std::string& tenant = "") {
  return {.id = RequestId(id), .tenant = TenantId(tenant), .messages = std::move(messages)};
}

Request question(const std::string& id, const std::string& text, const std::string& tenant = "") {
  return request(id, {says(Role::kUser, {text})}, tenant);
}

struct Fixture {
  SystemClock clock;
  std::unique_ptr<ReferenceEngine> engine = testing::tiny_engine(clock);

  [[nodiscard]] Result<RequestExplanation> try_explain(std::vector<Request> requests,
                                                       const std::string& id,
                                                       Bytes budget = 64_MiB) const {
    return explain_request({.requests = std::move(requests)}, RequestId(id), *engine,
                           {.budget = budget, .policy = "lru"}, clock);
  }
  [[nodiscard]] RequestExplanation explain(std::vector<Request> requests, const std::string& id,
                                           Bytes budget = 64_MiB) const {
    return try_explain(std::move(requests), id, budget).value();
  }
};

#define EXPECT_SAYS(text, quote) EXPECT_NE((text).find(quote), std::string::npos) << (text)

TEST(Explain, TheFirstRequestFindsNothing) {
  const RequestExplanation e = Fixture().explain({question("a", "Hello")}, "a");
  EXPECT_EQ(e.resumed_from, TokenCount(0));
  EXPECT_EQ(e.computed(), e.prefix.length);
  EXPECT_FALSE(e.closest.has_value());
  EXPECT_SAYS(to_text(e), "Nothing was cached yet: it is the first request.");
}

TEST(Explain, SaysThatTenantsShareNothing) {
  const RequestExplanation e =
      Fixture().explain({question("a", "Hello", "one"), question("b", "Hello", "two")}, "b");
  EXPECT_EQ(e.resumed_from, TokenCount(0));
  EXPECT_SAYS(to_text(e), "it is the first request of tenant two, and tenants share nothing");
}

TEST(Explain, AnExactRepeatComputesOnlyTheLastToken) {
  const RequestExplanation e =
      Fixture().explain({question("a", "Hello"), question("b", "Hello")}, "b");
  EXPECT_EQ(e.computed(), TokenCount(1));
  EXPECT_EQ(e.prefix.point.limit, ResumeLimit::kPromptEnd);
  EXPECT_SAYS(to_text(e), "Its whole prompt is the same as that of a.");
  EXPECT_SAYS(to_text(e), "the last token is always computed");
}

TEST(Explain, QuotesWhereTwoPromptsDiverge) {
  const RequestExplanation e = Fixture().explain(
      {question("a", "How tall is the mug?"), question("b", "How tall is the shelf?")}, "b");
  ASSERT_TRUE(e.closest.has_value());
  ASSERT_TRUE(e.closest->quote.has_value());
  EXPECT_EQ(e.closest->id, "a");
  EXPECT_EQ(e.closest->quote->message, 1U);
  EXPECT_EQ(e.closest->quote->before, "<user> How tall is the ");
  EXPECT_EQ(e.closest->quote->asked, "shelf?");
  EXPECT_EQ(e.closest->quote->cached, "mug?");
  EXPECT_EQ(e.prefix.divergence, Divergence::kToken);
}

TEST(Explain, AQuoteNeverSplitsACharacter) {
  // The two letters differ in their second byte, and the quote ends among two-byte letters.
  std::string many;
  for (int i = 0; i < 100; ++i) many += "ä";
  const RequestExplanation e =
      Fixture().explain({question("a", many + "é" + many), question("b", many + "è" + many)}, "b");
  const DivergenceQuote& quote = *e.closest->quote;
  EXPECT_EQ(quote.asked.substr(0, 4), "èä");
  EXPECT_EQ(quote.cached.substr(0, 4), "éä");
  EXPECT_NO_THROW(nlohmann::json(quote.before + quote.asked + quote.cached).dump());
}

TEST(Explain, TheNextTurnNamesThePreviousTurn) {
  const Message first = says(Role::kUser, {picture(1), "What is it?"});
  const RequestExplanation e = Fixture().explain(
      {question("other", "Something else"), request("turn 1", {first}),
       request("turn 2", {first, says(Role::kAssistant, {"A mug."}), says(Role::kUser, {"Why?"})})},
      "turn 2");
  EXPECT_EQ(e.closest->id, "turn 1");
  EXPECT_EQ(e.closest->shared, e.closest->length) << "all of that prompt";
  EXPECT_EQ(e.closest->quote->message, 2U);
  EXPECT_TRUE(e.closest->quote->cached_ends);
  EXPECT_SAYS(to_text(e), "The prompts diverge at the start of message 2 (assistant)");
  EXPECT_SAYS(to_text(e), "<assistant> A mug.");
  EXPECT_EQ(e.media[0].source, MediaSource::kCovered);
  EXPECT_SAYS(to_text(e), "lies in the reused prefix");
  // One kind of layer was a token short; a snapshot would have helped.
  EXPECT_EQ(e.resumed_from + TokenCount(1), e.closest->length);
  EXPECT_EQ(e.prefix.point.with_snapshot, e.closest->length);
  EXPECT_SAYS(to_text(e), "it would have resumed there: 1 token more");
}

TEST(Explain, QuotesADifferentImageByName) {
  const RequestExplanation e =
      Fixture().explain({request("a", {says(Role::kUser, {"Look: ", picture(1)})}),
                         request("b", {says(Role::kUser, {"Look: ", picture(2)})})},
                        "b");
  EXPECT_EQ(e.prefix.divergence, Divergence::kMedia);
  EXPECT_EQ(e.closest->shared, e.prefix.matched);
  EXPECT_EQ(e.closest->quote->asked, "[image picture2]");
  EXPECT_EQ(e.closest->quote->cached, "[image picture1]");
  EXPECT_SAYS(to_text(e), "encoded: first occurrence");
}

TEST(Explain, NamesTheFirstRequestWithAnImage) {
  const RequestExplanation e =
      Fixture().explain({request("a", {says(Role::kUser, {"A", picture(1)})}),
                         request("b", {says(Role::kUser, {"B", picture(1), picture(1)})})},
                        "b");
  EXPECT_EQ(e.media[0].source, MediaSource::kReused);
  EXPECT_EQ(e.media[0].first_asked_by, "a");
  EXPECT_EQ(e.media[1].source, MediaSource::kRepeated);
  EXPECT_SAYS(to_text(e), "encoder output reused; first encoded for a");
}

TEST(Explain, ReportsEvictions) {
  const std::string long_text(400, 'x');
  const Fixture f;
  const Bytes one = [&] {
    const auto reuse = f.explain({question("a", long_text)}, "a");
    return Bytes(reuse.prefix.length.value() * 1024ULL);
  }();
  std::vector<Request> requests = {question("a", "a" + long_text)};
  for (const char* id : {"b", "c", "d", "e", "f", "g", "h"}) {
    requests.push_back(question(id, id + long_text));
  }
  requests.push_back(question("again", "a" + long_text));
  const RequestExplanation e = f.explain(std::move(requests), "again", one);
  EXPECT_GT(e.evictions, 0U);
  EXPECT_EQ(e.closest->id, "a");
  EXPECT_LT(e.prefix.matched, e.closest->shared);
  EXPECT_SAYS(to_text(e), "are still cached");
}

TEST(Explain, ReportsEarlierFailures) {
  const MediaItem damaged = testing::media_item(Modality::kImage, {}, "broken");
  const RequestExplanation e = Fixture().explain(
      {request("bad", {says(Role::kUser, {"Hello", damaged})}), question("b", "Hello")}, "b");
  ASSERT_EQ(e.failed.size(), 1U);
  EXPECT_EQ(e.failed[0].id, "bad");
  EXPECT_EQ(e.resumed_from, TokenCount(0));
  EXPECT_SAYS(to_text(e), "bad failed and left nothing");
}

TEST(Explain, AnUnknownIdSuggestsSimilarOnes) {
  const auto e = Fixture().try_explain({question("order-1", "x"), question("order-2", "x"),
                                        question("visit-1", "x"), question("packing", "x")},
                                       "ordre-2");
  ASSERT_FALSE(e.has_value());
  EXPECT_EQ(e.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(e.error().message,
            "no request \"ordre-2\" in the workload; the nearest ids are \"order-2\", "
            "\"order-1\" or \"visit-1\"");
}

TEST(Explain, UnsupportedWithoutAKvLayout) {
  class Closed final : public testing::ForwardingEngine {
   public:
    using ForwardingEngine::ForwardingEngine;
    [[nodiscard]] const KvLayout* kv_layout() const override { return nullptr; }
  };
  const Fixture f;
  const auto e = explain_request({.requests = {question("a", "x")}}, RequestId("a"),
                                 Closed(*f.engine), {}, f.clock);
  ASSERT_FALSE(e.has_value());
  EXPECT_EQ(e.error().code, ErrorCode::kUnsupported);
}

TEST(Explain, RemovesControlCharacters) {
  const RequestExplanation e =
      Fixture().explain({question("a", "x"), question("b", "\x1b[2Jgone\n")}, "b");
  EXPECT_EQ(to_text(e).find('\x1b'), std::string::npos);
  EXPECT_SAYS(to_text(e), " [2Jgone");
}

TEST(Explain, JsonHasTheDocumentedNames) {
  const RequestExplanation e = Fixture().explain(
      {question("a", "Hello you"), request("b", {says(Role::kUser, {"Hello", picture(1)})})}, "b");
  const auto json = nlohmann::json::parse(to_json(e));
  EXPECT_EQ(json.at("id"), "b");
  EXPECT_EQ(json.at("resumed_from"), e.resumed_from.value());
  EXPECT_EQ(json.at("resumed_from").get<unsigned>() + json.at("computed").get<unsigned>(),
            json.at("prompt_tokens").get<unsigned>());
  EXPECT_EQ(json.at("divergence"), "media");
  EXPECT_EQ(json.at("closest").at("id"), "a");
  EXPECT_EQ(json.at("closest").at("parts").at("this"), "[image picture1]");
  EXPECT_EQ(json.at("closest").at("parts").at("other"), " you");
  EXPECT_EQ(json.at("groups").size(), e.layout.groups.size());
  EXPECT_EQ(json.at("media")[0].at("source"), "encoded");
}

}  // namespace
}  // namespace afterimage

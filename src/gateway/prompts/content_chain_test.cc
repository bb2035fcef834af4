// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/content_chain.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "afterimage/identity.h"

namespace afterimage {
namespace {

ApiRequest read(const std::string& body, ApiOperation operation = ApiOperation::kChat) {
  ApiRequest request = read_api_request(operation, body, ApiReader::kOtherServer).value();
  for (ApiMedia& item : request.media) {
    if (item.bytes == nullptr) continue;
    item.digest = content_digest({.modality = item.modality, .files = {item.bytes}});
  }
  return request;
}

std::string chat(const std::string& messages, const std::string& more = "") {
  return R"({"model":"m","messages":[)" + messages + "]" + more + "}";
}

std::string says(const std::string& role, const std::string& text) {
  return R"({"role":")" + role + R"(","content":")" + text + "\"}";
}

std::string picture(const std::string& base64, const std::string& text) {
  return R"({"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,)" +
         base64 + R"("}},{"type":"text","text":")" + text + "\"}]}";
}

/// How many links the two begin with in common.
std::size_t common(const std::string& one, const std::string& other) {
  const ContentChain a = content_chain(read(one));
  const ContentChain b = content_chain(read(other));
  std::size_t count = 0;
  while (count < a.links.size() && count < b.links.size() &&
         a.links[count].key == b.links[count].key) {
    ++count;
  }
  return count;
}

TEST(ContentChain, TheNextTurnOfAConversationBeginsWithTheLast) {
  const std::string first = says("system", "Be brief.") + "," + says("user", "One?");
  const std::string second = first + "," + says("assistant", "1") + "," + says("user", "Two?");
  EXPECT_EQ(content_chain(read(chat(first))).links.size(), 2U);
  EXPECT_EQ(content_chain(read(chat(second))).links.size(), 4U);
  EXPECT_EQ(common(chat(first), chat(second)), 2U);
}

TEST(ContentChain, WhatComesBeforeChangesEveryKeyAfterIt) {
  const std::string ask = says("user", "One?");
  EXPECT_EQ(common(chat(says("system", "A") + "," + ask), chat(says("system", "B") + "," + ask)),
            0U);
  EXPECT_EQ(common(chat(ask), R"({"model":"n","messages":[)" + ask + "]}"), 0U);
  EXPECT_EQ(common(chat(says("user", "One?")), chat(says("assistant", "One?"))), 0U);
  EXPECT_EQ(common(chat(ask), chat(ask, R"(,"tools":[{"type":"function"}])")), 0U);
  EXPECT_EQ(common(chat(ask), chat(ask, R"(,"cache_salt":"x")")), 0U);
  EXPECT_EQ(common(chat(ask), chat(ask, R"(,"chat_template_kwargs":{"enable_thinking":false})")),
            0U);
}

TEST(ContentChain, SamplingAndTenantsAreNoPartOfIt) {
  const std::string ask = says("user", "One?");
  EXPECT_EQ(common(chat(ask), chat(ask, R"(,"temperature":0,"max_tokens":5,"user":"u","seed":1)")),
            1U);
}

TEST(ContentChain, AToolIsALinkOfItsOwn) {
  const std::string ask = says("user", "One?");
  const auto with = [&](const std::string& tools, const std::string& more = "") {
    return chat(ask, R"(,"tools":[)" + tools + "]" + more);
  };
  const std::string a = R"({"type":"function","function":{"name":"a","description":"\"]}"}})";
  const std::string b = R"({"type":"function","function":{"name":"b","parameters":{"x":[1,{}]}}})";
  EXPECT_EQ(common(with(a), with(a + "," + b)), 1U);
  EXPECT_EQ(common(with(a + "," + b), with(b + "," + a)), 0U);
  const ContentChain chain = content_chain(read(with(a + "," + b)));
  ASSERT_EQ(chain.links.size(), 3U);
  EXPECT_EQ(to_string(chain.links[0].part), "tools[0]");
  EXPECT_EQ(to_string(chain.links[1].part), "tools[1]");
  EXPECT_EQ(to_string(chain.links[2].part), "messages[0]");
}

TEST(ContentChain, AToolChoiceThatNoTemplateRendersIsNoPartOfIt) {
  const std::string ask = says("user", "One?");
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"a"}}])";
  const auto choosing = [&](const std::string& choice) {
    return chat(ask, tools + R"(,"tool_choice":)" + choice);
  };
  EXPECT_EQ(common(chat(ask, tools), choosing(R"("required")")), 2U);
  EXPECT_EQ(common(chat(ask, tools), choosing(R"({"type":"function","function":{"name":"a"}})")),
            2U);
  EXPECT_EQ(common(chat(ask, tools), choosing(R"("none")")), 0U);
}

TEST(ContentChain, ALinkSaysWhichPartItBelongsToAndWhereItBeginsThere) {
  const std::string messages = says("system", std::string(300, 's')) + "," + says("user", "One?") +
                               "," + says("system", "Late.") + "," + picture("AAAA", "What?");
  const ContentChain chain =
      content_chain(read(chat(messages, R"(,"chat_template_kwargs":{"a":1})")));
  std::string places;
  for (const ChainLink& link : chain.links) {
    places += to_string(link.part) + "@" + std::to_string(link.begin) + " ";
  }
  EXPECT_EQ(places,
            "parameters.chat_template_kwargs@0 system@0 system@256 messages[1]@0 messages[2]@0 "
            "media[0]@0 messages[3]@0 ");
}

TEST(ContentChain, TheKeysOfAChatWithoutToolsAreThoseOfEarlierVersions) {
  const ContentChain chain =
      content_chain(read(chat(says("system", "Be brief.") + "," + says("user", "What?"),
                              R"(,"chat_template_kwargs":{"enable_thinking":false})")));
  EXPECT_EQ(chain.links.back().key.hex(),
            "6a6e16f082d1c143aa7f92362cfec8017e0909665a83700201e390048d217ae7");
}

TEST(ContentChain, TextIsCutIntoBlocksFromItsBeginning) {
  const std::string text(1000, 'a');
  EXPECT_EQ(content_chain(read(chat(says("user", text)))).links.size(), 4U);
  EXPECT_EQ(common(chat(says("user", text)), chat(says("user", text + "b"))), 3U);
  EXPECT_EQ(common(chat(says("user", text)), chat(says("user", "b" + text))), 0U);
  EXPECT_EQ(common(chat(says("user", text + std::string(600, 'b'))),
                   chat(says("user", text + std::string(600, 'b')))),
            7U);
}

TEST(ContentChain, LongTextsHaveFewLinks) {
  const auto links = [](std::size_t bytes) {
    return content_chain(read(chat(says("user", std::string(bytes, 'a'))))).links.size();
  };
  EXPECT_EQ(links(64UL * 1024), 256U);
  EXPECT_EQ(links(1024UL * 1024), 256U + 960U);
  EXPECT_LT(links(16UL * 1024 * 1024), 2300U);
}

TEST(ContentChain, TheSameTextInOtherPartsIsOtherContent) {
  const std::string joined = R"({"role":"user","content":[{"type":"text","text":"ab"}]})";
  const std::string parted =
      R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]})";
  EXPECT_EQ(common(chat(joined), chat(parted)), 0U);
}

TEST(ContentChain, MediaCountByTheirContentAndPlace) {
  EXPECT_EQ(common(chat(picture("AAAA", "What?")), chat(picture("AAAA", "Why?"))), 1U);
  EXPECT_EQ(common(chat(picture("AAAA", "What?")), chat(picture("AAAB", "What?"))), 0U);
  const ContentChain chain = content_chain(read(chat(picture("AAAA", "What?"))));
  ASSERT_EQ(chain.links.size(), 2U);
  EXPECT_TRUE(chain.links[0].is_media);
  EXPECT_NE(chain.links[0].media, ContentDigest());
  EXPECT_EQ(chain.links[1].text_bytes, 5U);
}

TEST(ContentChain, MediaByAddressHaveNoDigest) {
  const auto by_address = [](const std::string& url) {
    return chat(R"({"role":"user","content":[{"type":"image_url","image_url":{"url":")" + url +
                "\"}}]}");
  };
  const ContentChain chain = content_chain(read(by_address("http://a/1.png")));
  ASSERT_EQ(chain.links.size(), 1U);
  EXPECT_EQ(chain.links[0].media, ContentDigest());
  EXPECT_EQ(common(by_address("http://a/1.png"), by_address("http://a/2.png")), 0U);
  EXPECT_EQ(common(by_address("http://a/1.png"), by_address("http://a/1.png")), 1U);
}

TEST(ContentChain, CompletionsAndListsOfPromptsHaveContent) {
  const auto links = [](const std::string& body) {
    return content_chain(read(body, ApiOperation::kCompletion)).links;
  };
  ASSERT_EQ(links(R"({"model":"m","prompt":"Once"})").size(), 1U);
  ASSERT_EQ(links(R"({"model":"m","prompt":["Once","Twice"]})").size(), 1U);
  EXPECT_NE(links(R"({"model":"m","prompt":["Once","Twice"]})")[0].key,
            links(R"({"model":"m","prompt":["Once","Thrice"]})")[0].key);
}

}  // namespace
}  // namespace afterimage

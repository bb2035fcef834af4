// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/model_server/server_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace afterimage {
namespace {

using ::testing::HasSubstr;

Settings before(const std::string& url) {
  Settings settings;
  settings.upstream.url = url;
  return settings;
}

TEST(ServerWords, SayWhatIsBehindWhatIsReusedAndWhatIsNot) {
  const ModelServer info{.kind = ServerKind::kVllm,
                         .version = "0.32.0",
                         .models = {"Qwen/Qwen3-VL-2B-Instruct", "lora"},
                         .context = 32768,
                         .caches_prefixes = true};
  const auto words = server_words(info, before("http://h:8000"));
  ASSERT_EQ(words.size(), 4U);
  EXPECT_EQ(words[0],
            "behind it: vLLM 0.32.0, model Qwen/Qwen3-VL-2B-Instruct and 1 more, context of 32768 "
            "tokens");
  EXPECT_EQ(words[1],
            "answers: the same request again is answered from memory (4 GiB); without temperature "
            "0 or a seed each requester gets each answer once (answers.sampled = "
            "\"per-requester\")");
  EXPECT_THAT(words[2], HasSubstr("X-Afterimage-Prefix"));
  EXPECT_THAT(words[3], HasSubstr("its plug-in"));
}

TEST(ServerWords, SettingsChangeThem) {
  Settings settings = before("http://h");
  settings.memory.disk = "/var/cache/afterimage";
  settings.remote.url = "redis://r";
  settings.answers.sampled = kReplay;
  EXPECT_THAT(server_words(ModelServer(), settings)[1],
              HasSubstr("from memory (4 GiB), disk, Redis, whatever its temperature"));
  settings.answers.sampled = kSampledOff;
  EXPECT_THAT(server_words(ModelServer(), settings)[1], HasSubstr("if it has temperature 0"));
  settings.answers.enabled = false;
  EXPECT_THAT(server_words(ModelServer(), settings)[1], HasSubstr("answers.enabled"));
}

TEST(ServerWords, AServerThatKeepsNoPrefixesIsToldHow) {
  ModelServer info{.kind = ServerKind::kVllm, .caches_prefixes = false};
  EXPECT_THAT(server_words(info, before("http://h"))[2], HasSubstr("--enable-prefix-caching"));
  info.kind = ServerKind::kSglang;
  EXPECT_THAT(server_words(info, before("http://h"))[2], HasSubstr("--disable-radix-cache"));
}

TEST(ServerWords, NothingThatAnswersAndAMissingKeyAreSaid) {
  const auto nothing = server_words(
      fail(ErrorCode::kUnavailable, "http://h:80: connection refused"), before("http://h"));
  EXPECT_EQ(nothing[0],
            "behind it: nothing answers yet (http://h:80: connection refused); requests get 502 "
            "until it does");
  ModelServer info;
  info.needs_key = true;
  EXPECT_THAT(server_words(info, before("http://h"))[0], HasSubstr("upstream.key_env"));
}

TEST(ServerWords, OfReplicasTheFirstIsNamed) {
  Settings settings;
  settings.upstream.replicas = {"http://a", "http://b"};
  EXPECT_THAT(server_words(ModelServer(), settings)[0], HasSubstr("the first of 2 replicas"));
}

}  // namespace
}  // namespace afterimage

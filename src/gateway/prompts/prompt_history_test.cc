// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/prompt_history.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

const Secret kSecret{std::byte{3}};
const std::string kLong(600, 'x');

std::string message(const std::string& role, const std::string& text) {
  return R"({"role":")" + role + R"(","content":")" + text + "\"}";
}
std::string body_of(const std::string& messages, const std::string& model = "m") {
  return R"({"model":")" + model + R"(","messages":[)" + messages + "]}";
}

/// A history, and what is asked of it.
struct World {
  explicit World(Bytes capacity = 1_MiB) : history(capacity, kSecret) {}

  PromptHistory::Comparison look(const std::string& tenant, const std::string& body,
                                 const std::string& conversation = "") {
    const ApiRequest request =
        read_api_request(ApiOperation::kChat, body, ApiReader::kOtherServer).value();
    return history.compare_with_closest(tenant, request, {.conversation = conversation});
  }
  PromptHistory::Shared add(const std::string& tenant, const std::string& body,
                            const std::string& conversation = "") {
    auto now = look(tenant, body, conversation).now;
    history.add(tenant, now);
    history.check_invariants();
    return now;
  }

  PromptHistory history;
};

TEST(PromptHistory, TheFirstPromptWasNeverSeen) {
  World world;
  const auto found = world.look("a", body_of(message("user", kLong)));
  EXPECT_EQ(found.report.reason, PromptReason::kNeverSeen);
  EXPECT_EQ(header_value(found.report), "shared=0/600 bytes; reason=never-seen");
  EXPECT_EQ(found.earlier, nullptr);
}

TEST(PromptHistory, FindsThePromptThatSharesTheMost) {
  World world;
  const std::string system = message("system", kLong);
  const std::string first = system + "," + message("user", "One?" + kLong);
  world.add("a", body_of(first));
  world.add("a", body_of(system + "," + message("user", "Two?")));
  world.add("a", body_of(message("user", "Three?")));
  const auto found = world.look(
      "a", body_of(first + "," + message("assistant", "1") + "," + message("user", "?")));
  EXPECT_EQ(found.report.divergence.shared_bytes, 1204U);
  EXPECT_EQ(found.report.reason, PromptReason::kKept);
}

TEST(PromptHistory, FindsTheLaterPromptThatMayHaveTakenThePlaceOfTheClosest) {
  World world;
  const std::string system = message("system", kLong);
  const std::string task = system + "," + message("user", "One?" + kLong);
  const std::string next = task + "," + message("assistant", "1") + "," + message("user", "?");
  const auto before = world.add("a", body_of(task));
  EXPECT_EQ(world.look("a", body_of(next)).later, nullptr);
  world.add("a", body_of(message("user", "Something else. " + kLong)));
  EXPECT_EQ(world.look("a", body_of(next)).later, nullptr);
  const auto other = world.add("a", body_of(system + "," + message("user", "Two?")));
  const auto newest = world.add("a", body_of(system + "," + message("user", "Three?")));
  const auto found = world.look("a", body_of(next));
  EXPECT_EQ(found.earlier, before);
  EXPECT_EQ(found.later, newest);  // which shares as much as the other one
  EXPECT_EQ(compare(*found.now, *found.later).shared_bytes, 600U);
  EXPECT_EQ(world.look("a", body_of(system + "," + message("user", "Two?"))).later, newest);
  EXPECT_EQ(world.look("a", body_of(system + "," + message("user", "Two?"))).earlier, other);
}

TEST(PromptHistory, AnotherTenantIsNeverComparedWith) {
  World world;
  world.add("a", body_of(message("user", kLong)));
  EXPECT_EQ(world.look("b", body_of(message("user", kLong))).report.reason,
            PromptReason::kNeverSeen);
  EXPECT_FALSE(
      world.history
          .compare_with_response("b", *world.look("b", body_of(message("user", "x"))).now, "id")
          .has_value());
}

TEST(PromptHistory, TheNextTurnTakesThePlaceOfTheOneBefore) {
  World world;
  std::string turns = message("system", kLong);
  for (int i = 0; i < 20; ++i) {
    turns += "," + message("user", "Question " + std::to_string(i));
    world.add("a", body_of(turns));
    EXPECT_EQ(world.history.size(), 1U);
  }
}

TEST(PromptHistory, AVolatileBeginningIsComparedWithTheSameConversation) {
  World world;
  const auto agent = [](const std::string& nonce, const std::string& task) {
    return body_of(message("system", "cch=" + nonce + "; " + kLong) + "," + message("user", task));
  };
  world.add("a", agent("a1b2c3", "Fix the parser, please."));
  world.add("a", body_of(message("system", "Name this conversation.") + "," +
                         message("user", "Fix the parser. " + kLong)));
  const auto found = world.look("a", agent("d4e5f6", "Fix the parser, please."));
  EXPECT_EQ(header_value(found.report), "shared=4/635 bytes; diverges=system@4; looks=nonce");
}

TEST(PromptHistory, ConversationsThatSayTheirNameAreFoundByIt) {
  World world;
  const auto talk = [](const std::string& name) {
    return body_of(message("system", name + " " + kLong));
  };
  world.add("a", talk("2026-11-28"), "one");
  world.add("a", body_of(message("user", "something else")), "two");
  EXPECT_EQ(world.look("a", talk("2026-11-29"), "one").report.divergence.looks, Looks::kDate);
  EXPECT_EQ(world.look("a", talk("2026-11-29"), "three").report.reason, PromptReason::kNeverSeen);
}

TEST(PromptHistory, FindsAPromptByTheIdOfItsAnswer) {
  World world;
  const std::string first = message("system", kLong) + "," + message("user", "One?");
  world.history.name("a", "resp_1", world.add("a", body_of(first)));
  const std::string second =
      first + "," + message("assistant", "1") + "," + message("user", "Two?");
  world.history.name("a", "resp_2", world.add("a", body_of(second)));
  world.history.check_invariants();
  const auto compared = [&](const std::string& body, const std::string& id) {
    return world.history.compare_with_response("a", *world.look("a", body).now, id);
  };
  EXPECT_EQ(compared(body_of(second), "resp_1")->reason, PromptReason::kKept);
  EXPECT_EQ(compared(body_of(second, "n"), "resp_2")->divergence.part->kind, PartKind::kModel);
  // Behind the first prompt they part, which is nothing that it had.
  const std::string other = first + "," + message("assistant", "2") + "," + message("user", "Two?");
  EXPECT_EQ(compared(body_of(other), "resp_1")->reason, PromptReason::kKept);
  EXPECT_FALSE(compared(body_of(other), "resp_3").has_value());
}

TEST(PromptHistory, WhatIsNotInItsPlaceYetIsFoundAllTheSame) {
  World world;
  const std::string first = body_of(message("user", kLong));
  const auto now = world.look("a", first).now;
  world.history.add("a", now, {.server = 7});
  world.history.counted("a", now, 150);
  const auto found = world.look("a", first);
  EXPECT_EQ(found.earlier, now);
  EXPECT_EQ(found.server.server, 7U);
  EXPECT_EQ(found.earlier_tokens, 150U);
  world.history.name("a", "resp_1", now);
  EXPECT_TRUE(world.history.compare_with_response("a", *now, "resp_1").has_value());
  world.history.add("b", now);
  EXPECT_EQ(world.history.erase_tenants([](std::string_view name) { return name == "b"; }), 1U);
}

TEST(PromptHistory, PutsIntoItsPlaceWhatNobodyLooksFor) {
  World world(64_KiB);
  const auto now = world.look("a", body_of(message("user", kLong))).now;
  for (int i = 0; i < 1000; ++i) world.history.add("a", now);
  EXPECT_LT(now.use_count(), 100) << "no more of it waits than a few";
  world.history.settle();
  EXPECT_EQ(now.use_count(), 2) << "the test's and the history's";
  world.history.check_invariants();
}

TEST(PromptHistory, ItsMemoryIsBoundedWhateverIsAsked) {
  World world(256_KiB);
  for (int i = 0; i < 600; ++i) {
    const std::string name = std::to_string(i);
    world.history.name("t" + std::to_string(i % 7), "resp_" + name,
                       world
                           .look("t" + std::to_string(i % 7),
                                 body_of(message("system", name + " a b c d " + kLong) + "," +
                                         message("user", name)))
                           .now);
    auto now = world.look("t" + std::to_string(i % 7), body_of(message("user", name + kLong))).now;
    world.history.add("t" + std::to_string(i % 7), now);
    world.history.name("t" + std::to_string(i % 7), "resp_" + name, now);
    ASSERT_LE(world.history.bytes(), 256_KiB);
  }
  world.history.check_invariants();
  EXPECT_GT(world.history.size(), 50U);
}

TEST(PromptHistory, ATenantWithManyPromptsLeavesThoseOfOthersAlone) {
  World world(128_KiB);
  world.add("quiet", body_of(message("user", "quiet " + kLong)));
  for (int i = 0; i < 300; ++i) {
    world.add("loud", body_of(message("user", std::to_string(i) + kLong)));
  }
  EXPECT_EQ(world.look("quiet", body_of(message("user", "quiet " + kLong))).report.reason,
            PromptReason::kKept);
}

TEST(PromptHistory, WithoutMemoryNothingIsKept) {
  World world(Bytes(0));
  world.add("a", body_of(message("user", kLong)));
  EXPECT_FALSE(world.history.is_enabled());
  EXPECT_EQ(world.history.size(), 0U);
}

TEST(PromptHistory, ErasesTenants) {
  World world;
  world.add("a", body_of(message("user", kLong)));
  world.add("b", body_of(message("user", kLong)));
  EXPECT_EQ(world.history.erase_tenants([](std::string_view name) { return name == "a"; }), 1U);
  world.history.check_invariants();
  EXPECT_EQ(world.history.size(), 1U);
}

PromptReport reported(const PromptDivergence& divergence, std::uint64_t prompt_tokens,
                      std::optional<std::uint64_t> cached, bool is_other_replica = false) {
  return with_usage(first_report(divergence),
                    {.usage = {.prompt_tokens = prompt_tokens, .cached_tokens = cached},
                     .is_other_replica = is_other_replica});
}

TEST(PromptReport, TheServerIsToBlameWhereItReusedMuchLessThanIsShared) {
  const PromptDivergence kept{.shared_bytes = 40'000, .total_bytes = 44'000};
  EXPECT_EQ(reported(kept, 11'000, 9'984).reason, PromptReason::kKept);  // whole blocks
  EXPECT_EQ(reported(kept, 11'000, std::nullopt).reason, PromptReason::kKept);
  const PromptReport evicted = reported(kept, 11'000, 0);
  EXPECT_EQ(evicted.reason, PromptReason::kEvicted);
  EXPECT_EQ(evicted.blame(), Blame::kServer);
  EXPECT_EQ(evicted.lost_by_server(), 10'000U);
  EXPECT_EQ(header_value(evicted),
            "shared=40000/44000 bytes; reused=0/11000 tokens; reason=evicted");
  EXPECT_EQ(reported(kept, 11'000, 0, true).reason, PromptReason::kOtherReplica);
}

// findings/llama_server_s_prompts_overwrite_each_other.sh
TEST(PromptReport, WhatALaterPromptSharesIsAllThatIsLeftOfAnOverwrittenOne) {
  const PromptDivergence kept{.shared_bytes = 40'000, .total_bytes = 44'000};
  const PromptReport overwritten = with_later(reported(kept, 11'000, 5'900), 24'000);
  EXPECT_EQ(overwritten.reason, PromptReason::kOverwritten);
  EXPECT_EQ(overwritten.blame(), Blame::kServer);
  EXPECT_EQ(overwritten.lost_by_server(), 4'100U);
  EXPECT_EQ(header_value(overwritten),
            "shared=40000/44000 bytes; reused=5900/11000 tokens; reason=overwritten");
  EXPECT_EQ(with_later(reported(kept, 11'000, 0), 280).reason, PromptReason::kEvicted);
  EXPECT_EQ(with_later(reported(kept, 11'000, 60), 280).reason, PromptReason::kEvicted);
  for (const std::uint64_t later : {0U, 4'000U, 36'000U}) {
    EXPECT_EQ(with_later(reported(kept, 11'000, 5'900), later).reason, PromptReason::kEvicted)
        << later;
  }
  EXPECT_EQ(with_later(reported(kept, 11'000, 9'984), 40'000).reason, PromptReason::kKept);
  EXPECT_EQ(with_later(reported(kept, 11'000, 5'900, true), 24'000).reason,
            PromptReason::kOtherReplica);
}

TEST(PromptReport, ThePromptIsToBlameWhereTheServerReusedWhatIsShared) {
  const PromptDivergence parted{.shared_bytes = 4'000,
                                .total_bytes = 44'000,
                                .lost_bytes = 36'000,
                                .part = PartPlace{.kind = PartKind::kSystem},
                                .offset = 79,
                                .looks = Looks::kCounter};
  const PromptReport report = reported(parted, 11'000, 960);
  EXPECT_EQ(report.blame(), Blame::kPrompt);
  EXPECT_EQ(report.lost_by_prompt(), 9'000U);
  EXPECT_EQ(report.lost_by_server(), 0U);
  EXPECT_EQ(header_value(report),
            "shared=4000/44000 bytes; reused=960/11000 tokens; diverges=system@79; looks=counter");
}

// findings/most_templates_write_the_system_prompt_before_the_tools.sh
TEST(PromptReport, AServerThatReadsTheSystemPromptBeforeTheToolsIsNotToBlame) {
  const PromptDivergence parted{.shared_bytes = 30'000,
                                .tools_bytes = 29'900,
                                .total_bytes = 44'000,
                                .lost_bytes = 10'000,
                                .part = PartPlace{.kind = PartKind::kSystem},
                                .offset = 79,
                                .looks = Looks::kTime};
  const PromptReport system_first = reported(parted, 11'000, 16);
  EXPECT_EQ(system_first.blame(), Blame::kPrompt);
  EXPECT_EQ(system_first.lost_by_prompt(), 2'500U + 7'475U);
  EXPECT_EQ(system_first.lost_by_server(), 0U);
  EXPECT_EQ(header_value(system_first),
            "shared=100/44000 bytes; reused=16/11000 tokens; diverges=system@79; looks=time");
  const PromptReport tools_first = reported(parted, 11'000, 7'488);
  EXPECT_EQ(tools_first.blame(), Blame::kPrompt);
  EXPECT_EQ(tools_first.lost_by_prompt(), 2'500U);
  EXPECT_EQ(tools_first.divergence.shared_bytes, 30'000U);
}

TEST(PromptReport, ASystemPromptThatChangedAtItsEndMayCostTheToolsBehindIt) {
  const PromptDivergence parted{.shared_bytes = 40'000,
                                .tools_bytes = 30'000,
                                .total_bytes = 44'000,
                                .part = PartPlace{.kind = PartKind::kSystem},
                                .offset = 9'990};
  EXPECT_EQ(first_report(parted).reason, PromptReason::kKept);
  const PromptReport report = reported(parted, 11'000, 2'496);
  EXPECT_EQ(report.reason, PromptReason::kDiverges);
  EXPECT_EQ(report.lost_by_prompt(), 7'500U);
  EXPECT_EQ(reported(parted, 11'000, 9'984).reason, PromptReason::kKept);
}

TEST(PromptReport, WhatTheServerReusedAllTheSameIsNotLost) {
  const PromptDivergence parted{.total_bytes = 44'000,
                                .lost_bytes = 44'000,
                                .part = PartPlace{.kind = PartKind::kParameters}};
  const PromptReport report = reported(parted, 11'000, 10'992);
  EXPECT_EQ(report.reason, PromptReason::kKept);
  EXPECT_EQ(report.lost_by_prompt(), 0U);
}

}  // namespace
}  // namespace afterimage

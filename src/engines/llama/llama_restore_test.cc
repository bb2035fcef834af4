// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Faults in restored KV: it is rejected or recomputed, and the answer stays right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "afterimage/disk_tier.h"
#include "afterimage/serve.h"
#include "conformance/resume_check.h"
#include "engines/llama/llama_engine.h"
#include "foundation/platform/files.h"
#include "testing/demo_models.h"
#include "testing/forgetful_engine.h"
#include "testing/small_gguf.h"
#include "testing/temporary_folder.h"

namespace afterimage {
namespace {

using namespace testing;  // NOLINT: the conformance kit's names

const std::vector<std::string> kModels = {"plain", "dense", "sliding", "hybrid", "shortconv"};

std::unique_ptr<LlamaEngine> load(LlamaOptions options) {
  return LlamaEngine::create(std::move(options)).value();
}

/// Always restores the given state, whatever its lane holds.
ForgetfulEngine load_forgetful(const std::string& name) {
  LlamaOptions options = demo_options(name);
  options.lanes = 1;
  return ForgetfulEngine(load(std::move(options)));
}

/// What a slice restores, as bytes that a test may change: one piece per group.
struct OwnSlice {
  OwnSlice(const KvSlice& from, const KvLayout& layout) : origin(from.origin), end(from.end) {
    for (std::size_t i = 0; i < layout.groups.size(); ++i) {
      groups.push_back(testing::bytes_of(rows_to_restore(from, layout, i)));
    }
  }
  [[nodiscard]] KvSlice slice(const KvLayout& layout) const {
    KvSlice slice{.origin = origin,
                  .end = end,
                  .rows = std::vector<std::vector<KvRows>>(groups.size()),
                  .snapshots = {{.at = end, .groups = {}}}};
    slice.snapshots.front().groups.resize(groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i) {
      testing::pieces_of(slice, layout, i) = {rows_before(end, layout.groups[i], groups[i])};
    }
    return slice;
  }
  KvOrigin origin;
  TokenCount end;
  std::vector<std::vector<std::byte>> groups;
};

/// Number of metadata bytes at the start of a row or state; the contents follow.
std::size_t numbers_of(const std::string& model, const LayerGroup& group) {
  constexpr std::size_t kOwnPosition = 4;
  if (group.kind == KvKind::kRecurrent) return kOwnPosition + 32;
  const bool uses_mrope = model == "dense" || model == "hybrid";
  return kOwnPosition + (uses_mrope ? 16 : 4);
}

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kNumbers[] = {-1,      0,       1,         7,     1'000,
                                     1 << 20, 1 << 30, kMost - 1, kMost, -kMost - 1};

// Checksums are the tiers' job. If one fails to notice damage, the answer may be wrong, but the
// process must survive and the next answer must be right. (Regression: a cell at the maximum
// position was never removed.)
TEST(LlamaRestore, DamagedRowMetadataNeverCrashesOrAffectsLaterRequests) {
  for (const std::string& name : kModels) {
    SCOPED_TRACE(name);
    const ForgetfulEngine engine = load_forgetful(name);
    const KvLayout& layout = *engine.kv_layout();
    const PromptMaker prompts(engine);
    const EnginePrompt prompt = prompts.everything(60);
    const TokenCount at = legal_points(layout, prompt.sequence).back();
    const auto cold = ColdRun::of(engine, prompt, {at});
    ASSERT_TRUE(cold.has_value()) << to_string(cold.error());
    OwnSlice damaged(cold->shelf.slice(at), layout);
    std::size_t refused = 0;
    for (std::size_t group = 0; group < damaged.groups.size(); ++group) {
      auto& bytes = damaged.groups[group];
      const std::uint64_t row = row_size(layout.groups[group]).value();
      const std::uint64_t rows = bytes.size() / row;
      for (const std::uint64_t i : std::set{std::uint64_t{0}, rows / 2, rows - 1}) {
        for (std::size_t offset = 0; offset < numbers_of(name, layout.groups[group]); offset += 4) {
          for (const std::int32_t number : kNumbers) {
            std::byte* const here = bytes.data() + i * row + offset;
            std::int32_t kept = 0;
            std::memcpy(&kept, here, sizeof kept);
            std::memcpy(here, &number, sizeof number);
            const KvSlice state = damaged.slice(layout);
            if (!run(engine, prompt, {.resume_from = &state}).has_value()) ++refused;
            std::memcpy(here, &kept, sizeof kept);
          }
        }
      }
    }
    EXPECT_GT(refused, 10U);
    const KvSlice good = damaged.slice(layout);
    const auto resumed = run(engine, prompt, {.resume_from = &good});
    ASSERT_TRUE(resumed.has_value()) << to_string(resumed.error());
    EXPECT_EQ(difference(cold->completion, resumed->completion), "");
    const auto again = run(engine, prompt);
    ASSERT_TRUE(again.has_value()) << to_string(again.error());
    EXPECT_EQ(difference(cold->completion, again->completion), "");
  }
}

// The library adds masked cells, times zero, and zero times NaN is NaN. (Regression: every later
// answer of that lane was wrong, also of requests that resumed nothing.)
TEST(LlamaRestore, RejectsNaNsAndClearsTheLane) {
  for (const std::string& name : kModels) {
    SCOPED_TRACE(name);
    const ForgetfulEngine engine = load_forgetful(name);
    const KvLayout& layout = *engine.kv_layout();
    const PromptMaker prompts(engine);
    const EnginePrompt prompt = prompts.everything(60);
    const TokenCount at = legal_points(layout, prompt.sequence).back();
    const auto cold = ColdRun::of(engine, prompt, {at});
    ASSERT_TRUE(cold.has_value()) << to_string(cold.error());
    for (std::size_t group = 0; group < layout.groups.size(); ++group) {
      OwnSlice damaged(cold->shelf.slice(at), layout);
      const std::size_t numbers = numbers_of(name, layout.groups[group]);
      const std::uint64_t row = row_size(layout.groups[group]).value();
      auto& bytes = damaged.groups[group];
      // All bits set is a NaN in keys and values. Of a state only the middle is changed, not its
      // header.
      const bool is_state = layout.groups[group].kind == KvKind::kRecurrent;
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        const bool is_middle = i >= bytes.size() / 2 && i < bytes.size() / 2 + 64;
        if (is_state ? is_middle : i % row >= numbers) bytes[i] = std::byte{0xFF};
      }
      const KvSlice state = damaged.slice(layout);
      const auto resumed = run(engine, prompt, {.resume_from = &state});
      ASSERT_FALSE(resumed.has_value()) << "group " << group;
      EXPECT_EQ(resumed.error().code, ErrorCode::kUnavailable) << to_string(resumed.error());
      const auto next = run(engine, prompt);
      ASSERT_TRUE(next.has_value()) << to_string(next.error());
      EXPECT_EQ(difference(cold->completion, next->completion), "") << "group " << group;
    }
  }
}

/// Rows with correct metadata and zeroed contents: valid but wrong.
OwnSlice emptied(const std::string& name, const KvLayout& layout, const KvSlice& from) {
  OwnSlice state(from, layout);
  for (std::size_t group = 0; group < state.groups.size(); ++group) {
    const std::size_t numbers = numbers_of(name, layout.groups[group]);
    const std::uint64_t row = row_size(layout.groups[group]).value();
    auto& bytes = state.groups[group];
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (i % row >= numbers) bytes[i] = std::byte{0};
    }
  }
  return state;
}

TEST(LlamaRestore, ReusesRowsALaneComputedButNotRestoredOnes) {
  for (const std::string name : {"plain", "dense"}) {
    SCOPED_TRACE(name);
    LlamaOptions options = demo_options(name);
    options.lanes = 1;
    const auto engine = load(options);
    const KvLayout& layout = *engine->kv_layout();
    const PromptMaker prompts(*engine);
    const EnginePrompt prompt = prompts.everything(60);
    const TokenCount at = legal_points(layout, prompt.sequence).back();
    const auto cold = ColdRun::of(*engine, prompt, {at});
    ASSERT_TRUE(cold.has_value()) << to_string(cold.error());
    const OwnSlice good(cold->shelf.slice(at), layout);
    const OwnSlice wrong = emptied(name, layout, cold->shelf.slice(at));
    const auto resume = [&](const OwnSlice& from) {
      const KvSlice state = from.slice(layout);
      return difference(cold->completion,
                        run(*engine, prompt, {.resume_from = &state})->completion);
    };
    EXPECT_EQ(resume(wrong), "") << "the lane still holds the rows it computed";
    ASSERT_TRUE(run(*engine, prompts.of({"Something else."})).has_value());
    EXPECT_NE(resume(wrong), "") << "the lane now holds another request's rows";
    EXPECT_EQ(resume(good), "") << "restored rows are not held";
  }
}

// Only the library knows a recurrent state's header, so only it can reject one.
TEST(LlamaRestore, ReportsAStateThatTheLibraryRejects) {
  for (const std::string name : {"hybrid", "shortconv"}) {
    const auto engine = load(demo_options(name));
    const KvLayout& layout = *engine->kv_layout();
    ASSERT_EQ(layout.groups.back().kind, KvKind::kRecurrent);
    const PromptMaker prompts(*engine);
    const EnginePrompt prompt = prompts.everything();
    const TokenCount at = legal_points(layout, prompt.sequence).back();
    const auto cold = ColdRun::of(*engine, prompt, {at});
    ASSERT_TRUE(cold.has_value()) << to_string(cold.error());
    OwnSlice damaged(cold->shelf.slice(at), layout);
    constexpr std::size_t kLayers = 4 + 12 + 4;  // after position, cell and transposed flag
    damaged.groups.back()[kLayers] ^= std::byte{0x10};
    const KvSlice state = damaged.slice(layout);
    const auto refused = run(*engine, prompt, {.resume_from = &state});
    ASSERT_FALSE(refused.has_value()) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::kCorruption) << to_string(refused.error());
    EXPECT_TRUE(refused.error().message.contains("llama.cpp says")) << refused.error().message;
  }
}

/// A conversation about an image, if the model accepts images.
Request conversation(const std::string& name, int more_turns, std::uint32_t seed = 1) {
  Request request{.id = RequestId("r")};
  Message first{.role = Role::kUser, .parts = {}};
  if (name != "plain") {
    first.parts.emplace_back(media_item(Modality::kImage, make_png(make_picture(120, 80, seed))));
  }
  first.parts.emplace_back("the stone bird and the river, what is it?" + std::to_string(seed));
  request.messages.push_back(std::move(first));
  for (int turn = 0; turn < more_turns; ++turn) {
    request.messages.push_back({.role = Role::kAssistant, .parts = {std::string("a lamp")}});
    request.messages.push_back({.role = Role::kUser, .parts = {std::string("and then?")}});
  }
  return request;
}

struct Serving {
  SystemClock clock;
  GenerateOptions options{.max_tokens = TokenCount(4)};
  std::unique_ptr<Reuse> reuse = over(nullptr);

  [[nodiscard]] std::unique_ptr<Reuse> over(Tier* tier) const {
    return Reuse::create({.budget = 256_MiB, .tier = tier, .weigh_loads = false}, Secret{}, clock)
        .value();
  }
  [[nodiscard]] Served ask(const Engine& engine, const Request& request) const {
    auto served = serve(request, engine, *reuse, options);
    if (!served.has_value()) {
      ADD_FAILURE() << to_string(served.error());
      return {};
    }
    const Served cold = serve_without_reuse(request, engine, clock, options).value();
    EXPECT_EQ(difference(cold.completion, served->completion), "") << "reuse changed the answer";
    return *std::move(served);
  }
};

struct Variant {
  std::string name;
  LlamaOptions options;
};

/// Variants of the model `name` that compute something else and so must have another identity.
std::vector<Variant> others_of(const std::string& name) {
  const LlamaOptions same = demo_options(name);
  std::vector<Variant> others(6, {"", same});
  others[0].name = "another context size";
  others[0].options.context = TokenCount(768);
  others[1].name = "another K type";
  others[1].options.keys = "f32";
  others[2].name = "another V type";
  others[2].options.values = "bf16";
  others[3].name = "not exact";
  others[3].options.exact = false;
  others[4].name = "another template";
  others[4].options.chat_template = "vicuna";
  others[5].name = "another model";
  others[5].options.model = demo_options(name == "hybrid" ? "dense" : "hybrid").model;
  others[5].options.mmproj = demo_options(name == "hybrid" ? "dense" : "hybrid").mmproj;
  return others;
}

TEST(LlamaRestore, NeverResumesKvOfAnotherModelOrOtherOptions) {
  for (const std::string name : {"plain", "dense"}) {
    const Serving serving;
    const auto engine = load(demo_options(name));
    EXPECT_EQ(serving.ask(*engine, conversation(name, 1)).completion.resumed_from, TokenCount(0));
    EXPECT_GT(serving.ask(*engine, conversation(name, 1)).completion.resumed_from, TokenCount(0));
    for (const Variant& other : others_of(name)) {
      const auto stranger = load(other.options);
      const auto cold = serve(conversation(name, 1), *stranger, *serving.reuse, serving.options);
      ASSERT_TRUE(cold.has_value()) << other.name << ": " << to_string(cold.error());
      EXPECT_EQ(cold->completion.resumed_from, TokenCount(0)) << name << ": " << other.name;
      EXPECT_FALSE(cold->restore_failed);
    }
  }
}

TEST(LlamaRestore, IdentityChangesExactlyWithWhatAffectsRows) {
  TemporaryFolder folder;
  SystemFiles files;
  const auto write = [&](const std::string& name, std::span<const std::byte> bytes) {
    EXPECT_TRUE(files.replace(folder.file(name), bytes).has_value());
    return folder.file(name);
  };
  const auto bytes_of = [&](const std::string& path) { return files.read(path, 64_MiB).value(); };
  const auto origin_of = [](const LlamaOptions& options) {
    const auto engine = load(options);
    return kv_origin(engine->identity(), *engine->kv_layout()).hex();
  };
  const LlamaOptions plain = demo_options("plain");
  const LlamaOptions dense = demo_options("dense");
  std::vector<Variant> different{{"plain", plain}, {"dense", dense}};
  for (const Variant& other : others_of("plain")) different.push_back(other);
  for (const Variant& other : others_of("dense")) different.push_back(other);
  different.pop_back();  // hybrid, a second time
  different.push_back({"blind", dense});
  different.back().options.mmproj = "";
  auto changed = bytes_of(dense.mmproj);
  changed[changed.size() - 8] ^= std::byte{1};
  different.push_back({"another encoder", dense});
  different.back().options.mmproj = write("dense.mmproj.gguf", changed);
  changed = bytes_of(plain.model);
  changed[changed.size() - 8] ^= std::byte{1};
  different.push_back({"other weights", plain});
  different.back().options.model = write("plain.gguf", changed);
  const LlamaAdapter adapter{.path = write("a.gguf", plain_adapter())};
  const LlamaAdapter weaker{.path = write("b.gguf", plain_adapter(0.5F))};
  const std::vector<std::vector<LlamaAdapter>> kAdapters = {
      {adapter},
      {weaker},
      {{.path = adapter.path, .scale = 0.5F}},
      {{.path = adapter.path, .scale = 1e-7F}},
      {{.path = adapter.path, .scale = 2e-7F}},
      {adapter, weaker}};
  for (const auto& adapters : kAdapters) {
    different.push_back({"adapters", plain});
    different.back().options.adapters = adapters;
  }
  std::map<std::string, std::string> seen;
  for (const Variant& variant : different) {
    const auto [at, is_new] = seen.emplace(origin_of(variant.options), variant.name);
    EXPECT_TRUE(is_new) << variant.name << " is the same as " << at->second;
  }

  std::vector<Variant> same(6, {"", dense});
  same[0].options.lanes = 3;
  same[1].options.threads = 2;
  same[2].options.batch = TokenCount(64);
  same[3].options.progress = [](std::string_view, float) {};
  same[4].options.model = write("other name.gguf", bytes_of(dense.model));
  same[5].options.mmproj = write("other name.mmproj.gguf", bytes_of(dense.mmproj));
  for (std::size_t i = 0; i < same.size(); ++i) {
    EXPECT_EQ(origin_of(same[i].options), origin_of(dense)) << i;
  }
}

// Image size limits are preprocessing: part of encoder keys and of prefix keys.
TEST(LlamaRestore, ImageSizeLimitsArePartOfThePreprocessingRecipe) {
  const Serving serving;
  LlamaOptions options = demo_options("dense");
  const auto engine = load(options);
  static_cast<void>(serving.ask(*engine, conversation("dense", 0)));
  for (int* const limit : {&options.image_min_tokens, &options.image_max_tokens}) {
    *limit = limit == &options.image_min_tokens ? 8 : 64;
    const auto other = load(options);
    EXPECT_NE(other->recipe(Modality::kImage), engine->recipe(Modality::kImage));
    const Served served = serving.ask(*other, conversation("dense", 0));
    EXPECT_EQ(served.encoder_calls, 1U);
    EXPECT_EQ(served.completion.resumed_from, TokenCount(0));
  }
}

TEST(LlamaRestore, AnAdapterChangesTheAnswer) {
  TemporaryFolder folder;
  SystemFiles files;
  ASSERT_TRUE(files.replace(folder.file("a.gguf"), plain_adapter()).has_value());
  LlamaOptions options = demo_options("plain");
  const Serving serving;
  std::set<std::string> digests;
  for (const float scale : {0.0F, 0.5F, 1.0F}) {
    options.adapters = {{.path = folder.file("a.gguf"), .scale = scale}};
    const auto engine = load(options);
    digests.insert(serving.ask(*engine, conversation("plain", 0)).completion.logits.hex());
  }
  EXPECT_EQ(digests.size(), 3U);
}

/// Damages every state before the engine sees it, in a byte that is checked.
class SpoilingEngine final : public ForwardingEngine {
 public:
  using ForwardingEngine::ForwardingEngine;

 protected:
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    if (use.resume_from == nullptr) {
      return ForwardingEngine::run(prompt, embeddings, options, use);
    }
    OwnSlice own(*use.resume_from, *kv_layout());
    for (std::size_t i = 0; i < own.groups.size(); ++i) {
      auto& bytes = own.groups[i];
      const std::size_t row = row_size(kv_layout()->groups[i]).value();
      std::fill_n(bytes.end() - static_cast<std::ptrdiff_t>(row), 8, std::byte{0xFF});
    }
    const KvSlice state = own.slice(*kv_layout());
    KvUse spoiled = use;
    spoiled.resume_from = &state;
    return ForwardingEngine::run(prompt, embeddings, options, spoiled);
  }
};

TEST(LlamaRestore, RecomputesAndReportsARejectedState) {
  for (const std::string& name : kModels) {
    const Serving serving;
    const ForgetfulEngine good = load_forgetful(name);
    const SpoilingEngine engine(good);
    EXPECT_FALSE(serving.ask(engine, conversation(name, 1)).restore_failed) << name;
    const Served again = serving.ask(engine, conversation(name, 1));
    EXPECT_TRUE(again.restore_failed) << name;
    EXPECT_EQ(again.completion.resumed_from, TokenCount(0)) << name;
    EXPECT_GT(serving.ask(good, conversation(name, 1)).completion.resumed_from, TokenCount(0));
  }
}

TEST(LlamaRestore, AnotherProcessOnTheSameDiskEncodesNothingAndAnswersTheSame) {
  for (const std::string& name : kModels) {
    TemporaryFolder folder;
    Serving serving;
    MemoryBudget memory{128_MiB};
    const DiskTierOptions disk{.log = {.capacity = 64_MiB,
                                       .segment_bytes = 4_MiB,
                                       .read_timeout = std::chrono::seconds(20),
                                       .append_timeout = std::chrono::seconds(20)}};
    Served first;
    {
      const auto tier = DiskTier::open(folder.path(), disk, memory, serving.clock).value();
      serving.reuse = serving.over(tier.get());
      const auto engine = load(demo_options(name));
      first = serving.ask(*engine, conversation(name, 1));
      EXPECT_EQ(first.encoder_calls, name == "plain" ? 0U : 1U);
      ASSERT_TRUE(tier->flush().has_value());
      serving.reuse = nullptr;
    }
    const auto tier = DiskTier::open(folder.path(), disk, memory, serving.clock).value();
    serving.reuse = serving.over(tier.get());
    const auto engine = load(demo_options(name));
    const Served again = serving.ask(*engine, conversation(name, 1));
    EXPECT_EQ(again.encoder_calls, 0U) << name;
    EXPECT_GT(again.completion.resumed_from, TokenCount(0)) << name;
    EXPECT_FALSE(again.restore_failed) << name;
    EXPECT_EQ(difference(first.completion, again.completion), "") << name;
    const Served longer = serving.ask(*engine, conversation(name, 2));
    EXPECT_EQ(longer.encoder_calls, 0U) << name;
    EXPECT_GT(longer.completion.resumed_from, TokenCount(0)) << name;
  }
}

// Windows see 32 tokens, and have 768 cells: chats of 2,300 tokens write each several times. A lane
// that is restored begins at another cell than the run that wrote its rows.
TEST(LlamaRestore, AWindowIsResumedAfterItsCellsWereWrittenAgain) {
  LlamaOptions options = demo_options("sliding");
  options.mmproj.clear();
  options.context = TokenCount(4'096);
  const auto engine = load(options);
  const Serving serving;
  std::vector<Request> chats(2);
  for (std::size_t chat = 0; chat < chats.size(); ++chat) {
    chats[chat].id = RequestId("chat-" + std::to_string(chat));
  }
  for (int turn = 0; turn < 5; ++turn) {
    for (std::size_t chat = 0; chat < chats.size(); ++chat) {
      std::string text = "chat " + std::to_string(chat);
      for (int i = 0; i < 130 + 10 * turn; ++i) {
        text += " word" + std::to_string(i * (turn + 1) % 97);
      }
      Request& request = chats[chat];
      request.messages.push_back({.role = Role::kUser, .parts = {text}});
      const Served served = serve(request, *engine, *serving.reuse, serving.options).value();
      const Served cold =
          serve_without_reuse(request, *engine, serving.clock, serving.options).value();
      EXPECT_EQ(difference(cold.completion, served.completion), "") << turn;
      EXPECT_EQ(served.completion.resumed_from > TokenCount(0), turn > 0) << turn;
      request.messages.push_back({.role = Role::kAssistant, .parts = {served.completion.text}});
      if (turn == 4) {
        EXPECT_GT(cold.completion.prefilled, TokenCount(2'200));
      }
    }
  }
}

// More threads than lanes, some requests resumed and some not, sharing one cache.
TEST(LlamaRestore, ConcurrentRequestsGetTheSameAnswersAsAlone) {
  for (const std::string name : {"plain", "sliding", "hybrid"}) {
    const Serving serving;
    const auto engine = load(demo_options(name));
    std::vector<Served> alone;
    for (std::uint32_t seed = 1; seed <= 3; ++seed) {
      alone.push_back(
          serve_without_reuse(conversation(name, 1, seed), *engine, serving.clock, serving.options)
              .value());
    }
    std::vector<std::string> found(4);
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
          for (std::uint32_t i = 0; i < 4; ++i) {
            const std::uint32_t n = (thread + i) % 3;
            const auto served =
                serve(conversation(name, 1, n + 1), *engine, *serving.reuse, serving.options);
            found[thread] += served.has_value()
                                 ? difference(alone[n].completion, served->completion)
                                 : to_string(served.error());
          }
        });
      }
    }
    EXPECT_EQ(found, std::vector<std::string>(4)) << name;
  }
}

// Without exactness the last bits may differ, and on some CPUs with them a word; no more than that.
TEST(LlamaRestore, FastRunsGiveNearlyTheSameResumedOrNot) {
  for (const std::string& name : kModels) {
    const Serving serving;
    LlamaOptions options = demo_options(name);
    options.exact = false;
    const auto engine = load(options);
    EXPECT_FALSE(engine->exactness().exact) << name;
    EXPECT_TRUE(engine->description().contains("are not exact")) << name;
    ASSERT_NE(engine->kv_layout(), nullptr) << engine->description();
    GenerateOptions generate = serving.options;
    generate.top_logprobs = 0;
    for (int turns = 0; turns < 3; ++turns) {
      const Request request = conversation(name, turns);
      const auto served = serve(request, *engine, *serving.reuse, generate);
      ASSERT_TRUE(served.has_value()) << to_string(served.error());
      const auto cold = serve_without_reuse(request, *engine, serving.clock, generate);
      ASSERT_TRUE(cold.has_value()) << to_string(cold.error());
      EXPECT_NEAR(served->completion.logprobs.front().chosen.logprob,
                  cold->completion.logprobs.front().chosen.logprob, 0.1)
          << name << " " << turns;
      EXPECT_FALSE(served->restore_failed) << name;
      EXPECT_EQ(served->completion.resumed_from > TokenCount(0), turns > 0) << name;
    }
  }
}

}  // namespace
}  // namespace afterimage

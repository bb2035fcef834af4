// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Invalid files give an error that names the file, never a crash.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engines/llama/llama_engine.h"
#include "engines/llama_kernels/library_kernels.h"
#include "foundation/platform/files.h"
#include "testing/demo_models.h"
#include "testing/small_gguf.h"
#include "testing/temporary_folder.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#define AFI_LEAKS_ARE_COUNTED
#endif
#endif

namespace afterimage {
namespace {

/// The library leaks a media encoder that does not match its model.
struct LeaksAreTheLibrarys {
#ifdef AFI_LEAKS_ARE_COUNTED
  LeaksAreTheLibrarys() { __lsan_disable(); }
  ~LeaksAreTheLibrarys() { __lsan_enable(); }
  LeaksAreTheLibrarys(const LeaksAreTheLibrarys&) = delete;
  LeaksAreTheLibrarys& operator=(const LeaksAreTheLibrarys&) = delete;
#endif
};

using testing::demo_options;
using testing::plain_adapter;
using testing::SmallGguf;

class LoadedFiles : public ::testing::Test {
 protected:
  std::string write(const std::string& name, std::span<const std::byte> content) {
    const std::string path = folder.file(name);
    EXPECT_TRUE(files.replace(path, content).has_value());
    return path;
  }
  std::vector<std::byte> read(const std::string& path) { return files.read(path, 64_MiB).value(); }
  static void expect_refused(const std::string& what, const LlamaOptions& options,
                             const std::vector<ErrorCode>& codes, const std::string& words) {
    const auto engine = LlamaEngine::create(options);
    ASSERT_FALSE(engine.has_value()) << what;
    EXPECT_TRUE(std::ranges::count(codes, engine.error().code) > 0)
        << what << ": " << to_string(engine.error());
    EXPECT_TRUE(engine.error().message.contains(words)) << what << ": " << engine.error().message;
  }

  testing::TemporaryFolder folder;
  SystemFiles files;
  LlamaOptions plain = demo_options("plain");
  LlamaOptions dense = demo_options("dense");
};

TEST_F(LoadedFiles, NamesAMissingOrInvalidModelFile) {
  const std::string text = write("text.gguf", std::as_bytes(std::span("a text, and no GGUF")));
  const struct {
    const char* name;
    std::string path;
    ErrorCode code;
  } kCases[] = {{"missing", folder.file("none.gguf"), ErrorCode::kNotFound},
                {"no name", "", ErrorCode::kNotFound},
                {"a folder", folder.path(), ErrorCode::kNotFound},
                {"empty", write("empty.gguf", {}), ErrorCode::kNotFound},
                {"a text", text, ErrorCode::kCorruption},
                {"a media encoder", dense.mmproj, ErrorCode::kCorruption},
                {"an adapter", write("a.gguf", plain_adapter()), ErrorCode::kCorruption}};
  for (const auto& c : kCases) {
    LlamaOptions options = plain;
    options.model = c.path;
    expect_refused(c.name, options, {c.code}, "'" + c.path + "'");
    if (std::string(c.name) == "a media encoder") continue;
    [[maybe_unused]] const LeaksAreTheLibrarys leaks;
    options = dense;
    options.mmproj = c.path;
    if (c.path.empty()) continue;  // an empty path means: no media encoder
    expect_refused(c.name + std::string(" as mmproj"), options,
                   {c.code, ErrorCode::kInvalidArgument}, "'" + c.path + "'");
    options = plain;
    options.adapters = {{.path = c.path}};
    if (std::string(c.name) == "an adapter") continue;
    expect_refused(c.name + std::string(" as adapter"), options, {c.code}, "'" + c.path + "'");
  }
}

TEST_F(LoadedFiles, RejectsATruncatedModel) {
  const auto whole = read(plain.model);
  std::vector<std::size_t> sizes = {4, 8, 23, 24, 100, 1'000, 10'000, whole.size() - 64};
  for (std::size_t eighth = 1; eighth < 8; ++eighth) sizes.push_back(whole.size() * eighth / 8);
  for (const std::size_t size : sizes) {
    LlamaOptions options = plain;
    options.model = write("cut.gguf", std::span(whole).first(size));
    expect_refused(std::to_string(size), options, {ErrorCode::kCorruption}, "cut.gguf");
  }
}

TEST_F(LoadedFiles, RejectsATruncatedMediaEncoder) {
  const auto whole = read(dense.mmproj);
  std::vector<std::size_t> sizes = {4, 24, 1'000, whole.size() - 64, whole.size() - 1};
  for (std::size_t eighth = 1; eighth < 8; ++eighth) sizes.push_back(whole.size() * eighth / 8);
  for (const std::size_t size : sizes) {
    LlamaOptions options = dense;
    options.mmproj = write("cut.gguf", std::span(whole).first(size));
    expect_refused(std::to_string(size), options, {ErrorCode::kCorruption}, "cut.gguf");
  }
}

TEST_F(LoadedFiles, RejectsAMediaEncoderOfAnotherModel) {
  [[maybe_unused]] const LeaksAreTheLibrarys leaks;
  dense.mmproj = demo_options("hybrid").mmproj;
  expect_refused("rows too narrow", dense, {ErrorCode::kInvalidArgument}, "hybrid.mmproj.gguf");
  LlamaOptions hybrid = demo_options("hybrid");
  hybrid.mmproj = demo_options("dense").mmproj;
  expect_refused("rows too wide", hybrid, {ErrorCode::kInvalidArgument}, "dense.mmproj.gguf");
  dense.mmproj = dense.model;
  expect_refused("a model", dense, {ErrorCode::kInvalidArgument}, "dense.gguf");
}

TEST_F(LoadedFiles, RejectsAnAdapterOfAnotherModelOrATruncatedOne) {
  const auto adapter = plain_adapter();
  dense.adapters = {{.path = write("lora.gguf", adapter)}};
  expect_refused("of another", dense, {ErrorCode::kCorruption}, "lora.gguf");
  for (const std::size_t size : {std::size_t{24}, adapter.size() / 2, adapter.size() - 32}) {
    plain.adapters = {{.path = write("cut.gguf", std::span(adapter).first(size))}};
    expect_refused(std::to_string(size), plain, {ErrorCode::kCorruption}, "cut.gguf");
  }
  const auto wide = SmallGguf()
                        .text("general.type", "adapter")
                        .text("general.architecture", "llama")
                        .text("adapter.type", "lora")
                        .number("adapter.lora.alpha", 2.0F)
                        .tensor("blk.0.attn_q.weight.lora_a", 96, 2, [](auto) { return 1; })
                        .tensor("blk.0.attn_q.weight.lora_b", 2, 96, [](auto) { return 1; })
                        .bytes();
  plain.adapters = {{.path = write("wide.gguf", wide)}};
  expect_refused("of another width", plain, {ErrorCode::kCorruption}, "wide.gguf");
}

TEST_F(LoadedFiles, RejectsASplitModelWithAMissingPart) {
  plain.model = write("m-00001-of-00002.gguf", read(plain.model));
  expect_refused("its second", plain, {ErrorCode::kNotFound, ErrorCode::kCorruption},
                 "m-00002-of-00002.gguf");
}

TEST_F(LoadedFiles, RejectsInvalidOptions) {
  const struct {
    const char* name;
    void (*change)(LlamaOptions&);
    const char* words;
  } kCases[] = {
      {"no lanes", [](LlamaOptions& o) { o.lanes = 0; }, "1 to 64"},
      {"65 lanes", [](LlamaOptions& o) { o.lanes = 65; }, "not 65"},
      {"no context", [](LlamaOptions& o) { o.context = TokenCount(0); }, "256 to 4,194,304"},
      {"a context too small", [](LlamaOptions& o) { o.context = TokenCount(255); }, "not 255"},
      {"too large", [](LlamaOptions& o) { o.context = TokenCount(4'194'305); }, "not 4194305"},
      {"no batch", [](LlamaOptions& o) { o.batch = TokenCount(0); }, "32 to 65,536"},
      {"a batch too large", [](LlamaOptions& o) { o.batch = TokenCount(65'537); }, "not 65537"},
      {"no type of keys", [](LlamaOptions& o) { o.keys = "f8"; }, "'f8'"},
      {"an empty one", [](LlamaOptions& o) { o.keys = ""; }, "q8_0"},
      {"a type for weights alone", [](LlamaOptions& o) { o.values = "q4_K"; }, "'q4_K'"},
      {"another case", [](LlamaOptions& o) { o.values = "F16"; }, "'F16'"},
  };
  for (const auto& c : kCases) {
    LlamaOptions options = plain;
    c.change(options);
    expect_refused(c.name, options, {ErrorCode::kInvalidArgument}, c.words);
  }
}

// The types that llama.cpp names.
TEST_F(LoadedFiles, LoadsOrRejectsEveryKvCacheType) {
  std::size_t loaded = 0;
  for (const char* const type :
       {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"}) {
    for (const bool keys : {true, false}) {
      LlamaOptions options = dense;  // its heads are as wide as a quantized block
      (keys ? options.keys : options.values) = type;
      const auto engine = LlamaEngine::create(options);
      if (!engine.has_value()) {
        EXPECT_FALSE(engine.error().message.empty());
        continue;
      }
      ++loaded;
      EXPECT_NE((*engine)->kv_layout(), nullptr) << type << ": " << (*engine)->description();
      // Values of few bits are read by fused attention alone, which needs kernels of ours.
      const bool is_float = std::string_view(type).contains('f') && type[0] != 'i';
      EXPECT_EQ((*engine)->exactness().exact,
                keys || is_float || !batch_independent_kernels().empty())
          << type;
    }
  }
  EXPECT_EQ(loaded, 18U);
}

TEST_F(LoadedFiles, ReportsLoadingProgressToTheEnd) {
  std::vector<std::pair<std::string, float>> emitted;
  dense.progress = [&](std::string_view what, float share) {
    emitted.emplace_back(std::string(what), share);
  };
  ASSERT_TRUE(LlamaEngine::create(dense).has_value());
  for (const char* const what : {"model", "mmproj", "self-check"}) {
    float last = -1;
    for (const auto& [of, share] : emitted) {
      if (of != what) continue;
      EXPECT_GE(share, last) << what;
      last = share;
    }
    EXPECT_EQ(last, 1.0F) << what;
  }
}

}  // namespace
}  // namespace afterimage

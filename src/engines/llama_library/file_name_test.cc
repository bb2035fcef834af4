// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/file_name.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "foundation/platform/files.h"
#include "testing/temporary_folder.h"

namespace afterimage {
namespace {

class ContentName : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    const std::string path = folder.file(name);
    EXPECT_TRUE(files.replace(path, std::as_bytes(std::span(content))).has_value());
    return path;
  }
  std::string name_of(const std::string& file, const std::string& content) {
    return content_name(write(file, content)).value();
  }

  testing::TemporaryFolder folder;
  SystemFiles files;
};

TEST_F(ContentName, IgnoresTheFileName) {
  EXPECT_EQ(name_of("a.gguf", "weights"), name_of("b.bin", "weights"));
  EXPECT_EQ(name_of("a.gguf", "weights").size(), 32U);
}

TEST_F(ContentName, DiffersForDifferentBytes) {
  const std::string good = "weights of some model";
  std::set<std::string> names{name_of("a", good), name_of("a", ""), name_of("a", good + '\0')};
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    names.insert(name_of("a", changed));
    names.insert(name_of("a", good.substr(0, at)));
  }
  EXPECT_EQ(names.size(), 3 + 2 * good.size() - 1) << "the first cut is empty, too";
}

TEST_F(ContentName, CoversEveryBlockOfALargeFileAndTheirOrder) {
  constexpr std::size_t kBlock = 8U << 20U;
  std::string large(2 * kBlock + 5, 'x');
  large[0] = 'a';
  std::set<std::string> names{name_of("a", large)};
  for (const std::size_t at : {std::size_t{1}, kBlock - 1, kBlock, 2 * kBlock, large.size() - 1}) {
    std::string changed = large;
    changed[at] = 'y';
    names.insert(name_of("a", changed));
  }
  std::string swapped = large;
  std::swap(swapped[0], swapped[kBlock]);
  names.insert(name_of("a", swapped));
  EXPECT_EQ(names.size(), 7U);
}

TEST_F(ContentName, CoversAllPartsOfASplitModel) {
  const auto name_of_parts = [&](const std::vector<std::string>& contents) {
    std::string first;
    for (std::size_t i = contents.size(); i > 0; --i) {
      first = write(
          "m-0000" + std::to_string(i) + "-of-0000" + std::to_string(contents.size()) + ".gguf",
          contents[i - 1]);
    }
    return content_name(first).value();
  };
  const std::set<std::string> names{name_of_parts({"ab", "c"}),     name_of_parts({"a", "bc"}),
                                    name_of_parts({"c", "ab"}),     name_of_parts({"ab", "d"}),
                                    name_of_parts({"ab", "c", ""}), name_of_parts({"ab"}),
                                    name_of_parts({"ab", "c", "d"})};
  EXPECT_EQ(names.size(), 7U);
  EXPECT_EQ(name_of_parts({"ab"}), name_of("whole.gguf", "ab"));
}

TEST_F(ContentName, NamesTheMissingPart) {
  const std::string first = write("m-00001-of-00002.gguf", "ab");
  const auto name = content_name(first);
  ASSERT_FALSE(name.has_value());
  EXPECT_EQ(name.error().code, ErrorCode::kNotFound);
  EXPECT_NE(name.error().message.find("m-00002-of-00002.gguf"), std::string::npos);
}

TEST_F(ContentName, TreatsANameThatIsNoValidPartAsASingleFile) {
  EXPECT_EQ(name_of("m-00001-of-00000.gguf", "ab"), name_of("m.gguf", "ab"));
  EXPECT_EQ(name_of("m-00002-of-00002.gguf", "ab"), name_of("m.gguf", "ab"));
}

TEST_F(ContentName, FailsForAnUnreadableFile) {
  EXPECT_EQ(content_name(folder.file("none")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(content_name(folder.path()).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace afterimage

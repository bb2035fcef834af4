// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Image names from a data set, one per line, the first being an id: no file outside the roots is
// opened, however the names are spelled.
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/result.h"
#include "fuzz_input.h"
#include "lab/datasets/image_roots.h"

using namespace afterimage;

namespace {

/// Holds no files, and records which ones were requested.
class AskedFiles final : public Files {
 public:
  Result<std::vector<std::byte>> read(const std::string& path, Bytes) const override {
    // Resolves paths as the kernel does; ".." after a name that is not a folder does not matter.
    std::vector<std::string> way;
    for (const auto& part : std::filesystem::path(path)) {
      AFI_CHECK(part != "..");
      if (part != ".") way.push_back(part.string());
    }
    AFI_CHECK(path.find('\0') == std::string::npos);
    AFI_CHECK(path.starts_with("/roots/one/") || path.starts_with("/roots/two/"));
    AFI_CHECK(way.size() >= 4);
    return fail(ErrorCode::kNotFound, path);
  }
  Result<void> replace(const std::string&, std::span<const std::byte>) override { return never(); }
  Result<void> append(const std::string&, std::span<const std::byte>) override { return never(); }
  Result<void> cut(const std::string&, Bytes) override { return never(); }
  Result<void> make_folder(const std::string&) override { return never(); }
  Result<void> empty_folder(const std::string&, const std::string&) override { return never(); }
  Result<void> check_replaceable(const std::string&) const override { return never(); }
  Result<std::vector<std::string>> list(const std::string&) const override {
    return std::vector<std::string>{};
  }
  [[nodiscard]] bool is_folder(const std::string&) const override { return false; }

 private:
  static Result<void> never() {
    AFI_CHECK(false);
    return {};
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  testing::FuzzInput input(data, size);
  static const AskedFiles kFiles;
  const ImageRoots roots({"/roots/one", "/roots/../roots/two/"}, kFiles);
  Sample sample{.image_id = std::string(input.until('\n'))};
  while (!input.empty() && sample.image_names.size() < 16) {
    sample.image_names.emplace_back(input.until('\n'));
  }
  const auto found = roots.find(sample);
  AFI_CHECK(!found.has_value() && !found.error().message.empty());
  return 0;
}
